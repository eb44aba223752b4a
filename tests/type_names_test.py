#!/usr/bin/env python3
"""One type, one name: type_names_test.py [ROOT].

Fails where two files of the product, or headers of tests, which link it, define a type (or an alias at namespace scope)
of the same qualified name, and where a type of an anonymous namespace of the product repeats the name of a header's type
in the namespace around it: the linker sees neither, and a reader takes one for the other.
"""
import collections
import pathlib
import sys

import cpp_source


def definitions(root):
    """(qualified name, path, line) of each type and alias; "" is an anonymous namespace."""
    for path in cpp_source.product_files(root) + cpp_source.product_files(root, floors=["tests"], suffixes=[".h"]):
        for scope in cpp_source.scopes(path.read_text()):
            if scope.kind in ("type", "alias") and scope.name:
                yield scope.outer + (scope.name,), path.relative_to(root), scope.first


def repetitions(root):
    places = collections.defaultdict(list)
    for name, path, line in definitions(root):
        places[name].append((path, line))
    for name, found in sorted(places.items()):
        where = lambda some: ", ".join(f"{path}:{line}" for path, line in some)
        if "" not in name:
            if len({path for path, _ in found}) > 1:
                yield f"{'::'.join(name)} is defined more than once: {where(found)}"
        elif name.index("") == len(name) - 2:
            header = [place for place in places.get(name[:-2] + name[-1:], [])
                      if place[0].suffix == ".h" and place[0].parts[0] != "tests"]
            if header:
                yield f"{where(found)}: {name[-1]} repeats the name of a header's type, {where(header)}"


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    found = list(repetitions(root))
    total = sum(1 for _ in definitions(root))
    print("\n".join(found) or f"{total} types, each with a name of its own")
    return 1 if found or total == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
