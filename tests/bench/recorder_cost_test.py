"""Checks what recording one event costs: instructions by callgrind, and time.

Usage: recorder_cost_test.py RECORDER_BENCH. Exits 77 (skipped) without valgrind.

Callgrind counts the recorder and the C library's clock_gettime, but not the
kernel's vDSO clock, which valgrind hides; so the time of the fastest of 200
batches, clock included, is checked too: of several tries, since a core may be
slow for a second. Where two readings of the clock alone take half of the limit,
it is twice those.
"""

import re
import shutil
import subprocess
import sys
import time

MAXIMUM_INSTRUCTIONS = 150
MAXIMUM_NANOSECONDS = 100
EVENTS = 100_000
TRIES = 20


def instructions(bench, events):
    """Returns the instructions of a run that records `events` events."""
    run = subprocess.run(
        ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", bench,
         "--events", str(events)],
        capture_output=True, text=True, check=True)
    return int(re.search(r"Collected\s*:\s*(\d+)", run.stderr).group(1))


def fastest_batch(bench):
    """Nanoseconds an event, of the first try within the limit or of the best, and the limit."""
    def nanoseconds(what):
        return float(subprocess.run([bench, what], capture_output=True, text=True, check=True).stdout)

    fastest = clock = float("inf")
    for number in range(TRIES):
        if number > 0:
            time.sleep(1)
        fastest = min(fastest, nanoseconds("--fastest"))
        clock = min(clock, nanoseconds("--clock"))
        limit = max(MAXIMUM_NANOSECONDS, 2 * clock)
        if fastest <= limit:
            break
    return fastest, limit


def main():
    bench = sys.argv[1]
    fastest, limit = fastest_batch(bench)
    print(f"fastest batch: {fastest} ns an event (limit {limit})")
    if fastest > limit:
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
