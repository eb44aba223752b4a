"""The loop as a library: record `none`, predict and write every plan, rerun them in turn.

Predictions come from one recorded run; measurements alternate over the configurations, so that a
drift of the machine meets all of them. Standard library only.
"""

import json
import os
import pathlib
import re
import statistics
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disturbance  # noqa: E402
import errors  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
REPRISE = pathlib.Path(os.environ.get("REPRISE", ROOT / "build/release/bin/reprise"))
BASELINES = ["none", "ddp", "horovod", "xla", "ddp+fusion", "horovod+fusion"]


class LoopError(RuntimeError):
    pass


def reprise(*arguments, json_output=True):
    """Runs `reprise ARGUMENTS`; returns its JSON, or raises LoopError with its message."""
    command = [str(REPRISE), *map(str, arguments)]
    if json_output:
        command += ["--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise LoopError(f"{' '.join(command)}: exit {done.returncode}\n{done.stderr.strip()}")
    return json.loads(done.stdout) if json_output else done.stdout


class Program:
    """One program's plans, predictions and measurements under `directory`."""

    def __init__(self, name, ranks, directory, say=lambda text: None):
        self.name, self.ranks = name, ranks
        self.hlo = ROOT / f"data/programs/{name}.{ranks}.hlo"
        self.directory = pathlib.Path(directory) / name
        self.directory.mkdir(parents=True, exist_ok=True)
        self.trace = self.directory / "none.trace"
        self.costs = self.directory / "costs.json"
        self.say = say
        self.plans = {}
        self.predicted = {}
        self.predictions = {}
        self.errors = {}
        self.samples = {}
        self.recorded_pace_ns = None
        self.slower = []  # By how much the machine was, in each rerun, than while it was recorded.
        self.rounds = {}
        self.hashes = {}
        self.spread = 0.0
        self.kept = None

    def record(self, steps, warmup):
        """Trains under the identity plan with the recorder on, and keeps the machine's pace."""
        self.say(f"{self.name}: train {steps} steps on {self.ranks} ranks, record")
        with disturbance.Pace() as pace:
            run = reprise("train", "-n", self.ranks, self.hlo, "--steps", steps, "--warmup", warmup,
                          "--trace", self.trace, "--force")
        self.recorded_pace_ns = pace.median_ns
        return run

    def replay(self, plan=None, chrome=None, validate=None):
        arguments = ["replay", self.trace]
        costs = self.costs if self.costs.exists() else None
        for flag, value in (("--plan", plan), ("--chrome", chrome), ("--validate", validate),
                            ("--costs", costs)):
            arguments += [flag, value] if value else []
        return reprise(*arguments, *(["--force"] if chrome else []))

    def optimize(self, time_limit):
        """Searches the plan, then writes the baselines (with its fusion where they ask for it)."""
        self.say(f"{self.name}: optimize")
        self.plans["plan"] = self.directory / "plan.json"
        result = reprise("optimize", self.trace, "-o", self.plans["plan"], "--force",
                         "--time-limit", f"{time_limit}s", "--costs", self.costs)
        for name in BASELINES:
            self.plans[name] = self.directory / f"{name}.json"
            fusion = ["--plan", self.plans["plan"]] if name.endswith("+fusion") else []
            reprise("optimize", self.trace, "--baseline", name, "-o", self.plans[name], "--force",
                    "--costs", self.costs, *fusion)
        kept = [re.search(r"x: (.+) kept$", line) for line in result["log"]]
        self.kept = next((found.group(1) for found in kept if found), None)
        self.predict()
        return result

    def predict(self):
        """Predicts every plan from the recorded run (again after another `record`)."""
        for name, plan in self.plans.items():
            self.predicted[name] = self.replay(plan=plan)["step_time_ns"]["predicted"]

    def measure(self, steps, warmup, rounds, names=None, record_steps=0, calm=None):
        """Runs every configuration once a round, in an order that turns with the round.

        With `record_steps`, each round first records a run of `none` and predicts the runs that
        follow from it: prediction and measurement are a pair, minutes of drift apart at most.
        `calm` makes disturbed runs again.
        """
        names = list(names or BASELINES + ["plan"])
        calm = calm or disturbance.Calm()
        for index in range(rounds):
            if record_steps:
                calm.run(lambda: self.record(record_steps, warmup))
                self.predict()
            for name in names[index % len(names):] + names[:index % len(names)]:
                self.say(f"{self.name}: rerun {name} ({index + 1}/{rounds})")
                self._keep(name, *calm.run(lambda: self._rerun(name, steps, warmup, bool(record_steps))))
        return self.rounds

    def _rerun(self, name, steps, warmup, traced):
        """A run, its pace, and where it was recorded what its own trace replays to."""
        own = self.directory / "own.trace"
        flags = ["--trace", own, "--force"] if traced else []
        with disturbance.Pace() as pace:
            run = reprise("train", "-n", self.ranks, self.hlo, "--plan", self.plans[name],
                          "--steps", steps, "--warmup", warmup, *flags)
        own_ns = reprise("replay", own)["step_time_ns"]["predicted"] if traced else None
        return run, pace.median_ns, own_ns

    def _keep(self, name, run, pace_ns, own_ns):
        steps_ns = run["step_time_ns"]["all"]
        self.rounds.setdefault(name, []).append(steps_ns)
        self.predictions.setdefault(name, []).append(self.predicted[name])
        error = self.predicted[name] / statistics.median(steps_ns) - 1
        self.errors.setdefault(name, []).append(error)
        self.slower.append(pace_ns / self.recorded_pace_ns - 1)
        if own_ns is not None:
            self.samples.setdefault(name, []).append(
                errors.sample(self.predicted[name], own_ns, steps_ns, self.recorded_pace_ns, pace_ns))
        self.hashes.setdefault(name, set()).add(run["state_hash"])

    def same_states(self):
        """Whether every run of every configuration ended in the same bits."""
        return len(set().union(*self.hashes.values())) == 1

    def measured(self, name):
        """Median over all timed steps of all rounds, in nanoseconds."""
        return statistics.median(step for steps in self.rounds[name] for step in steps)

    def speedup(self, name, over):
        """Median over rounds of the ratio of medians: paired, so drift cancels."""
        pairs = zip(self.rounds[over], self.rounds[name])
        return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)

    def note_spread(self, steps_ns):
        """Takes the recorded steps' middle half as a share of their median."""
        first, median, third = statistics.quantiles(steps_ns, n=4)
        self.spread = (third - first) / median

    def pace(self):
        """How the machine was while plans ran beside how it was while it was recorded."""
        return (f"{self.name}: a fixed unit of work, timed all along, took {100 * min(self.slower):+.0f} to "
                f"{100 * max(self.slower):+.0f} % (median {100 * statistics.median(self.slower):+.0f} %) in the reruns "
                f"beside the recording, whose pace the predictions are for")

    def warnings(self):
        """Names the configurations that differ from none by less than the recorded steps spread."""
        small = [name for name in self.rounds if name != "none" and abs(self.speedup(name, "none") - 1) < self.spread]
        if small:
            yield (f"{self.name}: the recorded steps spread by {100 * self.spread:.1f} % (middle half), more than "
                   f"{', '.join(small)} differ{'s' if len(small) == 1 else ''} from none")

    def row(self, name, paired=False):
        """One line of the table; `paired`: the error is the median over rounds of each pair's."""
        measured = self.measured(name)
        predicted = round(statistics.median(self.predictions[name]))
        error = statistics.median(self.errors[name]) if paired else predicted / measured - 1
        return {"program": self.name, "configuration": name, "ranks": self.ranks,
                "predicted_ns": predicted, "measured_ns": round(measured),
                "error": error, "kept": self.kept if name == "plan" else None,
                "speedup": self.speedup(name, "none")}


def print_table(rows, out=sys.stdout):
    out.write(f"{'program':8} {'configuration':15} {'predicted':>11} {'measured':>11} "
              f"{'error':>8} {'speed-up':>9}\n")
    for row in rows:
        out.write(f"{row['program']:8} {row['configuration']:15} "
                  f"{row['predicted_ns'] / 1e6:8.1f} ms {row['measured_ns'] / 1e6:8.1f} ms "
                  f"{100 * row['error']:+6.1f} % {row['speedup']:8.2f}x"
              f"{'  (' + row['kept'] + ', kept)' if row.get('kept') else ''}\n")
