"""What the tests of the command line share: the program under test, what it is doing, a folder of each test's own."""

import os
import pathlib
import signal
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()
# Open MPI starts ranks as root, as in a container, only when told so twice.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def is_sanitized():
    """Whether the program is slowed down, and its memory reserved, by a sanitizer."""
    content = (BIN / "reprise").read_bytes()
    return b"__asan_init" in content or b"__tsan_init" in content


def reprise(*arguments, **options):
    """`env` is added to this process's own."""
    options.setdefault("timeout", 240)
    environment = dict(os.environ, **MPI, **options.pop("env", {}))
    return subprocess.run([BIN / "reprise", *map(str, arguments)], capture_output=True, text=True, env=environment,
                          **options)


def wait_until(condition, seconds=100):
    """Whether it came true in time."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


def state_and_parent(pid):
    """Of a process; None when it has ended."""
    try:
        state, parent = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[:2]
    except OSError:
        return None
    return None if state == "Z" else (state, int(parent))


def descendants(pid):
    """Every process below `pid` that still runs."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        found = state_and_parent(entry.name) if entry.name.isdigit() else None
        if found:
            parents[int(entry.name)] = found[1]
    below = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in below} - below
        if not more:
            return below - {pid}
        below |= more


def end_all(run):
    """Ends a run that a failed test has left, and its ranks, which would train for hours."""
    if run.poll() is not None:
        return
    for pid in descendants(run.pid) | {run.pid}:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    run.wait()


def catches(run, number):
    """Whether the process has a handler of the signal."""
    status = pathlib.Path(f"/proc/{run.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


def has_recorded_steps(temporary, ranks=2):
    """Whether all ranks of a `reprise train --trace` with this TMPDIR are in their steps, recorded as they go."""
    try:
        sizes = [shard.stat().st_size for shard in temporary.glob("reprise.*/rank.*.shard")]
    except OSError:  # The run is ending.
        return False
    return len(sizes) == ranks and min(sizes) > 2048  # The header is shorter, a step is longer.


class CommandCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.trace = self.path / "out.trace"

    def write(self, name, content):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def reprise(self, *arguments, status=0):
        done = reprise(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done
