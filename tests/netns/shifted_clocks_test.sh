#!/bin/bash
# Stands before the command of an MPI rank: "shifted_clocks_test.sh COMMAND..." runs it in a time namespace of its own,
# where CLOCK_MONOTONIC is ahead by the rank's word of REPRISE_CLOCK_SHIFTS, in whole seconds. Root needed.
set -euo pipefail
read -ra shifts <<<"$REPRISE_CLOCK_SHIFTS"
ahead=${shifts[$OMPI_COMM_WORLD_RANK]}
exec unshare --time --monotonic "$ahead" --boottime "$ahead" --fork --kill-child -- "$@"
