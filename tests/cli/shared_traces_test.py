#!/usr/bin/env python3
"""Every file and set of the collection of real traces beside the checkout: imported with the counts that its
manifest and truth files state, or refused for the right reason; then `info` and `analyze` of what was imported.
"""

import json
import os
import pathlib
import sys
import unittest

from command_case import ROOT, CommandCase, reprise

TRACES = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces"))

# What `analyze` says of traces that have no times.
UNTIMED = "no times"
NO_DEVICE = "No device work"

# Kineto files that are not one rank 0 with device work: ranks, and words that import must say.
KINETO = {
    "dlrm_v100_8ranks/dlrm_kineto.tar.gz": ([2, 4, 7, 0, 5, 3, 6, 1], ""),
    "hta_2x_v100_5steps/df_index_resolver.json.gz": ([1], ""),
    "hta_trace_diff_v100/test.json.gz": ([1], ""),
    "hta_sampled_128ranks/sampled_rank-1.json.gz": ([1], ""),
    "hta_small/large_integer_trace/rank-70.Mar_25_20_48_12.2861.pt.trace.json.gz": ([70], ""),
    "hta_small/trace_compare_base/base.json.gz": ([1], ""),
    "hta_small/trace_compare_test/test.json.gz": ([1], ""),
    "hta_small/trace_file_list/inference_rank_1.json.gz": ([1], ""),
    "hta_small/mtia_inference_trace/mtia_inference_rank_0.json.gz": ([0], "MTIA accelerator"),
    "hta_small/cpu_only/rank-34.Jul_15_10_52_41.1074.pt.trace.json.gz": ([34], NO_DEVICE),
    "hta_small/cupti_profiler/benchmark_result_924719_1679055439_trace.json.gz": ([0], NO_DEVICE),
    "hta_small/rank_unavailable/rank_not_found.json.gz": ([0], NO_DEVICE),
    "hta_small/distributed_info_unavailable/distributed_info_not_found.json.gz": ([0], NO_DEVICE),
    "hta_small/mixed_files/rank_non_gpu.json.gz": ([0], NO_DEVICE),
    "hta_small/mixed_files/rank_not_found.json.gz": ([0], NO_DEVICE),
}

# The rest: file -> kinds, ranks, events, kernels, collectives, exit of `analyze`. Events are the manifest's nodes or
# rows; where that counts otherwise, the reason stands beside, or None where the reader's own test derives it.
OTHERS = {
    **{f"chakra/astrasim_custom_ring_8npu/custom_allreduce.{rank}.et": ("chakra", [rank], 35, 7, 28, 3)
       for rank in range(8)},
    # 64 ranks of the manifest's first member.
    "chakra/astrasim_tars/resnet_dp.tar": ("chakra", range(64), 64 * 215, 64 * 161, 64 * 54, 3),
    "chakra/astrasim_tars/onecomm_allreduce.tar": ("chakra", range(64), 64, 0, 64, 3),
    # Its truth file: of 3664 nodes 1209 compute and 7 communicate on the GPU.
    "chakra/mlcommons_1.0.1/chakra.0.et": ("chakra", [0], 3664, 1209, 7, 3),
    # An execution trace in truth; the manifest counts its bytes.
    "chakra/mlcommons_json/1.0.2-chakra.0.0.4.tgz": ("pytorch-et", [0], 263, 0, 10, 3),
    "kineto/dlrm_v100_8ranks/dlrm_pytorch_et.tar.gz": ("pytorch-et", range(8), 8 * 1675, 0, 8 * 8, 3),
    "kineto/hta_small/execution_trace/benchmark_simple_add_et.json.gz": ("pytorch-et", [0], 38, 0, 0, 3),
    "pytorch_et/param/linear_et.json.gz": ("pytorch-et", [0], 931, 0, 0, 3),
    # The other two members of this archive are Python.
    "pytorch_et/param/pt2_et.json.tar.gz": ("pytorch-et", [0], 20, 0, 0, 3),
    "pytorch_et/param/hf_GPT2_et.json.tar.gz": ("pytorch-et", [0], 27156, 0, 0, 3),
    # The manifest's 48 records are 21 collectives, a range around each, and 6 waits.
    "pytorch_et/param/resnet_1gpu_et.json.tar.gz": ("pytorch-et", [0], 14392, 0, 21, 3),
    "pytorch_et/param/resnet_1gpu_et.json.gz": ("pytorch-et", [0], 14391, 0, 21, 3),
    **{f"nccl_tests/a100_8gpu_superbench/nccl_{op}.log": ("nccl-tests", [], 0, 0, 0, 3)
       for op in ("allgather", "allreduce", "alltoall", "broadcast", "reduce", "reducescatter")},
    # The manifest counts kernels, runtime calls and NVTX; copies, sets and waits come to these.
    "nsys_sqlite/nsys-ai/h100_2gpu_1s.sqlite": ("nsys-sqlite", [0, 1], 27388, 3442, 0, 0),
    "nsys_sqlite/nsys-ai/mfu_2gpu_before.sqlite": ("nsys-sqlite", [0, 1], 32255, 4010, 66, 0),
    "nsys_sqlite/nsys-ai/mock.sqlite": ("nsys-sqlite", [0], 44, 2, 0, 0),
    "nsys_sqlite/no_kernel_table_2025.5/report1.sqlite": ("nsys-sqlite", [0], 63, 0, 0, 0),
    # Kernels without copies, which the manifest counts with them; of eight device planes these have work.
    "xplane/jax08_gemm_mi300/tw003.xplane.pb": ("xplane", [0], None, 54, None, 0),
    "xplane/jax_mi300_legacy/chi-mi300x-013.ord.vultr.cpe.ice.amd.com.xplane.pb": ("xplane", [0], None, 25, None, 0),
    "xplane/tf_gpu_multi_worker_v100/34.83.195.179_6003.xplane.pb": ("xplane", [0, 1], None, 1330, None, 0),
    # Ranges of the host and the programs: no device work, as that is in Parquet.
    "nsys_jax/maxtext_fsdp4_h100/maxtext_fsdp4_test_data.zip":
        ("hlo-proto nsys-jax-csv", [0], 31550, 0, 0, None),
    # 4 calls, 1 group, 4 launches, 4 kernels.
    "nccl_profiler/phaz_jsonl/trace_-_2762285_collectives_all_reduces_single_node_-_Copy.jsonl":
        ("nccl-profiler", range(4), 13, 4, 4, 0),
    "bytescheduler/mxnet_vgg16/timeline_worker.json": ("bytescheduler", [0], None, 0, None, None),
}

# Refused with these words.
REFUSED = {
    "MANIFEST.tsv": "no trace: text that starts",
    # Two files of one rank, whichever it is.
    "chakra/mlcommons_json/json_trace.tar.gz": "say so by `import --rank",
    "xplane/corrupt_utf8_mangled_tpu/tpu_inference_2.xplane.pb": "UTF-8 text conversion",
}

# Several inputs as one trace: arguments -> kinds, ranks, exit of `analyze`.
SETS = {
    ("kineto/hta_sampled_128ranks",): ({"kineto"}, {0, 1}, 0),
    ("kineto/dlrm_v100_8ranks",): ({"kineto", "pytorch-et"}, set(range(8)), 0),
    ("kineto/hta_small/execution_trace",): ({"kineto", "pytorch-et"}, {0}, 0),
    ("pytorch_et/param/linear_et.json.gz", "pytorch_et/param_linear_pair_kineto_2080ti"):
        ({"kineto", "pytorch-et"}, {0}, 0),
    ("chakra/astrasim_custom_ring_8npu",): ({"chakra"}, set(range(8)), 3),
    ("nccl_tests/a100_8gpu_superbench",): ({"nccl-tests"}, set(), 3),
    ("kineto/h100_hf", "--rank=gaunernst_bert-small-uncased__1016001.json.gz=1",
     "--rank=Qwen_Qwen1.5-0.5B-Chat__1016005.json.gz=0"): ({"kineto"}, {0, 1}, 0),
    ("chakra/mlcommons_json/json_trace.tar.gz", "--rank=jsonData/chakra.0.json=0",
     "--rank=small_chakra.0.json=1"): ({"chakra"}, {0, 1}, 3),
}
REFUSED_SETS = {
    ("kineto/hta_small/mixed_files",): "say so by `import --rank",
    ("kineto/hta_small/trace_compare_base", "kineto/hta_small/trace_compare_test"): "are both of rank 1",
}

# Truth files and who meets their figures: this test those of breakdowns, chakra_test the counts of the last.
TRUTHS = {
    "kineto/dlrm_v100_8ranks/dlrm_kineto.truth.json": ["kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz"],
    "kineto/hta_2x_v100_5steps/df_index_resolver.truth.json":
        ["kineto/hta_2x_v100_5steps/df_index_resolver.json.gz"],
    "kineto/hta_nccl_meta_a100/nccl_data.truth.json": ["kineto/hta_nccl_meta_a100/nccl_data.json.gz"],
    "kineto/hta_sampled_128ranks/sampled.truth.json": ["kineto/hta_sampled_128ranks"],
    "nsys_sqlite/nsys-ai/mfu_2gpu_before.truth.json": ["nsys_sqlite/nsys-ai/mfu_2gpu_before.sqlite"],
    "chakra/mlcommons_1.0.1/chakra.0.truth.json": None,
}
WINDOW = {"window_us": "window_ns", "compute_us": "compute_ns", "nccl_us": "communication_ns", "mem_us": "memory_ns",
          "nccl_overlapped_us": "overlapped_ns", "nccl_exposed_us": "exposed_ns", "idle_us": "idle_ns"}


def manifest():
    """Rows by file name."""
    lines = (TRACES / "MANIFEST.tsv").read_text().splitlines()
    heads = lines[0].split("\t")
    return {line.split("\t")[0]: dict(zip(heads, line.split("\t"))) for line in lines[1:]}


def is_kineto(row):
    return "ET schema" not in row["versions"] and (row["file"].startswith("kineto/") or "kineto_2080ti" in row["file"])


class SharedTraces(CommandCase):
    maxDiff = None

    def run_import(self, inputs):
        arguments = [argument if argument.startswith("--") else TRACES / argument for argument in inputs]
        return reprise("import", *arguments, "-o", self.trace, "--force", "--format", "json")

    def imported(self, *inputs):
        """Imports to self.trace; returns the reports of the inputs that were read, and the remarks."""
        done = self.run_import(inputs)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["schema"], "reprise.import/1")
        for file in report["files"]:
            self.assertGreaterEqual(file.keys(), {"path", "kind", "dialect", "bytes", "events", "kernels",
                                                  "collectives", "steps", "dropped"})
        return [file for file in report["files"] if "refused" not in file], done.stderr

    def refused(self, words, *inputs):
        done = self.run_import(inputs)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertFalse(self.trace.exists())

    def check_trace(self, ranks, events, analyze_exit):
        """What `info` and `analyze` make of self.trace; returns the analysis."""
        info = reprise("info", self.trace, "--format", "json")
        self.assertEqual(info.returncode, 0, info.stderr)
        content = json.loads(info.stdout)
        self.assertEqual([rank["rank"] for rank in content["ranks"]], sorted(ranks))
        self.assertEqual(content["events"], events)
        # What import dropped, and nothing else.
        for warning in content["warnings"]:
            self.assertRegex(warning, "^import: .*[0-9] dropped: ")
        analysis = reprise("analyze", self.trace, "--format", "json")
        if analyze_exit is None:  # No device work: an answer, or polite words.
            self.assertIn(analysis.returncode, (0, 3), analysis.stderr)
        else:
            self.assertEqual(analysis.returncode, analyze_exit, analysis.stderr)
        if analysis.returncode != 0:
            self.assertIn(UNTIMED, analysis.stderr)
            return None
        found = json.loads(analysis.stdout)
        self.assertEqual([rank["rank"] for rank in found["ranks"]], sorted(ranks))
        for rank in found["ranks"]:
            self.assertEqual(sum(rank["exclusive"].values()), rank["window_ns"])
        return found

    def test_every_file_is_expected(self):
        """A file that somebody adds to the collection needs a line here."""
        files = {str(path.relative_to(TRACES)) for path in TRACES.rglob("*") if path.is_file()}
        kineto = {name for name, row in manifest().items() if is_kineto(row)}
        self.assertEqual({name for name in files if name.endswith(".truth.json")}, set(TRUTHS))
        self.assertEqual(files - set(TRUTHS), kineto | set(OTHERS) | set(REFUSED))

    def test_every_kineto_file(self):
        rows = [row for row in manifest().values() if is_kineto(row)]
        self.assertGreaterEqual(len(rows), 36)
        for row in rows:
            with self.subTest(row["file"]):
                ranks, words = KINETO.get(row["file"].removeprefix("kineto/"), ([0], ""))
                files, remarks = self.imported(row["file"])
                first = files[0]  # Of an archive the manifest tells of the first member.
                self.assertEqual({file["kind"] for file in files}, {"kineto"})
                self.assertEqual(sum((file["ranks"] for file in files), []), ranks)
                lost = sum(first["dropped"].values())
                self.assertEqual(first["events"] + sum(first["ignored"].values()) + lost, int(row["events"]))
                self.assertEqual(lost, 2136 if "mtia" in row["file"] else 0)
                self.assertEqual(first["repaired"], {})
                self.assertEqual((first["kernels"], first["steps"]), (int(row["kernels"]), int(row["steps"])))
                # Of Gloo the manifest knows nothing.
                self.assertEqual(first["collectives"], 10 if "cpu_only" in row["file"] else int(row["nccl"]))
                self.assertIn(words, remarks)
                found = self.check_trace(ranks, sum(file["events"] for file in files), 0)
                device_work = int(row["kernels"]) > 0
                self.assertEqual([rank["host_only"] for rank in found["ranks"]], [not device_work] * len(ranks))

    def test_every_other_file(self):
        for name, (kinds, ranks, events, kernels, collectives, analyze_exit) in OTHERS.items():
            with self.subTest(name):
                files, _ = self.imported(name)
                self.assertEqual({file["kind"] for file in files}, set(kinds.split()))
                self.assertEqual(sorted({rank for file in files for rank in file["ranks"]}), list(ranks))
                for key, expected in (("events", events), ("kernels", kernels), ("collectives", collectives)):
                    if expected is not None:
                        self.assertEqual(sum(file[key] for file in files), expected, key)
                self.check_trace(ranks, sum(file["events"] for file in files), analyze_exit)

    def test_what_is_no_trace_is_refused(self):
        for inputs, words in {**{(name,): words for name, words in REFUSED.items()}, **REFUSED_SETS}.items():
            with self.subTest(inputs):
                self.refused(words, *inputs)

    def test_sets(self):
        for inputs, (kinds, ranks, analyze_exit) in SETS.items():
            with self.subTest(inputs):
                files, _ = self.imported(*inputs)
                self.assertEqual({file["kind"] for file in files}, kinds)
                self.assertEqual({rank for file in files for rank in file["ranks"]}, ranks)
                info = json.loads(reprise("info", self.trace, "--format", "json").stdout)
                self.check_trace(ranks, info["events"], analyze_exit)

    def test_the_order_of_inputs_changes_no_figure(self):
        one, other = "pytorch_et/param/linear_et.json.gz", "pytorch_et/param_linear_pair_kineto_2080ti"
        figures = []
        for inputs in ((one, other), (other, one)):
            self.imported(*inputs)
            (rank,) = json.loads(reprise("analyze", self.trace, "--format", "json").stdout)["ranks"]
            figures.append({key: rank[key] for key in WINDOW.values()})
        self.assertEqual(*figures)

    def test_a_device_that_is_not_understood_fails_strictly(self):
        done = self.run_import(["kineto/hta_small/mtia_inference_trace", "--strict"])
        self.assertEqual(done.returncode, 3)
        self.assertIn("MTIA", done.stderr)
        self.assertFalse(self.trace.exists())

    def test_the_figures_of_every_truth_file(self):
        compared = 0
        for name, inputs in TRUTHS.items():
            if inputs is None:
                continue
            truth = json.loads((TRACES / name).read_text())
            self.imported(*inputs)
            analysis = reprise("analyze", self.trace, "--format", "json")
            self.assertEqual(analysis.returncode, 0, analysis.stderr)
            ranks = {rank["rank"]: rank for rank in json.loads(analysis.stdout)["ranks"]}
            for one in truth["traces"]:
                for number, part in enumerate(one.get("devices", [one])):
                    with self.subTest(one["file"], part=number):
                        self.check_window(ranks[number if "devices" in one else one["rank"]], part["whole"])
                        compared += 1
        self.assertEqual(compared, 14)  # 8 of DLRM, 2 sampled, 2 GPUs of nsys, 1 each of the others.

    def check_window(self, found, truth):
        """Exactly, or on traces with fractions of a microsecond within 1 us an event."""
        whole = all(float(truth[key]).is_integer() for key in WINDOW)
        for theirs, ours in WINDOW.items():
            self.assertAlmostEqual(found[ours], truth[theirs] * 1000, msg=theirs,
                                   delta=1e-3 if whole else 1000 * truth["gpu_events"])


if __name__ == "__main__":
    if not (TRACES / "MANIFEST.tsv").is_file():
        print(f"skipped: no collection of traces in {TRACES}")
        sys.exit(77)
    sys.exit(unittest.main(verbosity=2))
