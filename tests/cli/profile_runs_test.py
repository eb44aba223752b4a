#!/usr/bin/env python3
"""`reprise profile` of commands that train several times, each training a trace, or that bring an old NCCL."""

import json
import pathlib
import sys
import tempfile
import unittest

from command_case import BIN, ROOT, CommandCase, reprise

PROGRAM = ROOT / "data/programs/mlp.{}.hlo"


def training(ranks, steps):
    return f"{BIN}/reprise train {str(PROGRAM).format(ranks)} -n {ranks} --steps {steps} --warmup 1"


class Runs(CommandCase):
    def profile(self, *trainings, flags=()):
        return reprise("profile", "-o", self.trace, *flags, "--", "sh", "-c", " && ".join(trainings), timeout=240)

    def ranks(self, trace):
        """The steps of each rank, and that the trace is a whole training."""
        done = reprise("info", trace, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        info = json.loads(done.stdout)
        self.assertTrue(info["planned"])
        done = reprise("replay", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [rank["steps"] for rank in info["ranks"]]

    def left_behind(self):
        return sorted(entry.name for entry in self.path.iterdir())

    def test_two_trainings_are_two_traces(self):
        done = self.profile(training(2, 4), training(1, 6), flags=["--keep-shards", self.path / "shards"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ranks(self.trace), [3, 3])
        self.assertEqual(self.ranks(self.path / "out.2.trace"), [5])
        self.assertIn(f"training 2 of 2: its trace is {self.path}/out.2.trace", done.stderr)
        self.assertIn(f"wrote {self.trace} (rank 0-1, ", done.stderr)
        done = reprise("import", self.path / "shards", "-o", self.path / "again.trace")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ranks(self.path / "again.trace"), [3, 3])
        self.assertEqual(self.ranks(self.path / "again.2.trace"), [5])
        self.assertIn("again.2.trace", done.stderr)

    def test_the_same_training_twice_is_two_traces(self):
        done = self.profile(training(1, 3), training(1, 3))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.left_behind(), ["out.2.trace", "out.trace"])
        self.assertEqual(self.ranks(self.trace), [2])
        self.assertEqual(self.ranks(self.path / "out.2.trace"), [2])

    def test_another_s_trace_is_not_replaced(self):
        (self.path / "out.2.trace").write_text("mine")
        done = self.profile(training(1, 3), training(1, 3))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("trained 2 times", done.stderr)
        self.assertIn("out.2.trace is there already", done.stderr)
        self.assertEqual((self.path / "out.2.trace").read_text(), "mine")
        shards, = [entry for entry in self.path.iterdir() if entry.is_dir()]
        done = reprise("import", shards, "-o", self.trace, "--force")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.ranks(self.path / "out.2.trace"), [2])


class OldNccl(unittest.TestCase):
    """What an NCCL before 2.27 does not ask the plugin for, the interposer records."""

    def preloaded(self, wheel):
        with tempfile.TemporaryDirectory() as directory:
            path = pathlib.Path(directory)
            (path / "lib/python3.11/site-packages" / f"{wheel}.dist-info").mkdir(parents=True)
            tool = path / "bin/tool"
            tool.parent.mkdir()
            tool.write_text('#!/bin/sh\necho "$LD_PRELOAD"\n')
            tool.chmod(0o755)
            done = reprise("profile", "-o", path / "out.trace", "--", tool)
            self.assertEqual(done.returncode, 0, done.stderr)
            return "libreprise-nccl-preload.so" in done.stdout, "is older than 2.27" in done.stderr

    def test_it_is_interposed_without_being_asked_for(self):
        self.assertEqual(self.preloaded("nvidia_nccl_cu12-2.26.2"), (True, True))
        self.assertEqual(self.preloaded("nvidia_nccl_cu12-2.27.3"), (False, False))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
