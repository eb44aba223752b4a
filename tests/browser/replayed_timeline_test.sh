#!/bin/bash
# A real run, replayed: its timeline opens in Chromium's DevTools with the right span.
# Usage: replayed_timeline_test.sh REPRISE PROGRAM.hlo RANKS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" train -n "$3" "$2" --steps 6 --warmup 2 --trace "$directory/run.trace"
"$1" replay "$directory/run.trace" --chrome "$directory/timeline.json"
/usr/bin/python3 "$here/timeline_test.py" "$directory/timeline.json"
"$1" replay "$directory/run.trace" --chrome "$directory/timeline.json.gz"
gzip -t "$directory/timeline.json.gz"
