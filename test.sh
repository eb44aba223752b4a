#!/usr/bin/env bash
# Installs what is missing, builds everything, runs every test that this machine can run
# (but clang-tidy, which takes 25 minutes of CPU time at first: ctest --preset release -L lint).
# Usage: ./test.sh [ctest arguments, e.g. -L unit]
set -euo pipefail
cd "$(dirname "$0")"
cmake/packages.sh test
cmake --preset release -DREPRISE_DEV=ON
cmake --build --preset release
exec ctest --preset release -j 2 -LE lint "$@"
