#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over the sources of our libraries and tools: clang_tidy_test.py SOURCE BUILD.

A file that passed is not looked at again until it, a header of ours that it includes, or the checks change. Parsing
all of them takes about 20 minutes of CPU time, so a run stops starting files after --seconds, newest changes first,
and the next one goes on from there. Exits 1 on findings, 77 where clang-tidy is missing.
"""
import argparse
import concurrent.futures
import hashlib
import json
import pathlib
import re
import shutil
import subprocess
import sys
import time

FLOORS = ("data", "costmodel", "replay", "optimizer", "profiler", "runtime", "cli")
INCLUDE = re.compile(rb'^\s*#\s*include\s+"([^"]+)"', re.M)


def reached(source, start):
    """The file and all of our headers that it includes, directly or not."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        waiting += [source / name.decode(errors="replace") for name in INCLUDE.findall(path.read_bytes())]
    return found


def digest(source, path, salt):
    value = hashlib.sha256(salt)
    for part in sorted(reached(source, path)):
        value.update(str(part.relative_to(source)).encode() + b"\0" + part.read_bytes())
    return value.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--seconds", type=float, default=150)
    options = parser.parse_args()
    tidy = shutil.which("clang-tidy")
    commands = options.build / "compile_commands.json"
    if not tidy or not commands.is_file():
        print("skipped:", "clang-tidy is not installed" if not tidy else f"{commands} is missing")
        return 77

    version = subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout
    salt = version + (options.source / ".clang-tidy").read_bytes()
    files = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in json.loads(commands.read_text())}
    source = options.source.resolve()
    ours = [path for path in files if path.is_relative_to(source) and path.relative_to(source).parts[0] in FLOORS]
    stamps = options.build / "clang_tidy.passed"
    passed = set(stamps.read_text().split()) if stamps.exists() else set()
    digests = {path: digest(source, path, salt) for path in ours if path.is_file()}
    newest = lambda path: (-path.stat().st_mtime, path)
    todo = sorted((path for path in digests if digests[path] not in passed), key=newest)
    started = time.monotonic()

    def check(path):
        if time.monotonic() - started > options.seconds:
            return None
        result = subprocess.run([tidy, "-p", str(options.build), "--quiet", str(path)], capture_output=True, text=True)
        return result.returncode, result.stdout

    failed, waiting = 0, 0
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for path, outcome in zip(todo, pool.map(check, todo)):
            if outcome is None:
                waiting += 1
            elif outcome[0] == 0:
                passed.add(digests[path])
            else:
                failed += 1
                print(outcome[1])
    stamps.write_text("\n".join(sorted(passed & set(digests.values()))) + "\n")
    print(f"{len(digests) - failed - waiting} of {len(digests)} files pass, {failed} do not, "
          f"{waiting} are left for the next run")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
