#!/usr/bin/env python3
"""What `reprise analyze` costs for a trace of a million events, reading the trace included.

  analyze_bench.py REPRISE [--trace FILE]... [--events 1000000] [--runs 5] [--check]

The input is made by repeating Kineto traces (files, or a tar of one file a rank), each time later and with its own
correlations and step numbers; without --trace, one that is generated here. CPU time is user and system time of the
whole process, all threads included; the figure is the median over the runs.
"""

import argparse
import gzip
import io
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tarfile
import tempfile

GOAL_SECONDS_PER_MILLION = 1.0
STEP = re.compile(r"ProfilerStep#(\d+)$")
KEPT = ("correlation", "device", "stream", "External id", "bytes", "Collective name", "In msg nelems",
        "Out msg nelems", "Group size", "dtype", "Process Group Name", "Process Group Ranks")


def training(launches=2000):
    """Two steps of operators, launches and kernels on two streams, a collective among every 50 kernels."""
    events, clock = [], 1000
    free = {7: 0, 20: 0}
    for i in range(launches):
        if i % (launches // 2) == 0:
            events.append({"cat": "user_annotation", "name": f"ProfilerStep#{2 * i // launches}", "tid": 1, "ts": clock,
                           "dur": 11 * launches // 2, "pid": 1})
        collective = i % 50 == 49
        stream = 20 if collective else 7
        start = max(free[stream], clock + 8)
        free[stream] = start + (120 if collective else 6 + i * 7 % 11)
        events.append({"cat": "cpu_op", "name": f"aten::operator_{i % 61}", "pid": 1, "tid": 1, "ts": clock, "dur": 9})
        events.append({"cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": clock + 2,
                       "dur": 5, "args": {"correlation": i + 1}})
        events.append({"cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL" if collective else
                       f"void at::native::elementwise_kernel<{i % 43}, at::native::Functor<float> >(int)",
                       "pid": 0, "tid": stream, "ts": start, "dur": free[stream] - start,
                       "args": {"correlation": i + 1, "device": 0, "stream": stream}})
        clock += 11
    return {"traceEvents": [{"ph": "X", **event} for event in events]}


def traces_of(path):
    data = pathlib.Path(path).read_bytes()
    data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
    if data.lstrip()[:1] in (b"[", b"{"):
        return [json.loads(data)]
    archive = tarfile.open(fileobj=io.BytesIO(data))
    return [json.load(archive.extractfile(member)) for member in archive.getmembers()
            if member.isfile() and member.name.endswith(".json") and "._" not in member.name]


def shifted(event, number, span, correlations, steps):
    """The event as of repetition `number`."""
    event = {**event, "ts": event["ts"] + number * span}
    step = STEP.match(event["name"])
    if step:
        event["name"] = f"ProfilerStep#{int(step[1]) + number * steps}"
    if "correlation" in event.get("args", {}):
        event["args"] = {**event["args"], "correlation": event["args"]["correlation"] + number * correlations}
    return event


def complete(trace):
    events = trace["traceEvents"] if isinstance(trace, dict) else trace
    return [event for event in events if event.get("ph") == "X" and "ts" in event]


def repeat(trace, path, times, span):
    events = []
    for event in complete(trace):
        kept = {key: event[key] for key in ("ph", "cat", "name", "pid", "tid", "ts", "dur") if key in event}
        kept["args"] = {key: event["args"][key] for key in KEPT if key in event.get("args", {})}
        events.append(kept)
    correlations = 1 + max((event["args"].get("correlation", 0) for event in events), default=0)
    numbers = [int(step[1]) for step in (STEP.match(event["name"]) for event in events) if step]
    steps = max(numbers) - min(numbers) + 1 if numbers else 0
    head = {key: trace[key] for key in ("schemaVersion", "distributedInfo", "deviceProperties", "baseTimeNanoseconds")
            if isinstance(trace, dict) and key in trace}
    with gzip.open(path, "wt", compresslevel=1) as out:
        out.write(json.dumps(head)[:-1] + (", " if head else "") + '"traceEvents": [\n')
        for number in range(times):
            rows = [json.dumps(shifted(event, number, span, correlations, steps)) for event in events]
            out.write((",\n" if number else "") + ",\n".join(rows))
        out.write("]}")
    return len(events) * times


def span_of(trace):
    events = complete(trace)
    return int(max(e["ts"] + e.get("dur", 0) for e in events) - min(e["ts"] for e in events)) + 1000


def measure(reprise, arguments):
    """CPU seconds and peak MB of `reprise analyze`."""
    child = subprocess.Popen([reprise, "analyze", *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    if status != 0:
        sys.exit(f"reprise analyze {arguments} failed")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def bench(options, name, traces, folder):
    own = sum(len(complete(t)) for t in traces)
    times = max(1, round(options.events / own))
    span = max(span_of(t) for t in traces)
    files = []
    for i, trace in enumerate(traces):
        files.append(folder / f"{i}.json.gz")
        repeat(trace, files[-1], times, span)
    run = folder / "run.trace"
    ranks = [f"--rank={path}={i}" for i, path in enumerate(files)] if len(files) == 1 else []
    report = subprocess.run([options.reprise, "import", *files, "-o", run, "--force", "--format", "json", *ranks],
                            check=True, capture_output=True, text=True).stdout
    events = sum(file["events"] for file in json.loads(report)["files"])
    slowest = 0.0
    for format_ in ("table", "json", "csv"):
        costs = [measure(options.reprise, [run, "--format", format_]) for _ in range(options.runs)]
        seconds = statistics.median(cost[0] for cost in costs)
        slowest = max(slowest, seconds * 1e6 / events)
        print(f"{name}: {len(files)} ranks, {events} events, {format_}: {seconds:.2f} s of CPU time, "
              f"{seconds * 1e6 / events:.2f} s a million events, {max(cost[1] for cost in costs):.0f} MB")
    return slowest


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise", type=pathlib.Path)
    parser.add_argument("--trace", action="append", type=pathlib.Path, default=[])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--check", action="store_true", help=f"exit 1 above {GOAL_SECONDS_PER_MILLION} s a million")
    options = parser.parse_args()
    slowest = 0.0
    for path in options.trace or [None]:
        with tempfile.TemporaryDirectory() as folder:
            name = path.name if path else "generated"
            slowest = max(slowest, bench(options, name, traces_of(path) if path else [training()],
                                         pathlib.Path(folder)))
    return 1 if options.check and slowest > GOAL_SECONDS_PER_MILLION else 0


if __name__ == "__main__":
    sys.exit(main())
