#!/usr/bin/env python3
"""The dumps beside the checkout that run and are small: a step on made-up inputs, once by compiled kernels and once by
the interpreter, ends in the same state and loss. Which dumps do not run, and why: tests/data/program/dump_table_test.cc.

  REPRISE_BIN=build/release/bin dumps_test.py [--all]    --all: those too that take minutes, or more than 1 GB
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
DUMPS = ROOT.parent / "shared" / "hlo"
REPRISE = pathlib.Path(os.environ["REPRISE_BIN"]) / "reprise"
SKIPPED = 77
SMALL = [
    "tfipu_resblock_bn_train", "torchxla_linear_adam", "torchxla_linear_batchshard_fwd",
    "torchxla_linear_fsdp_fwd", "torchxla_linear_megatron_fwd", "torchxla_linear_pp1_zero",
    "torchxla_linear_pp2_rank0", "torchxla_linear_pp2_rank1", "torchxla_linear_pp2_zero", "torchxla_minimlp_dp",
    "torchxla_mlp_dp2", "torchxla_mlp_single",
]
BIG = ["mobilenet_v2_infer", "torchxla_bert_dp_g2", "torchxla_bert_single_g2", "torchxla_bert_tp1_dp2_opt",
       "torchxla_bertlarge_dp_tp_opt", "torchxla_llama2_dp1_tp4_pp2_train", "torchxla_llama_tp8_infer"]


class Dumps(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)

    def reprise(self, *words):
        done = subprocess.run([REPRISE, *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, f"{words}: {done.stderr}")
        return done.stdout

    def test_a_step_is_the_interpreters(self):
        for name in SMALL + (BIG if ALL else []):
            with self.subTest(dump=name):
                program = self.path / f"{name}.hlo"
                shutil.copy(DUMPS / program.name, program)
                self.reprise("hlo", program, "--manifest", "-o", program.with_suffix(".json"))
                ranks = json.loads(program.with_suffix(".json").read_text())["ranks"]
                words = ["train", program, "-n", ranks, "--made-up-data", "--steps", 2, "--warmup", 0,
                         "--allow-nan", "--format", "json"]
                compiled, interpreted = (json.loads(self.reprise(*words, *more)) for more in ([], ["--interpret"]))
                for key in ("state_hash", "loss"):
                    self.assertEqual(json.dumps(compiled[key]), json.dumps(interpreted[key]), key)


if __name__ == "__main__":
    ALL = "--all" in sys.argv
    if not DUMPS.exists():
        print(f"skipped: no dumps at {DUMPS}")
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
