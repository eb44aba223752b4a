#!/usr/bin/env python3
"""How far the replay of a recorded run is off that run, and what a plan is predicted to take off what it takes.

  recorded_replay_bench.py REPRISE_BIN PROGRAM… [--ranks 2] [--steps 60] [--plan]

REPRISE_BIN is the folder of reprise and reprise-train, each PROGRAM an HLO file with its manifest beside it, as
reprise.jax.export writes one for that many ranks. Each runs once, recorded; its replay's step time stands beside the
median of the measured steps and their middle half. With --plan, `optimize --no-measure` makes a plan from the
recording, which then runs four times in turns with none: the prediction stands beside all of these.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binaries", type=pathlib.Path)
    parser.add_argument("programs", nargs="+", type=pathlib.Path)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--plan", action="store_true")
    options = parser.parse_args()

    def reprise(*words):
        done = subprocess.run([options.binaries / "reprise", *map(str, words), "--format", "json"], check=True,
                              capture_output=True, text=True)
        return json.loads(done.stdout)

    def steps_ms(program, *words):
        told = reprise("train", "-n", options.ranks, program, "--steps", options.steps, "--warmup", 10, *words)
        return sorted(each / 1e6 for each in told["step_time_ns"]["all"])

    errors = []
    with tempfile.TemporaryDirectory() as folder:
        for program in options.programs:
            trace, plan = f"{folder}/run.trace", f"{folder}/plan.json"
            steps = steps_ms(program, "--trace", trace, "--force")
            measured, quarter = statistics.median(steps), len(steps) // 4
            predicted = reprise("replay", trace)["step_time_ns"]["predicted"] / 1e6
            errors.append(abs(predicted / measured - 1))
            print(f"{program}: measured {measured:.2f} ms ({steps[quarter]:.2f} to {steps[-1 - quarter]:.2f}), replayed "
                  f"{predicted:.2f} ms ({100 * (predicted / measured - 1):+.1f} %)", flush=True)
            if not options.plan:
                continue
            reprise("optimize", trace, "-o", plan, "--force", "--no-measure")
            planned = json.loads(pathlib.Path(plan).read_text())["predicted"]["step_time_ns"] / 1e6
            runs = [(statistics.median(steps_ms(program)), statistics.median(steps_ms(program, "--plan", plan)))
                    for _ in range(4)]
            none, under = ([run[place] for run in runs] for place in (0, 1))
            print(f"  plan predicted {planned:.2f} ms ({100 * (planned / statistics.median(under) - 1):+.0f} %), measured "
                  f"{' '.join(f'{each:.2f}' for each in under)}, none {' '.join(f'{each:.2f}' for each in none)}",
                  flush=True)
    print(f"replayed beside measured: {100 * statistics.mean(errors):.1f} % off in the mean, {100 * max(errors):.1f} % "
          f"at worst")


if __name__ == "__main__":
    main()
