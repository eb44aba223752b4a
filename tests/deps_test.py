#!/usr/bin/env python3
"""What was compiled keeps to what CMake states: deps_test.py BUILD.

Of every object of the product that ninja built (`ninja -t deps`), each header of the project that the compiler opened, directly or
not, belongs to a library which the object's target reaches by the DEPS that CMakeLists.txt state; and each library
stated in the DEPS of one of the product's targets is used: a source includes one of its headers, or, where none does,
the linker finds a symbol in it. What was not built yet is not looked at.
"""
import pathlib
import re
import subprocess
import sys

import floors_test
import rooms

OBJECT = re.compile(r"^(\S.*): #deps \d+, deps mtime \d+ \((\w+)\)$")
TARGET = re.compile(r"(?:^|/)CMakeFiles/([^/]+)\.dir/")


def objects(build, root):
    """(target, source or header relative to the checkout) of each project file that an object depends on."""
    ninja = subprocess.run(["ninja", "-C", build, "-t", "deps"], capture_output=True, text=True, check=True)
    name = None
    for line in ninja.stdout.splitlines():
        if (match := OBJECT.match(line)):
            target = TARGET.search(match[1])
            alive = match[2] == "VALID" and (build / match[1]).exists()
            name = target[1] if target and alive else None
        elif name and line.startswith("    "):
            path = pathlib.Path(build, line.strip())
            path = pathlib.Path(*path.parts) if ".." not in path.parts else path.resolve()
            if path.is_relative_to(root) and not path.is_relative_to(build):
                yield name, path.relative_to(root)


def symbols(archive, *flags):
    listed = subprocess.run(["nm", "-g", "-P", *flags, archive], capture_output=True, text=True)
    return {line.split(" ")[0] for line in listed.stdout.splitlines() if " " in line}


def links(house, name, other):
    """Whether the target needs a symbol that the other library defines."""
    archive = lambda target: next(iter(house.build.glob(f"{house.targets[target].folder}/lib{target}.a")), None)
    if not archive(name) or not archive(other):
        return True  # A program, or not built: nothing to say.
    return bool(symbols(archive(name), "-u") & symbols(archive(other), "--defined-only"))


def included(house, target):
    """Libraries of which the target's sources, or its folder's headers, include a header."""
    headers = [path.relative_to(house.root) for path in (house.root / target.folder).glob("*.h")]
    ours = target.sources + [path for path in headers if target.name in house.libraries_of_header(path)]
    return set().union(*(house.libraries_of_header(header) for path in ours for _, header in house.includes(path)))


def main():
    root, build = pathlib.Path(__file__).resolve().parent.parent, pathlib.Path(sys.argv[1]).resolve()
    house = rooms.Rooms(root, build)
    found, built, looked = set(), set(), 0
    exempt = {name for path, _ in floors_test.UNTIL_MENDED for name in house.of_source.get(pathlib.Path(path), ())}
    product = {target.name for target in house.product()}
    for name, header in objects(build, root):
        if name not in product:
            continue  # Tests share their folders' headers freely.
        looked += 1
        libraries = house.libraries_of_header(header)
        built.add(name)
        if header.suffix == ".h" and name not in exempt and not libraries & house.may_include(name):
            found.add(f"{name}: its DEPS do not reach {' or '.join(sorted(libraries)) or 'any library'}, of {header}")
    for target in house.product():
        used = included(house, target)
        for link in target.links if target.name in built else ():
            if house.targets[link].sources and link not in used and not links(house, target.name, link):
                found.add(f"{target.folder}/CMakeLists.txt: {target.name} states {link} and uses nothing of it")
    print("\n".join(sorted(found)) or f"{looked} dependencies of objects are stated, and all stated ones are used")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
