#!/usr/bin/env python3
"""`reprise export --as pgle` on a shared xplane trace: times of instructions against the rows of the trace."""

import collections
import csv
import io
import json
import os
import pathlib
import re
import unittest

from command_case import ROOT, CommandCase

SHARED = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces")) / "xplane"
XPLANE = SHARED / "jax08_gemm_mi300/tw003.xplane.pb"
COST = re.compile(r'costs \{ name: "([^"]+)" cost_us: ([0-9.e+-]+) \}')


class Pgle(CommandCase):
    def test_a_trace_without_instructions_is_refused(self):
        self.reprise("import", ROOT / "data/samples/kineto", "-o", self.trace)
        done = self.reprise("export", self.trace, "--as", "pgle", "-o", "-", status=3)
        self.assertIn("names an HLO instruction", done.stderr)

    @unittest.skipUnless(XPLANE.exists(), f"no {XPLANE}")
    def test_instructions_cost_what_the_rows_say(self):
        self.reprise("import", XPLANE, "-o", self.trace)
        out = self.path / "pgle.pbtxt"
        self.reprise("export", self.trace, "--as", "pgle", "-o", out)
        text = out.read_text()
        found = {name: float(cost) for name, cost in COST.findall(text)}
        lines = [line for line in text.splitlines() if not line.startswith("#")]
        self.assertEqual(len(lines), len(found))  # Every line is a cost, each of its own instruction.
        rows = csv.DictReader(io.StringIO(self.reprise("export", self.trace, "--as", "csv", "-o", "-").stdout))
        time, kernels = collections.Counter(), collections.defaultdict(collections.Counter)
        for row in rows:
            told = json.loads(row["attributes"] or "{}")
            if "hlo_op" not in told or row["kind"] not in ("compute", "copy", "memset"):
                continue
            key = (told.get("hlo_module", ""), told["hlo_op"])
            time[key] += int(row["end_ns"]) - int(row["start_ns"])
            kernels[key][row["name"]] += 1
        cost = {key: time[key] // max(kernels[key].values()) for key in time}
        modules = collections.Counter()
        for key, each in cost.items():
            modules[key[0]] += each * max(kernels[key].values())
        largest = modules.most_common(1)[0][0]
        self.assertEqual(found, {name: each / 1000 for (module, name), each in cost.items() if module == largest})


if __name__ == "__main__":
    unittest.main()
