#!/bin/sh
# NVIDIA's headers of several versions, and an NVRTC and ptxas for each generation, from pip's wheels into DIR, for
# vendor_headers_test.py and cuda_cubins_test: REPRISE_HEADERS=DIR ctest -R "vendor_headers|cuda_cubins".
#   tests/profiler/fetch_headers.sh DIR        (gigabytes, most of them NVRTC)
set -eu
[ $# -eq 1 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
mkdir -p "$1" && cd "$1"

# get FOLDER PACKAGE VERSION
get() {
  [ -e "$1/.$2-$3" ] && return
  mkdir -p "$1" "$1.new"
  python3 -m pip download --no-cache-dir --no-deps -q -d "$1.new" "$2==$3"
  for wheel in "$1.new"/*.whl; do python3 -m zipfile -e "$wheel" "$1"; done
  rm -rf "$1.new"
  touch "$1/.$2-$3"
}

while read -r cuda cupti runtime; do
  get "cuda-$cuda" nvidia-cuda-cupti-cu12 "$cupti"
  get "cuda-$cuda" nvidia-cuda-runtime-cu12 "$runtime"
done <<END
12.0 12.0.90 12.0.107
12.1 12.1.105 12.1.105
12.2 12.2.142 12.2.140
12.4 12.4.127 12.4.127
12.6 12.6.80 12.6.77
12.8 12.8.90 12.8.90
12.9 12.9.79 12.9.79
END
while read -r cuda cupti runtime crt; do
  get "cuda-$cuda" nvidia-cuda-cupti "$cupti"
  get "cuda-$cuda" nvidia-cuda-runtime "$runtime"
  get "cuda-$cuda" nvidia-cuda-crt "$crt"
done <<END
13.0 13.0.85 13.0.96 13.0.88
13.2 13.2.86 13.2.86 13.2.86
13.5 13.5.25 13.5.37 13.5.37
END
get cudnn-9.10 nvidia-cudnn-cu12 9.10.2.21
get cuda-12.0 nvidia-nvtx-cu12 12.0.76
get cuda-12.9 nvidia-nvtx-cu12 12.9.79
get cuda-12.9 nvidia-cuda-nvrtc-cu12 12.9.86
get cuda-12.9 nvidia-cuda-nvcc-cu12 12.9.86
get cuda-13.5 nvidia-cuda-nvrtc 13.5.37
get cuda-13.5 nvidia-cuda-nvcc 13.5.37
for nccl in 2.18.3 2.21.5 2.28.9 2.30.7 2.32.3; do get "nccl-$nccl" nvidia-nccl-cu12 $nccl; done
