#!/usr/bin/env python3
"""`reprise profile` of a job on two hosts. Run by tests/netns/run.sh, whose hosts have one file system and names of
their own: what the ranks leave in the shared directory is one trace, and so are the same shards copied together from
a directory a host."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ["REPRISE_BIN"]).resolve()
HOSTS = ["reprise-host0", "reprise-host1"]
MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", "2",
          *os.environ["REPRISE_MPI_ARGS"].split()]

# Marks steps through what the preloaded library exports.
SCRIPT = """
import ctypes, time
mark = ctypes.CDLL(None).reprise_mark_step
mark.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
for step in range(3):
    start = time.monotonic_ns()
    mark(step, 0, start, time.monotonic_ns())
"""


def reprise(*arguments):
    done = subprocess.run([BIN / "reprise", *map(str, arguments)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise AssertionError(f"reprise {arguments[0]} ended with {done.returncode}: {done.stderr}")
    return done


class Hosts(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        self.trace, self.shards = self.path / "t.trace", self.path / "shards"

    def tearDown(self):
        self.directory.cleanup()

    def ranks(self, trace):
        info = json.loads(reprise("info", trace, "--format", "json").stdout)
        return [(rank["rank"], rank["host"], rank["steps"], rank["events"]) for rank in info["ranks"]]

    def profile(self, *command):
        reprise("profile", "-o", self.trace, "--keep-shards", self.shards, "--", *MPIRUN, *command)
        ranks = self.ranks(self.trace)
        self.assertEqual([rank[:2] for rank in ranks], list(enumerate(HOSTS)))
        return ranks

    def gathered_from_a_directory_a_host(self, host_of):
        """Each shard in its host's directory, as where hosts share no storage, then all of them imported."""
        apart = self.path / "apart"
        for file in sorted(path for path in self.shards.rglob("*") if path.is_file()):
            copy = apart / host_of(file.name) / file.relative_to(self.shards)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(file, copy)
        self.assertTrue(all((apart / host).is_dir() for host in HOSTS))
        reprise("import", apart, "-o", self.path / "again.trace")
        return self.ranks(self.path / "again.trace")

    def test_processes(self):
        script = self.path / "script.py"
        script.write_text(SCRIPT)
        ranks = self.profile(sys.executable, script)
        self.assertEqual([rank[2] for rank in ranks], [3, 3])
        again = self.gathered_from_a_directory_a_host(
            lambda name: next((host for host in HOSTS if name.startswith(host + ".")), "launcher"))
        self.assertEqual(again, ranks)

    def test_the_trainer(self):
        ranks = self.profile(BIN / "reprise-train", ROOT / "data/programs/mlp.2.hlo", "--steps", "4", "--warmup", "1",
                             "--result", self.path / "result.json")
        self.assertEqual([rank[2] for rank in ranks], [3, 3])
        self.assertGreater(ranks[1][3]["collective"], 0)
        again = self.gathered_from_a_directory_a_host(
            lambda name: HOSTS[1] if name == "rank.1.shard" or name.startswith(HOSTS[1] + ".") else HOSTS[0])
        self.assertEqual(again, ranks)
        reprise("replay", self.path / "again.trace")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
