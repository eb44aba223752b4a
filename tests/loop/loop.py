"""The loop as a library: record `none`, predict and write every plan, rerun them in turn.

Predictions come from one recorded run; measurements alternate over the configurations, so that a
drift of the machine meets all of them. Standard library only.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys

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
        self.say = say
        self.plans = {}
        self.predicted = {}
        self.rounds = {}
        self.hashes = {}

    def record(self, steps, warmup):
        """Trains under the identity plan with the recorder on."""
        self.say(f"{self.name}: train {steps} steps on {self.ranks} ranks, record")
        return reprise("train", "-n", self.ranks, self.hlo, "--steps", steps, "--warmup", warmup,
                       "--trace", self.trace, "--force")

    def replay(self, plan=None, chrome=None, validate=None):
        arguments = ["replay", self.trace]
        for flag, value in (("--plan", plan), ("--chrome", chrome), ("--validate", validate)):
            arguments += [flag, value] if value else []
        return reprise(*arguments, *(["--force"] if chrome else []))

    def optimize(self, time_limit):
        """Searches the plan, then writes the baselines (with its fusion where they ask for it)."""
        self.say(f"{self.name}: optimize")
        self.plans["plan"] = self.directory / "plan.json"
        result = reprise("optimize", self.trace, "-o", self.plans["plan"], "--force",
                         "--time-limit", f"{time_limit}s")
        for name in BASELINES:
            self.plans[name] = self.directory / f"{name}.json"
            reprise("optimize", self.trace, "--baseline", name, "-o", self.plans[name], "--force")
        for name, plan in self.plans.items():
            self.predicted[name] = self.replay(plan=plan)["step_time_ns"]["predicted"]
        return result

    def measure(self, steps, warmup, rounds, names=None):
        """Runs every configuration once a round, in an order that turns with the round."""
        names = list(names or BASELINES + ["plan"])
        for index in range(rounds):
            turn = names[index % len(names):] + names[:index % len(names)]
            for name in turn:
                self.say(f"{self.name}: rerun {name} ({index + 1}/{rounds})")
                run = reprise("train", "-n", self.ranks, self.hlo, "--plan", self.plans[name],
                              "--steps", steps, "--warmup", warmup)
                self.rounds.setdefault(name, []).append(run["step_time_ns"]["all"])
                self.hashes.setdefault(name, set()).add(run["state_hash"])
        return self.rounds

    def measured(self, name):
        """Median over all timed steps of all rounds, in nanoseconds."""
        return statistics.median(step for steps in self.rounds[name] for step in steps)

    def speedup(self, name, over):
        """Median over rounds of the ratio of medians: paired, so drift cancels."""
        pairs = zip(self.rounds[over], self.rounds[name])
        return statistics.median(statistics.median(a) / statistics.median(b) for a, b in pairs)

    def row(self, name):
        measured = self.measured(name)
        return {"program": self.name, "configuration": name, "ranks": self.ranks,
                "predicted_ns": self.predicted[name], "measured_ns": round(measured),
                "error": self.predicted[name] / measured - 1,
                "speedup": self.speedup(name, "none")}


def print_table(rows, out=sys.stdout):
    out.write(f"{'program':8} {'configuration':15} {'predicted':>11} {'measured':>11} "
              f"{'error':>8} {'speed-up':>9}\n")
    for row in rows:
        out.write(f"{row['program']:8} {row['configuration']:15} "
                  f"{row['predicted_ns'] / 1e6:8.1f} ms {row['measured_ns'] / 1e6:8.1f} ms "
                  f"{100 * row['error']:+6.1f} % {row['speedup']:8.2f}x\n")
