#!/usr/bin/env python3
"""`reprise hlo` on a shipped program: what it counts and what it draws."""

import json
import sys
import unittest
import xml.etree.ElementTree as xml

from command_case import ROOT, reprise

MLP = ROOT / "data/programs/mlp.2.hlo"
TEXT = MLP.read_text()


def hlo(*arguments):
    return reprise("hlo", MLP, *arguments)


class Hlo(unittest.TestCase):
    def test_counts_equal_those_of_the_text(self):
        summary = json.dumps(json.loads(hlo("--format", "json").stdout))
        for opcode in ("dot", "all-reduce", "tanh"):
            self.assertIn(f'"{opcode}"', summary)
        table = hlo().stdout
        row = next(line for line in table.splitlines() if line.split()[:1] == ["dot"])
        self.assertIn(str(TEXT.count(" dot(")), row.split())

    def test_the_neighbourhood_of_a_collective_is_drawn(self):
        name = next(x for x in TEXT.splitlines() if " all-reduce(" in x).split(" = ")[0].strip()
        dot = hlo("--dot", "--around", name, "--hops", 1).stdout
        self.assertIn("digraph", dot)
        self.assertIn(name, dot)
        drawing = xml.fromstring(hlo("--svg", "--around", name, "--hops", 1).stdout)
        self.assertTrue(drawing.tag.endswith("svg"))

    def test_a_wide_tuple_does_not_widen_the_table(self):
        def table(*flags):
            return reprise("hlo", ROOT / "data/programs/gpt.2.hlo", "--table", *flags).stdout

        self.assertLess(max(map(len, table().splitlines())), 200)
        rows = json.loads(table("--format", "json"))["rows"]
        widest = max((row["shape"] for row in rows), key=len)
        self.assertGreater(len(widest), 1000)
        self.assertIn(widest, table("--format", "csv"))

    def test_the_manifest_skeleton_covers_every_parameter(self):
        skeleton = json.loads(hlo("--manifest").stdout)
        shipped = json.loads(MLP.with_suffix(".json").read_text())
        self.assertEqual(skeleton["schema"], "reprise.manifest/1")
        self.assertEqual([p["role"] for p in skeleton["parameters"]],
                         [p["role"] for p in shipped["parameters"]])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
