#!/usr/bin/env python3
"""Every verb that reads a trace takes another tool's files too, a folder or one of them, as if they had been imported."""

import json
import os
import shutil
import signal
import subprocess
import unittest

from command_case import BIN, ROOT, CommandCase, reprise, wait_until

SAMPLE = ROOT / "data/samples/kineto"


class AnyTrace(CommandCase):
    def setUp(self):
        super().setUp()
        self.scratch = self.path / "scratch"
        self.scratch.mkdir()
        self.environment = {"TMPDIR": str(self.scratch)}

    def tearDown(self):
        self.assertEqual(list(self.scratch.iterdir()), [], "left behind")
        super().tearDown()

    def answer(self, *arguments):
        done = reprise(*arguments, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_folder_is_answered_as_its_import(self):
        reprise("import", SAMPLE, "-o", self.trace)
        for command in (("analyze",), ("info",), ("replay",), ("replay", "--format", "json"),
                        ("analyze", "--format", "csv")):
            with self.subTest(command=command):
                self.assertEqual(self.answer(command[0], SAMPLE, *command[1:]).replace(str(SAMPLE), "NAME"),
                                 self.answer(command[0], self.trace, *command[1:]).replace(str(self.trace), "NAME"))
        self.assertIn("+0.0 %", self.answer("diff", self.trace, SAMPLE).splitlines()[0])
        self.answer("report", SAMPLE, "-o", self.path / "folder.html")
        self.answer("report", self.trace, "-o", self.path / "trace.html")
        self.assertEqual((self.path / "folder.html").read_text().replace(str(SAMPLE), "NAME"),
                         (self.path / "trace.html").read_text().replace(str(self.trace), "NAME"))

    def test_one_file_is_a_trace_of_one_rank(self):
        ranks = json.loads(self.answer("analyze", SAMPLE / "rank0.json.gz", "--format", "json"))["ranks"]
        self.assertEqual(len(ranks), 1)

    def test_a_copy_of_ours_by_any_name(self):
        reprise("import", SAMPLE, "-o", self.trace)
        shutil.copy(self.trace, self.path / "named.sqlite")
        self.assertEqual(self.answer("info", self.path / "named.sqlite"), self.answer("info", self.trace))

    def test_what_is_no_trace_is_named(self):
        empty = self.path / "empty"
        empty.mkdir()
        for path, words in ((self.write("a.json", "{}"), "JSON without traceEvents"),
                            (self.write("b.trace", "{}"), "not a Reprise trace"),
                            (self.path / "none", "No such file"), (empty, "there is no file to import")):
            for verb in ("analyze", "info", "replay", "report", "view"):
                with self.subTest(path=path, verb=verb):
                    output = ("-o", self.path / "x.html") if verb == "report" else ()
                    done = reprise(verb, path, *output, env=self.environment)
                    self.assertEqual(done.returncode, 3, done.stderr)
                    self.assertIn(words, done.stderr)
                    self.assertIn(str(path), done.stderr)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)

    def test_ctrl_c_leaves_nothing(self):
        """Also where it comes while the files are read, or while the imported trace lies in its private folder."""
        events = ",".join(json.dumps({"ph": "X", "cat": "cpu_op", "name": f"op{i % 9}", "pid": 1, "tid": 1, "ts": 10 * i,
                                      "dur": 5}) for i in range(200_000))
        large = self.write("large.json", f'{{"schemaVersion": 1, "traceEvents": [{events}]}}')
        for wait in (lambda: True, lambda: any(self.scratch.iterdir())):
            process = subprocess.Popen([BIN / "reprise", "info", large], stdout=subprocess.DEVNULL,
                                       env=dict(os.environ, **self.environment))
            wait_until(lambda: process.poll() is not None or wait())
            process.send_signal(signal.SIGINT)
            self.assertIn(process.wait(timeout=60), (0, -signal.SIGINT))
            self.assertEqual(list(self.scratch.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
