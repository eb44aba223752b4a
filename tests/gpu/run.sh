#!/bin/sh
# Runs everything that needs a GPU and writes one results file: see run.py.
#   tests/gpu/run.sh --root BUNDLE      on a GPU machine, with what bundle.sh made
#   tests/gpu/run.sh --dry-run --quick  here, on the CPU
command -v python3 >/dev/null || { echo "run.sh: needs python3 (3.8 or later)" >&2; exit 1; }
exec python3 "$(dirname "$0")/run.py" "$@"
