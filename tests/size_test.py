#!/usr/bin/env python3
"""The size budget of the product's sources: size_test.py [ROOT].

No file over 450 lines, no function over 60, no class over 300 (each as it stands, from its first line to its closing
brace; a lambda is a part of its function). What is over is listed below with its size: an entry that grows, or that is
no longer needed, fails the test too.
"""
import pathlib
import sys

import cpp_source

LIMITS = {"file": 450, "function": 60, "class": 300}
OVER = {}


def sizes(root):
    for path in cpp_source.product_files(root):
        text, at = path.read_text(), str(path.relative_to(root))
        yield ("file", at, ""), len(text.splitlines())
        for scope in cpp_source.scopes(text):
            if scope.kind == "function":
                yield ("function", at, scope.name), scope.lines
            elif scope.kind == "type":
                yield ("class", at, scope.name), scope.lines


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent).resolve()
    largest, found = {}, []
    for what, lines in sizes(root):
        largest[what] = max(lines, largest.get(what, 0))
    for what, lines in sorted(largest.items()):
        kind, path, name = what
        limit = OVER.get(what, LIMITS[kind])
        if lines > limit:
            found.append(f"{path}: the {' '.join((kind, name)).strip()} has {lines} lines, more than {limit}")
    for what, lines in sorted(OVER.items()):
        if largest.get(what, 0) <= LIMITS[what[0]]:
            found.append(f"{what} is no longer over: strike its entry")
    print("\n".join(found) or f"{len(largest)} files, functions and classes within their sizes")
    return 1 if found or not largest else 0


if __name__ == "__main__":
    sys.exit(main())
