#!/usr/bin/env python3
"""Runs clang-tidy (.clang-tidy) over all sources of our libraries and tools: clang_tidy_test.py SOURCE BUILD.

Two looks, because parsing what is included costs most. All checks look at a library as it is released, its sources as
one. Then each source by itself need only compile, with clang++ and its warnings, and so does each header that no source
includes first: what is included stands in the file that uses it. BUILD is a folder of its own, configured here.

What passed is not looked at again until it, a header of ours that it includes, its compile command, the checks or
clang change: a stamp, named by the hash of all these, is kept in $XDG_CACHE_HOME/reprise/tidy, so that builds and
checkouts share it. Files named (a source as one of its library) are looked at alone, stamped or not. Exits 1 on
findings, 77 where clang is missing.
"""
import argparse
import concurrent.futures
import dataclasses
import hashlib
import json
import os
import pathlib
import re
import resource
import shlex
import shutil
import subprocess
import sys

import cpp_source

# Those of .clang-tidy; what kernels are compiled from says `a | b ? c : d`, of which clang-tidy told nothing.
WARNINGS = ["-Wold-style-cast", "-Wreserved-identifier", "-Wno-unknown-warning-option",
            "-Wno-bitwise-conditional-parentheses"]


@dataclasses.dataclass
class Look:
    """One run of clang-tidy, or of clang++, over a file, which may be one that includes the sources of a library."""
    path: pathlib.Path
    sources: list  # of ours, that it consists of
    flags: list
    compile_only: bool = False

    def command(self, source):
        if self.compile_only:
            return ["clang++", "-fsyntax-only", "-Werror", *self.flags, *WARNINGS, str(self.path)]
        return ["clang-tidy", "--quiet", f"--config-file={source / '.clang-tidy'}", str(self.path), "--", *self.flags]


def reached(source, starts):
    """The files and all of our headers that they include, directly or not."""
    found, waiting = set(), list(starts)
    while waiting:
        path = waiting.pop()
        if path in found or not path.is_file():
            continue
        found.add(path)
        text = path.read_text(errors="replace")
        waiting += [source / match[2] for match in cpp_source.INCLUDE.finditer(text) if match[1] == '"']
    return found


def first_included(source, path):
    match = cpp_source.INCLUDE.search(path.read_text())
    return source / match[2] if match else None


def looks(source, build):
    """What is to be looked at, by the compile commands of BUILD."""
    ours, found, reaching = set(cpp_source.product_files(source, suffixes=(".cc",))), [], {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        path = pathlib.Path(entry["directory"], entry["file"]).resolve()
        sources = [path]
        if path not in ours:
            sources = [pathlib.Path(match[2]) for match in cpp_source.INCLUDE.finditer(path.read_text())]
        if not ours.issuperset(sources):
            continue
        flags = shlex.split(re.sub(r" -o \S+ -c \S+$", "", entry["command"]))
        flags = flags[1 + next(i for i, word in enumerate(flags) if word.endswith("++")):]
        # What clang-tidy says hangs on no level of optimization, by which glibc's headers grow, nor on GCC's memory.
        flags = [flag for flag in flags if not re.fullmatch("-O.?|--param=.*", flag)]
        found.append(Look(path, sources, flags))
        if path not in ours:
            found += [Look(one, [one], flags, True) for one in sources]
        for one in sources:
            for header in reached(source, [one]):
                reaching.setdefault(header, flags)
    first = {first_included(source, path) for path in ours}
    alone = build / "alone.cc"
    for header in cpp_source.product_files(source, suffixes=(".h",)):
        if header not in first and header in reaching:
            flags = [*reaching[header], "-include", str(header)]
            found.append(Look(alone, [header], flags, True))
    alone.write_text("")
    return found


def stamp_of(source, look, salt):
    value = hashlib.sha256(salt)
    value.update(f"{look.compile_only} {' '.join(look.flags)}".replace(str(source), "SOURCE").encode())
    for part in sorted(reached(source, look.sources)):
        value.update(str(part.relative_to(source)).encode() + b"\0" + part.read_bytes())
    return value.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    source, build = options.source.resolve(), options.build.resolve()
    missing = [tool for tool in ("clang++", "clang-tidy") if not shutil.which(tool)]
    if missing:
        print(f"skipped: {' and '.join(missing)} not installed")
        return 77
    subprocess.run(["cmake", "-S", source, "-B", build, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    "-DREPRISE_DEV=OFF", "-DREPRISE_UNITY=ON", "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON"], stdout=subprocess.DEVNULL, check=True)
    compiler, tidy = (subprocess.run([tool, "--version"], capture_output=True, check=True).stdout
                      for tool in ("clang++", "clang-tidy"))
    tidy += (source / ".clang-tidy").read_bytes()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "reprise/tidy"
    cache.mkdir(parents=True, exist_ok=True)
    everything = looks(source, build)
    stamps = {id(look): cache / stamp_of(source, look, compiler if look.compile_only else tidy)
              for look in everything}
    named = {path.resolve() for path in options.files}
    todo = [look for look in everything
            if (named.intersection(look.sources) if named else not stamps[id(look)].exists())]

    def check(look):
        result = subprocess.run(look.command(source), text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT if look.compile_only else subprocess.DEVNULL)
        if result.returncode == 0:
            stamps[id(look)].touch()
        return result

    failed, seen = 0, set()
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for result in pool.map(check, todo):
            failed += result.returncode != 0
            # What a header says is found in each source.
            for finding in re.split(r"^(?=\S+:\d+:\d+: (?:error|warning):)", result.stdout, flags=re.M):
                if finding.strip() and finding not in seen:
                    print(finding, end="", flush=True)
                seen.add(finding)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{len(todo)} of {len(everything)} looks were taken, {used.ru_utime + used.ru_stime:.0f} s of CPU time; "
          f"{failed} have findings")
    return 1 if failed or not everything else 0


if __name__ == "__main__":
    sys.exit(main())
