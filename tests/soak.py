#!/usr/bin/env python3
"""Many short steps with the recorder on: soak.py [--steps 100000] [--ranks 1] [--program mlp]. By hand.

Samples memory and open files of every rank while it trains, then fits a line through each (the first tenth, in which
what is made lazily is made, left out) and through the steps' times (medians of a hundred stretches, Theil and Sen's
slope, which single stalls do not move). Exit 1 where memory or step time moves by more than 1 % over the run, or a rank
ends with other open files than it began with. REPRISE_BIN names the programs' folder.
"""

import argparse
import itertools
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/cli"))
from command_case import BIN, MPI, descendants, end_all  # noqa: E402

LIMIT, STRETCHES = 0.01, 100


def growth(values):
    """From the first to the last value, by the median slope between any two, as a share of their median."""
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in itertools.combinations(enumerate(values), 2)]
    return statistics.median(slopes) * (len(values) - 1) / statistics.median(values)


def ranks_of(run):
    for pid in descendants(run.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"reprise-train"):
                yield pid
        except OSError:
            pass


def sample(pid):
    """(resident KiB, open files) of a process; None when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return (int(resident[0]), files) if resident else None


def watch(run, period_s):
    """[pid] samples, while it trains."""
    samples = {}
    while run.poll() is None:
        for pid in ranks_of(run):
            found = sample(pid)
            if found:
                samples.setdefault(pid, []).append(found)
        time.sleep(period_s)
    return samples


def judge(samples, steps_ns):
    """Lines to print, and whether all is well."""
    lines, well = [], True
    for number, pid in enumerate(sorted(samples)):
        steady = samples[pid][len(samples[pid]) // 10:-1] or samples[pid]
        memory = growth([resident for resident, _ in steady]) if len(steady) > 1 else 0
        files = [count for _, count in steady]
        same = files[0] == files[-1]
        well &= memory <= LIMIT and same
        lines.append(f"rank {number}: {steady[-1][0]} KiB, {100 * memory:+.2f} % over the run; "
                     f"{files[0]} open files at first, {files[-1]} at last ({len(steady)} samples)")
    length = max(1, len(steps_ns) // STRETCHES)
    stretches = [statistics.median(steps_ns[at:at + length]) for at in range(0, len(steps_ns) - length + 1, length)]
    slope = growth(stretches) if len(stretches) > 1 else 0
    well &= slope <= LIMIT
    lines.append(f"steps: median {statistics.median(steps_ns) / 1e6:.3f} ms, {100 * slope:+.2f} % over {len(steps_ns)}")
    return lines, well


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--program", default="mlp")
    parser.add_argument("--period", type=float, default=0.5, help="seconds between samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        words = ["train", "-n", options.ranks, ROOT / f"data/programs/{options.program}.{options.ranks}.hlo", "--steps",
                 options.steps, "--warmup", options.steps // 100, "--trace", f"{folder}/out.trace", "--allow-nan",
                 "--format", "json"]
        run = subprocess.Popen([BIN / "reprise", *map(str, words)], stdout=open(f"{folder}/out.json", "w"),
                               env=dict(os.environ, **MPI))
        try:
            samples = watch(run, options.period)
        finally:
            end_all(run)
        if run.returncode != 0:
            return f"soak: reprise train: exit {run.returncode}"
        steps_ns = json.loads(pathlib.Path(f"{folder}/out.json").read_text())["step_time_ns"]["all"]
    lines, well = judge(samples, steps_ns)
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
