#!/usr/bin/env python3
"""Many short steps with the recorder on: soak.py [--steps 100000] [--ranks 1] [--program FILE.hlo]. A ctest runs it
--untimed on one rank; more by hand (tests/long_runs.md).

The program is a regression of a few microseconds, made here, unless one is named (its manifest beside it). Samples
memory and open files of every rank while it takes steps, then fits a line through each (the first tenth, in which what
is made lazily is made, left out) and through the steps' times (medians of a hundred stretches, Theil and Sen's slope,
which single stalls do not move). Exit 1 where memory or step time moves by more than 1 % over the run, or a rank ends
with other open files than it began with. REPRISE_BIN names the programs' folder.
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
from command_case import BIN, MPI, descendants, end_all, state_and_parent  # noqa: E402

LIMIT, STRETCHES = 0.01, 100
PROGRAM = """HloModule short, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  w = f32[64,10] parameter(0)
  x = f32[8,64] parameter(1)
  y = f32[8,10] dot(x, w), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  squares = f32[8,10] multiply(y, y)
  zero = f32[] constant(0)
  loss = f32[] reduce(squares, zero), dimensions={{0,1}}, to_apply=sum
  mine = f32[64,10] dot(x, y), lhs_contracting_dims={{0}}, rhs_contracting_dims={{0}}
  all = f32[64,10] all-reduce(mine), replica_groups={{{{{members}}}}}, to_apply=sum
  rate = f32[] constant(1e-05)
  rates = f32[64,10] broadcast(rate), dimensions={{}}
  change = f32[64,10] multiply(all, rates)
  next = f32[64,10] subtract(w, change)
  ROOT out = (f32[64,10], f32[]) tuple(next, loss)
}}
"""


def write_program(folder, ranks):
    """The short program for so many ranks, on the shipped digits."""
    path = pathlib.Path(folder) / "short.hlo"
    path.write_text(PROGRAM.format(members=",".join(map(str, range(ranks)))))
    fields = [{"name": "x", "offset": 0, "count": 64, "type": "u8", "scale": 0.0625}]
    path.with_suffix(".json").write_text(json.dumps({
        "schema": "reprise.manifest/1", "name": "short", "program": path.name, "ranks": ranks,
        "parameters": [
            {"index": 0, "name": "w", "role": "state", "init": {"kind": "uniform", "seed": 1, "scale": 0.2}},
            {"index": 1, "name": "x", "role": "batch", "field": "x"}],
        "outputs": [{"index": 0, "role": "state", "parameter": 0}, {"index": 1, "role": "loss"}],
        "dataset": {"kind": "records", "file": "digits.bin", "record_bytes": 65, "seed": 17, "fields": fields}}))
    return path


def growth(values):
    """From the first to the last value, by the median slope between any two, as a share of their median."""
    slopes = [(b - a) / (j - i) for (i, a), (j, b) in itertools.combinations(enumerate(values), 2)]
    return statistics.median(slopes) * (len(values) - 1) / statistics.median(values)


def ranks_of(run):
    """Ranks, without what they fork (compilers, before these have begun)."""
    trainers = set()
    for pid in descendants(run.pid):
        try:
            if pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"reprise-train"):
                trainers.add(pid)
        except OSError:
            pass
    for pid in trainers:
        found = state_and_parent(pid)
        if found and found[1] not in trainers:
            yield pid


def sample(pid):
    """(resident KiB, open files) of a process; None when it has ended."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        files = len(os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return None
    resident = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    return (int(resident[0]), files) if resident else None


def watch(run, scratch, period_s):
    """[pid] samples while it takes steps: as long as the first rank's shard grows."""
    samples, sizes = {}, []
    while run.poll() is None:
        shards = scratch.glob("reprise.*/rank.0.shard")
        sizes.append(next((path.stat().st_size for path in shards), 0))
        for pid in ranks_of(run):
            found = sample(pid)
            if found:
                samples.setdefault(pid, []).append((len(sizes) - 1, found))
        time.sleep(period_s)
    growing = range(sizes.index(next(filter(None, sizes))), sizes.index(max(sizes)) - 1)
    return {pid: [found for at, found in taken if at in growing] for pid, taken in samples.items()}


def judge(samples, steps_ns, timed):
    """Lines to print, and whether all is well."""
    lines, well = [], True
    for number, pid in enumerate(sorted(samples)):
        steady = samples[pid][len(samples[pid]) // 10:]
        if len(steady) < 3:
            return [f"rank {number}: {len(samples[pid])} samples; take more steps, or a shorter --period"], False
        memory = growth([resident for resident, _ in steady])
        files = [count for _, count in steady]
        same = files[0] == files[-1]
        well &= memory <= LIMIT and same
        lines.append(f"rank {number}: {steady[-1][0]} KiB, {100 * memory:+.2f} % over the run; "
                     f"{files[0]} open files at first, {files[-1]} at last ({len(steady)} samples)")
    length = max(1, len(steps_ns) // STRETCHES)
    stretches = [statistics.median(steps_ns[at:at + length]) for at in range(0, len(steps_ns) - length + 1, length)]
    slope = growth(stretches) if len(stretches) > 1 else 0
    well &= slope <= LIMIT or not timed
    lines.append(f"steps: median {statistics.median(steps_ns) / 1e6:.3f} ms, {100 * slope:+.2f} % over {len(steps_ns)}")
    return lines, well


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--program", type=pathlib.Path)
    parser.add_argument("--untimed", action="store_true", help="beside other work: print the slope of steps' times alone")
    parser.add_argument("--period", type=float, default=0.1, help="seconds between samples")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = options.program or write_program(folder, options.ranks)
        words = ["train", "-n", options.ranks, program, "--data", ROOT / "data/programs", "--steps", options.steps,
                 "--warmup", options.steps // 100, "--trace", f"{folder}/out.trace", "--allow-nan", "--format", "json"]
        run = subprocess.Popen([BIN / "reprise", *map(str, words)], stdout=open(f"{folder}/out.json", "w"),
                               env=dict(os.environ, **MPI, TMPDIR=folder))
        try:
            samples = watch(run, pathlib.Path(folder), options.period)
        finally:
            end_all(run)
        if run.returncode != 0:
            return f"soak: reprise train: exit {run.returncode}"
        steps_ns = json.loads(pathlib.Path(f"{folder}/out.json").read_text())["step_time_ns"]["all"]
    lines, well = judge(samples, steps_ns, not options.untimed)
    print("\n".join(lines))
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
