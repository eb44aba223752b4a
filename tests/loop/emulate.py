"""Two hosts with a shaped link each, in namespaces that nobody else sees.

The process re-executes itself inside new user, network and mount namespaces, so no root is needed
where user namespaces are allowed, nothing outside changes, and everything vanishes with it.
"""

import os
import pathlib
import shutil
import subprocess
import sys

NETNS = pathlib.Path(__file__).resolve().parent.parent / "netns"
_INSIDE = "REPRISE_EMULATED"
# `ip netns` keeps its names under /run: give it one of its own.
_ENTER = "mount -t tmpfs tmpfs /run && ip link set lo up"
_PROBE = ("ip netns add probe && ip link add d0 type veth peer name d1 && "
          "tc qdisc add dev d0 root tbf rate 1gbit burst 256kb latency 50ms")


def _unshare():
    flags = ["unshare", "--net", "--mount"]
    return flags if os.geteuid() == 0 else flags + ["--user", "--map-root-user"]


def why_not():
    """The reason why hosts cannot be emulated here, or None."""
    for tool in ("unshare", "ip", "tc"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    done = subprocess.run(_unshare() + ["sh", "-c", f"{_ENTER} && {_PROBE}"], capture_output=True,
                          text=True)
    return None if done.returncode == 0 else (done.stderr.strip().splitlines() or ["unknown"])[-1]


def reenter(argv, rate):
    """Re-executes argv on two emulated hosts; returns at once when already there or impossible."""
    if os.environ.get(_INSIDE):
        return
    reason = why_not()
    if reason:
        print(f"no emulated hosts ({reason}); using one host", file=sys.stderr)
        return
    os.environ[_INSIDE] = rate
    inner = [str(NETNS / "run.sh"), "-n", "2", "-r", rate, sys.executable, *argv]
    os.execvp("unshare", _unshare() + ["sh", "-c", f'{_ENTER} && exec "$@"', "sh", *inner])


def description():
    rate = os.environ.get(_INSIDE)
    return f"two emulated hosts at {rate}" if rate else "one host"
