#!/usr/bin/env python3
"""Floors and rooms keep to what they may use: floors_test.py BUILD.

Floors (the folders at the top) use only those below them, in includes and in what CMake links. Rooms (the folders
below, a library or several each) include only headers of the libraries that their own states in DEPS, or that these
state in turn (linking is PUBLIC, so they are a part of what is offered); every source belongs to a target; and no rooms
include one another in a circle. CUDA's headers stand in profiler and runtime alone, and only cli prints.
"""
import collections
import pathlib
import re
import sys

import cpp_source
import rooms

ROOT = pathlib.Path(__file__).resolve().parent.parent
MAY_USE = {
    "data": {"data"},
    "costmodel": {"costmodel", "data"},
    "replay": {"replay", "costmodel", "data"},
    "optimizer": {"optimizer", "replay", "costmodel", "data"},
    "profiler": {"profiler", "data"},
    "runtime": {"runtime", "profiler", "data"},
    "cli": {"cli", "optimizer", "replay", "costmodel", "runtime", "profiler", "data"},
}
# Includes that break a rule until they are mended: none may be added.
UNTIL_MENDED = {("replay/graph/trace_graph.cc", "replay/simulate/trace_replay.h")}
CUDA_HEADER = re.compile(r"^(cuda|nvrtc|cupti|nccl|cublas|cudnn)")
PRINTS = re.compile(r"\b(std::cout|std::cerr|std::clog|f?printf\s*\(|f?puts\s*\(|perror\s*\(|fmt::print)")


def floor_violations(path):
    """Of one file, relative to the checkout: floors, CUDA, printing."""
    floor, text = path.parts[0], (ROOT / path).read_text()
    line_of = lambda match: text.count("\n", 0, match.start()) + 1
    for match in cpp_source.INCLUDE.finditer(text):
        target = match[2].split("/")[0]
        if target in MAY_USE and target not in MAY_USE[floor]:
            yield f"{path}:{line_of(match)}: {floor} may not use {match[2]}"
        if target == "tests":
            yield f"{path}:{line_of(match)}: the product may not use {match[2]}"
        if CUDA_HEADER.match(match[2]) and floor not in ("profiler", "runtime"):
            yield f"{path}:{line_of(match)}: CUDA is confined to profiler and runtime"
    if floor != "cli":
        code, lines = cpp_source.without_comments(text), text.splitlines()
        for match in PRINTS.finditer(code):
            if 'stderr, "%s:%d: check' not in lines[line_of(match) - 1]:
                yield f"{path}:{line_of(match)}: only cli prints"


def link_violations(house):
    for target in house.product():
        floor = target.folder.parts[0]
        for link in target.links:
            other = house.targets[link].folder.parts[:1]
            if other and other[0] not in MAY_USE[floor]:
                yield f"{target.folder}/CMakeLists.txt: {target.name} may not link {link}, of {other[0]}"


def include_violations(house, path):
    """Headers of libraries which a target with this file does not reach by what is stated in DEPS."""
    owners = set(house.of_source.get(path, ())) or house.libraries_of_header(path)
    for line, header in house.includes(path):
        if (str(path), str(header)) in UNTIL_MENDED:
            continue
        libraries = house.libraries_of_header(header)
        if not libraries:
            yield f"{path}:{line}: {header} belongs to no library"
        without = [name for name in sorted(owners) if not libraries & house.may_include(name)]
        # A header of a folder with several libraries: one of them is enough.
        if libraries and without and (path.suffix != ".h" or len(without) == len(owners)):
            yield f"{path}:{line}: {' and '.join(without)} does not state {' or '.join(sorted(libraries))} in its DEPS"


def circles(house, files):
    """Rooms that include one another, directly or not."""
    uses = collections.defaultdict(dict)
    for path in files:
        for line, header in house.includes(path):
            if header.parent != path.parent and (str(path), str(header)) not in UNTIL_MENDED:
                uses[path.parent].setdefault(header.parent, f"{path}:{line}")
    done, trail = set(), []

    def walk(room):
        if room in trail:
            circle = trail[trail.index(room):] + [room]
            yield "a circle of rooms: " + ", ".join(
                f"{a} uses {b} ({uses[a][b]})" for a, b in zip(circle, circle[1:]))
        elif room not in done:
            trail.append(room)
            for other in sorted(uses[room]):
                yield from walk(other)
            done.add(trail.pop())

    for room in sorted(uses):
        yield from walk(room)


def main():
    house = rooms.Rooms(ROOT, sys.argv[1])
    files = [path.relative_to(ROOT) for path in cpp_source.product_files(ROOT)]
    has_cuda = "runtime_cuda" in house.targets
    found = [*link_violations(house), *circles(house, files)]
    for path in files:
        found += floor_violations(path)
        if not has_cuda and path.parts[:2] == ("runtime", "cuda"):
            continue
        if path.suffix != ".h" and path not in house.of_source:
            found.append(f"{path} belongs to no target")
        found += include_violations(house, path)
    print("\n".join(found) or f"{len(files)} files keep to their floors and rooms")
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
