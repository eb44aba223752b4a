#!/bin/sh
# Gathers what a GPU machine needs into one directory: our binaries and libraries, the libraries
# they link (not the C library's own), the programs, and these scripts. Nothing of NVIDIA: that
# machine has its own.
#   tests/gpu/bundle.sh BUILD_DIRECTORY BUNDLE
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
build=${1:?usage: bundle.sh BUILD_DIRECTORY BUNDLE}
bundle=${2:?usage: bundle.sh BUILD_DIRECTORY BUNDLE}
limit_kib=61440

rm -rf "$bundle"
mkdir -p "$bundle/bin" "$bundle/lib" "$bundle/programs" "$bundle/tests/gpu"
libraries=$(mktemp -d)
trap 'rm -rf "$libraries"' EXIT
for name in reprise reprise-train kernels_gpu_test; do
  if [ ! -x "$build/bin/$name" ]; then
    echo "bundle.sh: no $build/bin/$name; build it first" >&2
    exit 1
  fi
  cp "$build/bin/$name" "$bundle/bin/"
  strip --strip-unneeded "$bundle/bin/$name"
done
for library in "$build"/lib/libreprise*.so "$build"/lib/libnccl-profiler-reprise.so; do
  [ -e "$library" ] && cp "$library" "$bundle/lib/"
done

# The C library and its loader must be the machine's.
own='/(ld-linux[^/]*|lib(c|m|dl|rt|pthread|util|resolv|anl|nsl|nss_[a-z]*|gcc_s))\.so'
for name in "$bundle"/bin/*; do
  missing=$(ldd "$name" | grep 'not found' || true)
  if [ -n "$missing" ]; then
    echo "bundle.sh: $name lacks: $missing" >&2
    exit 1
  fi
  ldd "$name" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }'
done | sort -u | grep -Ev "$own" | while read -r library; do
  cp -L "$library" "$libraries/"
done
tar -C "$libraries" -czf "$bundle/lib/bundled.tar.gz" .

for program in "$root"/data/programs/*.hlo; do
  base=${program%.hlo}
  cp "$program" "$base.json" "$bundle/programs/"
  if [ -e "$base.reference.json" ]; then cp "$base.reference.json" "$bundle/programs/"; fi
done
for data in $(sed -n 's/.*"dataset".*"file": *"\([^"]*\)".*/\1/p' "$root"/data/programs/*.json | sort -u); do
  cp "$root/data/programs/$data" "$bundle/programs/$data"
done
cp "$root"/tests/gpu/*.py "$root/tests/gpu/run.sh" "$bundle/tests/gpu/"
mkdir -p "$bundle/tests/python" "$bundle/cli"
cp "$root"/tests/python/*.py "$bundle/tests/python/"
cp -r "$root/cli/python" "$bundle/cli/python"
find "$bundle" -name __pycache__ -prune -exec rm -rf {} +
git -C "$root" describe --always --dirty >"$bundle/COMMIT" 2>/dev/null || echo unknown >"$bundle/COMMIT"

size_kib=$(du -sk "$bundle" | cut -f1)
echo "$bundle: $((size_kib / 1024)) MiB; there: tests/gpu/run.sh --root $(basename "$bundle")"
if [ "$size_kib" -gt "$limit_kib" ]; then
  echo "bundle.sh: more than $((limit_kib / 1024)) MiB" >&2
  exit 1
fi
