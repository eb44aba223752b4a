#!/usr/bin/env python3
"""What users met on the way in, each as they met it: it works now, or says what to do, before any rank starts."""

import json
import os
import pathlib
import subprocess
import tempfile
import unittest

REPRISE = pathlib.Path(os.environ["REPRISE_BIN"]) / "reprise"

SUM = "sum {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = f32[] add(a, b)\n}\n\n"
# A step with a counter, Adam's second moment and a scale, as a skeleton manifest has to start them.
ADAM = f"""HloModule step, input_output_alias={{ {{0}}: (0, {{}}, may-alias), {{1}}: (1, {{}}, may-alias), {{2}}: (2, {{}}, may-alias) }}

{SUM}ENTRY e {{
  count = s32[] parameter(0), metadata={{op_name="state['count']"}}
  nu = f32[4] parameter(1), metadata={{op_name="state['nu']['w']"}}
  scale = f32[4] parameter(2), metadata={{op_name="state['norm']['scale']"}}
  x = f32[2,4] parameter(3), metadata={{op_name="x"}}
  one = s32[] constant(1)
  next = s32[] add(count, one)
  b = f32[2,4] broadcast(scale), dimensions={{1}}
  y = f32[2,4] multiply(x, b)
  zero = f32[] constant(0)
  loss = f32[] reduce(y, zero), dimensions={{0,1}}, to_apply=sum
  ROOT r = (s32[], f32[4], f32[4], f32[]) tuple(next, nu, scale, loss)
}}
"""


def module(body, header=""):
    return f"HloModule step{header}\n\n{SUM}ENTRY e {{\n{body}}}\n"


class Doors(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def reprise(self, *words, status=0):
        done = subprocess.run([REPRISE, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, status, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout if status == 0 else done.stderr

    def program(self, text, **changes):
        """A program with its skeleton manifest, made as a user makes it."""
        path = self.path / "step.hlo"
        path.write_text(text)
        done = subprocess.run([REPRISE, "hlo", path, "--manifest", "-o", path.with_suffix(".json"), "--force"],
                              capture_output=True, text=True, check=False)
        manifest = json.loads(path.with_suffix(".json").read_text()) | changes
        path.with_suffix(".json").write_text(json.dumps(manifest))
        return path, done.stderr

    def train(self, path, *words, status=0):
        return self.reprise("train", path, "--steps", 2, "--warmup", 0, "--format", "json", *words, status=status)

    def test_a_skeleton_starts_counters_moments_and_scales_as_their_names_say(self):
        path, _ = self.program(ADAM)
        inits = {p["name"]: p.get("init", {}).get("kind") for p in json.loads(path.with_suffix(".json").read_text())
                 ["parameters"]}
        self.assertIn("zeros", [kind for name, kind in inits.items() if "nu" in name], inits)
        self.assertIn("ones", [kind for name, kind in inits.items() if "scale" in name], inits)
        self.assertNotIn("nan", self.train(path, "--made-up-data").lower())

    def test_integer_state_trains(self):
        path, _ = self.program(ADAM)
        self.train(path, "--made-up-data", "--dump-state", self.path / "out.npz")

    def test_a_loss_that_is_not_finite_stops_the_run(self):
        path, _ = self.program(module(
            "  w = f32[4] parameter(0)\n  zero = f32[] constant(0)\n  s = f32[] reduce(w, zero), dimensions={0}, "
            "to_apply=sum\n  n = f32[] negate(s)\n  a = f32[] abs(n)\n  m = f32[] negate(a)\n  o = f32[] constant(1)\n"
            "  p = f32[] subtract(m, o)\n  l = f32[] log(p)\n  ROOT r = (f32[4], f32[]) tuple(w, l)\n",
            ", input_output_alias={ {0}: (0, {}, may-alias) }"))
        said = self.train(path, status=3)
        self.assertIn("not finite", said)
        self.assertIn("--allow-nan", said)

    def refused(self, body, *parts):
        """`hlo --manifest` and `train` say the same reasons, all at once, before ranks start."""
        path, _ = self.program(module(body))
        said = self.reprise("hlo", path, "--manifest", "-o", self.path / "other.json", "--force", status=3)
        for text in (said, self.train(path, "--made-up-data", status=3)):
            for part in parts:
                self.assertIn(part, text)
            self.assertNotIn("mpirun", text)

    def test_all_reasons_come_at_once_with_source_lines_and_what_to_do(self):
        self.refused(
            "  x = f32[8] parameter(0)\n"
            "  z = c64[8] complex(x, x)\n"
            "  f = c64[8] erf(z), "
            'metadata={op_name="jit(step)/erf" source_file="/home/me/model.py" source_line=42}\n'
            "  a = f32[8] abs(f)\n"
            '  c = f32[8] custom-call(a), custom_call_target="xla_ffi_python_cpu_callback", '
            'metadata={op_name="jit(step)/log" source_file="/home/me/model.py" source_line=57}\n'
            "  ROOT r = (f32[8]) tuple(c)\n",
            "model.py:42", "model.py:57", "real and imaginary parts", "jax.debug.print")

    def test_a_program_before_partitioning_says_which_dump_to_give(self):
        path, said = self.program(module(
            "  x = f32[8] parameter(0), sharding={devices=[2]<=[2]}\n  y = f32[8] add(x, x)\n"
            "  ROOT r = (f32[8]) tuple(y)\n", ", num_partitions=2"), ranks=2)
        self.assertIn("after partitioning", said)
        self.assertIn("after partitioning", self.train(path, "-n", 2, "--made-up-data", status=3))

    def test_a_wrong_number_of_ranks_says_which(self):
        path, _ = self.program(module("  x = f32[8] parameter(0)\n  y = f32[8] add(x, x)\n"
                                      "  ROOT r = (f32[8]) tuple(y)\n"))
        said = self.train(path, "-n", 2, "--made-up-data", status=3)
        self.assertIn("use -n 1", said)

    def test_a_drawing_needs_a_middle_and_suggests_one(self):
        path, _ = self.program(ADAM)
        self.assertIn("--around INSTRUCTION", self.reprise("hlo", path, "--svg", status=2))
        self.assertRegex(self.reprise("hlo", path, "--svg", "--around", "los", status=3), "loss")

    def test_a_folder_is_read_or_says_what_it_lacks(self):
        said = self.reprise("hlo", self.path, status=3)
        self.assertNotIn("Is a directory", said)

    def test_an_unknown_kind_of_initial_value_names_those_that_are_known(self):
        path, _ = self.program(ADAM)
        manifest = json.loads(path.with_suffix(".json").read_text())
        manifest["parameters"][1]["init"] = {"kind": "file"}
        path.with_suffix(".json").write_text(json.dumps(manifest))
        said = self.train(path, "--made-up-data", status=3)
        self.assertIn("tensor", said)
        manifest["parameters"][1]["init"] = {"kind": "normal"}
        path.with_suffix(".json").write_text(json.dumps(manifest))
        self.assertNotIn("json.exception", self.train(path, "--made-up-data", status=3))

    def test_a_state_that_does_not_fit_is_told_in_full(self):
        path, _ = self.program(ADAM)
        state = self.path / "state.safetensors"
        header = json.dumps({"state['count']": {"dtype": "F32", "shape": [], "data_offsets": [0, 4]},
                             "state['nu']['w']": {"dtype": "F32", "shape": [3], "data_offsets": [4, 16]}}).encode()
        state.write_bytes(len(header).to_bytes(8, "little") + header + bytes(16))
        said = self.train(path, "--made-up-data", "--state", state, status=3)
        for part in ("count", "nu", "scale"):
            self.assertIn(part, said)


if __name__ == "__main__":
    unittest.main()
