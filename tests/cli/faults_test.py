#!/usr/bin/env python3
"""Runs that are stopped, killed or interrupted at any moment end soon, say who was lost, and leave nothing."""

import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

from command_case import (BIN, MPI, ROOT, CommandCase, descendants, end_all, has_recorded_steps, is_sanitized,
                          reprise, state_and_parent, wait_until)

PROGRAMS = ROOT / "data/programs"


class Faults(CommandCase):
    def setUp(self):
        super().setUp()
        self.temporary = self.path / "tmp"
        self.temporary.mkdir()

    def start(self, *arguments, **environment):
        run = subprocess.Popen([BIN / "reprise", *map(str, arguments)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               text=True, env=dict(os.environ, **MPI, TMPDIR=str(self.temporary), **environment))
        self.addCleanup(end_all, run)
        return run

    def start_training(self, *arguments, **environment):
        return self.start("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--steps", 1000000, "--timeout", 3, *arguments,
                          **environment)

    def ranks(self, run):
        """Process of each rank that has begun."""
        found = {}
        for pid in descendants(run.pid):
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for entry in environment:
                if words[0].endswith(b"reprise-train") and entry.startswith(b"OMPI_COMM_WORLD_RANK="):
                    found[int(entry.split(b"=")[1])] = pid
        return found

    def leaves_nothing(self, pids):
        self.assertTrue(wait_until(lambda: not any(state_and_parent(pid) for pid in pids), 10), pids)
        self.assertTrue(wait_until(lambda: not list(self.temporary.iterdir()), 5), list(self.temporary.iterdir()))

    def test_a_rank_that_stops_during_start_up(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = self.start_training()
                self.assertTrue(wait_until(lambda: rank in self.ranks(run), 20))
                pids = descendants(run.pid)
                os.kill(self.ranks(run)[rank], signal.SIGSTOP)
                start = time.monotonic()
                _, errors = run.communicate(timeout=60)
                self.assertLess(time.monotonic() - start, 12)
                self.assertEqual(run.returncode, 4, errors)
                self.assertIn(f"rank {rank}", errors)
                self.leaves_nothing(pids)

    def test_a_launcher_killed(self):
        for at in ("start", "steps"):
            with self.subTest(at=at):
                run = self.start_training("--trace", self.trace)
                begun = (lambda: len(self.ranks(run)) == 2) if at == "start" else \
                    (lambda: has_recorded_steps(self.temporary))
                self.assertTrue(wait_until(begun, 30))
                pids = descendants(run.pid)
                run.kill()
                run.communicate(timeout=30)
                self.leaves_nothing(pids)
                self.assertFalse(self.trace.exists())

    @unittest.skipIf(is_sanitized(), "nothing can be preloaded before a sanitizer")
    def test_a_disk_that_fills_is_said_by_its_rank_at_once(self):
        library = self.path / "faulty_writes.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ROOT / "tests/faulty_writes.c", "-ldl"], check=True)
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run = self.start_training("--trace", self.trace, LD_PRELOAD=str(library), FAULT_FULL="20",
                                          FAULT_PROCESS="reprise-train", FAULT_RANK=str(rank), FAULT_PATH=".shard",
                                          FAULT_FOLDER=str(self.temporary))
                _, errors = run.communicate(timeout=120)
                self.assertEqual(run.returncode, 3, errors)
                self.assertRegex(errors, f"reprise-train: rank {rank}: .*No space left on device")
                self.assertNotIn("was lost", errors)
                self.assertFalse(self.trace.exists())
                self.leaves_nothing([])

    def test_a_supervisor_started_by_hand_removes_nothing(self):
        for lifeline in ("0", "9", "x"):
            with self.subTest(lifeline=lifeline):
                done = subprocess.run([BIN / "reprise", "supervise-a-run", lifeline, self.temporary, self.path / "lost",
                                       "true"], stdin=subprocess.DEVNULL, check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertTrue(self.temporary.exists())

    def test_a_launcher_of_measuring_runs_killed(self):
        run = self.start("calibrate", PROGRAMS / "mlp.2.hlo", "--steps", 100000, "--costs", self.path / "costs.json")
        self.assertTrue(wait_until(lambda: len(self.ranks(run)) == 2, 30))
        pids = descendants(run.pid)
        run.kill()
        run.communicate(timeout=30)
        self.leaves_nothing(pids)

    def test_a_host_that_cannot_be_reached(self):
        agent = self.write("agent", "#!/bin/sh\nexit 255\n")
        agent.chmod(0o755)
        words = ("--host", "192.0.2.1:2", "--mca", "plm_rsh_agent", agent)
        done = reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", *(f"--mpi-arg={word}" for word in words))
        self.assertEqual(done.returncode, 4, done.stderr)

    def test_a_host_that_is_lost_for_good(self):
        # Open MPI's mpirun waits without end for the daemon there, whatever the ranks that live tell it.
        launcher = self.write("bin/mpirun.openmpi", """#!/bin/sh
while [ "$1" != --result ]; do shift; done
echo "rank 1 kept silent" >&2
: > "$2.lost"
sleep 1000
""")
        launcher.chmod(0o755)
        start = time.monotonic()
        done = reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", env={"PATH": f"{launcher.parent}:{os.environ['PATH']}",
                                                                      "TMPDIR": str(self.temporary)}, timeout=60)
        self.assertLess(time.monotonic() - start, 10)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_launcher_that_misses_the_end_of_its_ranks(self):
        # As Open MPI's mpirun where a rank is killed while it connects: all have ended, and it waits for itself.
        launcher = self.write("bin/mpirun.openmpi", """#!/usr/bin/env python3
import os, sys, time
for rank in range(2):
    if os.fork() == 0:
        if rank == 0:
            open(sys.argv[sys.argv.index("--result") + 1] + ".begun.0", "w").close()
        os._exit(9)
time.sleep(1000)
""")
        launcher.chmod(0o755)
        done = reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", env={"PATH": f"{launcher.parent}:{os.environ['PATH']}",
                                                                      "TMPDIR": str(self.temporary)}, timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("mpirun did not end though all that it started had, and was killed; rank 1 left no sign on this "
                      "host of having begun", done.stderr)
        self.assertEqual(list(self.temporary.iterdir()), [])

    def test_a_signal_while_optimize_measures(self):
        self.reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--steps", 6, "--warmup", 2, "--trace", self.trace)
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number=number):
                plan = self.path / f"plan.{number}.json"
                run = self.start("optimize", self.trace, "-o", plan)
                self.assertTrue(wait_until(lambda: len(self.ranks(run)) == 2, 30))
                pids = descendants(run.pid)
                run.send_signal(number)
                start = time.monotonic()
                _, errors = run.communicate(timeout=60)
                # A second, where the machine is not shared.
                self.assertLess(time.monotonic() - start, 20 if is_sanitized() else 2)
                self.assertEqual(run.returncode, 128 + number, errors)
                self.assertEqual(json.loads(plan.read_text())["schema"], "reprise.plan/1")
                self.leaves_nothing(pids)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
