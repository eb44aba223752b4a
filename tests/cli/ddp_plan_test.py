#!/usr/bin/env python3
"""From a recorded DDP job to arguments of DistributedDataParallel: import, optimize --only buckets, export --as ddp."""

import json
import os
import subprocess
import sys
import unittest

from command_case import ROOT, CommandCase

SAMPLE = ROOT / "data/samples/kineto"
# The sample's model (data/samples/record_kineto.py) as float32: every weight and bias once.
GRADIENT_BYTES = 4 * (4 * (512 * 512 + 512) + 512 * 10 + 10)
# A PyTorch of which only the signature matters.
TORCH = """
class DistributedDataParallel:
    def __init__(self, module, {caps}):
        pass
"""


class DdpPlan(CommandCase):
    def optimized(self):
        run, plan = self.path / "run.trace", self.path / "plan.json"
        self.reprise("import", SAMPLE, "-o", run)
        return json.loads(self.reprise("optimize", run, "--only", "buckets", "-o", plan, "--format", "json").stdout)

    def kwargs_under(self, caps):
        """What the exported module passes to a DDP with these parameters."""
        package = self.path / caps / "torch"
        (package / "nn").mkdir(parents=True)
        for name in ("__init__.py", "nn/__init__.py", "distributed.py"):
            (package / name).write_text("")
        (package / "nn/parallel.py").write_text(TORCH.format(caps=f"{caps}=None"))
        program = ("import json, reprise_ddp, torch.distributed as d; "
                   "print(json.dumps([reprise_ddp.kwargs(), getattr(d, '_DEFAULT_FIRST_BUCKET_BYTES', None)]))")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60,
                              env=dict(os.environ, PYTHONPATH=f"{package.parent}:{self.path / 'ddp'}",
                                       PYTHONDONTWRITEBYTECODE="1"))
        return json.loads(done.stdout)

    def test_the_plan_holds_every_gradient_and_is_no_slower(self):
        result = self.optimized()
        self.assertEqual(sum(result["buckets_bytes"]), GRADIENT_BYTES)
        predicted = result["predicted"]
        for name, time_ns in predicted["baselines"].items():
            self.assertLessEqual(predicted["step_time_ns"], time_ns, name)
        self.assertLessEqual(predicted["lower_bound_ns"], predicted["step_time_ns"])
        self.assertLess(abs(result["recorded"]["predicted_step_time_ns"] / result["recorded"]["step_time_ns"] - 1), 0.08)

    def test_two_sizes_alike_tell_no_bandwidth(self):
        done = self.reprise("optimize", SAMPLE, "--only", "buckets", "--explain", "-o", self.path / "plan.json")
        self.assertRegex(done.stdout + done.stderr, r"all-reduce: 0 ns \+ [0-9.]+ MB/s or [0-9.]+ ms whatever its size: "
                         r"the recorded sizes tell no bandwidth \(")
        self.assertIn("all-reduces of one size were recorded (2.1 MB): ", done.stderr)
        self.assertRegex(done.stdout, r"one bucket +1 +[0-9]+ ms to [0-9]+ ms ")

    def test_the_export_says_what_the_plan_says(self):
        result = self.optimized()
        self.reprise("export", self.path / "plan.json", "--as", "ddp", "-o", self.path / "ddp")
        exported = json.loads((self.path / "ddp/ddp_plan.json").read_text())
        self.assertEqual(exported["bucket_bytes"], result["buckets_bytes"])
        self.assertEqual([round(cap * 2**20) for cap in exported["bucket_cap_mb_list"]], result["buckets_bytes"])
        self.assertEqual(self.kwargs_under("bucket_cap_mb_list"),
                         [{"bucket_cap_mb_list": exported["bucket_cap_mb_list"]}, None])
        single = result["single_cap"]["bytes"]
        self.assertEqual(self.kwargs_under("bucket_cap_mb"), [{"bucket_cap_mb": single / 2**20}, single])

    def test_other_moves_need_a_program(self):
        self.optimized()
        refused = self.reprise("optimize", self.path / "run.trace", "--only", "fusion", "-o", self.path / "p.json",
                               status=2)
        self.assertIn("embeds no program", refused.stderr)
        self.assertFalse((self.path / "p.json").exists())


if __name__ == "__main__":
    unittest.main()
