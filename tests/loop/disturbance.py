"""How much others took of the machine while something was measured.

Time stolen from a virtual machine (/proc/stat, proc(5)) stretches some runs of a round and not
others, and so does a neighbour on the other thread of a core, whom no counter shows: fixed work,
timed on all cores at once before and after a run, tells. A run with much of either says nothing
about a plan.
"""

import os
import statistics
import time


def _stolen_seconds():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


def _work():
    total = 0
    for number in range(100_000):
        total += number * number % 7
    return total


def _time_of_work(core, repeats):
    os.sched_setaffinity(0, {core})
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        _work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def pace(repeats=25):
    """Seconds of fixed work on the slowest core while all cores do it."""
    pipes = []
    for core in sorted(os.sched_getaffinity(0)):
        reader, writer = os.pipe()
        if os.fork() == 0:
            os.write(writer, str(_time_of_work(core, repeats)).encode())
            os._exit(0)
        os.close(writer)
        pipes.append(reader)
    slowest = 0.0
    for reader in pipes:
        with os.fdopen(reader) as file:
            slowest = max(slowest, float(file.read()))
        os.wait()
    return slowest


class Calm:
    """Runs things again of which others disturbed too much; counts them.

    A run counts when less than `quiet` of its time was stolen and the pace of the machine, before
    it and after it, was at most `steady` below the best seen so far. `patience` is how often a run
    may be made again before it counts all the same. None asks for nothing.
    """

    def __init__(self, quiet=None, steady=None, patience=3):
        self.quiet, self.steady, self.patience = quiet, steady, patience
        self.disturbed, self.given_up = 0, 0
        self.best = pace() if steady is not None else 0.0

    def _is_steady(self):
        if self.steady is None:
            return True
        now = pace()
        self.best = min(self.best, now)
        return now <= self.best * (1 + self.steady)

    def run(self, action):
        """The result of the first undisturbed `action()`."""
        for _ in range(self.patience):
            calm = self._is_steady()
            started, stolen = time.monotonic(), _stolen_seconds()
            result = action()
            wall = time.monotonic() - started
            share = (_stolen_seconds() - stolen) / (wall * os.cpu_count())
            calm = self._is_steady() and calm and (self.quiet is None or share <= self.quiet)
            if calm:
                return result
            self.disturbed += 1
        self.given_up += 1
        return result
