#!/usr/bin/env python3
"""reprise.read_trace, analyze and ddp: the same events as the tool exports, in each form that is installed; what
notebooks show has no markup of a trace's."""

import csv
import importlib.util
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "cli/python"), str(ROOT / "tests/cli")]
# pylint: disable=wrong-import-position
import reprise
import reprise.binary
from export_plans import plan_of
from foreign_python import python_with

TORCH = python_with("torch", "REPRISE_TORCH_PYTHON")
WRAP = """
import sys, torch, torch.distributed as dist
sys.path.insert(0, sys.argv[1])
import reprise.ddp
dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=0, world_size=1)
model = torch.nn.Linear(2, 2)
wrapped = reprise.ddp.wrap(model, sys.argv[2])
print(type(wrapped).__name__, reprise.ddp.exported(sys.argv[2]).PLAN["bucket_bytes"])
dist.destroy_process_group()
"""


class Traces(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.trace = self.path / "run.trace"
        reprise.binary.run(["import", ROOT / "data/samples/kineto", "-o", self.trace])

    def test_columns_are_what_the_tool_exports(self):
        columns = reprise.read_trace(self.trace, "columns")
        rows = list(csv.DictReader(io.StringIO(reprise.binary.run(["export", self.trace, "--as", "csv", "-o", "-"]))))
        self.assertEqual(len(rows), 2130)
        self.assertEqual({name: [str(value) for value in values] for name, values in columns.items()},
                         {name: [row[name] for row in rows] for name in rows[0]})
        self.assertIsInstance(columns["start_ns"][0], int)

    def test_pandas_and_arrow_have_the_same(self):
        columns = reprise.read_trace(self.trace, "columns")
        tried = 0
        if importlib.util.find_spec("pandas"):
            self.assertEqual(reprise.read_trace(self.trace).to_dict("list"), columns)
            tried += 1
        if importlib.util.find_spec("pyarrow"):
            self.assertEqual(reprise.read_trace(self.trace, "arrow").to_pydict(), columns)
            tried += 1
        if not tried:
            self.assertEqual(reprise.read_trace(self.trace), columns)
            self.skipTest("neither pandas nor pyarrow is installed here")

    def test_errors_are_the_tools_own(self):
        with self.assertRaisesRegex(reprise.RepriseError, "none.trace"):
            reprise.read_trace(self.path / "none.trace")
        with self.assertRaisesRegex(reprise.RepriseError, "columns, pandas, arrow"):
            reprise.read_trace(self.trace, "list")
        with self.assertRaisesRegex(reprise.RepriseError, "none.trace"):
            reprise.analyze(self.path / "none.trace")

    def test_a_notebook_shows_findings_and_ranks(self):
        told = reprise.analyze(self.trace)
        self.assertEqual(told["schema"], "reprise.analyze/1")
        page = told._repr_html_()
        self.assertIn("rank 1 is late", page)
        self.assertEqual(page.count("<tr>"), 2 + len(told["findings"]) + len(told["ranks"]))

    def test_names_of_a_trace_stay_text(self):
        told = reprise.analyze(self.trace)
        told["findings"][0]["what"] = "<script>alert(1)</script>"
        self.assertNotIn("<script>", told._repr_html_())

    @unittest.skipUnless(TORCH, "no Python with torch; REPRISE_TORCH_PYTHON=PYTHON names one")
    def test_a_model_is_wrapped_by_a_plan_file(self):
        plan = plan_of([4, 2, 4])
        plan["gradients"] = plan["gradients"][:2]
        plan["gradients"][0].update(shape="2", bytes=8)
        plan["gradients"][1].update(shape="2x2", bytes=16)
        plan["buckets"] = [{"unit": "b0", "collectives": ["gradient.0", "gradient.1"]}]
        path = self.path / "plan.json"
        path.write_text(json.dumps(plan))
        done = subprocess.run([TORCH, "-c", WRAP, ROOT / "cli/python", path, self.path / "store"], text=True,
                              capture_output=True, timeout=280, env=dict(os.environ))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("DistributedDataParallel [24]", done.stdout)


if __name__ == "__main__":
    unittest.main()
