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
    # 10103 kernels in 5.7 s, 83 % idle, more than half of that for the host; calls that wait cost a ninth of that.
    "kineto/torch1.8_autograd_api_2021/worker0.pt.trace.json.gz": "launch-bound",
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
}


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

    def test_program_says_who_searches(self):
        # A trace of our trainer: fusion, buckets and order are searched, not guessed.
        trace = ROOT / "tests/golden/traces/run.trace"
        if not trace.exists():
            self.skipTest("no recorded run")
        answer = reprise("analyze", trace)
        self.assertIn("reprise optimize", answer.stdout)


if __name__ == "__main__":
    unittest.main(verbosity=2)
