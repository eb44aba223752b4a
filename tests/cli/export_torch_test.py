#!/usr/bin/env python3
"""What `reprise export` writes for PyTorch, run by real PyTorch: two ranks over Gloo on this machine."""

import json
import math
import pathlib
import subprocess
import unittest

from export_plans import GRADIENTS, PlanCase, bytes_of, plan_of
from foreign_python import skip_without

TORCH = skip_without("torch", "REPRISE_TORCH_PYTHON")
WORKER = pathlib.Path(__file__).resolve().parent / "export_torch_worker.py"


def torch_has(module):
    return subprocess.run([TORCH, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


class TorchCase(PlanCase):
    def export(self, target):
        out = self.path / "out"
        self.reprise("export", self.plan, "--as", target, "-o", out, "--force")
        return out

    def run_ranks(self, case, out=None):
        store = self.path / f"store.{case}"
        ranks = [subprocess.Popen([TORCH, WORKER, case, out or self.path / "out", str(rank), store],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for rank in range(2)]
        told = [rank.communicate(timeout=280) for rank in ranks]
        for rank, (_, errors) in zip(ranks, told, strict=True):
            self.assertEqual(rank.returncode, 0, errors)
        return json.loads(told[0][0].strip().splitlines()[-1])

    def sizes(self):
        sizes, at = [], 0
        for count in self.BUCKETS:
            sizes.append(sum(bytes_of(shape) for _, shape in GRADIENTS[at:at + count]))
            at += count
        return sizes


class Ddp(TorchCase):
    def test_the_right_plan_checks_itself_and_says_nothing(self):
        self.export("ddp")
        found = self.run_ranks("planned")
        self.assertIs(found["check"], True)
        self.assertEqual(found["warned"], [])
        self.assertEqual([int(size) for size in found["rebuilt"].split(",")], self.sizes())

    def test_other_buckets_are_warned_of_by_name(self):
        self.export("ddp")
        found = self.run_ranks("default")
        self.assertIs(found["check"], False)
        self.assertEqual(len(found["warned"]), 1)
        self.assertRegex(found["warned"][0], r"bucket 0 \(.*\) has \d+ bytes where \d+ are planned|bucket 1: 3 buckets")

    def test_a_plan_of_another_order_is_caught(self):
        plan = plan_of(self.BUCKETS)
        plan["gradients"].reverse()  # Ready the other way round: caps cut other gradients.
        for place, bucket in enumerate(plan["buckets"]):
            at = sum(self.BUCKETS[:place])
            bucket["collectives"] = [each["name"] for each in plan["gradients"][at:at + self.BUCKETS[place]]]
        self.plan.write_text(json.dumps(plan))
        self.export("ddp")
        found = self.run_ranks("planned")
        self.assertIs(found["check"], False)
        self.assertRegex(found["warned"][0], "not in effect: bucket 0")

    def test_no_sync_delays_the_check_and_unused_parameters_are_told(self):
        self.export("ddp")
        self.assertEqual(self.run_ranks("no_sync")["warned"], [])
        found = self.run_ranks("unused")
        self.assertEqual(len(found["warned"]), 1)
        self.assertIn("find_unused_parameters=True", found["warned"][0])

    def test_the_hook_launches_one_all_reduce_a_bucket_with_the_same_result(self):
        self.export("ddp")
        hooked, plain = self.run_ranks("hook"), self.run_ranks("planned")
        # Until DDP rebuilds them it has one bucket of all parameters.
        self.assertEqual(hooked["launched"], [sum(self.sizes())] + 4 * self.sizes())
        for one, other in zip(hooked["state"], plain["state"], strict=True):
            self.assertAlmostEqual(one, other, places=5)


class Others(TorchCase):
    def test_fsdp2_shards_the_planned_groups_and_trains(self):
        self.export("fsdp2")
        found = self.run_ranks("fsdp2")
        self.assertEqual(found["check"], "")
        self.assertEqual(found["units"], [["first", "attention"], ["last", "side"]])
        self.assertEqual(len(found["groups"]), 2)
        self.assertLess(found["losses"][-1], found["losses"][0] * 2)
        wrong = self.run_ranks("fsdp2_wrong")
        self.assertIn("group 0 (first) is not one that FSDP2 made", wrong["check"])

    def test_inductor_buckets_by_the_planned_sizes(self):
        self.export("inductor")
        found = self.run_ranks("inductor")
        self.assertEqual(found["option"], "all")
        expected = []
        caps = self.sizes() if found["takes_list"] else [4096]
        for _, shape in GRADIENTS:
            size, cap = bytes_of(shape), caps[min(max(len(expected) - 1, 0), len(caps) - 1)]
            if expected and sum(expected[-1]) + size <= cap:
                expected[-1].append(size)
            else:
                expected.append([size])
        self.assertEqual(found["buckets"], [bucket for bucket in expected if len(bucket) > 1])

    def test_fx_buckets_are_the_buckets_that_inductor_makes(self):
        if not torch_has("torch._inductor.fx_passes.overlap_manual_scheduling"):
            self.skipTest("this PyTorch has no manual_overlap_bucketing")
        self.export("fx-buckets")
        found = self.run_ranks("fx_buckets")
        whole = [sum(math.prod(shape) for name, shape in GRADIENTS if name.split(".")[0] in units)
                 for units in (("first", "attention"), ("last", "side"))]
        (before, forward), (_, backward) = found["forward"], found["backward"]
        self.assertEqual(len(before), len(GRADIENTS))
        self.assertEqual(forward, [["all-gather", size] for size in whole])
        self.assertEqual(backward, [["reduce-scatter", size] for size in reversed(whole)])
        for one, other in zip(found["losses"], found["plain"], strict=True):
            self.assertAlmostEqual(one, other, places=5)

    def test_names_of_groups(self):
        self.export("fx-buckets")
        self.export("horovod")
        found = self.run_ranks("names")
        self.assertEqual(found["fx"], [["first", "attention"], ["last", "side"]])
        names = [name for name, _ in GRADIENTS]
        self.assertEqual(found["horovod"], [names[:4], names[4:6], names[6:]])

    def test_another_model_is_refused(self):
        plan = plan_of(self.BUCKETS)
        plan["gradients"][3]["shape"] = "9x9"
        self.plan.write_text(json.dumps(plan))
        self.export("fx-buckets")
        self.export("horovod")
        store = self.path / "store"
        done = [subprocess.Popen([TORCH, WORKER, "names", self.path / "out", str(rank), store], stderr=subprocess.PIPE,
                                 text=True) for rank in range(2)]
        for rank in done:
            _, errors = rank.communicate(timeout=280)
            self.assertIn("the plan is of another model", errors)


if __name__ == "__main__":
    unittest.main()
