#!/usr/bin/env python3
"""The script of GPU machines where it has to do without: no PyTorch or JAX, too little time, an earlier run's results."""

import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import limits  # noqa: E402
import machine as machines  # noqa: E402
import parts  # noqa: E402
import run  # noqa: E402

ROOT = pathlib.Path(os.environ.get("REPRISE_ROOT", HERE.parent.parent / "build/release")).resolve()


class WithoutFrameworks(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        for framework in ("torch", "jax"):
            (self.path / f"{framework}.py").write_text("raise ImportError('as on a bare machine')\n")

    def tearDown(self):
        self.directory.cleanup()

    def results(self, *flags):
        done = subprocess.run([sys.executable, HERE / "run.py", "--root", ROOT, "--output", self.path, "--dry-run",
                               "--quick", *flags], capture_output=True, text=True, timeout=250,
                              env=dict(os.environ, PYTHONPATH=str(self.path)))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return json.loads((self.path / "results.json").read_text())

    def test_what_needs_them_says_so_and_the_rest_is_measured(self):
        results = self.results("--only", "scripts,against_xla,overhead")
        known = results["facts"]
        self.assertLessEqual({"date", "commit", "gpu", "driver", "torch", "jax"}, set(known))
        self.assertIsNone(known["torch"])
        by_name = {part["part"]: part for part in results["parts"]}
        lines = {goal["name"]: goal for part in results["parts"] for goal in part.get("goals", [])}
        for name in ("torch script", "jax script", "torch operators script", "profiler on torch script",
                     "profiler on jax script"):
            framework = "jax" if "jax" in name else "torch"
            self.assertEqual(lines[name]["value"], f"not measured: no {framework}")
            self.assertIsNone(lines[name]["met"])
        self.assertEqual(by_name["against_xla"]["skipped"], "not measured: no jax")
        trainer = by_name["overhead"]["values"]["mlp.1, eager"]
        self.assertEqual(trainer["rounds"], 2)
        self.assertGreater(trainer["step_ms"], 0)
        summary = (self.path / "summary.md").read_text()
        self.assertIn("| overhead | profiler on torch script | not measured: no torch |", summary)

    def test_parts_of_earlier_runs_stay(self):
        first = self.results("--only", "doctor")
        both = self.results("--only", "scripts")
        self.assertEqual([part["part"] for part in both["parts"]], ["doctor", "scripts"])
        self.assertEqual(both["parts"][0], first["parts"][0])
        again = self.results("--only", "doctor")
        self.assertEqual([part["part"] for part in again["parts"]], ["scripts", "doctor"])


class OnTheCpuInstead(unittest.TestCase):
    def test_a_framework_without_a_gpu_measures_nothing_of_one(self):
        one = machines.Machine(ROOT, ROOT, dry_run=False)
        one.frameworks["jax"] = {"version": "9.9", "device": "cpu"}
        with self.assertRaisesRegex(machines.Skipped, "^not measured: jax 9.9 sees no GPU$"):
            one.needs("jax")
        one.frameworks["jax"]["device"] = "cuda"
        one.needs("jax")


class Time(unittest.TestCase):
    def test_a_part_short_of_time_makes_fewer_rounds_but_one(self):
        calls = []

        def once():
            calls.append(1)
            return {"step_time_ns": {"median": 7}}

        for left, rounds in ((0, 1), (1e9, 5)):
            calls.clear()
            medians = parts.alternate(types.SimpleNamespace(remaining=lambda: left), 5, 2, a=once, b=once)
            self.assertEqual(medians, {"a": [7] * rounds, "b": [7] * rounds})
            self.assertEqual(len(calls), 2 * rounds)

    def test_a_script_without_time_is_not_measured_and_no_miss(self):
        one = machines.Machine(ROOT, ROOT, dry_run=True)
        one.frameworks = {name: {"version": "9.9", "device": "cpu"} for name in ("torch", "jax")}
        late = mock.Mock(side_effect=machines.OutOfTime("no end after 1 s"))
        with mock.patch.object(parts, "recorded_script", late):
            _, goals = parts.scripts(one, None)
        self.assertEqual([(goal[1], goal[3]) for goal in goals], [("no end after 1 s", None)] * 3)

    def test_what_does_not_end_is_ended_with_all_it_started(self):
        one = machines.Machine(ROOT, ROOT, dry_run=True)
        one.start_part(0)  # The least a command gets is a second.
        with self.assertRaises(machines.OutOfTime):
            one.run(["sh", "-c", "sleep 600 & sleep 600"])


# Of every limit: values, with what else it depends on, that keep it and that break it.
JAX = {"limit": 1e-3, "passed": True}
EXAMPLES = {
    "jax": ([(1e-3, JAX)], [(1.1e-3, JAX), (1e-4, dict(JAX, passed=False)), (float("nan"), JAX)]),
    "state": ([(1e-3,)], [(1.1e-3,), (float("nan"),)]),
    "clean": ([(0,)], [(1,)]),
    "equal": ([(0,)], [(1,)]),
    "same bits": ([(0,)], [(1,)]),
    "replay": ([(0.02,), (-0.02,)], [(0.021,), (-0.021,), (None,)]),
    "script replay": ([(0.03,), (-0.03,)], [(0.031,), (-0.031,), (None,)]),
    "fusion": ([(1.2,)], [(1.19,)]),
    "overhead": ([(0.01,), (-0.2,)], [(0.011,), (None,)]),
    "xla": ([(1, 2)], [(0, 2), (0, 1)]),
    "some": ([(1,)], [(0,)]),
    "one": ([(1,)], [(0,), (2,)]),
    "own kernels": ([(0.9,)], [(0.89,), (0,), (None,)]),
    "kept kernels": ([(0.8,)], [(0.79,), (0,), (None,)]),
    "done": ([(True,)], [(None,)]),
}


class Limits(unittest.TestCase):
    def ended(self, part):
        """(exit status, summary.md) of a run whose only part is this one."""
        with tempfile.TemporaryDirectory() as folder, \
             mock.patch.dict(run.PARTS, {"doctor": part}), \
             mock.patch.object(sys, "argv", ["run.py", "--root", str(ROOT), "--output", folder, "--only", "doctor"]), \
             contextlib.redirect_stdout(io.StringIO()) as printed, contextlib.redirect_stderr(io.StringIO()):
            status = run.main()
            self.assertEqual(printed.getvalue().strip(), pathlib.Path(folder, "summary.md").read_text().strip())
            return status, printed.getvalue()

    def test_every_limit_when_broken_is_missed_in_the_table_and_fails_the_run(self):
        self.assertEqual(set(EXAMPLES), set(limits.LIMITS))
        for name, (kept, broken) in EXAMPLES.items():
            for values, word, expected in [(each, "met", 0) for each in kept] + [(each, "MISSED", 1) for each in broken]:
                def part(machine, options, name=name, values=values):
                    """A part with one line."""
                    return {}, [limits.held("line", values[0], name, *values[1:])]
                status, table = self.ended(part)
                self.assertEqual(status, expected, (name, values))
                row = [line for line in table.splitlines() if line.startswith("| doctor | line |")]
                self.assertEqual(len(row), 1, table)
                self.assertTrue(row[0].endswith(f"| {word} |"), row)

    def test_a_part_that_fails_fails_the_run_and_one_that_cannot_be_tried_does_not(self):
        def raises(problem):
            def part(machine, options):
                """A part that ends early."""
                raise problem
            return part

        for problem, expected, word in ((machines.Failure("broke"), 1, "FAILED"), (ValueError("a mistake"), 1, "FAILED"),
                                        (machines.Skipped("not measured: no torch"), 0, "skipped")):
            status, table = self.ended(raises(problem))
            self.assertEqual(status, expected, problem)
            self.assertIn(f"| {word} |", table)
        self.assertEqual(self.ended(lambda machine, options: ({}, [parts.unmeasured("x", "y", "no torch")]))[0], 0)


class JaxKinds(unittest.TestCase):
    def test_each_step_is_equal_refused_or_late_whichever_worker_had_it(self):
        same, other, refused = {"equal": True}, {"equal": False}, {"refused": "no such opcode"}
        said = [[{"steps": ["a", "c"]}, {"step": "a", "none": same, "plan": other}],
                [{"steps": ["b", "d", "e"]}, {"step": "b", "none": same, "plan": refused},
                 {"step": "d", "refused": "no export"}]]
        lines = iter([[json.dumps(line) for line in worker] for worker in said])
        with mock.patch.object(parts, "start_jax_steps") as start, mock.patch.object(os, "cpu_count", lambda: 3), \
             mock.patch.object(parts, "collect", lambda *_: next(lines)):
            values, goals = parts.jax_kinds(mock.Mock(), types.SimpleNamespace(jax_kinds=None, quick=False))
        self.assertEqual([call.args[-1] for call in start.call_args_list], ["0/2", "1/2"])
        self.assertEqual(values["a"], {"none": same, "plan": other})
        self.assertEqual([(name, value, met) for name, value, _, met in goals],
                         [("JAX's steps op by op: others than JAX's, of 2", 0, True),
                          ("JAX's steps under XLA's fusion: others than JAX's, of 1 (a)", 1, False),
                          ("JAX's steps that did not run in both ways or could not be exported here", 2, None),
                          ("JAX's steps, 2 more", "not measured: no time left", None)])
        self.assertEqual(goals[2][2], "b, d")


class LostRace(unittest.TestCase):
    def test_its_reason_is_where_the_time_goes(self):
        analysis = {"ranks": [{"window_ns": 200, "exclusive": {"compute_ns": 150, "memory_ns": 0, "idle_ns": 50}}],
                    "kernels": [{"name": "f1", "total_ns": 30}, {"name": "dot.1", "total_ns": 90},
                                {"name": "f2", "total_ns": 20}, {"name": "f3", "total_ns": 10}]}
        answer = parts.where_time_goes(types.SimpleNamespace(reprise=lambda *_: analysis), "t.trace")
        self.assertEqual(answer, "75% compute, 25% idle; of its kernels dot.1 60%, f1 20%, f2 13%")

    def test_a_line_of_the_summary_for_each_goal_failure_and_skip(self):
        text = run.summary({
            "facts": {"gpu": "H200", "driver": "580.1", "date": "today", "commit": "abc", "cores": 2, "torch": None,
                      "jax": None, "dry_run": False},
            "parts": [{"part": "p", "goals": [{"name": "a", "value": 0.5, "goal": "≤ 1", "met": True},
                                              {"name": "b", "value": 2, "goal": "≤ 1", "met": False},
                                              {"name": "c", "value": "not measured: no jax", "goal": "≤ 1",
                                               "met": None}]},
                      {"part": "q", "failure": "broke\nhere"}, {"part": "r", "skipped": "needs a GPU"}]})
        rows = [line for line in text.splitlines() if line.startswith("| ")][1:]
        self.assertEqual(rows, ["| p | a | 0.5 | ≤ 1 | met |", "| p | b | 2 | ≤ 1 | MISSED |",
                                "| p | c | not measured: no jax | ≤ 1 | not judged |",
                                "| q | failed: broke | | | FAILED |", "| r | needs a GPU | | | skipped |"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
