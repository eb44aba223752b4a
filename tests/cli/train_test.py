#!/usr/bin/env python3
"""`reprise train` with programs, places and machines that are not as usual, and when it is interrupted."""

import fcntl
import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import termios
import time
import unittest

from command_case import (BIN, MPI, ROOT, CommandCase, descendants, end_all, has_recorded_steps, reprise,
                          state_and_parent, wait_until)

PROGRAMS = ROOT / "data/programs"


def lives(pid):
    return state_and_parent(pid) is not None


class Train(CommandCase):
    def setUp(self):
        super().setUp()
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()

    def program(self, change, name="changed"):
        """The MLP of one rank with another manifest."""
        manifest = json.loads((PROGRAMS / "mlp.1.json").read_text())
        shutil.copy(PROGRAMS / "digits.bin", self.path)
        manifest["program"] = f"{name}.hlo"
        change(manifest)
        self.write(f"{name}.json", json.dumps(manifest))
        return self.write(f"{name}.hlo", (PROGRAMS / "mlp.1.hlo").read_text())

    def train(self, *arguments, **environment):
        return reprise("train", *arguments, env={"TMPDIR": str(self.temporary), **environment})

    def test_a_program_without_a_loss_has_none_in_its_result(self):
        path = self.program(lambda m: m["outputs"].pop(8))
        done = self.train(path, "--steps", 3, "--warmup", 1)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("loss", done.stdout)
        done = self.train(path, "--steps", 3, "--warmup", 1, "--format", "json")
        self.assertEqual(json.loads(done.stdout)["loss"], [])

    def test_a_training_that_diverges_is_shown_as_such(self):
        def diverge(manifest):
            for parameter in manifest["parameters"]:
                if parameter.get("init", {}).get("kind") == "uniform":
                    parameter["init"]["scale"] = 1e38
        path = self.program(diverge)
        done = self.train(path, "--steps", 3, "--warmup", 1)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, "step 1 of this run: the loss is not finite; the first .*; --allow-nan trains on")
        done = self.train(path, "--steps", 3, "--warmup", 1, "--allow-nan")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("nan", done.stdout)
        done = self.train(path, "--steps", 3, "--warmup", 1, "--allow-nan", "--format", "json")
        self.assertIsNone(json.loads(done.stdout)["loss"][-1])

    def test_a_trace_that_cannot_be_written_is_refused_before_training(self):
        for place in (self.path / "absent/run.trace", self.path):
            started = time.monotonic()
            done = self.train(PROGRAMS / "mlp.1.hlo", "--steps", 1000000, "--trace", place)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{place}: cannot write: ", done.stderr)
            self.assertLess(time.monotonic() - started, 60)  # Not the million steps.

    def test_a_launcher_that_fails_is_a_lack_of_the_environment(self):
        # 1 would mean that the run answered no.
        done = self.train("-n", 2, PROGRAMS / "mlp.2.hlo", "--mpi-arg=--no-such-flag", "--trace", self.trace)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertFalse(self.trace.exists())

    def test_one_rank_needs_no_launcher(self):
        words = [BIN / "reprise", "train", PROGRAMS / "mlp.1.hlo", "--steps", "2", "--warmup", "1"]
        # No mpirun on the PATH, and no compiler, so that kernels are interpreted.
        bare = {k: v for k, v in os.environ.items() if not k.startswith("REPRISE_MPI")} | {"PATH": str(self.path)}
        done = subprocess.run(words, capture_output=True, text=True, env=bare)
        self.assertEqual(done.returncode, 0, done.stderr)
        two = subprocess.run([*words[:2], "-n", "2", PROGRAMS / "mlp.2.hlo"], capture_output=True, text=True, env=bare)
        self.assertEqual(two.returncode, 4, two.stderr)
        self.assertIn("mpirun, which starts several ranks, is not installed", two.stderr)

    def test_a_rank_alone_that_is_killed_is_told(self):
        path = self.program(lambda m: None)
        run = subprocess.Popen([BIN / "reprise", "train", path, "--steps", "1000000000"], stderr=subprocess.PIPE,
                               stdout=subprocess.DEVNULL, text=True, env=dict(os.environ))
        rank = None
        while rank is None and run.poll() is None:
            # Not the process above it, among whose arguments the same words are.
            said = subprocess.run(["pgrep", "-f", f"^[^ ]*reprise-train {path} "], capture_output=True, text=True).stdout
            rank = int(said.split()[0]) if said.split() else None
        os.kill(rank, signal.SIGKILL)
        _, said = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 137, said)
        self.assertIn("signal 9 ended rank 0", said)

    def test_without_a_compiler_it_says_so_first_and_interprets(self):
        tools = self.path / "bin"
        tools.mkdir()
        (tools / "ssh").symlink_to("/bin/true")  # mpirun wants one, though all ranks are here.
        (tools / "mpirun.openmpi").symlink_to(shutil.which("mpirun.openmpi") or shutil.which("mpirun"))
        path = self.program(lambda m: None)
        with open(self.path / "stderr", "w+", encoding="utf-8") as errors:
            run = subprocess.Popen([BIN / "reprise", "train", path, "--steps", "100000"], stderr=errors,
                                   stdout=subprocess.DEVNULL, env=dict(os.environ, **MPI, PATH=str(tools)))
            said = ""
            for _ in range(600):
                time.sleep(0.1)
                said = (self.path / "stderr").read_text()
                if "install g++" in said or run.poll() is not None:
                    break
            run.send_signal(signal.SIGTERM)
            run.wait(60)
        self.assertIn("kernels are interpreted, many times slower: cannot run the compiler g++", said)

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_a_full_place_for_temporary_files_is_told(self):
        script = (f"mount -t tmpfs -o size=1m tmpfs {self.temporary} && "
                  f"{BIN}/reprise train -n 2 {PROGRAMS}/mlp.2.hlo; code=$?; ls -A {self.temporary}; exit $code")
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], capture_output=True, text=True,
                              env=dict(os.environ, **MPI, TMPDIR=str(self.temporary)))
        if "unshare:" in done.stderr:  # In a chroot, for one.
            self.skipTest(done.stderr.strip())
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("set TMPDIR", done.stderr)
        self.assertEqual(done.stdout.strip(), "")

    def start(self, **options):
        """A run of two ranks that would take hours."""
        run = subprocess.Popen([BIN / "reprise", "train", "-n", "2", PROGRAMS / "mlp.2.hlo", "--steps", "1000000",
                                "--trace", self.trace], env=dict(os.environ, **MPI, TMPDIR=str(self.temporary)),
                               stdout=subprocess.DEVNULL, start_new_session=True, **options)
        self.addCleanup(end_all, run)
        return run

    def reaches_its_steps(self):
        self.assertTrue(wait_until(lambda: has_recorded_steps(self.temporary)))

    def leaves_nothing(self, run, strike, number):
        below = descendants(run.pid)
        self.assertNotEqual(below, set())
        strike()
        self.assertEqual(run.wait(60), 128 + number)
        end = time.monotonic() + 20  # What mpirun has killed may still be on its way out.
        while any(map(lives, below)) and time.monotonic() < end:
            time.sleep(0.05)
        self.assertEqual([pid for pid in below if lives(pid)], [])
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertEqual([name for name in os.listdir(self.path) if name != "tmp"], [])

    def test_control_c_leaves_nothing(self):
        for stage in ("before the ranks meet", "in their steps"):
            with self.subTest(stage):
                try:
                    ours, theirs = pty.openpty()
                except OSError as error:  # In a chroot without /dev/pts, for one.
                    self.skipTest(f"no terminal to type Ctrl-C on: {error}")
                run = self.start(stderr=subprocess.DEVNULL, stdin=theirs,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
                if stage == "in their steps":
                    self.reaches_its_steps()
                else:  # Its own start, in which a signal ends it at once, is over: mpirun is there.
                    self.assertTrue(wait_until(lambda: descendants(run.pid)))
                    time.sleep(0.3)
                self.leaves_nothing(run, lambda: os.write(ours, b"\x03"), signal.SIGINT)
                os.close(ours)
                os.close(theirs)

    def test_a_terminated_run_leaves_nothing(self):
        run = self.start(stderr=subprocess.DEVNULL)
        self.reaches_its_steps()
        self.leaves_nothing(run, run.terminate, signal.SIGTERM)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
