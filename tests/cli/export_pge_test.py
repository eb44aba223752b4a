#!/usr/bin/env python3
"""`reprise export --as pge`: transfers without waits, medians of operators, and what Inductor's own class reads."""

import collections
import json
import os
import pathlib
import subprocess
import tarfile
import unittest

from command_case import ROOT, CommandCase
from foreign_python import python_with

INPUTS = pathlib.Path(__file__).resolve().parent.parent / "golden/export_pge"
SHARED = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces")) / "kineto"
DLRM = SHARED / "dlrm_v100_8ranks/dlrm_kineto.tar.gz"
TORCH = python_with("torch", "REPRISE_TORCH_PYTHON")
# Prints what Inductor's class makes of a file.
READ = """
import json, sys
from torch._inductor.fx_passes.profile_guided_estimation import ProfileData
data = ProfileData()
data.load(sys.argv[1])
print(json.dumps({
    "loaded": [len(data.collectives), len(data.ops)],
    "collectives": [[name, list(ranks), dtype, entries] for (name, ranks, dtype), entries
                    in sorted(data._collective_index.items())],
    "ops": [[name, shapes, strides, str(dtype), us] for (name, shapes, strides, dtype), us
            in sorted(data._op_index.items(), key=str)],
    "lookup": data.lookup_collective("all_reduce", (0, 1), 1000, "Float"),
    "half_way": data.lookup_collective("all_gather_into_tensor", (0, 1), 8192, "BFloat16"),
    "mm": data.lookup_op("aten::mm", ((64, 32), (32, 16)), ((32, 1), (1, 32)), __import__("torch").float32)}))
"""


def events_of(exported):
    """{(kind, type, elements out): us}, {(operator, dims, strides, type): us} of an exported file, read by hand."""
    collectives, names, operators = {}, {}, {}
    for event in exported["traceEvents"]:
        told = event["args"]
        if "Collective name" in told:
            key = (told["Collective name"], told["dtype"], told["Out msg nelems"])
            assert key not in collectives
            collectives[key] = event["dur"]
        elif event["cat"] == "cpu_op":
            names[told["External id"]] = (event["name"], json.dumps(told["Input Dims"]),
                                          json.dumps(told["Input Strides"]), told["Input type"][0])
        else:
            operators[names[told["External id"]]] = event["dur"]
    return collectives, operators


class PgeCase(CommandCase):
    def exported(self, source, *flags):
        self.reprise("import", *([source] if source != INPUTS else sorted(INPUTS.glob("rank*.json"))), *flags, "-o", self.trace)
        out = self.path / "pge.json"
        self.reprise("export", self.trace, "--as", "pge", "-o", out)
        return out

    def read_by_torch(self, path):
        if TORCH is None:
            self.skipTest("no Python with torch; REPRISE_TORCH_PYTHON=PYTHON names one")
        done = subprocess.run([TORCH, "-c", READ, path], capture_output=True, text=True, timeout=300)
        if "No module named" in done.stderr:
            self.skipTest("this torch is older than 2.13: " + done.stderr.strip().splitlines()[-1])
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)


class Pge(PgeCase):
    def test_waits_are_taken_out_and_operators_are_medians(self):
        collectives, operators = events_of(json.loads(self.exported(INPUTS, "--shapes").read_text()))
        # make_trace.py: transfers of 40 and 50, of 20 and 30 us; the upper one of two is the median.
        self.assertEqual(collectives, {("_allgather_base", "BFloat16", 8192): 50.0, ("allreduce", "Float", 1000): 30.0})
        # 100, 110, 120, 130 us over steps and ranks; two kernels of 30 + 5 us.
        self.assertEqual(operators, {
            ("aten::addmm", "[[16], [64, 32], [32, 16]]", "[[1], [32, 1], [1, 32]]", "c10::BFloat16"): 35.0,
            ("aten::mm", "[[64, 32], [32, 16]]", "[[32, 1], [1, 32]]", "float"): 120.0})

    def test_without_shapes_collectives_alone_are_told(self):
        exported = json.loads(self.exported(INPUTS).read_text())
        collectives, operators = events_of(exported)
        self.assertEqual(len(collectives), 2)
        self.assertEqual(operators, {})
        self.assertIn("import with --shapes", exported["reprise"]["trust"])

    def test_a_rank_alone_keeps_its_waits_and_says_so(self):
        exported = json.loads(self.exported(INPUTS / "rank0.json").read_text())
        self.assertIn("In 4 calls ranks lack", exported["reprise"]["trust"])

    def test_the_same_trace_gives_the_same_bytes(self):
        out = self.exported(INPUTS, "--shapes")
        again = self.reprise("export", self.trace, "--as", "pge", "-o", "-").stdout
        self.assertEqual(json.loads(again), json.loads(out.read_text()))

    def test_inductors_own_class_reads_the_same_figures(self):
        out = self.exported(INPUTS, "--shapes")
        read = self.read_by_torch(out)
        self.assertEqual(read["loaded"], [2, 2])
        self.assertIn("2 collectives, 2 op records", json.loads(out.read_text())["reprise"]["check"])
        self.assertEqual(read["collectives"], [["all_gather", [0, 1], "BFloat16", [[8192, 50.0]]],
                                               ["all_reduce", [0, 1], "Float", [[1000, 30.0]]]])
        self.assertEqual(read["lookup"], [0.03, "profile"])
        self.assertEqual(read["half_way"], [0.05, "profile"])
        self.assertEqual(read["mm"], 0.12)

    def test_a_host_only_trace_is_refused(self):
        self.reprise("import", pathlib.Path(__file__).parents[2] / "data/samples/kineto", "-o", self.trace)
        done = self.reprise("export", self.trace, "--as", "pge", "-o", self.path / "pge.json", status=3)
        self.assertIn("no kernel of a device", done.stderr)


@unittest.skipUnless(DLRM.exists(), f"no {DLRM}")
class SharedTrace(PgeCase):
    """Eight ranks of a public DLRM job: figures against a matching by order, done here."""

    def kernels(self):
        """[rank][k] durations in us of NCCL's kernels, by start; all ranks have the same ones."""
        ranks = {}
        with tarfile.open(DLRM) as archive:
            for member in archive:
                if not member.name.endswith(".json") or "/._" in member.name:
                    continue
                told = json.load(archive.extractfile(member))
                found = [event for event in told["traceEvents"]
                         if event.get("cat") == "kernel" and event["name"].startswith("nccl")]
                ranks[told["distributedInfo"]["rank"]] = [event["dur"] for event in sorted(found, key=lambda e: e["ts"])]
        return ranks

    def test_transfers_are_the_shortest_stays(self):
        ranks = self.kernels()
        expected = collections.Counter(float(min(stays)) for stays in zip(*ranks.values(), strict=True))
        out = self.exported(DLRM, "--shapes")
        collectives, operators = events_of(json.loads(out.read_text()))
        # Each of the calls is one of its kind here but two, whose median is the upper one.
        for duration in collectives.values():
            self.assertIn(duration, expected)
        self.assertGreaterEqual(len(collectives), len(ranks[0]) - 1)
        self.assertGreater(len(operators), 100)
        self.assertLess(out.stat().st_size, 100_000)

    def test_inductors_own_class_reads_the_same_figures(self):
        out = self.exported(DLRM, "--shapes")
        collectives, operators = events_of(json.loads(out.read_text()))
        read = self.read_by_torch(out)
        self.assertEqual(read["loaded"], [len(collectives), len(operators)])
        self.assertEqual(sorted(us for *_, entries in read["collectives"] for _, us in entries),
                         sorted(collectives.values()))
        self.assertEqual(sorted(us for *_, us in read["ops"]), sorted(operators.values()))


if __name__ == "__main__":
    unittest.main()
