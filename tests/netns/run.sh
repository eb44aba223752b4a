#!/bin/bash
# Runs a command with MPI's ranks on emulated hosts, one rank a host, and tears the hosts down after it.
#   run.sh [-n HOSTS] [-r RATE] COMMAND...       2 hosts, 1gbit unless said otherwise
# The command finds mpirun's arguments in REPRISE_MPI_ARGS and the hosts' network interface in REPRISE_INTERFACE.
# Exits as the command does; 77 with the reason where hosts cannot be emulated. One run at a time: others wait.
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
hosts=2
rate=1gbit
while getopts n:r: option; do
  case $option in
    n) hosts=$OPTARG ;;
    r) rate=$OPTARG ;;
    *) sed -n '2,5s/^# //p' "$0" >&2; exit 2 ;;
  esac
done
shift $((OPTIND - 1))
[[ $# -gt 0 ]] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }

"$here/hosts.sh" check || exit 77
exec 9>/run/reprise-netns.lock
flock 9
# mpirun splits the agent's path at spaces: a link without any stands for it.
scratch=$(mktemp -d)
hostfile=$scratch/hosts
ln -s "$here/agent.sh" "$scratch/agent"
child=
cleanup() {
  trap - EXIT INT TERM HUP
  if [[ -n $child ]]; then
    kill "$child" 2>/dev/null
    wait "$child" 2>/dev/null
  fi
  "$here/hosts.sh" down 9>&-
  rm -rf "$scratch"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
trap 'exit 129' HUP

"$here/hosts.sh" down
"$here/hosts.sh" up "$hosts" "$rate" || exit 4
for ((i = 0; i < hosts; i++)); do echo "10.78.0.$((10 + i)) slots=1"; done >"$hostfile"

export REPRISE_INTERFACE=eth0
export REPRISE_MPI_ARGS="--hostfile $hostfile --mca plm_rsh_agent $scratch/agent --mca pml ob1 --mca btl self,tcp\
 --mca btl_tcp_if_include 10.78.0.0/24 --mca oob_tcp_if_include 10.78.0.0/24 --mca mpi_yield_when_idle 1"
"$@" 9>&- &
child=$!
wait "$child"
status=$?
child=
exit $status
