#!/usr/bin/env python3
"""`reprise replay` of imported traces: contract, what-ifs, steps, validation, timelines and refusals."""

import csv
import io
import json
import unittest

import made_up_job
from command_case import ROOT, CommandCase, reprise

TRACES = ROOT.parent / "shared/traces"


def kineto(kernel=100, steps=3, rank=0, late=0):
    """Steps of 150 us plus what the kernel takes: a launch, the kernel 20 us later, a synchronization that returns
    10 us after it. The host then works by itself for 100 us. All in whole microseconds."""
    events = []

    def add(category, name, thread, start, duration, correlation=None, **arguments):
        if correlation is not None:
            arguments["correlation"] = correlation
        events.append({"ph": "X", "cat": category, "name": name, "pid": 0 if category == "kernel" else 7,
                       "tid": thread, "ts": 1000 + start, "dur": duration, "args": arguments})

    step = 20 + kernel + 10 + 100
    for i in range(steps):
        at = late + i * step
        add("user_annotation", f"ProfilerStep#{i + 1}", 7, at, step)
        add("cuda_runtime", "cudaLaunchKernel", 7, at, 10, i + 1)
        add("kernel", "gemm", 7, at + 20, kernel, i + 1, device=0, stream=7)
        add("cuda_runtime", "cudaDeviceSynchronize", 7, at + 12, 20 + kernel + 10 - 12)
        add("cpu_op", "aten::loss", 7, at + 20 + kernel + 10, 100)
    return {"schemaVersion": 1, "traceEvents": events,
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2}}


class ReplayImported(CommandCase):
    def imported(self, name="run", **options):
        source, trace = self.path / f"{name}.json", self.path / f"{name}.trace"
        source.write_text(json.dumps(kineto(**options)))
        result = reprise("import", source, "-o", trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        return trace

    def replay(self, *arguments):
        result = reprise("replay", *arguments, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def test_the_recorded_run_comes_back(self):
        answer = self.replay(self.imported())
        self.assertEqual(answer["schema"], "reprise.replay/1")
        self.assertEqual(answer["step_time_ns"], {"predicted": 230_000, "measured": 230_000})
        self.assertEqual(answer["error"], 0)
        self.assertEqual([step["predicted_ns"] for step in answer["steps"]], [230_000] * 3)
        rank = answer["ranks"][0]
        # Three kernels of 100 us in 690.
        self.assertEqual((rank["compute_ns"], rank["communication_ns"], rank["exposed_ns"], rank["idle_ns"]),
                         (300_000, 0, 0, 390_000))
        self.assertEqual(answer["sources"]["unexplained"], 0)
        self.assertAlmostEqual(sum(answer["sources"].values()), 1, places=9)
        self.assertEqual(answer["graph"]["cycles_repaired"], 0)

    def test_the_critical_path_covers_the_window(self):
        answer = self.replay(self.imported())
        path = answer["critical_path"]
        self.assertEqual(sum(entry["duration_ns"] for entry in path), 690_000)
        for before, after in zip(path, path[1:]):
            self.assertEqual(before["start_ns"] + before["duration_ns"], after["start_ns"])
        # 20 us of launch, 100 of kernel and 110 of host in each step.
        self.assertEqual(answer["critical_path_by_kind"]["kernel_ns"], 300_000)
        self.assertEqual(answer["critical_path_by_kind"]["launch_ns"], 60_000)
        self.assertEqual(answer["critical_path_by_kind"]["host_ns"], 330_000)

    def test_what_ifs_move_the_step(self):
        trace = self.imported()
        for what_if, step in [("device=2x", 330), ("op:gemm=0.5x", 180), ("host=2x", 340), ("launch=0", 210),
                              ("rank:0=2x", 440)]:
            answer = self.replay(trace, "--what-if", what_if)
            self.assertEqual(answer["step_time_ns"], {"predicted": step * 1000, "measured": None}, what_if)
            self.assertEqual(answer["recorded"]["predicted_ns"], 230_000)
            self.assertEqual(answer["what_ifs"], [what_if])
            self.assertIsNone(answer["error"])

    def test_a_step_by_itself(self):
        answer = self.replay(self.imported(), "--step", 2)
        self.assertEqual(answer["window"]["step"], 2)
        self.assertEqual(answer["step_time_ns"]["predicted"], 230_000)
        self.assertEqual(len(answer["steps"]), 1)

    def test_a_step_without_its_kernels_predicts_nothing(self):
        """What the device did in step 3 of 4 was not recorded: of a slower link that step would tell nothing."""
        ranks, _ = made_up_job.job(steps=4)
        for rank in ranks:
            begin, end = next((mark["ts"], mark["ts"] + mark["dur"]) for mark in rank.events
                              if mark["name"] == "ProfilerStep#3")
            rank.events = [event for event in rank.events
                           if event["cat"] != "kernel" or not begin <= event["ts"] < end]
        result = reprise("import", *made_up_job.write(self.path, ranks), "-o", self.path / "cut.trace")
        self.assertEqual(result.returncode, 0, result.stderr)
        result = reprise("replay", self.path / "cut.trace", "--what-if", "bandwidth=0.25x")
        table = result.stdout.split("\n\n")[1].splitlines()
        self.assertEqual([row.split()[0] for row in table], ["step", "1", "2", "4"], result.stdout)
        self.assertIn("step 3 is left out", result.stderr)
        # Asked for, it is there.
        self.assertEqual(self.replay(self.path / "cut.trace", "--step", 3)["steps"][0]["step"], 3)

    def test_validation_against_another_run(self):
        # Kernels of 200 us, predicted from a run with kernels of 100.
        base, other = self.imported(), self.imported("other", kernel=200)
        answer = self.replay(base, "--what-if", "op:gemm=2x", "--validate", other)
        self.assertEqual(answer["step_time_ns"], {"predicted": 330_000, "measured": 330_000})
        self.assertEqual(answer["error"], 0)

    def test_the_first_line_says_the_answer(self):
        result = reprise("replay", self.imported(), "--what-if", "device=2x")
        self.assertEqual(result.returncode, 0, result.stderr)
        first = result.stdout.splitlines()[0]
        self.assertTrue(first.startswith("step 330 us predicted with device=2x (+43.5 % against 230 us"), first)
        self.assertLessEqual(len(result.stdout.splitlines()), 24)
        self.assertLessEqual(max(map(len, result.stdout.splitlines())), 130)

    def test_steps_that_last_unequally_are_told_by_their_mean(self):
        """A checkpoint of 400 us behind the last of four steps of 230: no step lasts as long as their median changed by
        what all gain."""
        trace = kineto(steps=4)
        marks = [event for event in trace["traceEvents"] if event["name"] == "ProfilerStep#4"]
        end = marks[0]["ts"] + marks[0]["dur"]
        marks[0]["dur"] += 400
        trace["traceEvents"].append(dict(marks[0], cat="cpu_op", name="save", ts=end, dur=400, args={}))
        (self.path / "uneven.json").write_text(json.dumps(trace))
        result = reprise("replay", self.path / "uneven.json", "--what-if", "op:save=0.1x")
        self.assertEqual(result.returncode, 0, result.stderr)
        first = result.stdout.splitlines()[0]
        # 3 x 230 and 270, instead of 3 x 230 and 630.
        self.assertTrue(first.startswith("mean step 240 us predicted with op:save=0.1x (-27.3 % against 330 us"), first)

    def test_csv_has_a_row_a_rank_and_a_step(self):
        result = reprise("replay", self.imported(), "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        self.assertEqual([row["step"] for row in rows], ["", "1", "2", "3"])
        self.assertEqual([row["predicted_ns"] for row in rows], ["690000"] + ["230000"] * 3)

    def test_chrome_shows_both_timelines(self):
        trace, file = self.imported(), self.path / "timeline.json"
        result = reprise("replay", trace, "--what-if", "device=2x", "--chrome", file)
        self.assertEqual(result.returncode, 0, result.stderr)
        events = json.loads(file.read_text())["traceEvents"]
        processes = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        self.assertEqual(sorted(processes.values()), ["rank 0 measured", "rank 0 predicted"])
        kernels = {}
        for event in events:
            if event.get("ph") == "X" and event["name"] == "gemm":
                kernels.setdefault(processes[event["pid"]], []).append(event["dur"])
        self.assertEqual(kernels, {"rank 0 measured": [100] * 3, "rank 0 predicted": [200] * 3})
        flows = [event for event in events if event.get("ph") in ("s", "f")]
        self.assertGreaterEqual(len(flows), 6)
        again = reprise("replay", trace, "--chrome", file)
        self.assertEqual(again.returncode, 3)

    def test_refusals_say_what_to_do(self):
        trace = self.imported()
        for arguments, words in [(["--step", 9], "steps 1 to 3"), (["--plan", "p.json"], "--what-if"),
                                 (["--what-if", "ranks=64"], "no collective of several ranks"),
                                 (["--what-if", "speed=2x"], "device=0.5x"),
                                 (["--what-if", "bandwidth=2x"], "no collectives"),
                                 (["--what-if", "op:conv=2x"], "no event's name"),
                                 (["--validate", self.path / "none.trace"], "none.trace")]:
            result = reprise("replay", trace, *arguments)
            self.assertEqual(result.returncode, 3, arguments)
            self.assertIn(words, result.stderr)
            self.assertEqual(result.stdout, "")

    def test_the_same_input_gives_the_same_bytes(self):
        trace = self.imported()
        outputs = {reprise("replay", trace, "--format", "json", "--what-if", "host=0.5x").stdout for _ in range(3)}
        self.assertEqual(len(outputs), 1)

    @unittest.skipUnless(TRACES.exists(), "../shared/traces is not beside this tree")
    def test_dlrm_on_eight_ranks(self):
        trace = self.path / "dlrm.trace"
        source = TRACES / "kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz"
        self.assertEqual(reprise("import", source, "-o", trace).returncode, 0)
        answer = self.replay(trace)
        self.assertEqual([rank["rank"] for rank in answer["ranks"]], list(range(8)))
        for rank in answer["ranks"]:
            self.assertLess(abs(rank["error"]), 0.03)
            self.assertLess(rank["unexplained"], 0.15)
        self.assertLess(abs(answer["error"]), 0.03)
        result = reprise("replay", trace)
        self.assertLessEqual(len(result.stdout.splitlines()), 24)

    @unittest.skipUnless(TRACES.exists(), "../shared/traces is not beside this tree")
    def test_untimed_chakra(self):
        trace = self.path / "ring.trace"
        self.assertEqual(reprise("import", TRACES / "chakra/astrasim_custom_ring_8npu", "-o", trace).returncode, 0)
        answer = self.replay(trace)
        # Seven times 7 us of computing around the ring.
        self.assertEqual(answer["step_time_ns"], {"predicted": 49_000, "measured": None})
        self.assertTrue(any("no recorded duration" in note for note in answer["graph"]["notes"]))


if __name__ == "__main__":
    unittest.main()
