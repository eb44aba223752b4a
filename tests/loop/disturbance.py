"""How much others took of the machine while something was measured.

Time stolen from a virtual machine (/proc/stat, proc(5)) stretches some runs of a round and not
others: a run with much of it says nothing about a plan. A neighbour on the other thread of a core
is shown by no counter and comes and goes within a second; runs of some seconds average over it.
"""

import os
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
