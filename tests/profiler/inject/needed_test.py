#!/usr/bin/env python3
"""Fails when a library for strangers' processes needs more than libc's own libraries, or shows
more symbols than its entry points. Usage: needed_test.py LIBRARY=SYMBOL,… …"""
import re
import subprocess
import sys

OF_LIBC = re.compile(r"^(libc|libm|libdl|libpthread|librt|ld-linux.*)\.so\.\d+$")


def dynamic(option, library):
    return subprocess.run(["readelf", "--wide", option, library], check=True, text=True,
                          capture_output=True).stdout


def problems(library, allowed):
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic("--dynamic", library))
    if not needed:
        yield f"{library}: no NEEDED entry read"
    for name in needed:
        if not OF_LIBC.match(name):
            yield f"{library}: needs {name}"
    shown = set()
    for line in dynamic("--dyn-syms", library).splitlines():
        fields = line.split()
        if len(fields) > 7 and fields[4] in ("GLOBAL", "WEAK") and fields[6] != "UND":
            shown.add(fields[7].split("@")[0])
    if shown != allowed:
        yield f"{library}: shows {sorted(shown - allowed)}, lacks {sorted(allowed - shown)}"


def main():
    found = []
    for argument in sys.argv[1:]:
        library, symbols = argument.split("=")
        found += problems(library, set(symbols.split(",")))
    print("\n".join(found) or f"{len(sys.argv) - 1} libraries need libc alone")
    return 1 if found or len(sys.argv) < 2 else 0


if __name__ == "__main__":
    sys.exit(main())
