#!/bin/sh
# Runs everything that needs a GPU and writes one results file: see run.py.
#   tests/gpu/run.sh --root BUNDLE      on a GPU machine, with what bundle.sh made
#   tests/gpu/run.sh --dry-run --quick  here, on the CPU
exec python3 "$(dirname "$0")/run.py" "$@"
