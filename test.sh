#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test that this machine can run
# (clang-tidy, which takes 25 minutes of CPU time at first, only with REPRISE_LINT=1).
# Usage: ./test.sh [ctest arguments, e.g. -L unit]
set -euo pipefail
cd "$(dirname "$0")"
cmake/packages.sh test
cmake --preset release -DREPRISE_DEV=ON
cmake --build --preset release
without=(-LE lint)
if [ -n "${REPRISE_LINT:-}" ]; then without=(); fi
exec ctest --preset release -j 2 "${without[@]}" "$@"
