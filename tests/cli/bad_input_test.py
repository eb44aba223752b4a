#!/usr/bin/env python3
"""Bad input ends with a message that names file and place, the right exit code, and no half-written output."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from command_case import BIN, ROOT, CommandCase, end_all, has_recorded_steps, reprise, wait_until

PROGRAMS = ROOT / "data/programs"
MLP = (PROGRAMS / "mlp.2.hlo").read_text()
MANIFEST = json.loads((PROGRAMS / "mlp.2.json").read_text())


class BadInput(CommandCase):
    @classmethod
    def setUpClass(cls):
        cls.shared = tempfile.TemporaryDirectory()
        cls.recorded = pathlib.Path(cls.shared.name) / "mlp.trace"
        done = reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--steps", 4, "--warmup", 1,
                       "--trace", cls.recorded)
        assert done.returncode == 0, done.stderr

    @classmethod
    def tearDownClass(cls):
        cls.shared.cleanup()

    def program(self, text, name="bad"):
        """Writes a program with mlp's manifest beside it."""
        manifest = dict(MANIFEST, program=f"{name}.hlo")
        shutil.copy(PROGRAMS / "digits.bin", self.path)
        manifest.pop("reference", None)
        (self.path / f"{name}.json").write_text(json.dumps(manifest))
        (self.path / f"{name}.hlo").write_text(text)
        return self.path / f"{name}.hlo"

    def refused(self, done, *words, codes=(3,)):
        self.assertIn(done.returncode, codes, done.stderr + done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertNotIn("check failed", done.stderr)

    def test_truncated_hlo_names_file_and_line(self):
        path = self.program(MLP[: len(MLP) // 2])
        self.refused(reprise("hlo", path), "bad.hlo:")
        self.refused(reprise("train", "-n", 2, path), "bad.hlo:")

    def test_unknown_opcode_is_named(self):
        path = self.program(MLP.replace(" subtract(", " subtrakt(", 1))
        self.refused(reprise("hlo", path), "bad.hlo:", "subtrakt")

    def test_shape_mismatch_is_named(self):
        line = next(x for x in MLP.splitlines() if " dot(" in x)
        shape = line.split("= ")[1].split("[")[1].split("]")[0]
        path = self.program(MLP.replace(line, line.replace(f"[{shape}]", "[3,5]", 1)))
        self.refused(reprise("hlo", path), "bad.hlo:", "dot")

    def test_overflowing_shape_is_refused(self):
        path = self.program("HloModule m\n\nENTRY e {\n  ROOT p = f32[4294967296,4294967296,16] parameter(0)\n}\n")
        self.refused(reprise("hlo", path), "bad.hlo:4")

    def test_unsupported_custom_call_is_refused_before_the_first_step(self):
        line = next(x for x in MLP.splitlines() if " exponential(" in x)
        name, rest = line.strip().split(" = ")
        shape, operands = rest.split(" exponential")
        path = self.program(MLP.replace(line, f'  {name} = {shape} custom-call{operands.split("),")[0].rstrip(")")}), custom_call_target="Mystery"'))
        done = reprise("train", "-n", 2, path, "--trace", self.path / "t.trace")
        self.refused(done, name.lstrip("%"), "Mystery")
        self.assertFalse((self.path / "t.trace").exists())

    def test_matrices_whose_results_lie_in_other_batches_are_refused(self):
        for shape, code in (("2,3,4", 0), ("1,6,4", 3), ("2,4,3", 3)):
            path = self.program(f"""HloModule m
ENTRY e {{
  a = f32[2,3,4] parameter(0)
  c = (f32[{shape}], f32[2,3]) custom-call(a), custom_call_target="lapack_sgeqrf_ffi"
  q = f32[{shape}] get-tuple-element(c), index=0
  ROOT t = (f32[{shape}]) tuple(q)
}}
""")
            path.with_suffix(".json").write_text(reprise("hlo", path, "--manifest").stdout)
            done = reprise("train", "-n", 1, path, "--steps", 3, "--made-up-data")
            self.assertEqual(done.returncode, code, done.stderr)
            self.assertEqual("do not fit together" in done.stderr, code != 0, done.stderr)

    def test_plan_of_another_program_is_refused(self):
        other = self.path / "plan.json"
        plan = {"schema": "reprise.plan/1", "program_fingerprint": "sha256:" + "0" * 64,
                "device": "cpu", "ranks": 2, "fusion": [], "buckets": [], "order": []}
        other.write_text(json.dumps(plan))
        done = reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--plan", other)
        self.refused(done, "plan.json", "fingerprint")
        self.refused(reprise("replay", self.recorded, "--plan", other), "plan.json", "fingerprint")

    def ordered_plan(self):
        path = self.path / "ddp.json"
        done = reprise("optimize", self.recorded, "--baseline", "ddp", "-o", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(path.read_text())

    def test_cyclic_order_is_refused(self):
        plan = self.ordered_plan()
        plan["order"].reverse()
        (self.path / "cyclic.json").write_text(json.dumps(plan))
        self.refused(reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--plan", self.path / "cyclic.json"),
                     "cyclic.json", "order")

    def test_group_across_a_collective_is_refused(self):
        plan = self.ordered_plan()
        reduced = next(x for x in MLP.splitlines() if " all-reduce(" in x)
        name = reduced.strip().split(" = ")[0]
        producer = reduced.split("all-reduce(")[1].split(")")[0]
        consumer = next(x for x in MLP.splitlines() if f"({name}," in x or f"({name})" in x or f", {name})" in x)
        plan["fusion"] = [{"unit": "f0", "ops": [producer, consumer.strip().split(" = ")[0]]}]
        plan["buckets"], plan["order"] = [], []
        (self.path / "group.json").write_text(json.dumps(plan))
        self.refused(reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--plan", self.path / "group.json"),
                     "group.json", "f0")

    def test_trace_cut_in_half_is_refused(self):
        half = self.path / "half.trace"
        content = self.recorded.read_bytes()
        half.write_bytes(content[: len(content) // 2])
        for verb in ("info", "replay"):
            self.refused(reprise(verb, half), "half.trace")
        self.refused(reprise("optimize", half, "-o", self.path / "p.json"), "half.trace")
        self.assertFalse((self.path / "p.json").exists())

    def test_not_a_trace_is_refused(self):
        self.refused(reprise("info", PROGRAMS / "mlp.2.hlo"), "mlp.2.hlo")
        self.refused(reprise("info", self.path / "absent.trace"), "absent.trace")

    def test_usage_errors_exit_2(self):
        self.refused(reprise("repaly"), "replay", codes=(2,))
        self.refused(reprise("train", "-n", "many", PROGRAMS / "mlp.2.hlo"), "--help", codes=(2,))
        endless = reprise("train", "-n", "-1", PROGRAMS / "mlp.2.hlo")
        self.refused(endless, "-1", "--ranks", codes=(2,))
        self.assertLess(len(endless.stderr), 120)

    def test_an_absent_dataset_is_named_before_ranks_start(self):
        path = self.program(MLP)
        manifest = json.loads((self.path / "bad.json").read_text())
        manifest["dataset"]["file"] = "FILL_IN"
        (self.path / "bad.json").write_text(json.dumps(manifest))
        for command in (["train", "-n", 2, path], ["calibrate", path, "--costs", self.path / "costs.json"]):
            done = reprise(*command)
            self.refused(done, "the dataset of", "bad.json", "FILL_IN")
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_existing_output_needs_force(self):
        before = self.recorded.read_bytes()
        self.refused(reprise("train", "-n", 2, PROGRAMS / "mlp.2.hlo", "--trace", self.recorded), "--force")
        self.assertEqual(before, self.recorded.read_bytes())

    @unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
    def test_full_disk_leaves_nothing_half_written(self):
        full = self.path / "full"
        full.mkdir()
        out = full / "out"
        for command in (["export", self.recorded, "--as", "chrome", "-o", out],
                        ["export", self.recorded, "--as", "csv", "-o", out],
                        ["replay", self.recorded, "--chrome", out],
                        ["import", ROOT / "data/samples/kineto", "-o", out],
                        ["hlo", PROGRAMS / "gpt.2.hlo", "--manifest", "-o", out],
                        ["train", PROGRAMS / "mlp.1.hlo", "--steps", "3", "--warmup", "1", "--trace", out]):
            with self.subTest(command[0]):
                script = f'mount -t tmpfs -o size=4k tmpfs {full} && "$@" >/dev/null; code=$?; ls -A {full}; exit $code'
                done = subprocess.run(["unshare", "--mount", "sh", "-c", script, "sh", BIN / "reprise", *command],
                                      capture_output=True, text=True)
                if "unshare:" in done.stderr:  # In a chroot, for one.
                    self.skipTest(done.stderr.strip())
                self.refused(done, f"{out}: cannot write")
                self.assertRegex(done.stderr, "No space left|disk is full")
                self.assertEqual(done.stdout.strip(), "")

    def trainer_pids(self, rank):
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            mine = any(str(self.path).encode() in word for word in command)
            if command[0].endswith(b"reprise-train") and mine and \
                    f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment:
                found.append(int(entry.name))
        return found

    def strike(self, rank, number):
        """Starts a long run, sends a signal to a rank; the run must end in seconds and name it, leaving no trace."""
        path = self.program(MLP)
        temporary = pathlib.Path(tempfile.mkdtemp(dir=self.path))
        run = subprocess.Popen([BIN / "reprise", "train", "-n", "2", path, "--steps", "100000",
                                "--timeout", "3", "--trace", self.path / "t.trace"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=dict(os.environ, TMPDIR=str(temporary)))
        self.addCleanup(end_all, run)
        # Before their steps, ranks wait for a stopped one as for one that still compiles.
        self.assertTrue(wait_until(lambda: run.poll() is not None or has_recorded_steps(temporary)))
        pids = self.trainer_pids(rank)
        self.assertTrue(pids)
        os.kill(pids[0], number)
        started = time.monotonic()
        _, errors = run.communicate(timeout=60)
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self.assertNotEqual(run.returncode, 0)
        self.assertLess(time.monotonic() - started, 20)
        self.assertIn(f"rank {rank}", errors)
        self.assertFalse((self.path / "t.trace").exists())

    def test_a_killed_rank_ends_the_run_and_is_named(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.strike(rank, signal.SIGKILL)

    def test_a_stopped_rank_ends_the_run_and_is_named(self):
        for rank in (0, 1):
            with self.subTest(rank=rank):
                self.strike(rank, signal.SIGSTOP)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
