#!/bin/bash
# A real run, analysed: the merged timeline with its critical path opens in Chromium's DevTools, and can be drawn.
# Usage: analyzed_timeline_test.sh REPRISE PROGRAM.hlo RANKS
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
"$1" train -n "$3" "$2" --steps 6 --warmup 2 --trace "$directory/run.trace"
"$1" analyze "$directory/run.trace" --chrome "$directory/timeline.json" > "$directory/analysis.txt"
/usr/bin/python3 "$here/timeline_picture.py" "$directory/timeline.json" "$directory/timeline.svg"
for word in 'rank 0' "rank $(($3 - 1))" '#d1242f" stroke-width'; do
  grep -q "$word" "$directory/timeline.svg"
done
/usr/bin/python3 "$here/timeline_test.py" "$directory/timeline.json"
