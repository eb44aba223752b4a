"""How much others took of the machine while something was measured.

Time stolen from a virtual machine (/proc/stat, proc(5)) stretches some runs of a round and not
others, and so does a neighbour on the other thread of a core, whom no counter shows: fixed work,
timed on all cores at once between the runs, tells. A round with much of either says nothing about
a plan.
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


class Watch:
    """Starts when made."""

    def __init__(self):
        self.started, self.stolen = time.monotonic(), _stolen_seconds()
        self.paces = []

    def share(self):
        """The stolen part of all cores' time since the start, from 0 to 1."""
        wall = time.monotonic() - self.started
        return (_stolen_seconds() - self.stolen) / (wall * os.cpu_count())

    def sample(self):
        """Times fixed work; takes a tenth of a second or two."""
        self.paces.append(pace())

    def unsteadiness(self):
        """How much slower than at its fastest the machine was at its slowest sample."""
        return max(self.paces) / min(self.paces) - 1 if self.paces else 0.0
