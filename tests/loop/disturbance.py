"""How much others took of the machine while something was measured.

Time stolen from a virtual machine (/proc/stat, proc(5)) stretches some runs of a round and not
others: a run with much of it says nothing about a plan. A neighbour on the other thread of a core
is shown by no counter and comes and goes within a second; runs of some seconds average over it.
"""

import hashlib
import os
import statistics
import threading
import time


def _stolen_seconds():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


class Calm:
    """Runs things again of which others stole too much; counts them.

    A run counts when less than `quiet` of its time was stolen. `patience` is how often a run may be
    made again before it counts all the same. None asks for nothing.
    """

    def __init__(self, quiet=None, patience=3):
        self.quiet, self.patience = quiet, patience
        self.disturbed, self.given_up = 0, 0

    def run(self, action):
        """The result of the first undisturbed `action()`."""
        for _ in range(self.patience):
            started, stolen = time.monotonic(), _stolen_seconds()
            result = action()
            wall = time.monotonic() - started
            share = (_stolen_seconds() - stolen) / (wall * os.cpu_count())
            if self.quiet is None or share <= self.quiet:
                return result
            self.disturbed += 1
        self.given_up += 1
        return result


class Pace:
    """Times a fixed unit of work beside what a `with` block waits for.

    A thread hashes the same 256 KiB every 50 ms (0.2 ms of CPU time: 0.4 % of a core) and notes its CPU time, so that
    waiting for a core does not count, but the clock of the core and a neighbour on its other thread do. `median_ns` of
    two blocks compares their machines.
    """

    UNIT = bytes(1 << 18)
    PERIOD_S = 0.05

    def __enter__(self):
        self.times_ns, self._ended = [], threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()

    def _watch(self):
        while True:
            before = time.thread_time_ns()
            hashlib.sha256(self.UNIT).digest()
            self.times_ns.append(time.thread_time_ns() - before)
            if self._ended.wait(self.PERIOD_S):
                return

    @property
    def median_ns(self):
        return statistics.median(self.times_ns)
