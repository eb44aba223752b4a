#!/usr/bin/env python3
"""Collectives inside a loop: traces, prices and what-ifs know of them what they know of all others."""

import json
import sys
import unittest

from command_case import CommandCase

# The mean of 256 KiB over two ranks, eight times over.
LOOP = """HloModule loop
add { p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT s = f32[] add(p, q) }
body {
  state = (s32[], f32[65536]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  x = f32[65536] get-tuple-element(state), index=1
  sum = f32[65536] all-reduce(x), replica_groups={{0,1}}, to_apply=add
  half = f32[] constant(0.5)
  halves = f32[65536] broadcast(half), dimensions={}
  mean = f32[65536] multiply(sum, halves)
  ROOT out = (s32[], f32[65536]) tuple(next, mean)
}
condition {
  state = (s32[], f32[65536]) parameter(0)
  i = s32[] get-tuple-element(state), index=0
  eight = s32[] constant(8)
  ROOT less = pred[] compare(i, eight), direction=LT
}
ENTRY step {
  x = f32[65536] parameter(0)
  zero = s32[] constant(0)
  begin = (s32[], f32[65536]) tuple(zero, x)
  loop = (s32[], f32[65536]) while(begin), condition=condition, body=body
  mean = f32[65536] get-tuple-element(loop), index=1
  new = f32[65536] cosine(mean)
  ROOT out = (f32[65536]) tuple(new)
}
"""
MANIFEST = {"schema": "reprise.manifest/1", "name": "loop", "program": "loop.hlo", "ranks": 2,
            "parameters": [{"index": 0, "name": "x", "role": "state",
                            "init": {"kind": "uniform", "seed": 1, "scale": 1}}],
            "outputs": [{"index": 0, "role": "state", "parameter": 0}]}
PASSES, STEPS, WARMUP = 8, 12, 2


class LoopCollectives(CommandCase):
    def setUp(self):
        super().setUp()
        program = self.write("loop.hlo", LOOP)
        self.write("loop.json", json.dumps(MANIFEST))
        self.trace = self.path / "run.trace"
        self.reprise("train", "-n", 2, program, "--steps", STEPS, "--warmup", WARMUP, "--trace", self.trace)

    def answer(self, *arguments):
        return json.loads(self.reprise(*arguments, "--format", "json").stdout)

    def test_analyze_tells_each_from_what_the_loop_computes(self):
        answer = self.answer("analyze", self.trace)
        called = [each for each in answer["collectives"] if each["op"] == "all-reduce"]
        self.assertEqual(len(called), PASSES * STEPS)
        self.assertEqual({each["bytes"] for each in called}, {4 * 65536})
        for rank in answer["ranks"]:
            self.assertGreater(rank["exposed_ns"], 0)
        self.assertIn("collective", {entry["kind"] for entry in answer["critical_path"]})

    def test_replay_prices_them_as_transfers(self):
        done = self.reprise("replay", self.trace, "--what-if", "bandwidth=0.25x", "--format", "json")
        self.assertNotIn("ranks meet inside", done.stderr)
        recorded = self.answer("replay", self.trace)
        slower = json.loads(done.stdout)["step_time_ns"]["predicted"]
        self.assertGreater(slower, 1.2 * recorded["step_time_ns"]["predicted"])
        for rank in recorded["ranks"]:
            self.assertGreater(rank["communication_ns"], 0)
        self.assertIn("loop/sum", {entry["unit"] for entry in recorded["critical_path"]})

    def test_search_prices_the_whole_loop_by_them(self):
        plan = self.path / "plan.json"
        searched = self.answer("optimize", self.trace, "-o", plan, "--no-measure", "--evaluations", 1)
        none = searched["predicted"]["baselines"]["none"]
        replayed = self.answer("replay", self.trace)["step_time_ns"]["predicted"]
        self.assertAlmostEqual(none / replayed, 1, delta=0.001)
        under_plan = self.answer("replay", self.trace, "--plan", plan)["step_time_ns"]["predicted"]
        self.assertAlmostEqual(searched["predicted"]["step_time_ns"] / under_plan, 1, delta=0.05)
        self.reprise("export", plan, "--as", "chakra", "--trace", self.trace, "-o", self.path / "nodes")
        nodes = self.answer("analyze", self.path / "nodes")
        self.assertEqual(len(nodes["collectives"]), PASSES)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
