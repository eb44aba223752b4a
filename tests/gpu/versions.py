"""Prints the version of an importable module: python3 versions.py torch."""

import importlib
import sys

print(importlib.import_module(sys.argv[1]).__version__)
