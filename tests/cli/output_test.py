#!/usr/bin/env python3
"""What verbs write: all of it or a failure, under its own name or none, and nothing of a stranger's that acts."""

import json
import os
import subprocess
import sys
import unittest

from command_case import BIN, ROOT, CommandCase, reprise

PROGRAM = ROOT / "data/programs/mlp.1.hlo"
# Moves the cursor up, rings, ends a line, and shows what follows from right to left; C1's own CSI.
WILD = "\x1b[2Kred\u202etxt.exe\u009b31m\x07"
FORMULA = "=HYPERLINK(\"http://x\",\"y\")"


def kineto(names, **arguments):
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 7, "tid": 7, "ts": 1000,
               "dur": 100 * len(names)}]
    for i, name in enumerate(names):
        at = 1000 + 100 * i
        events += [{"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7, "ts": at, "dur": 5,
                    "args": {"correlation": i + 1}},
                   {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": at + 10, "dur": 20 + i,
                    "args": {"correlation": i + 1, "device": 0, "stream": 7, **arguments}}]
    return json.dumps({"schemaVersion": 1, "traceEvents": events})


class Output(CommandCase):
    def imported(self, names, name="in"):
        trace = self.path / f"{name}.trace"
        self.reprise("import", self.write(f"{name}.json", kineto(names)), "-o", trace)
        return trace

    def test_stdout_full(self):
        trace = self.imported(["gemm"] * 400)
        other = self.imported(["gemm", "copy"], "other")
        source = self.write("a.json", kineto(["gemm"]))
        out = self.path / "out.trace"
        for verb in (["info", trace], ["info", trace, "--format", "json"], ["analyze", trace],
                     ["analyze", trace, "--format", "json"], ["analyze", trace, "--format", "csv"], ["diff", trace, other],
                     ["diff", trace, other, "--format", "json"], ["diff", other, trace, "--fail-above", "0%"],
                     ["replay", trace], ["replay", trace, "--format", "json"], ["replay", trace, "--format", "csv"],
                     ["import", source, "-o", out, "--force"], ["export", trace, "--as", "csv", "-o", "-"],
                     ["export", trace, "--as", "chrome", "-o", "-"], ["hlo", PROGRAM], ["hlo", PROGRAM, "--table"],
                     ["hlo", PROGRAM, "--manifest"], ["train", PROGRAM, "--steps", "2", "--warmup", "1"], ["doctor"],
                     ["--help"], ["analyze", "--help"], ["--version"]):
            with self.subTest(verb=verb), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([BIN / "reprise", *map(str, verb)], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=100)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("standard output", done.stderr)

    def test_names_reach_the_terminal_escaped(self):
        trace, other = self.imported([WILD, "gemm"]), self.imported([WILD, WILD], "other")
        for verb in (["info", trace], ["analyze", trace], ["analyze", trace, "--format", "csv"],
                     ["analyze", trace, "--format", "json"], ["diff", trace, other], ["replay", trace],
                     ["replay", trace, "--what-if", "op:none=0x"], ["export", trace, "--as", "csv", "-o", "-"],
                     ["export", trace, "--as", "chrome", "-o", "-"], ["info", self.path / WILD]):
            with self.subTest(verb=verb[0]):
                done = reprise(*verb)
                self.assertNotRegex(done.stdout + done.stderr, "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
        self.assertIn(r"\x1b[2Kred\u202etxt.exe\x9b31m\x07", reprise("analyze", trace, "--format", "csv").stdout +
                      reprise("export", trace, "--as", "csv", "-o", "-").stdout)
        kernels = json.loads(reprise("export", trace, "--as", "chrome", "-o", "-").stdout)["traceEvents"]
        self.assertIn(WILD, [event["name"] for event in kernels])

    def test_cells_of_csv_are_no_formulas(self):
        names = [FORMULA, "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-12.5"]
        rows = reprise("export", self.imported(names), "--as", "csv", "-o", "-").stdout
        for name in ("\"'=HYPERLINK(\"\"http://x\"\",\"\"y\"\")\"", "'+1+1", "'-2+3", "'@SUM(A1)", "'\t=1", ",-12.5,"):
            self.assertIn(name, rows)
        # Numbers stay such: every event has some that are -1.
        self.assertIn(",-1,", rows)
        self.assertNotIn("'-1", rows)

    def test_of_two_writers_without_force_one_succeeds(self):
        pipe, out = self.path / "pipe", self.path / "out.trace"
        os.mkfifo(pipe)
        run = subprocess.Popen([BIN / "reprise", "import", pipe, "-o", out], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        with open(pipe, "wb", buffering=0) as sink:  # Opened: it has looked whether there is an output.
            source = self.write("a.json", kineto(["first"]))
            self.reprise("import", source, "-o", out)
            first = out.read_bytes()
            sink.write(kineto(["second"]).encode())
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, 3, errors)
        self.assertIn("--force", errors)
        self.assertEqual(out.read_bytes(), first)
        self.assertEqual(sorted(path.name for path in self.path.iterdir()), ["a.json", "out.trace", "pipe"])

    def test_temporary_names_are_not_guessed(self):
        victim = self.write("victim", "precious")
        run = subprocess.Popen(["sh", "-c", 'read go; exec "$@"', "sh", BIN / "reprise", "export",
                                self.imported(["gemm"]), "--as", "csv", "-o", self.path / "rows.csv"],
                               stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for name in (f"rows.csv.tmp.{run.pid}", f"rows.csv.tmp.{run.pid}.0"):
            (self.path / name).symlink_to(victim)
        _, errors = run.communicate("go\n", timeout=60)
        self.assertEqual(run.returncode, 0, errors)
        self.assertEqual(victim.read_text(), "precious")
        self.assertTrue((self.path / "rows.csv").read_text().startswith("rank,"))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
