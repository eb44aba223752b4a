#!/usr/bin/env python3
"""What importing a large Kineto trace costs: CPU time, memory, and two files on two cores.

  import_bench.py REPRISE [--trace FILE]... [--megabytes 1000] [--runs 5] [--pairs 10] [--check]

The input is made by repeating a trace, each time later and with its own correlations; without --trace, a
small one that is generated here. CPU time is user and system time of the whole process, all threads and the
final write included, so it is per core. The two files are read one after the other by two processes and by
one process together, in turns; the figure is the median ratio of wall times. A turn during which others used
more than 5 % of the cores does not count and is repeated, up to four times as many turns as asked for.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

# Of JSON, per core, in CPU time; of resident memory; of two files over one. (README: goals.)
GOAL_MB_PER_S, GOAL_PEAK_MB, GOAL_TWO_FILES = 500, 512, 1.7
SHIFTED = re.compile(r'("(?:ts|correlation|[Ee]xternal id)": ?)(\d+)')


def step_of_training(launches=2000):
    """A step as torch 2.4 prints it: operators with their shapes, launches, flow arrows, kernels."""
    rows, clock, device = [], 7_000_000_000, 0
    def row(ph, cat, name, pid, tid, ts, **rest):
        rows.append(json.dumps({"ph": ph, "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, **rest},
                               indent=2).replace("\n", "\n  "))
    for i in range(launches):
        clock += 11 + i * 7 % 5
        device = max(device, clock + 9) + i * 13 % 29
        shapes = [[32, 64 << i % 5, 56 >> i % 3], [64 << i % 5], []]
        row("X", "cpu_op", f"aten::operator_{i % 61}", 4242, 4242, clock + .125, dur=9.5,
            args={"External id": i + 1, "Record function id": 0, "Ev Idx": i, "Input Dims": shapes,
                  "Input type": ["float", "float", "Scalar"], "Concrete Inputs": ["", "", "False"]})
        row("X", "cuda_runtime", "cudaLaunchKernel", 4242, 4242, clock + 3.25, dur=4.75,
            args={"External id": i + 1, "cbid": 211, "correlation": 100_000 + i})
        row("s", "ac2g", "ac2g", 4242, 4242, clock + 3.25, id=100_000 + i)
        row("X", "kernel", f"void at::native::vectorized_elementwise_kernel<{i % 43}, at::native::Functor<float>, "
            "std::array<char*, 3ul> >(int, at::native::Functor<float>)", 0, 7, device + .5, dur=8.25,
            args={"External id": i + 1, "queued": 0, "device": 0, "context": 1, "stream": 7,
                  "correlation": 100_000 + i, "registers per thread": 32, "shared memory": 0,
                  "blocks per SM": 12.5, "warps per SM": 50.0, "grid": [1350, 1, 1], "block": [128, 1, 1],
                  "est. achieved occupancy %": 78})
        row("f", "ac2g", "ac2g", 0, 7, device + .5, id=100_000 + i, bp="e")
    return ('{"schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000, "traceEvents": [\n  ' +
            ",\n  ".join(rows) + "]}")


def text_of(path):
    data = pathlib.Path(path).read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode()


def repeat(text, path, megabytes):
    """Writes `text` with its events over and over, as gzip; returns the size of the JSON."""
    start = (re.match(r"\s*\[", text) or re.search(r'"traceEvents":\s*\[', text)).end()  # 2020: an array alone.
    events, end = json.JSONDecoder().raw_decode(text, start - 1)
    times = [event["ts"] for event in events if event.get("ph") == "X"]
    ids = [event.get("args", {}).get("correlation", 0) for event in events]
    span = int(float(max(times)) - float(min(times))) + 1_000_000
    most = 1 + max((i for i in ids if isinstance(i, int)), default=0)
    del events
    pieces = SHIFTED.split(text[start:end - 1].rstrip())  # Text, key, number, text, …
    numbers = [int(number) for number in pieces[2::3]]
    strides = [span if key.startswith('"ts') else most for key in pieces[1::3]]
    total = 0
    with gzip.open(path, "wt", compresslevel=6) as out:
        total += out.write(text[:start])
        for number in range(max(1, round(megabytes * 1e6 / (end - start)))):
            pieces[2::3] = [str(n + number * s) for n, s in zip(numbers, strides)]
            total += out.write(("," if number else "") + "".join(pieces))
        total += out.write(text[end - 1:])
    return total


def make_input(name, path, megabytes):
    """Writes the big input in a process of its own: what a process held once counts as its children's peak."""
    def work(answer):
        answer.put(repeat(text_of(name) if name else step_of_training(), path, megabytes))
    context = multiprocessing.get_context("fork")
    answer = context.SimpleQueue()
    child = context.Process(target=work, args=(answer,))
    child.start()
    child.join()
    if child.exitcode != 0:
        sys.exit(f"{name}: cannot be repeated")
    return answer.get()


def busy_seconds():
    """CPU time of the whole machine so far, without what it waits."""
    user, nice, system, _, _, irq, softirq, steal = map(int, open("/proc/stat").readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def run(reprise, inputs, trace):
    """Imports; returns CPU seconds, wall seconds, peak MB and the report."""
    ranks = [f"--rank={path}={i}" for i, path in enumerate(inputs)]
    start = time.monotonic()
    child = subprocess.Popen([reprise, "import", *inputs, "-o", trace, "--force", "--format", "json", *ranks],
                             stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.monotonic() - start
    if status != 0:
        sys.exit(f"reprise import {inputs} failed")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024, json.loads(output)


def two_files(reprise, files, trace, pairs):
    """How much faster two files are together than apart, of each quiet pair of runs."""
    ratios = []
    for _ in range(4 * pairs):
        if len(ratios) == pairs:
            break
        busy, start = busy_seconds(), time.monotonic()
        apart = [run(reprise, [file], trace) for file in files]
        together = run(reprise, files, trace)
        own = sum(cpu for cpu, *_ in apart) + together[0]
        others = busy_seconds() - busy - own
        if others <= 0.05 * os.cpu_count() * (time.monotonic() - start):
            ratios.append(sum(wall for _, wall, *_ in apart) / together[1])
    return ratios


def measure(reprise, name, directory, options):
    """Prints a line; returns whether the goals are met."""
    files = [os.path.join(directory, f"{i}.json.gz") for i in range(2)]
    trace = os.path.join(directory, "out.trace")
    megabytes = make_input(name, files[0], options.megabytes) / 1e6
    os.link(files[0], files[1])
    runs = [run(reprise, files[:1], trace) for _ in range(options.runs)]
    events = runs[0][3]["files"][0]["events"]
    if events == 0 or any(one[3]["files"][0]["dropped"] for one in runs):
        sys.exit(f"{name}: {events} events, dropped {runs[0][3]['files'][0]['dropped']}")
    rate = megabytes / statistics.median(one[0] for one in runs)
    peak = max(one[2] for one in runs)
    ratios = two_files(reprise, files, trace, options.pairs)
    two = statistics.median(ratios) if ratios else None
    print(f"{(name or '(generated)')[-44:]:44} {megabytes:7.0f} {events:9} {rate:9.0f} {peak:8.0f} " +
          (f"{two:6.2f} of {len(ratios)}" if ratios else "     -"), flush=True)
    for file in files:
        os.unlink(file)
    return rate >= GOAL_MB_PER_S and peak <= GOAL_PEAK_MB and (two is None or two >= GOAL_TWO_FILES)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("--trace", action="append", default=[], help="a Kineto trace to repeat (json or json.gz)")
    parser.add_argument("--megabytes", type=float, default=1000, help="of JSON to make of it")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=10, help="of the comparison with two files; 0: none")
    parser.add_argument("--check", action="store_true", help="exit 1 when a goal is missed")
    options = parser.parse_args()
    print(f"{'trace, repeated':44} {'MB JSON':>7} {'events':>9} {'MB/s CPU':>9} {'peak MB':>8} {'2 files':>9}")
    met = True
    with tempfile.TemporaryDirectory() as directory:
        for name in options.trace or [""]:
            met &= measure(options.reprise, name, directory, options)
    if options.check and not met:
        sys.exit(f"goals: {GOAL_MB_PER_S} MB/s, {GOAL_PEAK_MB} MB, {GOAL_TWO_FILES}x")


if __name__ == "__main__":
    main()
