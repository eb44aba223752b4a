#!/usr/bin/env python3
"""`reprise analyze` and `reprise diff` on a step that can be counted by hand, and what they refuse."""

import csv
import io
import json
import re
import unittest

from command_case import ROOT, CommandCase

ALL_REDUCE = {"Collective name": "allreduce", "In msg nelems": 1000, "Out msg nelems": 1000, "Group size": 2,
              "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}


def kineto(rank, gemm_us, steps=(1,), extra=(), synchronize=False, prepare_us=0):
    """Steps of 1 ms. In each, from its start: gemm at 20 us on stream 7, launched at 10; an all-reduce on stream 20
    from the gemm's end to 520 us; relu from 610 to 710 us, launched at 600. The host may await the device from 30 us on, and prepare something from 750 us on."""
    events = []

    def add(cat, name, tid, start, end, **args):
        events.append({"ph": "X", "cat": cat, "name": name, "pid": 0 if cat == "kernel" else 9, "tid": tid, "ts": start,
                       "dur": end - start, "args": args})

    for step in steps:
        at, call = 1000 * step, 100 * step
        add("user_annotation", f"ProfilerStep#{step}", 9, at, at + 1000)
        if synchronize:
            add("cuda_runtime", "cudaDeviceSynchronize", 9, at + 30, at + 522, correlation=call + 50)
        if prepare_us:
            add("cpu_op", "aten::prepare", 9, at + 750, at + 750 + prepare_us)
            add("cuda_runtime", "cudaMalloc", 9, at + 755, at + 765, correlation=call + 51)
        work = [("void ns::gemm<float>(int)", 7, 10, 20, 20 + gemm_us, {}),
                ("ncclDevKernel_AllReduce_Sum_f32_RING_LL()", 20, 15, 20 + gemm_us, 520, ALL_REDUCE),
                ("relu", 7, 600, 610, 710, {}), *extra]
        for i, (name, stream, launch, start, end, args) in enumerate(work):
            add("cuda_runtime", "cudaLaunchKernel", 9, at + launch, at + launch + 3, correlation=call + i)
            add("kernel", name, stream, at + start, at + end, correlation=call + i, device=0, stream=stream, **args)
    return {"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "traceEvents": events}


class AnalyzeCase(CommandCase):
    def imported(self, name, traces):
        """A trace made of one Kineto file a rank."""
        files = []
        for i, trace in enumerate(traces):
            files.append(self.path / f"{name}.{i}.json")
            files[-1].write_text(json.dumps(trace))
        run = self.path / f"{name}.trace"
        self.reprise("import", *files, "-o", run)
        return run

    def two_ranks(self, name="run", gemm_us=(200, 400), **options):
        return self.imported(name, [kineto(rank, gemm, **options) for rank, gemm in enumerate(gemm_us)])


class Analyze(AnalyzeCase):
    def analysis(self, run, *arguments):
        return json.loads(self.reprise("analyze", run, "--format", "json", *arguments).stdout)

    def test_what_ran_beside_communication_alone_is_not_said(self):
        timeline = self.path / "horovod.json"
        rows = [{"name": "process_name", "ph": "M", "pid": 1, "args": {"name": "grad"}}]
        for name, start, end in (("NEGOTIATE_ALLREDUCE", 5, 10), ("ALLREDUCE", 10, 50), ("ALLREDUCE", 70, 110)):
            rows += [{"ph": "B", "name": name, "pid": 1, "ts": start}, {"ph": "E", "pid": 1, "ts": end}]
        timeline.write_text(json.dumps(rows))
        self.assertRegex(self.reprise("analyze", timeline).stdout,
                         r"^span 100 us: no compute recorded, 80 % communication, 20 % neither")

    def test_first_line_says_where_the_step_goes(self):
        # Of 2 x 1000 us: compute 200 + 100 and 400 + 100, exposed 300 and 100, the rest idle. Rank 1 comes 200 us
        # later to the all-reduce.
        text = self.reprise("analyze", self.two_ranks()).stdout
        self.assertRegex(text.splitlines()[0],
                         r"^step 1\.00 ms: 40 % compute, 20 % exposed communication, 40 % idle, of it \d+ % "
                         r"host-bound; rank 1 is late in 1 of 1 collectives$")

    def test_first_line_says_what_was_recorded_beside_the_device(self):
        # Findings and the path are of all that was recorded: 10 ms on the host before 690 us on the device.
        trace = kineto(0, 200)
        trace["traceEvents"] = [event for event in trace["traceEvents"] if event["cat"] != "user_annotation"]
        trace["traceEvents"].append({"ph": "X", "cat": "cpu_op", "name": "aten::prepare", "pid": 9, "tid": 9, "ts": -9000,
                                     "dur": 9990, "args": {}})
        first = self.reprise("analyze", self.imported("before", [trace])).stdout.splitlines()[0]
        self.assertIn("span 690 us of device work (10.7 ms recorded): ", first)

    def test_first_line_says_what_passes_between_steps(self):
        """Ranges of 720 us of each 1000 us: the loop does something else in between."""
        traces = [kineto(rank, 200, steps=(1, 2, 3, 4)) for rank in range(2)]
        for trace in traces:
            for event in trace["traceEvents"]:
                if event["name"].startswith("ProfilerStep#"):
                    event.update(name=event["name"].replace("ProfilerStep#", "train_step "), dur=720)
        headline = self.reprise("analyze", self.imported("apart", traces)).stdout.splitlines()[0]
        self.assertIn("step 720 us (median of 4, 720 us to 720 us; 280 us between two)", headline)
        headline = self.reprise("analyze", self.two_ranks(steps=(1, 2, 3, 4))).stdout.splitlines()[0]
        self.assertNotIn("between", headline)

    def test_a_timeline_of_communication_alone_tells_little_of_its_buckets(self):
        """Steps of 20 ms of four transfers, each of two tensors, 1 ms, and 3 ms behind the one before it; the ranks
        come 5 ms apart. What passes between is no latency that fewer would save."""
        events = [{"name": "process_name", "ph": "M", "pid": 0, "args": {"start_time_since_epoch_in_micros": 1}}]
        for begin in (step + transfer for step in (0, 20000, 40000) for transfer in (5000, 8000, 11000, 14000)):
            for tensor in (begin % 20000, begin % 20000 + 1):
                for mark in ({"ph": "B", "name": "NEGOTIATE_ALLREDUCE", "ts": begin - 5000},
                             {"ph": "X", "name": "0", "ts": begin - 5000, "dur": 0},
                             {"ph": "X", "name": "1", "ts": begin, "dur": 0}, {"ph": "E", "ts": begin},
                             {"ph": "B", "name": "ALLREDUCE", "ts": begin},
                             {"ph": "B", "name": "MEMCPY_IN_FUSION_BUFFER", "ts": begin}, {"ph": "E", "ts": begin + 5},
                             {"ph": "B", "name": "NCCL_ALLREDUCE", "ts": begin + 5}, {"ph": "E", "ts": begin + 995},
                             {"ph": "B", "name": "MEMCPY_OUT_FUSION_BUFFER", "ts": begin + 995},
                             {"ph": "E", "ts": begin + 1000},
                             {"ph": "E", "ts": begin + 1000, "args": {"dtype": "float32", "shape": "[1000000]"}}):
                    events.append({"pid": tensor, **mark})
        told = self.reprise("analyze", self.write("timeline.json", json.dumps(events))).stdout
        self.assertIn("findings: none above", told)
        self.assertRegex(told, r"all-reduce +2 +12 +8.0 MB")

    def test_gaps_of_a_late_rank_do_not_stay_in_its_gain(self):
        # Of kernels alone; rank 1 begins the first all-reduce of each step 400 us late.
        traces = [kineto(0, 50, steps=range(1, 5)), kineto(1, 50, steps=range(1, 5))]
        for trace in traces:
            trace["traceEvents"] = [event for event in trace["traceEvents"] if event["cat"] == "kernel"]
        for event in traces[1]["traceEvents"]:
            if "gemm" in event["name"]:
                event["ts"] += 400
            elif "AllReduce" in event["name"]:
                event["ts"], event["dur"] = event["ts"] + 400, event["dur"] - 400
        said = self.reprise("analyze", self.imported("late", traces)).stdout
        self.assertIn("rank 1 is late", said.split("findings")[1])
        self.assertIn("they stay in every gain but a late rank's and launching's", said)

    def test_table_fits_a_screen(self):
        lines = self.reprise("analyze", self.two_ranks()).stdout.splitlines()
        self.assertLess(len(lines), 45)
        self.assertLess(max(map(len, lines)), 140)

    def test_windows_of_ranks_and_steps(self):
        analysis = self.analysis(self.two_ranks())
        self.assertEqual(analysis["schema"], "reprise.analyze/1")
        # Device work spans 20 to 710 us; all of it is launched in the step.
        for rank, compute, exposed in ((0, 300, 300), (1, 500, 100)):
            whole = analysis["ranks"][rank]
            self.assertEqual(whole["rank"], rank)
            step = whole["steps"][0]
            self.assertEqual((step["name"], step["duration_ns"]), ("ProfilerStep#1", 1_000_000))
            for window, length in ((whole, 690), (step, 1000), (step["launched"], 690)):
                expected = {"window_ns": length, "compute_ns": compute, "communication_ns": exposed, "memory_ns": 0,
                            "overlapped_ns": 0, "exposed_ns": exposed, "idle_ns": length - compute - exposed}
                self.assertEqual({key: window[key] for key in expected},
                                 {key: 1000 * value for key, value in expected.items()})
                self.assertEqual(sum(window["exclusive"].values()), window["window_ns"])

    def test_idle_by_cause(self):
        # 520 to 610 us: relu is launched at 600, after the gap began. In the step also before the gemm and after relu.
        for rank in self.analysis(self.two_ranks())["ranks"]:
            self.assertEqual(rank["idle"]["host_bound_ns"], 90_000)
            self.assertEqual(sum(rank["idle"].values()), 90_000)
            self.assertGreaterEqual(rank["steps"][0]["idle"]["host_bound_ns"], 90_000 + 290_000)

    def test_collectives_and_stragglers(self):
        analysis = self.analysis(self.two_ranks())
        (collective,) = analysis["collectives"]
        # Ring: 2 (n - 1) / n of 4000 bytes in 100 us.
        expected = {"op": "all-reduce", "group": [0, 1], "bytes": 4000, "ranks": [0, 1], "wait_ns": [200_000, 0],
                    "transfer_ns": 100_000, "bus_bandwidth_bytes_per_s": 4e7, "missing": []}
        self.assertEqual({key: collective[key] for key in expected}, expected)
        late = analysis["stragglers"][0]
        self.assertEqual((late["rank"], late["late_ns"], late["collectives"], late["last"]), (1, 200_000, 1, 1))
        self.assertEqual([clock["rank"] for clock in analysis["clocks"]], [0, 1])

    def test_kernels_and_launches(self):
        analysis = self.analysis(self.two_ranks())
        kernels = {kernel["name"]: kernel for kernel in analysis["kernels"]}
        gemm = kernels["void ns::gemm<float>(int)"]
        self.assertEqual((gemm["count"], gemm["total_ns"], gemm["median_ns"]), (2, 600_000, 200_000))
        launches = analysis["ranks"][0]["launches"]
        # Delays: gemm 10, all-reduce 205, relu 10 us.
        self.assertEqual((launches["launches"], launches["delay_ns"]["median"], launches["delay_ns"]["max"]),
                         (3, 10_000, 205_000))

    def test_critical_path_covers_the_step_without_gaps(self):
        analysis = self.analysis(self.two_ranks())
        path = analysis["critical_path"]
        for entry, following in zip(path, path[1:]):
            self.assertEqual(entry["start_ns"] + entry["duration_ns"], following["start_ns"])
        summary = analysis["critical_path_summary"]
        self.assertEqual(sum(summary["by_kind_ns"].values()), summary["length_ns"])
        # Nothing awaits the device: launches and what lies between them make the step.
        self.assertEqual(summary["length_ns"], 1_000_000)
        self.assertEqual(summary["by_kind_ns"]["kernel"], 0)

    def test_critical_path_crosses_ranks_where_a_host_awaits_the_device(self):
        # Rank 0's all-reduce waits for rank 1's gemm: 400 us of it, then 100 us of transfer.
        analysis = self.analysis(self.two_ranks(synchronize=True))
        by_kind = analysis["critical_path_summary"]["by_kind_ns"]
        self.assertEqual((by_kind["kernel"], by_kind["collective"]), (400_000, 100_000))
        self.assertIn(("void ns::gemm<float>(int)", 1),
                      [(entry["name"], entry["rank"]) for entry in analysis["critical_path"]])

    def test_one_step_of_several(self):
        run = self.two_ranks(steps=(1, 2, 3))
        analysis = self.analysis(run, "--step", 2)
        self.assertEqual([[step["step"] for step in rank["steps"]] for rank in analysis["ranks"]], [[2], [2]])
        self.assertEqual(len(analysis["collectives"]), 1)
        self.assertEqual(analysis["step_time_ns"], 1_000_000)
        refused = self.reprise("analyze", run, "--step", 9, status=3)
        self.assertIn("the trace has steps 1 to 3", refused.stderr)

    def test_csv_has_a_row_a_window(self):
        rows = list(csv.DictReader(io.StringIO(
            self.reprise("analyze", self.two_ranks(steps=(1, 2)), "--format", "csv").stdout)))
        self.assertEqual([(row["rank"], row["step"], row["window"]) for row in rows[:7]],
                         [("0", "", "whole"), ("0", "1", "step_cpu"), ("0", "1", "step_device"),
                          ("0", "1", "step_launched"),
                          ("0", "2", "step_cpu"), ("0", "2", "step_device"), ("0", "2", "step_launched")])
        self.assertEqual(len(rows), 14)
        self.assertEqual(rows[8]["exposed_ns"], "100000")

    def test_top_cuts_tables(self):
        run = self.two_ranks(extra=[(f"tiny_{i}", 7, 700, 720 + i, 721 + i, {}) for i in range(9)])
        self.assertEqual(self.reprise("analyze", run, "--top", 2).stdout.count("tiny_"), 0)
        self.assertEqual(self.reprise("analyze", run, "--top", 12).stdout.count("tiny_"), 9)

    def test_ranks_that_are_not_recorded_leave_waits_open(self):
        result = self.reprise("analyze", self.imported("alone", [kineto(0, 200)]))
        row = next(line for line in result.stdout.splitlines() if line.startswith("all-reduce"))
        self.assertEqual(row.split()[1:7], ["2", "1", "4.0", "kB", "-", "-"])
        self.assertIn("Ranks that took part in 1 of 1 collectives are not in the trace", result.stderr)

    def test_a_group_without_a_name_is_of_the_whole_job(self):
        sample = ROOT / "data/samples/kineto"
        self.assertIn("1 of the job's 2 ranks were recorded: waiting for the others is part of transfers",
                      self.reprise("analyze", sample / "rank0.json.gz").stderr)
        self.assertNotIn("of the job's", self.reprise("analyze", sample).stderr)

    def test_timeline_has_all_ranks_and_the_path(self):
        run = self.two_ranks(steps=(1, 2))
        out = self.path / "timeline.json"
        for arguments, gemms in (((), 4), (("--step", 2, "--force"), 2)):
            self.reprise("analyze", run, "--chrome", out, *arguments)
            events = json.loads(out.read_text())["traceEvents"]
            names = [event["args"]["name"] for event in events if event["name"] == "process_name"]
            self.assertEqual([name.split(" of ")[0] for name in names], ["rank 0", "rank 1", "critical path"])
            on_ranks = [event for event in events if event["ph"] == "X" and event.get("cat") != "critical-path"]
            self.assertEqual(sum("gemm" in event["name"] for event in on_ranks), gemms)
            self.assertTrue(any(event["ph"] == "s" for event in events))
        self.assertIn("--force", self.reprise("analyze", run, "--chrome", out, status=3).stderr)

    def test_same_bytes_every_time(self):
        run = self.two_ranks(steps=(1, 2))
        for format_ in ("table", "json", "csv"):
            first, second = (self.reprise("analyze", run, "--format", format_).stdout for _ in range(2))
            self.assertEqual(first, second)

    def test_a_trace_without_times_is_refused_politely(self):
        nodes = {"schema": "1.1.0-chakra.0.0.4", "pid": 1, "time": "2024-01-01 00:00:00", "start_ts": 1, "nodes": [
            {"id": 1, "name": "[pytorch|profiler|execution_trace|process]", "ctrl_deps": 1, "attrs": [
                {"name": "rf_id", "type": "uint64", "value": 0}, {"name": "tid", "type": "uint64", "value": 1}]},
            {"id": 2, "name": "aten::add", "ctrl_deps": 1, "inputs": {"values": [], "shapes": [], "types": []},
             "outputs": {"values": [], "shapes": [], "types": []}, "attrs": [
                 {"name": "rf_id", "type": "uint64", "value": 1}, {"name": "tid", "type": "uint64", "value": 1}]}]}
        (self.path / "et.json").write_text(json.dumps(nodes))
        self.reprise("import", self.path / "et.json", "-o", self.path / "et.trace", "--rank", f"{self.path}/et.json=0")
        self.assertIn("no times", self.reprise("analyze", self.path / "et.trace", status=3).stderr)

    def test_cost_points_are_no_timeline(self):
        (self.path / "points.log").write_text(
            "# nThread 1 nGpus 8 minBytes 8 maxBytes 8\n"
            "#                                     out-of-place           in-place\n"
            "# size count type redop root time algbw busbw #wrong time algbw busbw #wrong\n"
            "  1048576 262144 float sum -1 100.0 10.49 18.35 0 101.0 10.38 18.17 0\n")
        self.reprise("import", self.path / "points.log", "-o", self.path / "points.trace")
        refused = self.reprise("analyze", self.path / "points.trace", status=3).stderr
        self.assertIn("2 cost points but no times", refused)


class Trained(AnalyzeCase):
    def test_collectives_are_called_by_their_kind_whatever_the_program_calls_them(self):
        source = ROOT / "data/programs/mlp.2.hlo"
        program = self.write("step.hlo", re.sub(r"\ball-reduce\.(?=\d)", "psum.", source.read_text()))
        self.write("step.json", source.with_suffix(".json").read_text())
        self.reprise("train", "-n", 2, program, "--steps", 3, "--warmup", 1, "--trace", self.trace,
                     "--data", source.parent)
        answer = json.loads(self.reprise("analyze", self.trace, "--format", "json").stdout)
        self.assertEqual({each["op"] for each in answer["collectives"]}, {"all-reduce"})
        self.assertTrue(all(each["bus_bandwidth_bytes_per_s"] for each in answer["collectives"]))


class Diff(AnalyzeCase):
    def diff(self, *arguments, status=0):
        return json.loads(self.reprise("diff", *arguments, "--format", "json", status=status).stdout)

    def test_a_trace_does_not_differ_from_itself(self):
        run = self.two_ranks(steps=(1, 2))
        for by in ("op", "kind", "collective", "phase"):
            diff = self.diff(run, run, "--by", by, "--fail-above", "0%")
            self.assertEqual(diff["schema"], "reprise.diff/1")
            self.assertEqual(diff["step_time_ns"]["change"], 0)
            self.assertTrue(all(entry["change_ns"] == 0 for entry in diff["entries"]))

    def test_largest_change_first(self):
        # Gemms grow from 200 + 400 to 300 + 450 us a step, and a softmax of 40 us comes with each.
        before = self.two_ranks("before")
        after = self.two_ranks("after", (300, 450), extra=[("softmax", 7, 720, 730, 770, {})])
        entries = self.diff(before, after)["entries"]
        by_key = {entry["key"]: entry for entry in entries}
        self.assertEqual(by_key["softmax"]["status"], "appeared")
        self.assertEqual(by_key["relu"]["change_ns"], 0)
        self.assertGreater(by_key["gemm"]["change_ns"], 0)
        changes = [abs(entry["change_ns"]) for entry in entries]
        self.assertEqual(changes, sorted(changes, reverse=True))

    def test_host_operators_have_a_table_of_their_own(self):
        # 60 us, of which 10 are a call's: 5 % of the step; on both hosts. The range of the step is none.
        before, after = self.two_ranks("before"), self.two_ranks("after", prepare_us=60)
        diff = self.diff(before, after)
        self.assertTrue(all(entry["change_ns"] == 0 for entry in diff["entries"]))
        self.assertEqual([(entry["key"], entry["rank"], entry["change_ns"]) for entry in diff["host_entries"]],
                         [("aten::prepare", 0, 50_000)])
        text = self.reprise("diff", before, after).stdout
        self.assertRegex(text, r"(?m)^aten::prepare .*\+50\.0 us +new +0 > 1 +rank 0$")

    def test_fail_above(self):
        before, after = self.two_ranks("before"), self.two_ranks("after", (210, 420))
        self.assertEqual(self.diff(before, after, "--fail-above", "2%", status=1)["slower"], ["gemm"])
        self.assertEqual(self.diff(before, after, "--fail-above", "0.06")["slower"], [])
        self.assertIn("expected a share", self.reprise("diff", before, after, "--fail-above", "much", status=2).stderr)


if __name__ == "__main__":
    unittest.main()
