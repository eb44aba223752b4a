#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over all sources of our libraries and tools: clang_tidy_test.py SOURCE BUILD.

A file that passed is not looked at again until it, a header of ours that it includes, its compile command, the checks
or clang-tidy change: a stamp, named by the hash of all these, is kept in $XDG_CACHE_HOME/reprise/tidy, so that builds
and checkouts share it. One file a core at a time, 3 to 5 s of CPU time each: 25 minutes in all when nothing is stamped.
Named files are looked at alone, stamped or not. Exits 1 on findings, 77 where clang-tidy is missing.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys

import cpp_source


def reached(source, start):
    """The file and all of our headers that it includes, directly or not."""
    found, waiting = set(), [start]
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        text = path.read_text(errors="replace")
        waiting += [source / match[2] for match in cpp_source.INCLUDE.finditer(text) if match[1] == '"']
    return found


def stamp_of(source, build, path, command, salt):
    value = hashlib.sha256(salt)
    value.update(command.replace(str(build), "BUILD").replace(str(source), "SOURCE").encode())
    for part in sorted(reached(source, path)):
        value.update(str(part.relative_to(source)).encode() + b"\0" + part.read_bytes())
    return value.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    tidy, source, build = shutil.which("clang-tidy"), options.source.resolve(), options.build.resolve()
    commands = build / "compile_commands.json"
    if not tidy or not commands.is_file():
        print("skipped:", "clang-tidy is not installed" if not tidy else f"{commands} is missing")
        return 77

    entries = json.loads(commands.read_text())
    if any("/Unity/" in entry["file"] for entry in entries):
        print("skipped: this build compiles several files as one; use the preset dev, or -DREPRISE_UNITY=OFF")
        return 77
    version = subprocess.run([tidy, "--version"], capture_output=True, check=True).stdout
    salt = version + (source / ".clang-tidy").read_bytes()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "reprise/tidy"
    cache.mkdir(parents=True, exist_ok=True)
    ours = set(cpp_source.product_files(source, suffixes=(".cc",)))
    stamps = {}
    for entry in entries:
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if path in ours:
            stamps[path] = cache / stamp_of(source, build, path, entry["command"], salt)
    named = {path.resolve() for path in options.files}
    todo = sorted(path for path, stamp in stamps.items() if (path in named if named else not stamp.exists()))

    def check(path):
        result = subprocess.run([tidy, "-p", str(build), "--quiet", str(path)], capture_output=True, text=True)
        if result.returncode == 0:
            stamps[path].touch()
        return result

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(check, todo):
            if result.returncode != 0:
                failed += 1
                print(result.stdout, flush=True)
    print(f"{len(todo)} of {len(stamps)} files were looked at; {failed} have findings")
    return 1 if failed or not stamps else 0


if __name__ == "__main__":
    sys.exit(main())
