#!/usr/bin/env python3
"""Whether `reprise verify` is right about runs whose steps sleep, so that what changed between two sides is known.

  verify_sleep_bench.py REPRISE [--pairs 20] [--runs 6] [--steps 40] [--unit 4.0] [--confidence 99.9%] [--seed 0]
                        [--loaded]

A run is a process whose steps are rows of units that sleep: --unit milliseconds each, times a log-normal draw of 3 %,
on one side longer or shorter by a known part. It times its steps by the monotonic clock, so wake-ups, other processes
and the pace of the machine are in them. A pair is --runs runs a side in turns, and one verdict; of each effect (none, 2
and 10 % slower, 2 and 10 % faster) --pairs pairs run, side by side as they need no core. Fails where a verdict is false,
where 10 % is not found, or 2 % is not found though the printed detectable change is at most that. With --loaded, where
other processes decide how long a sleep lasts, it fails only where a verdict is not what its own change says.
"""

import argparse
import collections
import concurrent.futures
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

UNITS = 3
EFFECTS = (0.0, 0.02, -0.02, 0.1, -0.1)


def sleep_through(steps, unit_s, seed):
    """Prints the time of each step, in milliseconds."""
    draw = random.Random(seed)
    times = []
    for _ in range(steps):
        begin = time.monotonic_ns()
        for _ in range(UNITS):
            time.sleep(unit_s * draw.lognormvariate(0, 0.03))
        times.append(time.monotonic_ns() - begin)
    print("".join(f"{each / 1e6} ms\n" for each in times))


def verdict(options, effect, number):
    """`verify`'s JSON on one pair."""
    with tempfile.TemporaryDirectory() as folder:
        sides = {"before": [], "after": []}
        for run in range(options.runs):
            for side, paths in sides.items():
                unit_s = options.unit / 1e3 * (1 + effect if side == "after" else 1)
                words = [sys.executable, __file__, "--sleep", str(options.steps), str(unit_s),
                         f"{options.seed}.{effect}.{number}.{run}.{side}"]
                paths.append(pathlib.Path(folder) / f"{side}{run}.txt")
                paths[-1].write_text(subprocess.run(words, check=True, capture_output=True, text=True).stdout)
        command = [options.reprise, "verify", "--before", *sides["before"], "--after", *sides["after"], "--alternating",
                   "--confidence", options.confidence, "--format", "json"]
        done = subprocess.run([str(word) for word in command], check=False, capture_output=True, text=True)
        if done.returncode not in (0, 1):
            sys.exit(done.stderr)
        return json.loads(done.stdout)


def faults_of(effect, found, loaded):
    """What is wrong with a verdict."""
    if found["verdict"] in ("slower", "faster") and (found["change"] > 0) != (found["verdict"] == "slower"):
        return f"a change of {found['change']:+.2%} is called {found['verdict']}"
    if loaded:
        return None
    right = "slower" if effect > 0 else "faster" if effect < 0 else "no difference"
    if found["verdict"] not in (right, "no difference"):
        return f"{effect:+.0%} is called {found['verdict']}"
    detectable = found["detectable_change"]
    if found["verdict"] != right and (abs(effect) >= 0.1 or detectable is not None and detectable <= abs(effect)):
        return f"{effect:+.0%} is not found, detectable {detectable}"
    return None


def main():
    if sys.argv[1:2] == ["--sleep"]:
        sleep_through(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
        return 0
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--unit", type=float, default=4.0)
    parser.add_argument("--confidence", default="99.9%")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--loaded", action="store_true")
    parser.add_argument("--jobs", type=int, default=8)
    options = parser.parse_args()
    faults = []
    print("effect  pairs  slower  faster  no difference  not comparable  median change  median detectable")
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for effect in EFFECTS:
            found = list(pool.map(lambda number, effect=effect: verdict(options, effect, number), range(options.pairs)))
            counts = collections.Counter(one["verdict"] for one in found)
            shown = [counts[word] for word in ("slower", "faster", "no difference", "not comparable")]
            detectable = [one["detectable_change"] for one in found if one["detectable_change"] is not None]
            print(f"{effect:+6.0%}  {len(found):5}  {shown[0]:6}  {shown[1]:6}  {shown[2]:13}  {shown[3]:14}  "
                  f"{statistics.median(one['change'] for one in found):+13.2%}  "
                  f"{format(statistics.median(detectable), '.2%') if detectable else 'none':>17}", flush=True)
            faults += [fault for fault in (faults_of(effect, one, options.loaded) for one in found) if fault]
    for fault in faults:
        print(f"wrong: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
