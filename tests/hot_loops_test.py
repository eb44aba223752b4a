#!/usr/bin/env python3
"""Loops over arrays that a compiler must turn into vectors have them: hot_loops_test.py PROGRAM.

Looks into the machine code of reprise-train. What keeps GCC from vectors says nothing: once it was headers precompiled
at another level, and every product of a matrix and a vector took twice its time. Skipped on other processors, and where
functions were not compiled one by one (sanitizers, debugging).
"""
import platform
import re
import shutil
import subprocess
import sys

# Functions compiled for AVX2, the only ones whose loops the build relies on; by their first words.
HOT = ("add_columns(float", "add_by_avx2(reprise::(anonymous namespace)::Tile<float>",
       "add_by_avx2(reprise::(anonymous namespace)::Tile<double>", "multiply_add_by_instruction(")


def main():
    if platform.machine() != "x86_64" or not shutil.which("objdump"):
        print("skipped: for x86-64, by objdump")
        return 77
    text = subprocess.run(["objdump", "-d", "-C", "--no-show-raw-insn", sys.argv[1]], capture_output=True, text=True,
                          check=True).stdout
    vectors, found = {}, None
    for line in text.splitlines():
        if line.endswith(">:"):
            name = line.split("<", 1)[1][:-2].replace("reprise::(anonymous namespace)::", "", 1)
            found = next((hot for hot in HOT if name.startswith(hot)), None)
        elif found:
            # Arithmetic on whole vectors: a copy of eight floats is none.
            vectors[found] = vectors.get(found, 0) + bool(re.search(r"\bv(fn?m\w+|mul|add)p[sd]\s.*%ymm", line))
    missing = [hot for hot in HOT if not vectors.get(hot)]
    for hot in missing:
        print(f"{hot}…: " + ("no vectors" if hot in vectors else "not found") + f" in {sys.argv[1]}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
