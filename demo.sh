#!/usr/bin/env bash
# The whole loop on real training steps: train and record, replay, optimize, rerun, timeline.
# Usage: ./demo.sh [--one-host | --rate 1gbit]
set -euo pipefail
cd "$(dirname "$0")"
cmake/packages.sh
cmake --preset release
cmake --build --preset release --target reprise reprise-train
exec python3 tests/loop/demo.py "$@"
