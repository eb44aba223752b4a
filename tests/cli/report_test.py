#!/usr/bin/env python3
"""`reprise report`: one file that loads nothing, of a trace, two traces and a plan; text of strangers stays text."""

import html.parser
import json
import re
import unittest
import xml.etree.ElementTree

from command_case import ROOT, CommandCase, reprise

HOSTILE = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=1>'\"&\u202e"


class Page(html.parser.HTMLParser):
    """Tags, attributes and the data of a report."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.headings, self.text = [], [], [], {}
        self.open = ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.open = dict(attrs).get("id", tag) if tag == "script" else tag

    def handle_data(self, data):
        if self.open == "h2":
            self.headings.append(data)
        self.text[self.open] = self.text.get(self.open, "") + data

    def handle_endtag(self, tag):
        self.open = ""


class Report(CommandCase):
    def report(self, *words):
        output = self.path / "report.html"
        answer = reprise("report", *words, "-o", output, "--force")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        text = output.read_text()
        page = Page(text)
        # Nothing is fetched, by whatever tag.
        self.assertNotRegex(text, r"(src|href)\s*=\s*[\"']?(https?:|//)")
        self.assertFalse({"link", "img", "iframe", "object", "base"} & set(page.tags))
        self.assertIn("default-src 'none'", text)
        self.assertFalse([name for name, _ in page.attributes if name.startswith("on")])
        return page

    def sample(self):
        trace = self.path / "sample.trace"
        self.assertEqual(reprise("import", ROOT / "data/samples/kineto", "-o", trace).returncode, 0)
        return trace

    def test_trace(self):
        trace, figures = self.sample(), self.path / "figures"
        page = self.report(trace, "--svg", figures)
        self.assertEqual(page.headings[:6], ["Findings", "Where the step goes", "Timeline and critical path of step 5",
                                             "Collectives", "Predicted beside measured", "What if"])
        data = json.loads(page.text["data"])
        bars = next(path.read_text() for path in figures.glob("*.svg") if "wait for the last rank" in path.read_text())
        self.assertRegex(bars, r">3 x [0-9.]+ ms<")
        # What is drawn lies in the window, row by row without overlap.
        span = data["timeline"]["span"]
        for lane in data["timeline"]["lanes"]:
            end = 0
            for start, duration in zip(lane["s"], lane["d"]):
                self.assertGreaterEqual(start, end)
                end = start + duration
                self.assertLessEqual(end, span)
        # The path is whole, and its sum is the analysis'.
        analysis = json.loads(reprise("analyze", trace, "--format", "json").stdout)
        self.assertEqual(sum(entry[2] for entry in data["timeline"]["path"]),
                         analysis["critical_path_summary"]["length_ns"])
        for name in ("breakdown", "timeline", "collectives", "findings", "fidelity"):
            xml.etree.ElementTree.parse(figures / f"{name}.svg")
        # Every position of the sliders is a replay; all at one, it is the recording's.
        grid = data["what_if"]
        count = 1
        place = 0
        for axis in grid["axes"]:
            count *= len(axis["values"])
            place = place * len(axis["values"]) + axis["values"].index(1)
        self.assertEqual(len(grid["step_ns"]), count)
        self.assertEqual(grid["step_ns"][place], grid["now_ns"])

    def test_two_traces(self):
        trace = self.sample()
        page = self.report(trace, trace)
        self.assertIn("+0.0 %", page.text["p"])

    def test_plan(self):
        trace, plan = self.sample(), self.path / "plan.json"
        answer = reprise("optimize", trace, "--only", "buckets", "-o", plan)
        self.assertEqual(answer.returncode, 0, answer.stderr)
        page = self.report(plan)
        self.assertEqual(page.headings, ["Prediction", "Buckets"])
        buckets = json.loads(plan.read_text())["buckets"]
        self.assertGreaterEqual(page.tags.count("tr"), len(buckets) + 1)

    def test_search_of_a_plan_with_its_bound(self):
        plan, figures = self.path / "plan.json", self.path / "plan-figures"
        made = {"schema": "reprise.plan/1", "program_fingerprint": "sha256:0", "ranks": 2, "fusion": [], "buckets": [],
                "predicted": {"step_time_ns": 80_000_000, "baselines": {"none": 100_000_000},
                              "lower_bound_ns": 75_000_000, "gap": 0.067},
                "search": {"seed": 0, "evaluations": 300, "best": [[1, 100_000_000], [40, 90_000_000], [200, 80_000_000]]}}
        plan.write_text(json.dumps(made))
        page = self.report(plan, "--svg", figures)
        self.assertEqual(page.headings, ["Prediction", "Search"])
        drawn = xml.etree.ElementTree.parse(figures / "search.svg").getroot()
        dots = [(float(dot.get("cx")), float(dot.get("cy"))) for dot in drawn.iter("{http://www.w3.org/2000/svg}circle")]
        self.assertEqual(len(dots), 3)
        self.assertEqual(sorted(dots), dots)  # To the right, and down: y grows downwards.
        self.assertEqual(sorted(y for _, y in dots), [y for _, y in dots])
        words = " ".join(drawn.itertext())
        self.assertIn("lower bound 75.0 ms", words)
        self.assertIn("300 plans tried", words)
        # What a stranger writes there is refused, or counts.
        for best in ([[1]], [["x", 2]], [[-1, 2]], {"a": 1}):
            made["search"]["best"] = best
            plan.write_text(json.dumps(made))
            answer = reprise("report", plan, "-o", self.path / "x.html")
            self.assertEqual(answer.returncode, 3, best)
            self.assertIn("best", answer.stderr)

    def test_hostile_names_stay_text(self):
        rows = [{"ph": "X", "cat": "kernel", "name": HOSTILE, "pid": 0, "tid": 7, "ts": 10.0 + i * 20, "dur": 15.0,
                 "args": {"device": 0, "stream": 7, "correlation": i}} for i in range(20)]
        rows += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 1.0 + i * 20,
                  "dur": 5.0, "args": {"correlation": i}} for i in range(20)]
        source, trace = self.path / "<b>rank0.json", self.path / "<b>.trace"
        source.write_text(json.dumps({"schemaVersion": 1, "distributedInfo": {"rank": 0, "world_size": 1},
                                      "traceEvents": rows}))
        self.assertEqual(reprise("import", source, "-o", trace).returncode, 0)
        page = self.report(trace)
        self.assertEqual(page.tags.count("script"), 2)
        self.assertNotIn("b", page.tags)
        names = json.loads(page.text["data"])["timeline"]["names"]
        self.assertTrue(any(name.startswith("</script>") for name in names), names)

    def test_refusals(self):
        trace = self.sample()
        output = self.path / "there.html"
        output.write_text("mine")
        answer = reprise("report", trace, "-o", output)
        self.assertEqual(answer.returncode, 3)
        self.assertIn("--force", answer.stderr)
        self.assertEqual(output.read_text(), "mine")
        answer = reprise("report", trace, trace, trace, "-o", self.path / "x.html")
        self.assertEqual(answer.returncode, 3)
        self.assertIn("3 files", answer.stderr)
        junk = self.path / "junk"
        junk.write_text("{\"schema\": \"other\"}")
        answer = reprise("report", junk, "-o", self.path / "x.html")
        self.assertEqual(answer.returncode, 3)
        self.assertRegex(answer.stderr, re.escape(str(junk)))
        self.assertFalse((self.path / "x.html").exists())


if __name__ == "__main__":
    unittest.main(verbosity=2)
