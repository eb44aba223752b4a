#!/usr/bin/env python3
"""Findings of `reprise analyze`: on real traces beside the checkout the first one is what somebody who reads the trace
would say, and each gain is what `reprise replay` gives with the same what-if.
"""

import json
import os
import pathlib
import shlex
import sys
import unittest

import made_up_job
from command_case import ROOT, CommandCase, reprise

TRACES = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces"))

# Set -> kind of its first finding, judged by hand from its timeline and breakdown; None: nothing is worth 1 %.
JUDGED = {
    # 2244 kernels of a few microseconds in 12 to 20 ms; devices are idle 38 to 79 %, 97 % of that for the host. That
    # rank 7 comes last is second: its host is no slower, it only has no one to wait for.
    "kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz": "launch-bound",
    # One rank of two, 42 % idle for the host while its threads spend 87 % of the path in operators; NCCL's kernels
    # (2020 of them, 11 us in the median) run hidden but in one step.
    "kineto/hta_2x_v100_5steps/df_index_resolver.json.gz": "launch-bound",
    # 76 % idle, all of it for the host: small convolutions on an A100. Its five buckets' transfers have 6 % exposed.
    "kineto/hta_nccl_meta_a100/nccl_data.json.gz": "launch-bound",
    # The sample of PyTorch's profiler for slow input: the loader without workers takes 71 of 176 ms on the step's own
    # thread, and the path has it as its longest part.
    "kineto/torch1.9_v100_2021/worker0.1623143089861.pt.trace.json.gz": "data-loading",
    # 27 % of communication is exposed (all-to-alls of embeddings that the next kernel needs), idle is 4 %.
    "kineto/hta_trace_diff_v100/test.json.gz": "missing-overlap",
    # 97 % compute: nothing.
    "kineto/hta_ns_resolution/rank-0.Apr_03_18_51_38.1102.pt.trace.json.gz": None,
    # 97 % of each second are copies of weights from the host (450 copies, up to 152 ms).
    "nsys_sqlite/nsys-ai/h100_2gpu_1s.sqlite": "serial-copies",
    # Attention takes half of the time, which is work; the device waits for launches 7 to 9 %, for NCCL 3 to 6 %.
    "nsys_sqlite/nsys-ai/mfu_2gpu_before.sqlite": "launch-bound",
    # 60 kernels a batch of a small BERT on an H100: idle most of the time, between launches.
    "kineto/h100_hf/gaunernst_bert-small-uncased__1016001.json.gz": "launch-bound",
    # 91 % compute; what idles, idles for the host at the step's start.
    "kineto/h100_hf/Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz": "launch-bound",
    # A replayed graph of 425 kernels back to back, two thirds of them short: only fusion can gain.
    "kineto/mi300_vllm_graph_replay/graph_execution.json.gz": "small-kernels",
    # 10103 kernels in 5.7 s, 83 % idle: a stream and an event are made in 0.6 and 0.7 s, the first kernel is launched in
    # 2.1 s, all on an idle device (this stood as launch-bound before set-up was told from launches).
    "kineto/torch1.8_autograd_api_2021/worker0.pt.trace.json.gz": "set-up",
    # The same small BERT on AMD: 61 kernels in 4 ms, 90 % idle, 97 % of it for the host.
    "kineto/mi300_hf/gaunernst_bert-small-uncased__1016001.json.gz": "launch-bound",
    # No host in it, 89 % compute: 429 of 562 kernels last under 10 us and follow each other.
    "kineto/mi210_gpu_only/gpu_only_trace.json.gz": "small-kernels",
    # 140 kernels, all under 10 us, in 7.7 ms that are 96 % idle for the host.
    "kineto/hta_small/with_gpu_user_annotation/step_based_trace_2543932.json.gz": "launch-bound",
    # 13 s in which a kernel is compiled, of which nothing was recorded: nothing can be said.
    "kineto/hta_small/triton_example/triton_example.json.gz": None,
    # A convolutional net on the CPU: convolutions and matrix products all the time.
    "kineto/hta_small/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz": None,
    # 13 s of a first forward pass, 0.1 % of them compute: the context, cuDNN and its modules are loaded (one cudaFree of
    # 6 s, a first launch of 3 s, allocations of 0.3 to 0.8 s). There is no step in it to make faster by fewer launches.
    "kineto/hta_small/critical_path_alexnet/benchmark_result_2869224_1695835535_trace.json.gz": "set-up",
    # A 3D convolution in JAX on an MI300: five calls of 16 kernels in 28 ms, 84 % idle, all of it for the host.
    "xplane/jax_mi300_legacy/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb": "launch-bound",
    # 18 products of JAX on an MI300, each dispatched by itself, with a copy and a broadcast before it: idle 63 %, all of
    # it for the host, one launch queued at most. The calls stand on a line of ROCm's own, which is Python's thread.
    "xplane/jax08_gemm_mi300/tw003.xplane.pb": "launch-bound",
    # 1376 kernels in 21 ms, of which the device waits 15 % for launches; the rest of its idle time is launch latency.
    "xplane/tf_gpu_multi_worker_v100/34.83.195.179_6003.xplane.pb": "launch-bound",
    # Of the zip only what the host did can be read, and it waits for NCCL in a call that has no other side: nothing.
    "nsys_jax/maxtext_fsdp4_h100/maxtext_fsdp4_test_data.zip": None,
    # Pushes and pulls alone, no compute between them: whether anything could hide them, nobody can say.
    "bytescheduler/mxnet_vgg16": None,
    # One all-reduce: who comes last to the first one was started last. A table says by how much.
    "nccl_profiler/phaz_jsonl": None,
}

# What has dependencies or prices and no times has no step to look into.
UNTIMED = ["chakra/astrasim_custom_ring_8npu", "chakra/astrasim_tars/onecomm_allreduce.tar",
           "chakra/astrasim_tars/resnet_dp.tar", "chakra/mlcommons_1.0.1/chakra.0.et",
           "chakra/mlcommons_json/1.0.2-chakra.0.0.4.tgz", "nccl_tests/a100_8gpu_superbench"]


def found(case, file):
    """The analysis of a file of the collection, and the trace's path."""
    path = TRACES / file
    trace = case.path / "run.trace"
    words = [path, "-o", trace, "--force"]
    answer = reprise("import", *words)
    if answer.returncode != 0:  # A single rank that does not say which it is.
        answer = reprise("import", *words, "--rank", f"{path}=0")
    case.assertEqual(answer.returncode, 0, answer.stderr)
    answer = reprise("analyze", trace, "--format", "json")
    case.assertEqual(answer.returncode, 0, answer.stderr)
    return json.loads(answer.stdout), trace


class Findings(CommandCase):
    def check_list(self, analysis):
        """Invariants of any answer."""
        summary = analysis["findings_summary"]
        gains = [finding["gain_ns"] for finding in analysis["findings"]]
        for before, after in zip(gains, gains[1:]):
            self.assertGreaterEqual(before, 0.95 * after)  # A more special kind may go first.
        for finding in analysis["findings"]:
            self.assertGreaterEqual(finding["gain_ns"], summary["threshold_ns"])
            if finding["kind"] == "slow-steps":  # Of the mean step, which is longer than the one replayed.
                self.assertLess(finding["gain_share"], min(1, finding["gain_ns"] / summary["replayed_ns"]))
                continue
            self.assertLessEqual(finding["gain_ns"], summary["replayed_ns"])
            self.assertAlmostEqual(finding["gain_share"], finding["gain_ns"] / summary["replayed_ns"])
            self.assertTrue(finding["what"] and finding["evidence"] and finding["action"], finding)

    def check_replays(self, analysis, trace):
        """A gain is that of the replay that it names."""
        replayed = analysis["findings_summary"]["replayed_ns"]
        for finding in analysis["findings"]:
            if not finding["replay_command"]:
                continue
            words = shlex.split(finding["replay_command"])
            self.assertEqual(words[:3], ["reprise", "replay", str(trace)])
            answer = reprise(*words[1:], "--format", "json")
            self.assertEqual(answer.returncode, 0, answer.stderr)
            predicted = json.loads(answer.stdout)["window"]["predicted_ns"]
            self.assertEqual(replayed - predicted, finding["gain_ns"], finding["what"])

    def test_sample_has_its_late_rank(self):
        # data/samples: rank 1 was made late by sleeping on its host.
        trace = self.path / "sample.trace"
        self.assertEqual(reprise("import", ROOT / "data/samples/kineto", "-o", trace).returncode, 0)
        analysis = json.loads(reprise("analyze", trace, "--format", "json").stdout)
        self.check_list(analysis)
        self.check_replays(analysis, trace)
        first = analysis["findings"][0]
        self.assertEqual((first["kind"], first["where"]["ranks"]), ("late-rank", [1]))
        text = reprise("analyze", trace).stdout.splitlines()
        self.assertIn("rank 1 is late", "\n".join(text[:5]))

    def test_judged_traces(self):
        if not TRACES.is_dir():
            self.skipTest(f"{TRACES}: the collection of traces is not there")
        for file, kind in JUDGED.items():
            with self.subTest(file):
                analysis, trace = found(self, file)
                self.check_list(analysis)
                self.check_replays(analysis, trace)
                kinds = [finding["kind"] for finding in analysis["findings"]]
                self.assertEqual(kinds[0] if kinds else None, kind, analysis["findings"])

    def test_traces_without_times_are_refused_by_that(self):
        if not TRACES.is_dir():
            self.skipTest(f"{TRACES}: the collection of traces is not there")
        for name in UNTIMED:
            with self.subTest(name):
                trace = self.path / "untimed.trace"
                answer = reprise("import", TRACES / name, "-o", trace, "--force")
                self.assertEqual(answer.returncode, 0, answer.stderr)
                answer = reprise("analyze", trace)
                self.assertEqual(answer.returncode, 3)
                self.assertIn("but no times", answer.stderr)

    def made_up(self, **causes):
        """Findings of a made-up job, and what its mean step takes more than without the causes."""
        ranks, times = made_up_job.job(**causes)
        _, without = made_up_job.job()
        trace = self.path / "made_up.trace"
        self.reprise("import", *made_up_job.write(self.path, ranks), "-o", trace, "--force")
        analysis = json.loads(self.reprise("analyze", trace, "--format", "json").stdout)
        self.check_list(analysis)
        self.check_replays(analysis, trace)
        return analysis["findings"], 1000 * (sum(times) - sum(without)) / len(times)

    def check_first(self, findings, kind, cost_ns):
        self.assertEqual(findings[0]["kind"], kind, findings)
        self.assertLess(abs(findings[0]["gain_ns"] / cost_ns - 1), 0.05, findings[0])

    def test_ranks_that_are_late_by_turns(self):
        findings, cost_ns = self.made_up(late=lambda rank, step: 6000 * (rank == (2 if step % 2 else 1)))
        self.check_first(findings, "late-rank", cost_ns)
        self.assertIn("ranks 1 and 2 are late by turns: last in 30 and 30 of 60 collectives", findings[0]["what"])
        self.assertEqual(findings[0]["where"]["ranks"], [1, 2])

    def test_a_rank_that_is_late_in_each_step(self):
        findings, cost_ns = self.made_up(late=lambda rank, step: 6000 * (rank == 2))
        self.check_first(findings, "late-rank", cost_ns)
        self.assertIn("rank 2 is late: last in 60 of 60", findings[0]["what"])

    def test_data_that_every_fifth_step_waits_for(self):
        findings, cost_ns = self.made_up(load=lambda rank, step: 15000 * (step % 5 == 4))
        self.check_first(findings, "slow-steps", cost_ns)
        self.assertIn("2 of 10 steps take", findings[0]["what"])
        self.assertIn("in step 5, the step waits for its data", findings[0]["what"])
        self.assertIn("they are steps 5, 10; in step 5 a replay without it gains 15 ms", findings[0]["evidence"][0])
        self.assertIn("DataLoader", findings[0]["command"])

    def test_a_rank_that_some_steps_wait_for(self):
        findings, cost_ns = self.made_up(late=lambda rank, step: 12000 * (rank == 3 and step in (3, 8)))
        self.check_first(findings, "slow-steps", cost_ns)
        self.assertRegex(findings[0]["what"], "in step [49], rank 3 is late")

    def test_what_one_slow_step_waits_for_is_not_said_of_the_others(self):
        findings, cost_ns = self.made_up(late=lambda rank, step: 12000 * ((rank, step) in ((1, 3), (2, 8))))
        self.check_first(findings, "slow-steps", cost_ns)
        self.assertRegex(findings[0]["what"], "in step 4, rank 1 is late|in step 9, rank 2 is late")

    def test_a_pause_that_nothing_explains(self):
        # A job on a CPU: 10 ms of operators a step, and step 5 does nothing for 60 ms.
        events, start = [], 0
        for step in range(8):
            pause = 60000 * (step == 5)
            events += [{"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                        "ts": start, "dur": 10000 + pause}]
            events += [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1,
                        "ts": start + 1000 * i + pause * (i > 4), "dur": 990} for i in range(10)]
            start += 10000 + pause
        file, trace = self.path / "pause.json", self.path / "pause.trace"
        file.write_text(json.dumps({"schemaVersion": 1, "traceEvents": events}))
        self.reprise("import", file, "-o", trace)
        analysis = json.loads(self.reprise("analyze", trace, "--format", "json").stdout)
        self.check_list(analysis)
        first = analysis["findings"][0]
        self.assertEqual(first["kind"], "slow-steps")
        self.assertIn("1 of 8 steps takes 70 ms, the others 10 ms: nothing that was recorded says why", first["what"])
        self.assertEqual(first["evidence"], ["it is step 5"])
        self.assertLess(abs(first["gain_ns"] / 7.5e6 - 1), 0.02)

    def test_steps_alike_and_a_slow_first_one_are_no_slow_steps(self):
        for causes in ({}, {"load": lambda rank, step: 15000 * (step == 0)}):
            findings, _ = self.made_up(**causes)
            self.assertNotIn("slow-steps", [finding["kind"] for finding in findings])

    def test_program_says_who_searches(self):
        # A trace of our trainer: fusion, buckets and order are searched, not guessed.
        trace = ROOT / "tests/golden/traces/run.trace"
        if not trace.exists():
            self.skipTest("no recorded run")
        answer = reprise("analyze", trace)
        self.assertIn("reprise optimize", answer.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
