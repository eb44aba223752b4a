#!/usr/bin/env python3
"""Fails when a library of the NCCL profiler needs more than libc, or shows more than NCCL looks for."""
import re
import shutil
import subprocess
import sys

NEEDED = re.compile(r"\(NEEDED\)\s+Shared library: \[(.*)\]")
LIBC = re.compile(r"(libc|libm|libdl|libpthread|librt|ld-linux[-\w]*)\.so[.\d]*")
SHOWN = re.compile(r"ncclProfiler_v[45]|nccl[A-Z]\w*|reprise_nccl_preload_yield")
SANITIZER = re.compile(r"lib[alutm]*san\.so[.\d]*")


def lines(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def faults(library):
    needed = [m.group(1) for line in lines("readelf", "-d", library) if (m := NEEDED.search(line))]
    if any(SANITIZER.fullmatch(name) for name in needed):
        return
    yield from (f"{library} needs {name}" for name in needed if not LIBC.fullmatch(name))
    if not needed:
        yield f"{library}: readelf names nothing that it needs"
    shown = [line.split()[-1] for line in lines("nm", "-D", "--defined-only", library)]
    yield from (f"{library} shows {name}" for name in shown if not SHOWN.fullmatch(name))
    if not shown:
        yield f"{library} shows nothing"


def main():
    if not shutil.which("readelf") or not shutil.which("nm"):
        print("skipped: no readelf or nm (binutils)")
        return 77
    found = [fault for library in sys.argv[1:] for fault in faults(library)]
    print("\n".join(found) or "they need libc alone")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
