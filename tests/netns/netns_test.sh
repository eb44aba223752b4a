#!/bin/bash
# The emulated hosts themselves: ranks land on different hosts, a large message takes the time that the rate demands,
# status and signals pass through, and nothing is left behind. Skips (77) where run.sh does.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
fail() { echo "netns_test: $1" >&2; exit 1; }

mpi='mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 $REPRISE_MPI_ARGS'
names=$("$here/run.sh" bash -c "$mpi hostname" 2>/dev/null)
status=$?
[[ $status -ne 77 ]] || { "$here/hosts.sh" check; exit 77; }
[[ $status -eq 0 ]] || fail "mpirun on emulated hosts exits $status"
[[ $(sort <<<"$names" | xargs) == "reprise-host0 reprise-host1" ]] || fail "ranks are on: $names"

copy=$(mktemp -d)
cp -r "$here" "$copy/a b"
"$copy/a b/run.sh" bash -c "$mpi true" || fail "no ranks from a folder with a space in its name"
rm -rf "$copy"

# 4 MiB at 1 Gbit/s take 33.6 ms; 35.4 ms measured, with TCP's and Ethernet's headers. At most one burst (0.5 ms) less.
took=$("$here/run.sh" bash "$here/transfer.sh" 4194304) || fail "transfer failed"
awk -v ms="$took" 'BEGIN { exit !(ms > 33) }' || fail "4 MiB arrived in $took ms: the link is not shaped"

"$here/run.sh" bash -c 'exit 9'
[[ $? -eq 9 ]] || fail "the command's status is lost"
"$here/run.sh" sleep 30 &
sleep 1
kill -TERM $!
wait $!
[[ $? -eq 143 ]] || fail "a terminated run does not exit 143"
exec 9>/run/reprise-netns.lock && flock 9  # Another run's hosts are gone when it lets go of this.
[[ -z $(ip netns list | grep reprise-host) ]] || fail "hosts are left behind"
[[ -z $(ip -o link | grep -E 'rpv|reprise0') ]] || fail "links are left behind"
echo "netns_test: ok, 4 MiB in $took ms"
