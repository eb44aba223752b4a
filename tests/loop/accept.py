#!/usr/bin/env python3
"""The acceptance figures: predictions against reruns, the plan against every baseline, in pairs.

In every round a recorded run of `none` prices everything; then every configuration runs, recorded
too, in turn. What a prediction misses by is told apart into structure, price and pace (errors.py),
mean and worst of absolute values over all rounds, beside the spread of the measured steps. Gated is
the structure, of all configurations, on 1 Gbit/s and on one host; at other rates, which nothing was
tuned on, it is reported. Unexplained gaps are at most 10 %. A ratio is a median over rounds with a
95 % bootstrap interval, and "not slower" means that the interval reaches 1. Plans are searched once,
before. A run of which a hypervisor stole more than 1 % is made again. A run lasts --seconds, because
the pace of a shared machine changes within a second: 12 steps of 60 ms meet one pace or another, 5 s
meet their mix. Exit 1 when a figure is missed. Takes rounds x 8 x --seconds. Run it on a machine that
does nothing else.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import disturbance  # noqa: E402
import emulate  # noqa: E402
import errors  # noqa: E402
import loop  # noqa: E402


def interval(values, samples=2000):
    """Median with its 95 % bootstrap interval (fixed seed)."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(samples))
    return statistics.median(values), medians[samples // 40], medians[-samples // 40 - 1]


def ratios(program, over):
    """Of each round: how much faster the plan ran than `over`."""
    return [statistics.median(a) / statistics.median(b)
            for a, b in zip(program.rounds[over], program.rounds["plan"])]


def steps_in(seconds, run):
    """How many steps like those of `run` fill so many seconds; at least 8."""
    return max(8, round(seconds * 1e9 / run["step_time_ns"]["median"]))


def check(program, options):
    failures = []
    steps = steps_in(options.seconds, program.record(12, 4))
    program.record(steps, 4)
    unexplained = program.replay()["sources"]["unexplained"]
    program.optimize(options.time_limit)
    calm = disturbance.Calm(options.quiet)
    program.measure(steps, options.warmup, options.rounds, record_steps=steps, calm=calm)
    rows = [program.row(name, paired=True) for name in loop.BASELINES + ["plan"]]
    loop.print_table(rows)
    print(f"{program.name}: {calm.disturbed} runs made again because more than "
          f"{100 * options.quiet:.0f} % of their time was stolen; {calm.given_up} never undisturbed")
    print(f"{program.name}: unexplained {100 * unexplained:.1f} % of the recorded step")
    if unexplained > 0.10:
        failures.append(f"{program.name}: unexplained {100 * unexplained:.1f} % > 10 %")
    print(f"{program.name}: errors over {options.rounds} rounds")
    errors.print_table(program.samples)
    misses = [f"{program.name} {line}" for line in errors.missed(program.samples, "none")]
    if options.tuned:
        failures += misses
    else:
        print("\n".join(f"not gated: {line}" for line in misses))
    for name in loop.BASELINES:
        ratio, low, high = interval(ratios(program, name))
        print(f"{program.name}: plan {ratio:.3f}x faster than {name} [{low:.3f}, {high:.3f}]")
        if high < 1:
            failures.append(f"{program.name}: the plan is slower than {name}")
        if options.gain and (program.name, name) == ("gpt", "ddp+fusion") and ratio < 1.15:
            failures.append(f"gpt: {ratio:.3f}x over ddp+fusion, expected 1.15x")
    if not program.same_states():
        failures.append(f"{program.name}: final states differ between configurations")
    return rows, failures


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one-host", action="store_true")
    parser.add_argument("--rate", default="1gbit")
    parser.add_argument("--programs", default="mlp,gpt")
    parser.add_argument("--seconds", type=float, default=5, help="length of a run")
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--time-limit", type=float, default=10)
    parser.add_argument("--quiet", type=float, default=0.01,
                        help="make a run again when a larger share of it was stolen")
    parser.add_argument("-o", "--output", help="write the rows here as JSON")
    options = parser.parse_args()
    if not options.one_host:
        emulate.reenter(sys.argv, options.rate)
    options.tuned = options.one_host or options.rate == "1gbit"
    options.gain = emulate.description() != "one host"
    print(f"2 ranks on {emulate.description()}, {options.rounds} rounds of {options.seconds:g} s runs")
    rows, failures, samples = [], [], {}
    with tempfile.TemporaryDirectory() as directory:
        for name in options.programs.split(","):
            program = loop.Program(name, 2, directory)
            found, missed = check(program, options)
            samples[name] = program.samples
            rows += found
            failures += missed
    if options.output:
        pathlib.Path(options.output).write_text(json.dumps({"rows": rows, "samples": samples}, indent=1) + "\n")
    print("\n".join(["missed:"] + failures) if failures else "all figures met")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except loop.LoopError as error:
        sys.exit(f"accept: {error}")
