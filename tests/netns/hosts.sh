#!/bin/bash
# Emulated hosts on one machine: network namespaces on a bridge, each with its own address and a shaped link.
#   hosts.sh up N RATE   hosts 0..N-1 at 10.78.0.(10+i), RATE as tc writes it (1gbit) or "none"
#   hosts.sh down        removes them
#   hosts.sh check       exits 77 with the reason where this machine cannot do it
# Bandwidth only: no latency is added. Root needed.
set -euo pipefail

bridge=reprise0
host() { echo "reprise-host$1"; }

skip() { echo "netns: skipped: $1" >&2; exit 77; }

check() {
  [[ $EUID -eq 0 ]] || skip "needs root"
  command -v ip >/dev/null && command -v tc >/dev/null || skip "needs ip and tc (apt install iproute2)"
  local probe=reprise-probe$$ reason=""
  ip netns add "$probe" 2>/dev/null || skip "network namespaces are not allowed here"
  ip netns exec "$probe" tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 50ms 2>/dev/null \
    || reason="this kernel lacks the tbf queueing discipline"
  ip netns del "$probe"
  [[ -z $reason ]] || skip "$reason"
}

# A burst of 64 KiB lets even small messages feel the rate; segments are kept below it, since tbf would have to cut
# larger ones on the CPU that the ranks compute on.
shape() {  # [PREFIX...] DEVICE RATE
  local device=${*: -2:1} rate=${*: -1} prefix=("${@:1:$#-2}")
  "${prefix[@]}" tc qdisc add dev "$device" root tbf rate "$rate" burst 64kb latency 50ms
}

up() {
  local count=$1 rate=$2 i name
  check
  ip link add $bridge type bridge
  ip addr add 10.78.0.1/24 dev $bridge
  ip link set $bridge up
  for ((i = 0; i < count; i++)); do
    name=$(host $i)
    ip netns add "$name"
    ip link add rpv$i gso_max_size 32768 type veth peer name eth0 netns "$name"
    ip link set rpv$i master $bridge up
    ip -n "$name" link set lo up
    ip -n "$name" addr add 10.78.0.$((10 + i))/24 dev eth0
    ip -n "$name" link set eth0 gso_max_size 32768 up
    if [[ $rate != none ]]; then
      shape ip netns exec "$name" eth0 "$rate"  # uplink
      shape rpv$i "$rate"                       # downlink
    fi
  done
}

# Ranks that outlived their launcher end with their host; links go explicitly, since a dying namespace is slow to.
down() {
  local name pids link
  for name in $(ip netns list | awk '/^reprise-host/ {print $1}'); do
    pids=$(ip netns pids "$name")
    xargs -r kill -9 <<<"$pids" 2>/dev/null || true
    ip netns del "$name"
  done
  for link in $(ip -o link show type veth | awk -F'[ :@]+' '$2 ~ /^rpv[0-9]/ {print $2}'); do
    ip link del "$link" 2>/dev/null || true
  done
  ip link del $bridge 2>/dev/null || true
}

case ${1:-} in
  up) up "${2:-2}" "${3:-1gbit}" ;;
  down) down ;;
  check) check ;;
  *) sed -n '2,6s/^# //p' "$0" >&2; exit 2 ;;
esac
