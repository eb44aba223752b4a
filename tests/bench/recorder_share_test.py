"""Checks what recording costs of a step: events of a step times the cost of one, for each program.

Usage: recorder_share_test.py RECORDER_BENCH REPRISE PROGRAM.hlo...

One rank, which has the fewest nanoseconds a step for its events: no step is shorter. The cost of an event is that of the
fastest of many batches, as recorder_cost_test.py checks it.
"""

import csv
import io
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

MAXIMUM_SHARE = 0.01
STEPS, WARMUP = 6, 2


def output_of(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def events_and_step(reprise, program, trace):
    """The most events of a timed step, and the median step in nanoseconds."""
    result = json.loads(output_of(reprise, "train", "-n", "1", program, "--steps", str(STEPS), "--warmup", str(WARMUP),
                                  "--trace", trace, "--format", "json"))
    rows = csv.DictReader(io.StringIO(output_of(reprise, "export", trace, "--as", "csv", "-o", "-")))
    steps = [int(row["step"]) for row in rows]
    counts = [steps.count(step) for step in range(WARMUP, STEPS)]
    return max(counts), statistics.median(result["step_time_ns"]["all"])


def main():
    bench, reprise, *programs = sys.argv[1:]
    event_ns = float(output_of(bench, "--fastest"))
    for program in programs:
        with tempfile.TemporaryDirectory() as folder:
            events, step_ns = events_and_step(reprise, program, f"{folder}/run.trace")
        share = events * event_ns / step_ns
        print(f"{pathlib.Path(program).stem}: {events} events of {event_ns:.1f} ns in a step of {step_ns / 1e6:.1f} ms: "
              f"{100 * share:.3f} % (limit {100 * MAXIMUM_SHARE:.0f} %)")
        assert events > 0
        if share > MAXIMUM_SHARE:
            sys.exit("recording takes too much of the step")


if __name__ == "__main__":
    main()
