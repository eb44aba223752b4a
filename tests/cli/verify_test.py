#!/usr/bin/env python3
"""`reprise verify`: verdicts on sets of step times with known truth, what counts as a run, whether a plan took effect."""

import csv
import json
import os
import pathlib
import sys
import unittest

from command_case import ROOT, CommandCase

SETS = ROOT / "tests/replay/verdict/sets"
sys.path.insert(0, str(SETS.parent))
import make_sets  # noqa: E402

SAMPLE = ROOT / "data/samples/kineto"
CONFIDENCE = "99.9%"


class VerifyCase(CommandCase):
    def verify(self, before, after, *flags, plan=(), status=0):
        done = self.reprise("verify", *plan, "--before", *before, "--after", *after, *flags, "--format", "json",
                            status=status)
        return json.loads(done.stdout)

    def runs(self, side, lists, program=None):
        """A file a run."""
        paths = []
        for place, times in enumerate(lists):
            told = {"schema": "reprise.steps/1", "step_time_ns": [1000 * each for each in times]}
            if program:
                told["program"] = program
            paths.append(self.write(f"{side}{place}.json", json.dumps(told)))
        return paths


class KnownTruth(VerifyCase):
    """None false, 10 % always found, 2 % found where the printed effect allows it."""

    def verdict_of(self, one):
        before, after = one.get("programs", (None, None))
        flags = ["--confidence", CONFIDENCE] + ["--alternating"] * one["alternating"]
        command = ["verify", "--before", *self.runs("before", one["before"], before), "--after",
                   *self.runs("after", one["after"], after), *flags, "--format", "json"]
        return json.loads(self.reprise(*command, status=None).stdout)

    def reprise(self, *arguments, status=0):
        if status is not None:
            return super().reprise(*arguments, status=status)
        from command_case import reprise
        done = reprise(*arguments)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return done

    def test_the_sets_are_what_the_script_makes(self):
        paths = sorted(SETS.glob("*.json"))
        self.assertEqual(len(paths), len(make_sets.CASES))
        for number, path in enumerate(paths):
            one = json.loads(path.read_text())
            again = make_sets.made(number, one["seed"])
            for side in ("before", "after"):
                for run, same in zip(one[side], again[side], strict=True):
                    for time, expected in zip(run, same, strict=True):
                        self.assertLessEqual(abs(time - expected), 1, path)  # The C library's exp and log.

    def test_gates(self):
        shown = []
        for path in sorted(SETS.glob("*.json")):
            one = json.loads(path.read_text())
            found = self.verdict_of(one)
            verdict, effect, detectable = found["verdict"], one["effect"], found["detectable_change"]
            shown.append(f"{path.stem}: {verdict}, {found['change']:+.2%}, detectable "
                         f"{'none' if detectable is None else format(detectable, '.2%')}")
            with self.subTest(path.stem):
                if effect is None:
                    self.assertEqual(verdict, "not comparable")
                    continue
                right = "slower" if effect > 0 else "faster" if effect < 0 else None
                self.assertIn(verdict, {right, "no difference", "not comparable"}, "a false verdict")
                if abs(effect) >= 0.1 or (effect and detectable is not None and detectable <= abs(effect)):
                    self.assertEqual(verdict, right)
                if effect:
                    self.assertLess(found["interval"][0], effect)
                    self.assertGreater(found["interval"][1], effect)
        if os.environ.get("REPRISE_SHOW"):
            print("\n".join(shown))

    def test_ten_sets_at_two_percent_could_show_it(self):
        able = 0
        for path in sorted(SETS.glob("*-two-*.json")):
            found = self.verdict_of(json.loads(path.read_text()))
            able += found["detectable_change"] is not None and found["detectable_change"] <= 0.02
        self.assertGreaterEqual(able, 10)


class Runs(VerifyCase):
    def lists(self, scale, count=4):
        return [[scale * (10000 + 10 * ((7 * step + 3 * run) % 11) + 5 * (run * run % 7)) for step in range(40)]
                for run in range(count)]

    def test_slower_fails_and_faster_passes(self):
        slow, fast = self.runs("slow", self.lists(1.1)), self.runs("fast", self.lists(1))
        found = self.verify(fast, slow, "--alternating", status=1)
        self.assertEqual(found["verdict"], "slower")
        self.assertAlmostEqual(found["change"], 0.1, places=3)
        self.assertEqual(self.verify(fast, slow, "--alternating", "--fail-above", "15%")["verdict"], "slower")
        self.assertEqual(self.verify(slow, fast, "--alternating")["verdict"], "faster")
        same = self.verify(fast, fast, "--alternating")
        self.assertEqual(same["verdict"], "no difference")
        self.verify(fast, fast, "--alternating", "--require-faster", status=1)

    def test_a_run_counts_once_and_turns_are_turns(self):
        slow, fast = self.runs("slow", self.lists(1.1)), self.runs("fast", self.lists(1))
        twice = self.verify([fast[0]] * 3 + [fast[1]], slow, status=1)
        self.assertEqual([each for each in twice["remarks"] if "names" in each],
                         [f"--before names {fast[0]} more than once: one run told as several makes this look surer than it "
                          "is."])
        uneven = self.reprise("verify", "--before", *fast, "--after", *slow[:2], "--alternating", status=3)
        self.assertIn("4 runs before and 2 after were not taken in turn", uneven.stderr)
        self.verify(fast, slow[:3], "--alternating", status=1)

    def test_the_csv_says_what_the_json_says(self):
        slow, fast = self.runs("slow", self.lists(1.1)), self.runs("fast", self.lists(1))
        told = self.verify(fast, slow, status=1)
        text = self.reprise("verify", "--before", *fast, "--after", *slow, "--format", "csv", status=1).stdout
        before, after = csv.DictReader(text.splitlines())
        for row, name in ((before, "before"), (after, "after")):
            for key, value in told[name].items():
                self.assertAlmostEqual(float(row[key]), value, delta=1e-5 * abs(value))
        self.assertEqual(after["verdict"], "slower")
        self.assertAlmostEqual(float(after["change"]), told["change"], places=6)
        self.assertAlmostEqual(float(after["low"]), told["interval"][0], places=6)

    def test_one_run_a_side_needs_a_reference(self):
        lone = self.verify(self.runs("b", self.lists(1, 1)), self.runs("a", self.lists(1.1, 1)), status=1)
        self.assertEqual(lone["verdict"], "not comparable")
        self.assertIn("One run a side", lone["remarks"][0])
        # The machine is 1.3 times as slow in the second run: its reference says so.
        lines = lambda scale, pace: "".join(f"{pace * scale * each / 1000} ms {pace} ms\n"
                                            for each in self.lists(1, 1)[0])
        before = self.write("before.txt", "# step, reference\n" + lines(1, 1))
        same, slow = self.write("same.txt", lines(1, 1.3)), self.write("slow.txt", lines(1.1, 1.3))
        self.assertEqual(self.verify([before], [same])["verdict"], "no difference")
        found = self.verify([before], [slow], status=1)
        self.assertEqual(found["verdict"], "slower")
        self.assertAlmostEqual(found["change"], 0.1, places=3)
        self.assertTrue(found["by_reference"])

    def test_lists_in_all_their_forms_are_the_same_run(self):
        times = self.lists(1, 1)[0]
        forms = [self.write("a.txt", "".join(f"{each / 1000} ms\n" for each in times)),
                 self.write("b.txt", "".join(f"{each}us # warm\n" for each in times)),
                 self.write("c.json", json.dumps([each / 1e6 for each in times])),
                 self.write("d.json", json.dumps({"schema": "reprise.train/1", "program": "x",
                                                  "step_time_ns": {"all": [1000 * each for each in times]}})),
                 self.write("e.txt", "".join(f"{each / 1e6}\n" for each in times)),
                 self.write("f.txt", "".join(f"{each} \u00b5s\n" for each in times))]
        found = self.verify(forms, forms)
        self.assertEqual(found["before"]["runs"], 6)
        self.assertLess(found["before"]["spread"], 1e-9)

    def test_what_cannot_be_read_is_named(self):
        good = self.runs("g", self.lists(1, 2))
        for text, told in (("12 ms\nsoon\n", "bad.txt:2"), ("1 ms 2 ms\n1 ms\n", "bad.txt:2"),
                           ("[1, -2]", "expected a time above zero"),
                           ("1e300 s\n", "below 2^63 ns"), ('{"step_time_ns": "x"}', "expected an array"),
                           ("# nothing\n", "it has no step"), ("[0.1", "not JSON")):
            bad = self.write("bad.txt", text)
            done = self.reprise("verify", "--before", bad, "--after", *good, status=3)
            self.assertIn(told, done.stderr)

    def test_a_confidence_that_is_none_is_refused(self):
        runs = self.runs("r", self.lists(1, 2))
        for share in ("0", "10%", "99.99999%", "100%"):
            done = self.reprise("verify", "--before", *runs, "--after", *runs, "--confidence", share, status=3)
            self.assertIn(f"--confidence {share}: expected", done.stderr)
        for share in ("50%", "99.9999%"):
            self.verify(runs, runs, "--confidence", share)

    def test_jobs_of_other_numbers_of_ranks_are_not_comparable(self):
        paths = {}
        for ranks in (2, 4):
            told = {"schema": "reprise.steps/1", "ranks": ranks, "step_time_ns": [1e6 + at % 7 for at in range(40)]}
            paths[ranks] = [self.write(f"{ranks}.{run}.json", json.dumps(told)) for run in range(2)]
        found = self.verify(paths[2], paths[4], status=1)
        self.assertEqual(found["verdict"], "not comparable")
        self.assertIn("The runs are of different numbers of ranks: 2 and 4.", found["remarks"])
        self.assertEqual(self.verify(paths[2], paths[2])["verdict"], "no difference")

    def test_traces_are_runs(self):
        for name in ("a", "b"):
            self.reprise("import", SAMPLE, "-o", self.path / f"{name}.trace")
        traces = [self.path / "a.trace", self.path / "b.trace"]
        found = self.verify(traces, [SAMPLE, SAMPLE], status=1)  # Three steps a run are too few.
        self.assertEqual(found["verdict"], "not comparable")
        self.assertIn("too few", found["remarks"][0])
        self.assertEqual(found["after"]["steps"], 6)


class Programs(VerifyCase):
    """A recorded run of our trainer beside step times that the trainer printed."""

    RUN = ROOT / "tests/golden/traces/run.trace"

    def setUp(self):
        super().setUp()
        if not self.RUN.exists():
            self.skipTest("no recorded run")
        self.plan = self.path / "plan.json"
        self.reprise("optimize", self.RUN, "--no-measure", "--baseline", "ddp", "-o", self.plan)
        told = {"schema": "reprise.train/1", "program": "somewhere/step.hlo", "ranks": 2,
                "program_fingerprint": json.loads(self.plan.read_text())["program_fingerprint"],
                "step_time_ns": {"all": [1e6 + at % 7 for at in range(40)]}}
        self.printed = self.write("printed.json", json.dumps(told))

    def test_the_program_is_the_same_in_both(self):
        found = self.verify([self.RUN, self.RUN], [self.printed, self.printed], status=1)
        self.assertRegex(found["remarks"][0], "are too few")  # And not: of different programs.

    def test_printed_times_do_not_show_a_plan(self):
        found = self.verify([self.printed] * 2, [self.printed] * 2, plan=[self.plan])
        self.assertIsNone(found["plan"]["in_effect"], found["plan"])


class Effect(VerifyCase):
    """A plan of the sample, before and after the sample itself: its recorded buckets are PyTorch's default ones."""

    def setUp(self):
        super().setUp()
        self.reprise("import", SAMPLE, "-o", self.trace)
        self.plan = self.path / "plan.json"
        self.reprise("optimize", self.trace, "--only", "buckets", "-o", self.plan)

    def planned(self, change):
        plan = json.loads(self.plan.read_text())
        change(plan)
        self.plan.write_text(json.dumps(plan))

    def effect(self, status=1):
        return self.verify([self.trace], [self.trace], plan=[self.plan], status=status)["plan"]

    def test_buckets_that_ran_are_in_effect(self):
        recorded = [bucket for bucket in self.recorded_buckets()]
        self.planned(lambda plan: plan.update(buckets=recorded))
        found = self.effect()
        self.assertTrue(found["in_effect"], found)
        parts = found["prediction"]
        self.assertLess(abs(parts["structure_ns"]), 0.01 * parts["measured_ns"])
        self.assertAlmostEqual(parts["predicted_ns"] + sum(parts[part] for part in (
            "pace_ns", "price_ns", "structure_ns", "unexplained_ns")), parts["measured_ns"], delta=5)

    def test_other_buckets_are_named_and_fail(self):
        one = [{"unit": "b0", "collectives": [f"gradient.{i}" for i in range(10)]}]
        self.planned(lambda plan: plan.update(buckets=one, single_cap={"bytes": 1, "step_time_ns": 1}))
        found = self.effect()
        self.assertIs(found["in_effect"], False)
        self.assertRegex(found["told"], r"bucket 0 has 2\.1 MB where 4\.2 MB are planned")

    def test_another_model_is_not_comparable(self):
        def widen(plan):
            plan["gradients"][0]["bytes"] *= 2
        self.planned(widen)
        found = self.verify([self.trace], [self.trace], plan=[self.plan], status=1)
        self.assertEqual(found["verdict"], "not comparable")
        self.assertIn("not of the plan's program", found["remarks"][0])

    def test_step_times_do_not_show_a_plan(self):
        runs = self.runs("r", [[1000 + (7 * i + r) % 5 for i in range(40)] for r in range(3)])
        found = self.verify(runs, runs, plan=[self.plan])
        self.assertIsNone(found["plan"]["in_effect"])

    def recorded_buckets(self):
        """The sample's two all-reduces: each takes the next gradients in ready order until its size is reached."""
        gradients = json.loads(self.plan.read_text())["gradients"]
        sizes, buckets, at = [4 * 530442, 4 * 525312], [], 0
        for place, size in enumerate(sizes):
            members = []
            while size > 0:
                members.append(gradients[at]["name"])
                size -= gradients[at]["bytes"]
                at += 1
            self.assertEqual(size, 0)
            buckets.append({"unit": f"b{place}", "collectives": members})
        return buckets


class Sharded(VerifyCase):
    """Runs of FSDP2 against a plan of six gradients in three buckets; module x has x.weight and x.bias.

    Names and nesting of ranges as PyTorch 2.15 records them (tests/ddp/hosts_test.py records them anew).
    """

    SHAPES = {"head": [[8], [8, 64]], "mid": [[64], [64, 32]], "body": [[32], [32, 16]], "stem": [[16], [16, 4]]}
    PLANNED = [["head", "mid"], ["body"], ["stem"]]  # In the order of readiness.

    def setUp(self):
        super().setUp()
        gradients, buckets = [], []
        for place, modules in enumerate(self.PLANNED):
            members = [shape for module in modules for shape in self.SHAPES[module]]
            names = [f"gradient.{len(gradients) + at}" for at in range(len(members))]
            gradients += [{"name": name, "type": "float", "shape": "x".join(map(str, shape)),
                           "bytes": 4 * shape[0] * (shape[1] if len(shape) > 1 else 1)}
                          for name, shape in zip(names, members, strict=True)]
            buckets.append({"unit": f"b{place}", "collectives": names})
        self.plan = self.write("plan.json", json.dumps({
            "schema": "reprise.plan/1", "trace_fingerprint": "sha256:" + 64 * "0", "gradients": gradients,
            "single_cap": {"bytes": 4096, "step_time_ns": 110}, "device": "cpu", "ranks": 2, "fusion": [],
            "buckets": buckets, "predicted": {"step_time_ns": 100, "baselines": {"ddp": 120}, "lower_bound_ns": 90,
                                              "gap": 0.1}}))

    def run_of(self, groups, own=(), forward=None, shapes=True, longest=30):
        """A trace of two steps: `groups` of modules in the order of their reductions, `own` are the model's own.

        Lists of more than `longest` tensors are empty, as PyTorch's profiler leaves them.
        """
        events, now = [], 0

        def event(name, kind, start, length, **arguments):
            events.append({"ph": "X", "cat": kind, "name": name, "pid": 7, "tid": 7, "ts": start, "dur": length,
                           "args": arguments})

        labels = [", ".join(group) for group in groups]
        for step in range(2):
            begin = now
            for label in reversed(labels[:-1]) if forward is None else forward:
                event(f"FSDP::forward_prefetch for {label}", "user_annotation", now + 1, 5)
                now += 10
            for label, modules in [*zip(labels, groups, strict=True), *([("", own)] if own else [])]:
                if label:
                    event(f"FSDP::backward_prefetch for {label}", "user_annotation", now + 1, 2)
                dims = [shape for module in modules for shape in self.SHAPES[module]]
                # The model's own gradients come first, and are reduced last.
                ready = [*([shape for module in own for shape in self.SHAPES[module]] if not labels or label == labels[0] else []),
                         *(dims if label else [])]
                for shape in ready:
                    event("torch::autograd::AccumulateGrad", "cpu_op", now + 3, 1,
                          **({"Input Dims": [shape], "Input type": ["float"]} if shapes else {}))
                    now += 2
                event("FSDP::post_backward_reduce" + (f" ({label})" if label else ""), "user_annotation", now + 4, 20)
                row = sum(-(-shape[0] // 2) * (shape[1] if len(shape) > 1 else 1) for shape in dims)
                event("fsdp::chunk_cat_mixed_dtype", "cpu_op", now + 5, 10,
                      **({"Input Dims": [dims if len(dims) <= longest else [], [], [], [2, row]]} if shapes else {}))
                now += 30
            event(f"ProfilerStep#{step}", "user_annotation", begin, now - begin)
        return self.write("sharded.json", json.dumps({
            "schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 2, "backend": "gloo"},
            "traceEvents": events}))

    def effect(self, *run, **how):
        trace = self.run_of(*run, **how)
        return self.verify([trace], [trace], plan=[self.plan], status=1)["plan"]

    def test_planned_groups_with_prefetching_are_in_effect(self):
        found = self.effect(self.PLANNED)
        self.assertIs(found["in_effect"], True, found)
        self.assertIn("3 groups are of a planned bucket each, and are prefetched", found["told"])
        self.assertNotIn("predicted_speed_up", found)  # That was of DDP.

    def test_a_bucket_in_two_groups_is_named(self):
        found = self.effect([["head"], ["mid"], ["body"], ["stem"]])
        self.assertIs(found["in_effect"], False)
        self.assertIn("bucket 0 is cut into the groups (head) and (mid)", found["told"])

    def test_buckets_in_one_group_are_named(self):
        found = self.effect([["head", "mid"], ["body", "stem"]])
        self.assertIs(found["in_effect"], False)
        self.assertIn("bucket 2 has no group: its gradients are in (body, stem)", found["told"])

    def test_what_is_left_to_the_model_is_named(self):
        found = self.effect([["head", "mid"], ["body"]], own=["stem"])
        self.assertIs(found["in_effect"], False)
        self.assertIn("bucket 2 has no group: its gradients are in (the model's own)", found["told"])
        self.assertIs(self.effect([], own=["head", "mid", "body", "stem"])["in_effect"], False)

    def test_a_module_that_cannot_be_cut_is_whole(self):
        plan = json.loads(self.plan.read_text())
        first, second = plan["buckets"][0]["collectives"], plan["buckets"][1]["collectives"]
        plan["buckets"][0]["collectives"], plan["buckets"][1]["collectives"] = [*first, second[0]], second[1:]
        self.plan.write_text(json.dumps(plan))  # body.bias is with mid, body.weight, which is larger, by itself.
        self.assertIs(self.effect(self.PLANNED)["in_effect"], True)

    def test_a_group_that_nobody_prefetches_is_named(self):
        found = self.effect(self.PLANNED, forward=["head, mid"])
        self.assertIs(found["in_effect"], False)
        self.assertIn("groups are as planned, but (body) is not prefetched in forward", found["told"])

    def test_groups_whose_tensors_are_not_listed_are_inferred(self):
        self.assertIs(self.effect(self.PLANNED, longest=2)["in_effect"], True)
        found = self.effect([["head", "mid"], ["body", "stem"]], longest=2)
        self.assertIn("bucket 2 has no group", found["told"])
        # Nor do the model's own, which come between, hide them.
        found = self.effect([["mid"], ["body", "stem"]], own=["head"], longest=2)
        self.assertIn("bucket 2 has no group: its gradients are in (body, stem)", found["told"])

    def test_without_shapes_nothing_is_said_of_groups(self):
        found = self.effect(self.PLANNED, shapes=False)
        self.assertIsNone(found["in_effect"])
        self.assertIn("record_shapes=True", found["told"])

    def test_another_model_is_not_comparable(self):
        trace = self.run_of([["head", "mid"], ["body"]])
        found = self.verify([trace], [trace], plan=[self.plan], status=1)
        self.assertEqual(found["verdict"], "not comparable")
        self.assertIn("its gradients are not the plan's", found["plan"]["told"])


if __name__ == "__main__":
    unittest.main()
