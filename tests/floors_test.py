#!/usr/bin/env python3
"""Fails when a file includes a header of a floor that its own floor may not use (README, floors)."""
import pathlib
import re
import sys

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
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')
CUDA_HEADER = re.compile(r"^(cuda|nvrtc|cupti|nccl|cublas|cudnn)")
PRINTS = re.compile(r"\b(std::cout|std::cerr|std::clog|f?printf\s*\(|f?puts\s*\(|perror\s*\(|fmt::print)")


def violations(path, floor):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            target = match.group(1).split("/")[0]
            if target in MAY_USE and target not in MAY_USE[floor]:
                yield f"{path.relative_to(ROOT)}:{number}: {floor} may not use {match.group(1)}"
            if CUDA_HEADER.match(match.group(1)) and floor not in ("profiler", "runtime"):
                yield f"{path.relative_to(ROOT)}:{number}: CUDA is confined to profiler and runtime"
        elif floor != "cli" and PRINTS.search(line) and "stderr, \"%s:%d: check" not in line:
            if not line.lstrip().startswith("//"):
                yield f"{path.relative_to(ROOT)}:{number}: only cli prints"


def main():
    found, files = [], 0
    for floor in MAY_USE:
        for path in sorted((ROOT / floor).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu"):
                files += 1
                found += violations(path, floor)
    print("\n".join(found) or f"{files} files keep to their floors")
    return 1 if found or files == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
