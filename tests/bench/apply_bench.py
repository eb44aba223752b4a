#!/usr/bin/env python3
"""What a plan is worth in JAX itself: steps before and after reprise.jax.apply, beside what the plan predicts.

  apply_bench.py REPRISE_BIN [STEP…] [--python PYTHON] [--ranks 2] [--pairs 20] [--steps 30] [--optimize "WORDS"]
                 [--threads]

REPRISE_BIN is the folder of reprise and reprise-train, PYTHON (or the first of $REPRISE_JAX_PYTHON) an interpreter with
JAX, flax and optax; without one it is skipped (77). Each step of tests/python/steps.py is exported, recorded by `reprise
train` and optimized, and the plan applied; then JAX runs the step as it is and under the plan in turns, --steps steps
each: a process a rank, over Gloo, as the run was recorded, or by --threads all ranks in one process, where an
all-reduce is a few copies and a prediction made for processes does not hold. `change` is the median over pairs of (under
the plan / as it is), with its 95 % bootstrap interval; `predicted` the same of the plan's file, over the run that was
recorded. Before that, both end in the same state: bit for bit on two ranks, to 1e-6 (relative L2 of each tensor) on
more, and the compiled all-reduces are the plan's buckets, by number and sizes; where either is not so the bench ends
with 1. What of a plan JAX cannot be told stands below the table.
"""

import argparse
import json
import os
import pathlib
import random
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS = ["mlp", "decoder", "lstm"]
SKIPPED = 77


def run_steps(made, function, steps, state, at=0):
    """(state, last results, median milliseconds a step)."""
    import jax

    walls, results = [], None
    for t in range(at, at + steps):
        batch = jax.block_until_ready(made.batch(t % 20))
        before = time.perf_counter_ns()
        results = jax.block_until_ready(function(*state, *batch))
        walls.append(time.perf_counter_ns() - before)
        state = results[:len(made.donated)]
    return state, results, statistics.median(walls) / 1e6


def fresh_state(made):
    import steps

    return steps.arguments(made, 0)[:len(made.donated)]


def same_state(remake, functions, ranks):
    """After five steps, of this process's part: bit for bit, or to 1e-6 with more ranks than two."""
    import jax
    import numpy as np
    from reprise.jax import trees

    ends = []
    for function in functions:
        fresh = remake()
        results = run_steps(fresh, function, 5, fresh_state(fresh))[1]
        ends.append([trees.to_numpy(leaf.addressable_data(0)) for leaf in jax.tree_util.tree_leaves(results)])
    if ranks == 2:
        return all(a.tobytes() == b.tobytes() for a, b in zip(*ends))
    return all(np.linalg.norm(np.float64(a) - np.float64(b)) <= 1e-6 * max(np.linalg.norm(np.float64(a)), 1e-30)
               for a, b in zip(*ends) if np.issubdtype(np.asarray(a).dtype, np.number))


def prepare(flags, name, out):
    """In JAX's interpreter: the step's export and its plan."""
    start_jax(flags.ranks)
    import steps

    import reprise.jax as rj
    from reprise import binary

    made = steps.make(name, flags.ranks)
    rj.export(made.step, *steps.arguments(made, 0), out=out, data=made.batch, steps=20)
    binary.run(["train", "-n", flags.ranks, f"{out}/step.hlo", "--trace", f"{out}/run.trace", "--steps",
                max(flags.steps, 5)])
    binary.run(["optimize", f"{out}/run.trace", "-o", f"{out}/plan.json", *shlex.split(flags.optimize)])


def start_jax(devices, rank=None, ranks=0, port=""):
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", devices)
    if rank is not None:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", ranks, rank)


def compare(flags, name, out, rank=None, port=""):
    """In JAX's interpreter, of one rank or all: the first rank prints a JSON line."""
    start_jax(flags.ranks if rank is None else 1, rank, flags.ranks, port)
    import steps

    import reprise.jax as rj

    made = steps.make(name, flags.ranks)
    predicted = json.loads(pathlib.Path(f"{out}/plan.json").read_text(encoding="utf-8"))["predicted"]
    planned = rj.apply(f"{out}/plan.json", made.step, exported=out)
    counted = planned.check(*steps.arguments(made, 0))
    equal = same_state(lambda: steps.make(name, flags.ranks), (made.step, planned), flags.ranks)
    taken = {"before": [], "after": []}
    states = {key: fresh_state(steps.make(name, flags.ranks)) for key in taken}
    for pair in range(-1, flags.pairs):  # The first compiles and warms.
        for key, function in (("before", made.step), ("after", planned)):
            states[key], _, wall = run_steps(made, function, flags.steps, states[key])
            if pair >= 0:
                taken[key].append(wall)
    if rank in (None, 0) or not (equal and counted):
        print(json.dumps({"name": name, "equal": equal, "counted": bool(counted), "collectives": str(counted),
                          "unexpressed": planned.report.unexpressed,
                          "predicted": predicted["step_time_ns"] / predicted["baselines"]["none"], **taken}), flush=True)


def interval(ratios):
    """Median and its 95 % bootstrap interval."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(ratios, k=len(ratios))) for _ in range(2000))
    return statistics.median(ratios), medians[49], medians[1949]


def has_jax(python):
    return python and subprocess.run([python, "-c", "import jax, flax, optax"], capture_output=True,
                                     check=False).returncode == 0


def free_port():
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return str(listening.getsockname()[1])


class Children:
    """This file again, in JAX's interpreter."""

    def __init__(self, flags, python):
        self.command = [python, __file__, *sys.argv[1:]]
        self.environment = dict(os.environ, PYTHONPATH=f"{ROOT}/cli/python:{ROOT}/tests/python",
                                REPRISE_BIN=os.path.abspath(flags.bin))

    def run(self, name, out, calls):
        """Their JSON lines; calls run side by side."""
        started = [subprocess.Popen([*self.command, "--child", *call, name, out], env=self.environment, text=True,
                                    stdout=subprocess.PIPE) for call in calls]
        texts = [child.communicate()[0] for child in started]
        if any(child.returncode != 0 for child in started):
            sys.exit(f"apply_bench: {name}: {calls} failed")
        return [json.loads(line) for text in texts for line in text.splitlines() if line.startswith("{")]


def measured(flags, children, name):
    with tempfile.TemporaryDirectory() as out:
        children.run(name, out, [["prepare", "", ""]])
        port = free_port()
        ranks = [["compare", "", ""]] if flags.threads else [["compare", str(r), port] for r in range(flags.ranks)]
        return children.run(name, out, ranks)


def show(row):
    """A line of the table; whether JAX ran the plan and came to the same state."""
    change = interval([after / before for before, after in zip(row["before"], row["after"])])
    print(f"{row['name']:10} {statistics.median(row['before']):7.2f} ms {statistics.median(row['after']):7.2f} ms  "
          f"{change[0]:.3f} [{change[1]:.3f}, {change[2]:.3f}]     {row['predicted']:9.3f}  {row['collectives']}, "
          f"state {'equal' if row['equal'] else 'NOT equal'}", flush=True)
    return row["equal"] and row["counted"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin")
    parser.add_argument("names", nargs="*", default=STEPS)
    parser.add_argument("--python", default=os.environ.get("REPRISE_JAX_PYTHON", "").split(":")[0])
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--optimize", default="--only buckets --time-limit 5s")
    parser.add_argument("--threads", action="store_true")
    parser.add_argument("--child", nargs=5, metavar=("WHAT", "RANK", "PORT", "NAME", "DIR"), help=argparse.SUPPRESS)
    flags = parser.parse_args()
    if flags.child:
        what, rank, port, name, out = flags.child
        return prepare(flags, name, out) if what == "prepare" else compare(flags, name, out, int(rank) if rank else None,
                                                                           port)
    python = flags.python or shutil.which("python3")
    if not has_jax(python):
        print("skipped: no interpreter with jax, flax and optax; name one by --python or REPRISE_JAX_PYTHON")
        return SKIPPED
    print(f"{'step':10} {'before':>10} {'after':>10}  change [95 %]            predicted  collectives")
    held, unexpressed = True, []
    for name in flags.names:
        for row in measured(flags, Children(flags, python), name):
            held = show(row) and held
            unexpressed += [f"{name}: not expressed: {what}: {why}" for what, why in row["unexpressed"]]
    print("\n".join(dict.fromkeys(unexpressed)))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
