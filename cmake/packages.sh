#!/usr/bin/env bash
# Installs the Debian/Ubuntu packages that Reprise needs, if any are missing: as root or by
# passwordless sudo; otherwise prints the one line to run and exits 4. Usage: packages.sh [test]
set -euo pipefail

packages=(g++ cmake ninja-build ccache pkg-config git ca-certificates python3
  libglpk-dev libboost-graph-dev libtbb-dev nlohmann-json3-dev libsqlite3-dev libsimdjson-dev
  libisal-dev liblzma-dev libfmt-dev libcli11-dev libexpected-dev libdnnl-dev libopenblas-dev
  liblapacke-dev libgloo-dev libssl-dev
  libopenmpi-dev openmpi-bin libgtest-dev libbenchmark-dev iproute2 util-linux)
if [ "${1:-}" = test ]; then
  packages+=(python3-selenium valgrind xz-utils dpkg-dev file clang clang-format clang-tidy)
  # Ubuntu has Chromium as a snap only; the browser tests skip without it.
  grep -qs '^ID=ubuntu' /etc/os-release || packages+=(chromium chromium-driver)
fi

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

install=(apt-get install -y --no-install-recommends "${missing[@]}")
if [ "$(id -u)" = 0 ]; then
  become=()
elif sudo -n true 2>/dev/null; then
  become=(sudo -n)
else
  echo "Missing packages; run this, then start again:" >&2
  echo "  sudo apt-get update && sudo ${install[*]}" >&2
  exit 4
fi
echo "installing: ${missing[*]}" >&2
"${become[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2
"${become[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}" >/dev/null
