#!/usr/bin/env python3
"""`replay`, `calibrate` and `optimize` of what `train` recorded: contracts, plans, interruption, odd programs."""

import json
import pathlib
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import zlib

from command_case import BIN, ROOT, CommandCase, catches, reprise, wait_until

PROGRAMS = ROOT / "data/programs"


def record(trace, program, ranks, *arguments, steps=8):
    done = reprise("train", "-n", ranks, PROGRAMS / program, "--steps", steps, "--warmup", 2, "--trace", trace,
                   *arguments)
    assert done.returncode == 0, done.stderr
    return trace


class ProgramLoop(CommandCase):
    @classmethod
    def setUpClass(cls):
        shared = tempfile.TemporaryDirectory()
        cls.addClassCleanup(shared.cleanup)
        cls.recorded = record(pathlib.Path(shared.name) / "mlp.trace", "mlp.2.hlo", 2)

    def setUp(self):
        super().setUp()
        self.trace = pathlib.Path(shutil.copy(self.recorded, self.path))
        self.plan = self.path / "plan.json"

    def answer(self, *arguments):
        return json.loads(self.reprise(*arguments, "--format", "json").stdout)

    def replay(self, *arguments, trace=None):
        return self.answer("replay", trace or self.trace, *arguments)

    def optimize(self, *arguments, trace=None, plan=None):
        """A small search that starts no ranks; its answer and its plan."""
        path = plan or self.plan
        answer = self.answer("optimize", trace or self.trace, "-o", path, "--no-measure", *arguments)
        return answer, json.loads(path.read_text())

    def new_units(self, plan):
        """Those that the recorded plan lacks. Fused ones of the forward pass, which nothing overlaps, are on every
        critical path; whether a bucket is depends on the times recorded."""
        return {unit["unit"] for unit in plan["fusion"] + plan["buckets"]}

    def test_replay_keeps_its_contract(self):
        answer = self.replay()
        self.assertEqual(answer["schema"], "reprise.replay/1")
        predicted, measured = answer["step_time_ns"]["predicted"], answer["step_time_ns"]["measured"]
        self.assertAlmostEqual(answer["error"], predicted / measured - 1, places=12)
        self.assertEqual(len(answer["ranks"]), 2)
        for rank in answer["ranks"]:
            self.assertEqual(rank["compute_ns"] + rank["exposed_ns"] + rank["idle_ns"], predicted)
            self.assertLessEqual(rank["exposed_ns"], rank["communication_ns"])
        self.assertAlmostEqual(sum(answer["sources"].values()), 1, places=9)
        self.assertEqual(set(answer["sources"]), {"measured", "calibrated", "modelled", "dispatch", "wake_ups", "jitter",
                                                  "step_gaps", "preempted", "unexplained"})
        reached = 0
        for entry in answer["critical_path"]:
            self.assertEqual(entry["start_ns"], reached)
            self.assertIn(entry["rank"], (0, 1))
            reached += entry["duration_ns"]
        self.assertEqual(reached, predicted)
        self.assertTrue({"dispatch", "feed"} < {entry["unit"] for entry in answer["critical_path"]})

    def test_replay_tells_people_the_same(self):
        done = self.reprise("replay", self.trace)
        self.assertRegex(done.stdout, r"^step [0-9.]+ [mu]?s predicted, .* measured .*[0-9.]+ % of it unexplained gaps")
        self.assertRegex(done.stdout, r"\nrank +compute +communication +exposed")
        self.assertRegex(done.stdout, r"\ncritical path: .*[0-9.]+ % kernel.*\n +[0-9.]+ [mu]?s  \S+ ")

    def test_another_plan_is_predicted_from_the_same_trace(self):
        self.reprise("optimize", self.trace, "--baseline", "xla", "-o", self.plan)
        answer = self.replay("--plan", self.plan)
        self.assertEqual(answer["step_time_ns"]["measured"], None)
        self.assertEqual(answer["error"], None)
        plan = json.loads(self.plan.read_text())
        self.assertEqual(answer["step_time_ns"]["predicted"], plan["predicted"]["step_time_ns"])
        self.assertTrue(self.new_units(plan) & {entry["unit"] for entry in answer["critical_path"]})

    def test_optimize_keeps_its_contract(self):
        answer, plan = self.optimize("--evaluations", 20)
        self.assertEqual(answer["schema"], "reprise.optimize/1")
        self.assertEqual(set(answer), {"schema", "predicted", "search", "log"})
        self.assertEqual(set(answer["search"]), {"seconds", "evaluations", "calibration_runs"})
        predicted = answer["predicted"]
        self.assertEqual(predicted, plan["predicted"])
        self.assertEqual(set(predicted["baselines"]),
                         {"none", "ddp", "horovod", "xla", "ddp+fusion", "horovod+fusion"})
        step, bound = predicted["step_time_ns"], predicted["lower_bound_ns"]
        self.assertLessEqual(bound, step)
        self.assertAlmostEqual(predicted["gap"], (step - bound) / bound, places=6)
        for name, baseline in predicted["baselines"].items():
            self.assertLessEqual(step, baseline, name)
        self.assertEqual(self.replay("--plan", self.plan)["step_time_ns"]["predicted"], step)

    def test_a_seed_gives_the_same_bytes_for_any_number_of_threads(self):
        plans, logs = [], []
        for threads in (1, 2, 4):
            path = self.path / f"{threads}.json"
            answer, _ = self.optimize("--evaluations", 20, "--seed", 3, "--threads", threads, plan=path)
            plans.append(path.read_bytes())
            logs.append(answer["log"])  # Where what is found gains too little, the plan does not tell of the search.
        self.assertEqual(plans[0], plans[1])
        self.assertEqual(plans[0], plans[2])
        self.assertEqual(logs[0], logs[1])
        self.assertEqual(logs[0], logs[2])

    def test_baselines_with_fusion_have_that_of_the_plan(self):
        _, plan = self.optimize("--baseline", "xla")
        self.assertGreater(len(plan["fusion"]), 1)
        plan["fusion"] = plan["fusion"][::2]
        plan["order"] = []
        self.plan.write_text(json.dumps(plan))
        _, fused = self.optimize("--baseline", "ddp+fusion", "--plan", self.plan, plan=self.path / "ddp.json")
        self.assertEqual([group["ops"] for group in fused["fusion"]], [group["ops"] for group in plan["fusion"]])

    def test_an_interrupt_ends_the_search_with_a_plan(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            command = [BIN / "reprise", "optimize", self.trace, "-o", self.plan, "--no-measure", "--force",
                       "--time-limit", "100s", "--seed", "1"]
            child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertTrue(wait_until(lambda: child.poll() is not None or catches(child, number)))
            time.sleep(1)  # Within its search: the limit is far.
            if child.poll() is None:
                child.send_signal(number)
            _, errors = child.communicate(timeout=60)
            self.assertIn(child.returncode, (0, 128 + number), errors)
            self.replay("--plan", self.plan)

    def test_a_time_limit_leaves_a_plan(self):
        answer, _ = self.optimize("--time-limit", "100ms")
        self.assertLess(answer["search"]["seconds"], 60)
        self.replay("--plan", self.plan)

    def test_a_trace_under_another_plan_is_replayed_and_improved(self):
        _, plan = self.optimize("--baseline", "xla")  # What search finds may be the recorded plan.
        other = record(self.path / "plan.trace", "mlp.2.hlo", 2, "--plan", self.plan, steps=30)
        recorded = self.replay(trace=other)
        self.assertTrue(self.new_units(plan) & {entry["unit"] for entry in recorded["critical_path"]})
        self.assertLess(abs(recorded["error"]), 0.5)  # Milliseconds of a machine that other tests share.
        answer, _ = self.optimize("--evaluations", 1, trace=other, plan=self.path / "again.json")
        self.assertLessEqual(answer["predicted"]["step_time_ns"], recorded["step_time_ns"]["predicted"])

    def test_one_rank(self):
        alone = record(self.path / "one.trace", "mlp.1.hlo", 1)
        answer, plan = self.optimize("--evaluations", 5, trace=alone)
        self.assertEqual(plan["ranks"], 1)
        self.assertLessEqual(answer["predicted"]["step_time_ns"], answer["predicted"]["baselines"]["none"])
        self.assertEqual(len(self.replay("--plan", self.plan, trace=alone)["ranks"]), 1)

    def test_measuring_leaves_the_trace_alone(self):
        alone = record(self.path / "one.trace", "mlp.1.hlo", 1)
        before, costs = alone.read_bytes(), self.path / "costs.json"
        done = self.reprise("optimize", alone, "-o", self.plan, "--evaluations", 1, "--costs", costs, "--force")
        self.assertRegex(done.stderr, r"predicted from one recording and [1-9]\d* calibration runs\n")
        self.assertEqual(alone.read_bytes(), before)
        self.assertIn("solo", {each["context"] for each in json.loads(costs.read_text())["measurements"]})
        # In the trace where it is asked for.
        done = self.reprise("optimize", alone, "-o", self.plan, "--evaluations", 1, "--keep", "--force")
        self.assertNotIn("not kept", done.stderr)
        self.assertNotEqual(alone.read_bytes(), before)

    def test_no_plan_fits_into_too_little_memory(self):
        search = ("optimize", self.trace, "-o", self.plan, "--no-measure", "--memory-limit")
        for limit, written in ((1500, 1500), ("1.5kB", 1500), ("1 KiB", 1024)):
            self.assertIn(f"{written} bytes", self.reprise(*search, limit, status=1).stderr)
        for no_limit in ("0", "5XB", "kB", "99999999TB"):
            self.assertIn(f"{no_limit} is no size above 0", self.reprise(*search, no_limit, status=2).stderr)
        self.assertFalse(self.plan.exists())

    def test_a_plan_that_takes_more_memory_says_so(self):
        """Small arrays are gathered two ahead of their readers; in one message they are all there at once."""
        each = "".join(f"""
  p{i} = f32[256] parameter({i})
  w{i} = f32[512] all-gather(p{i}), replica_groups={{{{0,1}}}}, dimensions={{0}}
  m{i} = f32[512] multiply({f"s{i - 1}" if i else "w0"}, w{i})
  s{i} = f32[512] sine(m{i})""" for i in range(16))
        program = self.write("gathers.hlo", f"""HloModule gathers
ENTRY step {{{each}
  mine = f32[256] slice(s15), slice={{[0:256]}}
  ROOT out = (f32[256]) tuple(mine)
}}
""")
        state = [{"index": i, "name": f"p{i}", "role": "state", "init": {"kind": "uniform", "seed": i, "scale": 1}}
                 for i in range(16)]
        self.write("gathers.json", json.dumps({
            "schema": "reprise.manifest/1", "name": "gathers", "program": "gathers.hlo", "ranks": 2,
            "parameters": state, "outputs": [{"index": 0, "role": "state", "parameter": 0}]}))
        trace = record(self.path / "gathers.trace", program, 2)
        search = ("optimize", trace, "-o", self.plan, "--no-measure", "--evaluations", 20)
        done = self.reprise(*search)
        limit = re.search(r"takes [\d.]+ kB of memory, [\d.]+ kB as recorded; --memory-limit (\d+) keeps to that\n",
                          done.stderr)
        self.assertTrue(limit, done.stderr)
        done = self.reprise(*search, "--memory-limit", limit[1], "--force")
        self.assertNotIn("as recorded", done.stderr)

    def test_calibration_prices_the_units_of_a_plan(self):
        # Not what search finds: where it gains less than 3 %, its plan is the recorded one, without a new unit.
        self.optimize("--baseline", "xla")
        before = self.replay("--plan", self.plan)["sources"]
        self.assertGreater(before["modelled"], 0)
        costs = self.path / "costs.json"
        answer = self.answer("calibrate", self.trace, "--plan", self.plan, "--costs", costs, "--steps", 5)
        self.assertEqual(answer["schema"], "reprise.calibrate/1")
        self.assertTrue(all(each["samples"] > 0 and each["context"] == "solo" for each in answer["measurements"]))
        rows = self.reprise("calibrate", self.trace, "--plan", self.plan, "--costs", costs, "--steps", 3,
                            "--format", "csv").stdout.splitlines()
        self.assertEqual(rows[0], "key,unit,context,median_ns,spread_ns,samples")
        self.assertTrue(all(re.search(r",\d+,\d+,\d+$", row) for row in rows[1:]), rows)
        answer = self.replay("--plan", self.plan)
        after = answer["sources"]
        # A bucket larger than what was recorded stays modelled, and says so.
        self.assertLess(after["modelled"], before["modelled"])
        self.assertIn("bytes: beyond, modelled", answer["costs"]["modelled_because"][0])
        self.assertGreater(after["calibrated"], 0)
        # The database alone tells as much.
        fresh = pathlib.Path(shutil.copy(self.recorded, self.path / "fresh.trace"))
        self.assertEqual(self.replay("--plan", self.plan, "--costs", costs, trace=fresh)["sources"], after)

    def test_units_of_another_device_are_not_measured_on_this_one(self):
        connection = sqlite3.connect(self.trace)
        changed = connection.execute("UPDATE environment SET value = 'cuda' WHERE name = 'device'")
        self.assertEqual(changed.rowcount, 1)
        crc = 0  # data/trace/format.md, `checksum.crc`.
        for row in connection.execute("SELECT name, value FROM environment ORDER BY name"):
            for text in (value.encode() for value in row):
                crc = zlib.crc32(b"t" + struct.pack("<q", len(text)) + text, crc)
        connection.execute("UPDATE checksum SET crc = ? WHERE name = 'environment'", (crc,))
        connection.commit()
        connection.close()
        done = self.reprise("calibrate", self.trace, status=3)
        self.assertIn("recorded on cuda", done.stderr)
        done = self.reprise("optimize", self.trace, "-o", self.plan, "--evaluations", 1)
        self.assertIn("recorded on cuda", done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
