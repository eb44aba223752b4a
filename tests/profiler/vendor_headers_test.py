"""Our declarations and GPU sources against NVIDIA's headers of many versions: vendor_headers_test.py COMPILER ROOT.

REPRISE_HEADERS names a folder with one folder for each set of headers (what tests/profiler/fetch_headers.sh makes of
pip's wheels), REPRISE_NCCL_SOURCE a checkout of NVIDIA/nccl (2.27 or newer), whose plugin headers no wheel has. Without
either there is nothing to hold anything against: 77, skipped. Only the compiler runs: layouts and numbers are asserted
as it compiles.
"""
import os
import pathlib
import subprocess
import sys

COMPILER, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
# What is compiled where a set has the header.
SOURCES = {
    "cupti.h": ["tests/profiler/inject/cupti_layout_test.cc"],
    "cuda.h": ["runtime/cuda/driver.cc", "runtime/cuda/step_marks.cc", "runtime/cuda/cuda_step_issue.cc",
               "runtime/cuda/batch_feeds.cc", "runtime/cuda/device_program.cc",
               "runtime/cuda/host_staged_communicator.cc", "tests/runtime/cuda/fake_driver.cc",
               "tests/runtime/cuda/fake_modules.cc"],
    "cudnn.h": ["runtime/cuda/cudnn.cc", "tests/runtime/cuda/cudnn_header_test.cc"],
    "nccl.h": ["tests/runtime/cuda/nccl_header_test.cc"],
    "nvtx3/nvToolsExt.h": ["tests/profiler/inject/nvtx_program.cc"],
    "nccl/profiler.h": ["tests/profiler/nccl/profiler_layout_test.cc"],
    "tuner/tuner_v6.h": ["tests/profiler/nccl/other_layout_test.cc"],
}


def includes_of(folder):
    return sorted(path for path in folder.rglob("include") if path.is_dir() and any(path.glob("*.h*"))) + sorted(
        {path.parent.parent for path in folder.rglob("nvtx3/nvToolsExt.h") if path.parent.parent.name != "include"})


def compile_one(source, includes):
    """What the compiler says of it; empty: nothing."""
    flags = [word for path in includes for word in ("-isystem", str(path))]
    done = subprocess.run([COMPILER, "-std=c++20", "-fsyntax-only", "-Werror", "-Wall", "-Wextra", "-DREPRISE_HAS_NVTX3=1",
                           "-DFMT_SHARED", f"-I{ROOT}", *flags, str(ROOT / source)],
                          capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stderr[:2000]


def main():
    base, nccl = os.environ.get("REPRISE_HEADERS"), os.environ.get("REPRISE_NCCL_SOURCE")
    if not base and not nccl:
        print("skipped: REPRISE_HEADERS names no folder (tests/profiler/fetch_headers.sh makes one), REPRISE_NCCL_SOURCE none")
        return 77
    folders = sorted(pathlib.Path(base).iterdir()) if base else []
    sets = {folder.name: includes_of(folder) for folder in folders if folder.is_dir()}
    if nccl:
        sets["NCCL's source"] = [pathlib.Path(nccl) / "plugins/profiler/example", pathlib.Path(nccl) / "src/include/plugin"]
    runtimes = [includes for includes in sets.values() if any((path / "cuda_runtime.h").exists() for path in includes)]
    failed = count = 0
    for name, includes in sets.items():
        # NCCL's header asks for the runtime's: the newest there is.
        others = [] if includes in runtimes or not runtimes else runtimes[-1]
        for header, sources in SOURCES.items():
            if not any((path / header).exists() for path in includes):
                continue
            for source in sources:
                said = compile_one(source, includes + others)
                count += 1
                failed += bool(said)
                print(f"{'FAILED' if said else 'ok':6} {name}: {source}{said and ': ' + said}", flush=True)
    print(f"{count} compilations against {len(sets)} sets of headers, {failed} failed")
    return 1 if failed or count == 0 else 0


sys.exit(main())
