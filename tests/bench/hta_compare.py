#!/usr/bin/env python3
"""Side by side with HolisticTraceAnalysis (PyPI): loading a trace and breaking its time down.

  hta_compare.py REPRISE TRACE... [--runs 3] [--hta-python PYTHON]

PYTHON has HolisticTraceAnalysis: python3 -m venv V && V/bin/pip install HolisticTraceAnalysis. TRACE is a Kineto file,
or a tar of one file a rank; the same bytes go to both. Per trace: CPU time (user and system, all processes, median
over the runs) of HTA's parsing, temporal breakdown and overlap, alone and with starting Python and importing HTA, and
of the whole of `reprise import` and `reprise analyze --format csv`, which prints the breakdown by rank and step; the
ratios; and the largest difference between the figures of both. Exit 1 when a figure differs by more than HTA's
rounding: where times have fractions of microseconds it rounds starts up and ends down, so it may lose two of them for
each kernel. A trace that HTA fails on is passed over.
"""

import argparse
import csv
import gzip
import io
import json
import os
import pathlib
import re
import resource
import statistics
import subprocess
import sys
import tarfile
import tempfile


def cpu_seconds(whose=(resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)):
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, whose))


# HTA takes whatever has a stream for device work, synchronizations and some operators too.
DEVICE_WORK = {"kernel", "gpu_memcpy", "gpu_memset", "Kernel", "Memcpy", "Memset"}


def run_hta(files):
    """In a process of its own: prints seconds, without and with its start, and the figures of each rank."""
    import logging
    logging.disable(logging.CRITICAL)
    from hta.common.trace import Trace
    from hta.trace_analysis import TraceAnalysis

    def analyse(device_work_only=False):
        analysis = TraceAnalysis(trace_files=dict(files), trace_dir="", include_last_profiler_step=True)
        analyse.traces = analysis.t.traces
        for frame in analyse.traces.values() if device_work_only else ():
            category = frame["cat"].map(lambda symbol: analysis.t.symbol_table.sym_table[symbol])
            frame.loc[~category.isin(DEVICE_WORK), "stream"] = -1
        return analysis.get_temporal_breakdown(visualize=False), analysis.get_comm_comp_overlap(visualize=False)

    start = cpu_seconds()
    analyse()
    seconds = cpu_seconds() - start, cpu_seconds()
    # HTA leaves kernels out that have no launch record or follow the last step; the figures are of all kernels.
    Trace._filter_irrelevant_gpu_kernels = lambda *arguments, **named: None
    breakdown, overlap = analyse(device_work_only=True)
    hidden = dict(zip(overlap["rank"], overlap["comp_comm_overlap_pctg"]))
    ranks = {int(row["rank"]): {"window_us": float(row["kernel_time(us)"]), "idle_us": float(row["idle_time(us)"]),
                                "compute_us": float(row["compute_time(us)"]),
                                "hidden_percent": float(hidden.get(row["rank"], 0))}
             for _, row in breakdown.iterrows()}
    kernels = max(int((frame["stream"] != -1).sum()) for frame in analyse.traces.values())
    print("\n" + json.dumps({"seconds": seconds, "ranks": ranks, "kernels": kernels}))


def rank_of(text, otherwise):
    trace = json.loads(text)
    return int(trace.get("distributedInfo", {}).get("rank", otherwise)) if isinstance(trace, dict) else otherwise


def files_of(path, folder):
    """{rank: file}, each gzip or plain as HTA takes them."""
    data = path.read_bytes()
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if plain.lstrip()[:1] in (b"[", b"{"):
        return {rank_of(plain, 0): path}
    files = {}
    archive = tarfile.open(fileobj=io.BytesIO(plain))
    for member in archive.getmembers():
        if not member.isfile() or not member.name.endswith(".json") or "._" in member.name:
            continue
        text = archive.extractfile(member).read()
        rank = rank_of(text, len(files))
        files[rank] = folder / f"rank{rank}.json"
        files[rank].write_bytes(text)
    return dict(sorted(files.items()))


class HtaFailed(Exception):
    pass


def hta(python, files):
    pairs = json.dumps([[rank, str(file)] for rank, file in files.items()])
    child = subprocess.run([python, __file__, "--child", pairs], capture_output=True, text=True)
    if child.returncode != 0:
        raise HtaFailed(child.stderr.strip().splitlines()[-1])
    answer = json.loads(child.stdout.strip().splitlines()[-1])
    return answer["seconds"], {int(rank): figures for rank, figures in answer["ranks"].items()}, answer["kernels"]


def reprise(binary, files, trace):
    start = cpu_seconds((resource.RUSAGE_CHILDREN,))
    ranks = [f"--rank={file}={rank}" for rank, file in files.items()]
    subprocess.run([binary, "import", *files.values(), "-o", trace, "--force", *ranks], check=True, capture_output=True)
    text = subprocess.run([binary, "analyze", trace, "--format", "csv"], check=True, capture_output=True, text=True)
    seconds = cpu_seconds((resource.RUSAGE_CHILDREN,)) - start
    figures = {}
    for row in csv.DictReader(io.StringIO(text.stdout)):
        if row["window"] != "whole":
            continue
        communication = max(int(row["communication_ns"]), 1)
        figures[int(row["rank"])] = {
            "window_us": int(row["window_ns"]) / 1e3, "idle_us": int(row["idle_ns"]) / 1e3,
            "compute_us": int(row["compute_ns"]) / 1e3,
            "hidden_percent": 100 * int(row["overlapped_ns"]) / communication}
    return seconds, figures


def differences(theirs, ours):
    """Largest differences: microseconds of a rank's times, percentage points of its overlap."""
    times = overlap = 0.0
    for rank, figures in theirs.items():
        for key, value in figures.items():
            difference = abs(value - ours[rank][key])
            if key == "hidden_percent":
                overlap = max(overlap, difference)
            else:
                times = max(times, difference)
    return times, overlap


def compare(options, path):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        files = files_of(path, folder)
        their_seconds, our_seconds = [], []
        for _ in range(options.runs):
            try:
                seconds, theirs, kernels = hta(options.hta_python, files)
            except HtaFailed as failed:
                print(f"{path.name}: HTA fails: {failed}", flush=True)
                return True
            their_seconds.append(seconds)
            seconds, ours = reprise(options.reprise, files, folder / "run.trace")
            our_seconds.append(seconds)
        fractions = any(has_fractions(file) for file in files.values())
    if not theirs:
        print(f"{path.name}: HTA found no rank")
        return False
    alone, whole = map(statistics.median, zip(*their_seconds))
    our = statistics.median(our_seconds)
    times_us, overlap = differences(theirs, ours)
    print(f"{path.name}: {len(files)} ranks, HTA {alone:.2f} s ({whole:.2f} s with its start), reprise {our:.3f} s: "
          f"{alone / our:.0f} ({whole / our:.0f}) times faster; figures differ by at most {times_us:.3f} us and "
          f"{overlap:.3f} points of overlap", flush=True)
    if fractions:
        return times_us <= 2 * kernels
    return times_us == 0 and overlap <= 0.01  # It rounds percents to hundredths.


def has_fractions(file):
    data = file.read_bytes()
    plain = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    return re.search(rb'"ts": ?\d+\.\d*[1-9]', plain) is not None


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--child":
        return run_hta(json.loads(sys.argv[2]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise", type=pathlib.Path)
    parser.add_argument("traces", nargs="+", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--hta-python", default=sys.executable)
    options = parser.parse_args()
    return 0 if all([compare(options, path) for path in options.traces]) else 1


if __name__ == "__main__":
    sys.exit(main())
