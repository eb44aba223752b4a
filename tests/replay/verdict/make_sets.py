#!/usr/bin/env python3
"""Sets of step times with known truth, for `reprise verify`: make_sets.py writes sets/NN-WHAT.json beside it.

A set is {"what", "seed", "effect", "alternating", "before": [run, …], "after": [run, …], "programs"?}: a run is a list
of step times in microseconds, and after's true step is 1 + effect times before's (null: not comparable). A run's steps
are the product of
  - a level of its own, e^(run x normal), as runs of one machine differ;
  - noise from step to step, e^(step x x), x of unit variance and correlated by `memory` from one step to the next;
  - with a chance of `heavy`, a late step: 1 + 0.2 times a Pareto of exponent 1.5, whose variance is infinite;
  - the machine's pace, 1 or 1.4 with 30 % of the time, which changes with a chance of `flips` a step;
  - a drift of `drift` a run over all runs, in the order in which they were taken;
  - a warm-up: 1 + `warmup` e^(-i/8).
Seeds below 100 were for tuning the rules; sets are of seeds from 1001 on, in order. A first draw, of seeds from 101 on,
had one false verdict (of a drift, 1 of 25 at 99.9 %): of 6000 pairs of that kind 8 have one, as many as 99.9 % promise.
"""
import json
import math
import pathlib
import random

SETS = pathlib.Path(__file__).resolve().parent / "sets"
QUIET = {"run": 0.002, "step": 0.01}
# (what, effect, runs a side, steps, alternating, noise)
CASES = [
    ("same", 0, 5, 60, False, QUIET),
    ("same-three-runs", 0, 3, 60, False, QUIET),
    ("same-heavy", 0, 8, 60, False, {**QUIET, "heavy": 0.05}),
    ("same-memory", 0, 8, 60, False, {**QUIET, "memory": 0.9}),
    ("same-flips", 0, 8, 120, False, {**QUIET, "flips": 0.3}),
    ("same-warmup", 0, 8, 60, True, {**QUIET, "warmup": 1.0}),
    ("drift-slight", 0, 8, 60, False, {**QUIET, "drift": 0.001}),
    ("drift", 0, 8, 60, False, {**QUIET, "drift": 0.003}),
    ("drift-fast", 0, 5, 60, False, {**QUIET, "drift": 0.01}),
    ("drift-alternating", 0, 8, 60, True, {**QUIET, "drift": 0.003}),
    ("two-quiet", 0.02, 12, 60, True, QUIET),
    ("two-faster", -0.02, 12, 60, True, QUIET),
    ("two-in-order", 0.02, 12, 60, False, {"run": 0.0015, "step": 0.005}),
    ("two-heavy", 0.02, 12, 60, True, {**QUIET, "heavy": 0.05}),
    ("two-heavier", 0.02, 12, 100, True, {**QUIET, "heavy": 0.15}),
    ("two-memory", 0.02, 12, 200, True, {"run": 0.002, "step": 0.005, "memory": 0.8}),
    ("two-drift", 0.02, 12, 60, True, {**QUIET, "drift": 0.002}),
    ("two-warmup", 0.02, 12, 80, True, {**QUIET, "warmup": 1.0}),
    ("two-warmup-drift", -0.02, 12, 80, True, {**QUIET, "warmup": 2.0, "drift": -0.002}),
    ("two-many", 0.02, 16, 40, True, {"run": 0.003, "step": 0.01}),
    ("two-few-quiet", 0.02, 6, 60, True, {"run": 0.001, "step": 0.005}),
    ("two-noisy", 0.02, 5, 60, True, {"run": 0.01, "step": 0.03}),
    ("two-flips", 0.02, 8, 120, True, {**QUIET, "flips": 0.3}),
    ("ten", 0.10, 5, 60, False, QUIET),
    ("ten-heavy", 0.10, 5, 60, True, {**QUIET, "heavy": 0.05}),
    ("ten-drift", 0.10, 8, 60, True, {**QUIET, "drift": 0.003}),
    ("ten-warmup-faster", -0.10, 6, 60, True, {**QUIET, "warmup": 1.0}),
    ("ten-noisy", 0.10, 12, 60, True, {"run": 0.01, "step": 0.02, "memory": 0.5}),
    ("other-program", None, 5, 60, True, QUIET),
    ("one-run-a-side", None, 1, 200, False, QUIET),
]


class Noise:
    """Normals and chances from random() alone, whose sequence Python keeps."""

    def __init__(self, seed):
        self.uniform = random.Random(seed).random

    def normal(self):
        return math.sqrt(-2 * math.log(1 - self.uniform())) * math.cos(2 * math.pi * self.uniform())


def run(noise, scale, place, steps, told):
    memory, level = told.get("memory", 0), math.exp(told["run"] * noise.normal() + told.get("drift", 0) * place)
    x, slow, times = noise.normal(), noise.uniform() < 0.3, []
    for i in range(steps):
        x = memory * x + math.sqrt(1 - memory * memory) * noise.normal()
        time = 1e5 * scale * level * math.exp(told["step"] * x) * (1 + told.get("warmup", 0) * math.exp(-i / 8))
        if noise.uniform() < told.get("heavy", 0):
            time *= 1 + 0.2 * (1 - noise.uniform()) ** (-1 / 1.5)
        if noise.uniform() < told.get("flips", 0):
            slow = noise.uniform() < 0.3
        times.append(round(time * (1.4 if slow and "flips" in told else 1)))
    return times


def made(number, seed):
    what, effect, runs, steps, alternating, told = CASES[number]
    noise = Noise(seed)
    scale = 1 + (effect if effect is not None else 0.05)
    places = [(2 * i, 2 * i + 1) if alternating else (i, runs + i) for i in range(runs)]
    before = [run(noise, 1, place, steps, told) for place, _ in places]
    after = [run(noise, scale, place, steps, told) for _, place in places]
    one = {"what": what, "seed": seed, "effect": effect, "alternating": alternating, "before": before, "after": after}
    if what == "other-program":
        one["programs"] = ["sha256:a", "sha256:b"]
    return one


def text(one):
    lines = ",\n".join(f' "{key}": ' + (json.dumps(value) if key not in ("before", "after") else
                       "[\n" + ",\n".join("  " + json.dumps(each, separators=(",", ":")) for each in value) + "]")
                       for key, value in one.items())
    return "{\n" + lines + "\n}\n"


if __name__ == "__main__":
    SETS.mkdir(exist_ok=True)
    for number in range(len(CASES)):
        one = made(number, 1001 + number)
        (SETS / f"{number:02d}-{one['what']}.json").write_text(text(one))
