#!/usr/bin/env python3
"""Counts the product's lines of code in .h and .cc (neither blank nor comment alone): count_lines.py [ROOT] [--depth N].

One line a room: lines of code, share of lines that are comments, files, folder. --depth 1 counts floors.
"""
import argparse
import collections
import pathlib

import cpp_source


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("root", nargs="?", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--depth", type=int, default=3, help="folders below this one are counted with it")
    options = parser.parse_args()
    rooms = collections.defaultdict(lambda: [0, 0, 0])
    for path in cpp_source.product_files(options.root, suffixes=(".h", ".cc")):
        folders = path.relative_to(options.root).parts[:-1][:options.depth]
        text = path.read_text()
        written = sum(1 for line in text.splitlines() if line.strip())
        for key in ("/".join(folders), "all"):
            for i, value in enumerate((cpp_source.code_lines(text), written, 1)):
                rooms[key][i] += value
    for name in sorted(rooms, key=lambda name: (name == "all", name)):
        code, written, files = rooms[name]
        print(f"{code:7} {100 * (written - code) / max(written, 1):3.0f} % {files:4}  {name}")


if __name__ == "__main__":
    main()
