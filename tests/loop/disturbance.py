"""How much of the machine the hypervisor gave to others while something was measured.

Time stolen from a virtual machine (/proc/stat, proc(5)) stretches some runs of a round and not
others: a round with much of it says nothing about a plan.
"""

import os
import time


def _stolen_seconds():
    with open("/proc/stat") as file:
        return int(file.readline().split()[8]) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Starts when made."""

    def __init__(self):
        self.started, self.stolen = time.monotonic(), _stolen_seconds()

    def share(self):
        """The stolen part of all cores' time since the start, from 0 to 1."""
        wall = time.monotonic() - self.started
        return (_stolen_seconds() - self.stolen) / (wall * os.cpu_count())
