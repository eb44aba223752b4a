"""Checks what recording one event costs: instructions by callgrind, and time.

Usage: recorder_cost_test.py RECORDER_BENCH. Exits 77 (skipped) without valgrind.

Callgrind counts the recorder and the C library's clock_gettime, but not the
kernel's vDSO clock, which valgrind hides; so the time of the fastest of 200
batches, clock included, is checked too.
"""

import re
import shutil
import subprocess
import sys

MAXIMUM_INSTRUCTIONS = 150
MAXIMUM_NANOSECONDS = 100
EVENTS = 100_000


def instructions(bench, events):
    """Returns the instructions of a run that records `events` events."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", bench,
         "--events", str(events)],
        capture_output=True, text=True, check=True)
    return int(re.search(r"Collected\s*:\s*(\d+)", run.stderr).group(1))


def main():
    bench = sys.argv[1]
    fastest = float(
        subprocess.run([bench, "--fastest"], capture_output=True, text=True,
                       check=True).stdout)
    print(f"fastest batch: {fastest} ns an event (limit {MAXIMUM_NANOSECONDS})")
    if fastest > MAXIMUM_NANOSECONDS:
        sys.exit("recording is too slow")
    if shutil.which("valgrind") is None:
        print("valgrind is not installed: instructions not counted")
        sys.exit(77)
    # The difference of two runs leaves out start-up; both include the flushes.
    more, less = (instructions(bench, n * EVENTS) for n in (2, 1))
    each = (more - less) / EVENTS
    print(f"callgrind: {each:.1f} instructions an event, flush included "
          f"(limit {MAXIMUM_INSTRUCTIONS})")
    if each > MAXIMUM_INSTRUCTIONS:
        sys.exit("recording takes too many instructions")


if __name__ == "__main__":
    main()
