#!/usr/bin/env python3
"""The settings that `reprise export` writes for DeepSpeed and Megatron, read by their own configuration classes."""

import json
import os
import pathlib
import re
import subprocess
import unittest

from command_case import ROOT
from export_plans import PlanCase
from foreign_python import python_with

DEEPSPEED = """
import json, sys
from deepspeed.runtime.zero.config import DeepSpeedZeroConfig
patch = json.load(open(sys.argv[1]))
config = DeepSpeedZeroConfig(**{"stage": 1, **patch["zero_optimization"]})
print(json.dumps([config.reduce_bucket_size, config.allgather_bucket_size, config.overlap_comm]))
"""
# The file alone: the package around it wants a GPU's libraries.
MEGATRON = """
import importlib.util, json, pathlib, sys
folder = pathlib.Path(next(iter(importlib.util.find_spec("megatron").submodule_search_locations)))
path = folder / "core/distributed/distributed_data_parallel_config.py"
spec = importlib.util.spec_from_file_location("config", path)
module = importlib.util.module_from_spec(spec)
sys.modules["config"] = module
spec.loader.exec_module(module)
config = module.DistributedDataParallelConfig(**json.loads(sys.argv[1]))
print(json.dumps([config.bucket_size, config.overlap_grad_reduce]))
"""


class Configs(PlanCase):
    """Single cap of 4096 bytes: 1024 float32."""

    def exported(self, target, name):
        out = self.path / name
        self.reprise("export", self.plan, "--as", target, "-o", out)
        return out

    def read_by(self, module, variable, program, argument):
        python = python_with(module, variable)
        if python is None:
            self.skipTest(f"no Python with {module}; {variable}=PYTHON names one")
        done = subprocess.run([python, "-c", program, argument], capture_output=True, text=True, timeout=280)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout.strip().splitlines()[-1])

    def test_deepspeed_takes_the_patch(self):
        out = self.exported("deepspeed", "patch.json")
        self.assertEqual(json.loads(out.read_text())["zero_optimization"]["reduce_bucket_size"], 1024)
        self.assertEqual(self.read_by("deepspeed", "REPRISE_DEEPSPEED_PYTHON", DEEPSPEED, str(out)), [1024, 1024, True])

    def test_megatron_takes_the_arguments(self):
        text = self.exported("megatron", "arguments.sh").read_text()
        flags = re.search(r'="(.*)"', text)[1].split()
        self.assertEqual(flags, ["--ddp-bucket-size", "1024", "--overlap-grad-reduce"])
        told = json.dumps({"bucket_size": int(flags[1]), "overlap_grad_reduce": True})
        self.assertEqual(self.read_by("megatron", "REPRISE_MEGATRON_PYTHON", MEGATRON, told), [1024, True])

    @unittest.skipUnless(os.environ.get("REPRISE_MEGATRON_SOURCE"), "REPRISE_MEGATRON_SOURCE names no checkout")
    def test_megatrons_own_source_has_the_flags(self):
        flags = re.findall(r"--[a-z-]+", self.exported("megatron", "arguments.sh").read_text().split('="')[1])
        source = pathlib.Path(os.environ["REPRISE_MEGATRON_SOURCE"]) / "megatron/training/arguments.py"
        for flag in flags:
            self.assertRegex(source.read_text(), f"['\"]{flag}['\"]")

    def test_a_shell_reads_what_is_for_a_shell(self):
        out = self.exported("megatron", "arguments.sh")
        done = subprocess.run(["sh", "-euc", f". {out}; echo $REPRISE_MEGATRON_ARGUMENTS"], capture_output=True,
                              text=True, check=True)
        self.assertEqual(done.stdout.split()[0], "--ddp-bucket-size")

    def test_gradients_of_two_types_have_no_size_in_elements(self):
        plan = json.loads(self.plan.read_text())
        plan["gradients"][0]["type"] = "c10::BFloat16"
        self.plan.write_text(json.dumps(plan))
        done = self.reprise("export", self.plan, "--as", "deepspeed", "-o", "-", status=3)
        self.assertIn("several types", done.stderr)

    def test_buckets_that_are_not_of_all_gradients_once_are_refused_by_every_target(self):
        def changed(change):
            plan = json.loads(self.plan.read_text())
            change(plan)
            path = self.path / "changed.json"
            path.write_text(json.dumps(plan))
            return path

        cases = [(lambda plan: plan.update(buckets=[]), "'gradient.0' is in no bucket"),
                 (lambda plan: plan["buckets"].pop(), "'gradient.6' is in no bucket"),
                 (lambda plan: plan["buckets"][0].update(collectives=[]), "bucket b0 is empty"),
                 (lambda plan: plan["buckets"][0]["collectives"].append("gradient.9"), "'gradient.9' is in two buckets"),
                 (lambda plan: plan["buckets"][1]["collectives"].append("x"), "bucket b1 names no gradient: 'x'"),
                 (lambda plan: plan.update(gradients=[], buckets=[]), "it has no gradients")]
        for change, told in cases:
            path = changed(change)
            for target in ("ddp", "inductor", "fx-buckets", "fsdp2", "deepspeed", "megatron", "horovod", "dpro"):
                with self.subTest(target=target, told=told):
                    done = self.reprise("export", path, "--as", target, "-o", self.path / "out", status=3)
                    self.assertIn(told, done.stderr)
        path = changed(lambda plan: plan["gradients"][0].update(shape="8x"))
        done = self.reprise("export", path, "--as", "fsdp2", "-o", self.path / "out", status=3)
        self.assertIn("the shape of gradient.0 is not known: '8x'", done.stderr)

    def test_a_plan_is_not_replaced_by_what_it_is_exported_as(self):
        before = self.plan.read_bytes()
        for target, out in (("ddp", self.plan), ("deepspeed", self.path / "." / self.plan.name)):
            done = self.reprise("export", self.plan, "--as", target, "-o", out, "--force", status=3)
            self.assertIn("would replace what it is made of", done.stderr)
        self.assertEqual(self.plan.read_bytes(), before)

    def test_options_of_other_targets_are_refused(self):
        sample, out = ROOT / "data/samples/kineto", self.path / "out"
        for file, target, words, told in ((sample, "csv", ["--points", "ring/ll=x"], "--points is for --as nccl-tuner, not for csv"),
                                          (sample, "chrome", ["--step", "5"], "--step is for --as chakra, not for chrome"),
                                          (self.plan, "ddp", ["--program", "x"], "--program is for --as xla, not for ddp"),
                                          (self.plan, "fsdp2", ["--trace", "x"], "--trace is for --as chakra, not for fsdp2")):
            done = self.reprise("export", file, "--as", target, "-o", out, *words, status=3)
            self.assertIn(told, done.stderr)
            self.assertFalse(out.exists())

    def test_a_plan_is_no_trace_and_a_trace_no_plan(self):
        out = self.path / "out"
        for target in ("pgle", "pge", "csv"):
            told = self.reprise("export", self.plan, "--as", target, "-o", out, status=3).stderr
            self.assertIn(f"plan.json is a plan, and {target} is made of what ran: record the job under the plan", told)
        trace = self.path / "a.trace"
        self.reprise("import", ROOT / "data/samples/kineto", "-o", trace)
        told = self.reprise("export", trace, "--as", "fsdp2", "-o", out, status=3).stderr
        self.assertIn("a.trace is a trace, and fsdp2 is made of a plan: `reprise optimize", told)
        told = self.reprise("export", ROOT / "data/samples/kineto", "--as", "ddp", "-o", out, status=3).stderr
        self.assertIn("kineto is a directory, and ddp is made of a plan: `reprise optimize", told)

    def test_dpro_names_tensors_by_place(self):
        out = self.exported("dpro", "dpro")
        mapping = json.loads((out / "tensor_fusion_grp_mapping.json").read_text())
        self.assertEqual(mapping, {"mapping": ["0+1+2+3", "4+5", "6+7+8+9"]})
        self.assertEqual(mapping, json.loads((out / "tensor_grp.json").read_text()))

    def test_a_plan_of_a_program_is_refused_by_every_target_of_buckets(self):
        self.plan.write_text(json.dumps({"schema": "reprise.plan/1", "program_fingerprint": "sha256:0", "ranks": 2,
                                         "fusion": [], "buckets": [], "order": []}))
        for target in ("ddp", "inductor", "fx-buckets", "fsdp2", "deepspeed", "megatron", "horovod", "dpro"):
            done = self.reprise("export", self.plan, "--as", target, "-o", self.path / "x", status=3)
            self.assertIn("the plan is of a program", done.stderr)


if __name__ == "__main__":
    unittest.main()
