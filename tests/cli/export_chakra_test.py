#!/usr/bin/env python3
"""`reprise export --as chakra`: read back by our reader with the same work and time, and by Chakra's own schema."""

import collections
import csv
import io
import json
import os
import pathlib
import subprocess
import unittest

from command_case import ROOT, CommandCase
from foreign_python import python_with

INPUTS = ROOT / "tests/golden/export_pge"
SHARED = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces"))
DLRM = SHARED / "kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz"
READ = """
import json, sys
from chakra.schema.protobuf.et_def_pb2 import GlobalMetadata, Node
from chakra.src.third_party.utils.protolib import decodeMessage, openFileRd
file, head, told = openFileRd(sys.argv[1]), GlobalMetadata(), []
decodeMessage(file, head)
node = Node()
while decodeMessage(file, node):
    attributes = {each.name: getattr(each, each.WhichOneof("value")) for each in node.attr}
    told.append([node.id, node.name, node.type, node.duration_micros, list(node.ctrl_deps) + list(node.data_deps), attributes])
    node = Node()
print(json.dumps([head.version, told]))
"""


def rounded(time_ns):
    return (int(time_ns) + 500) // 1000


class Chakra(CommandCase):
    def exported(self, *inputs):
        self.reprise("import", *inputs, "-o", self.trace)
        out = self.path / "chakra"
        self.reprise("export", self.trace, "--as", "chakra", "-o", out)
        again = self.path / "again.trace"
        self.reprise("import", *sorted(out.glob("*.et")), "-o", again)
        return out, again

    def rows(self, trace):
        return list(csv.DictReader(io.StringIO(self.reprise("export", trace, "--as", "csv", "-o", "-").stdout)))

    def device_work(self, trace):
        """[(rank, name, collective or not)] of what ran on devices' streams."""
        work = collections.Counter()
        for row in self.rows(trace):
            if row["kind"] in ("compute", "collective", "copy", "memset"):
                work[row["rank"], row["name"], row["kind"] == "collective"] += 1
        return work

    def step_ns(self, trace):
        told = json.loads(self.reprise("replay", trace, "--format", "json").stdout)
        return told["step_time_ns"]["predicted"]

    def test_the_same_work_comes_back(self):
        out, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        self.assertEqual(self.device_work(again), self.device_work(self.trace))
        self.assertEqual(json.loads((out / "comm_groups.json").read_text()), {"0": [0, 1]})

    def test_collectives_have_kind_size_and_group(self):
        _, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        for trace in (self.trace, again):
            told = json.loads(self.reprise("analyze", trace, "--format", "json").stdout)["collectives"]
            kinds = [(each["op"], each["bytes"]) for each in told]
            self.assertEqual(collections.Counter(kinds), {("all-gather", 16384): 2, ("all-reduce", 4000): 2})

    def test_one_step_is_asked_for(self):
        self.reprise("import", *sorted(INPUTS.glob("rank*.json")), "-o", self.trace)
        self.reprise("export", self.trace, "--as", "chakra", "--step", "1", "-o", self.path / "step")
        self.reprise("import", *sorted((self.path / "step").glob("*.et")), "-o", self.path / "again.trace")
        self.assertEqual(sum(collective for (_, _, collective), count in
                             self.device_work(self.path / "again.trace").items() for _ in range(count)), 4)
        done = self.reprise("export", self.trace, "--as", "chakra", "--step", "9", "-o", self.path / "none", status=3)
        self.assertIn("9", done.stderr)

    def test_a_plan_is_refused(self):
        plan = self.write("plan.json", "{}")
        self.reprise("export", plan, "--as", "chakra", "-o", self.path / "x", status=3)

    @unittest.skipUnless(DLRM.exists(), f"no {DLRM}")
    def test_eight_ranks_of_dlrm_replay_as_long(self):
        _, again = self.exported(DLRM)
        self.assertEqual(self.device_work(again), self.device_work(self.trace))
        before, after = self.step_ns(self.trace), self.step_ns(again)
        self.assertLess(abs(after / before - 1), 0.02)

    def test_chakras_own_schema_reads_it(self):
        python = python_with("chakra", "REPRISE_CHAKRA_PYTHON")
        if python is None:
            self.skipTest("no Python with chakra; REPRISE_CHAKRA_PYTHON=PYTHON names one")
        out, again = self.exported(*sorted(INPUTS.glob("rank*.json")))
        done = subprocess.run([python, "-c", READ, out / "step.0.et"], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stderr)
        version, nodes = json.loads(done.stdout)
        self.assertEqual(version, "0.0.4")
        ours = [row for row in self.rows(again) if row["rank"] == "0"]
        self.assertEqual(collections.Counter(node[1] for node in nodes), collections.Counter(row["name"] for row in ours))
        ids = {node[0] for node in nodes}
        self.assertEqual(len(ids), len(nodes))
        self.assertTrue(all(cause in ids for node in nodes for cause in node[4]))
        self.assertEqual([node[5]["comm_type"] for node in nodes if node[2] == 7], [2, 0, 2, 0])


if __name__ == "__main__":
    unittest.main()
