#!/usr/bin/env python3
"""Programs as JAX gives them: every dialect of one step trains alike, dump folders name their step, and what does not
run is refused at once, with the file that does."""

import json
import shutil
import sys
import unittest

from command_case import ROOT, CommandCase, reprise

DIALECTS = ROOT / "tests/data/hlo/dialects"
RUNNING = ["manual_lowered.0.5.3", "manual_lowered.0.10.2", "manual_partitioned.0.5.3", "manual_partitioned.0.10.2",
           "manual_compiled.0.5.3", "manual_compiled.0.10.2", "automatic_compiled.0.5.3", "automatic_compiled.0.10.2"]

CALL = 'custom_call_target="xla_ffi_python_cpu_callback"'
REFUSED = f"""HloModule refused

ENTRY main {{
  x = f32[4,4] parameter(0), metadata={{op_name="x"}}
  c = f32[4,4] custom-call(x), {CALL}, metadata={{op_name="jit(step)/call" source_file="/a/step.py" source_line=12}}
  d = f32[4,4] custom-call(c), {CALL}
  zero = f32[] constant(0)
  one = f32[] constant(1)
  i = f32[4,4] rng(zero, one), distribution=rng_uniform, metadata={{source_file="/a/noise.py" source_line=3}}
  sum = f32[4,4] add(d, i)
  ROOT out = (f32[4,4]) tuple(sum)
}}
"""


class Dialects(CommandCase):
    def manifest(self, program, status=0):
        done = reprise("hlo", program, "--manifest")
        self.assertEqual(done.returncode, status, done.stderr)
        return json.loads(done.stdout), done.stderr

    def test_every_dialect_of_a_step_trains_alike(self):
        manifest, _ = self.manifest(DIALECTS / "manual_partitioned.0.10.2.hlo")
        self.assertEqual(manifest["ranks"], 2)
        inits = {p["name"]: p["init"]["kind"] for p in manifest["parameters"] if p["role"] == "state"}
        self.assertEqual(inits["state['opt']['nu']['w']"], "zeros")
        self.assertEqual(inits["state['opt']['count']"], "zeros")
        self.assertEqual(inits["state['params']['w']"], "uniform")
        self.assertEqual([o["role"] for o in manifest["outputs"]], ["state"] * 10 + ["loss"])
        losses = {}
        for name in RUNNING:
            own, _ = self.manifest(DIALECTS / f"{name}.hlo")
            self.assertEqual(own["ranks"], 2, name)
            self.assertEqual(own["outputs"], manifest["outputs"], name)
            program = self.path / f"{name}.hlo"
            shutil.copy(DIALECTS / program.name, program)
            program.with_suffix(".json").write_text(json.dumps(dict(manifest, program=program.name)))
            done = reprise("train", program, "-n", 2, "--steps", 3, "--warmup", 0, "--made-up-data", "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            losses[name] = json.loads(done.stdout)["loss"]
        for name, loss in losses.items():
            for ours, first in zip(loss, losses[RUNNING[0]]):
                self.assertAlmostEqual(ours / first, 1, delta=1e-5, msg=name)

    def dump(self):
        folder = self.path / "dump"
        folder.mkdir()
        (folder / "module_0001.jit_convert.before_optimizations.txt").write_text(
            "HloModule jit_convert\n\nENTRY e {\n  a = f32[2] parameter(0)\n  ROOT b = s32[2] convert(a)\n}\n")
        for stage, name in (("before_optimizations", "automatic_lowered"),
                            ("cpu_after_optimizations", "automatic_compiled")):
            shutil.copy(DIALECTS / f"{name}.0.10.2.hlo", folder / f"module_0016.jit_step.{stage}.txt")
        rows = "".join(f"  {{ {', '.join('0' * 2000)} }},\n" for _ in range(20))
        (folder / "module_0012.jit_table.before_optimizations.txt").write_text(
            f"HloModule jit_table\n\nENTRY e {{\n  ROOT a = f32[20,2000] constant({{\n{rows[:-2]}\n  }})\n}}\n")
        for noise in ("module_0016.jit_step.cpu_after_optimizations-buffer-assignment.txt",
                      "module_0016.jit_step.debug_options"):
            (folder / noise).write_text("x" * 100000)
        return folder

    def test_of_a_dump_folder_the_stage_of_the_step_that_runs_is_taken(self):
        folder = self.dump()
        done = reprise("hlo", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("module_0016.jit_step.cpu_after_optimizations.txt: after optimizations, the largest module",
                      done.stderr)
        self.assertIn("jit_automatic_step: ", done.stdout)
        done = reprise("train", folder, "-n", 2)
        self.assertEqual(done.returncode, 3)
        self.assertIn("jit_step.cpu_after_optimizations.json", done.stderr)  # The manifest, still to be written.
        chosen = folder / "module_0016.jit_step.cpu_after_optimizations.txt"
        reprise("hlo", folder, "--manifest", "-o", chosen.with_suffix(".json"))
        done = reprise("train", folder, "-n", 2, "--steps", 3, "--made-up-data")
        self.assertEqual(done.returncode, 0, done.stderr)
        empty = self.path / "empty"
        empty.mkdir()
        done = reprise("hlo", empty)
        self.assertEqual(done.returncode, 3)
        self.assertIn("a folder without dumps of XLA", done.stderr)

    def test_a_stage_that_does_not_run_names_one_that_does(self):
        folder = self.dump()
        stage = folder / "module_0016.jit_step.before_optimizations.txt"
        _, said = self.manifest(stage, status=3)
        self.assertIn("`train` would refuse it", said)
        self.assertIn("is sharded, and the partitioner", said)
        self.assertIn("module_0016.jit_step.cpu_after_optimizations.txt runs", said)

    def test_all_reasons_are_given_at_once_with_their_lines(self):
        program = self.write("refused.hlo", REFUSED)
        manifest, said = self.manifest(program, status=3)
        self.write("refused.json", json.dumps(manifest))
        done = reprise("train", program, "--made-up-data")
        self.assertEqual(done.returncode, 3)
        for text in (said, done.stderr):
            self.assertRegex(text, r'c \(.*step.py:12\): .*xla_ffi_python_cpu_callback.* \(and 1 like it\)')
            self.assertRegex(text, r'i \(noise.py:3\): .*rng')
        self.assertNotIn("mpirun", done.stderr)

    def test_an_instruction_that_is_not_there_brings_those_like_it(self):
        done = reprise("hlo", DIALECTS / "manual_lowered.0.10.2.hlo", "--svg", "--around", "psum")
        self.assertEqual(done.returncode, 3)
        self.assertRegex(done.stderr, r"no instruction `psum`; such are: .*psum\.\d+")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
