#!/usr/bin/env python3
"""Input that means harm: files that are none or have no end, data that lies elsewhere, memory and nesting."""

import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
import unittest

from command_case import BIN, MPI, ROOT, CommandCase, is_sanitized, reprise

PROGRAMS = ROOT / "data/programs"


class HostileInput(CommandCase):
    def program(self, dataset, folder="p"):
        """The MLP of one rank with another dataset."""
        manifest = json.loads((PROGRAMS / "mlp.1.json").read_text())
        manifest["dataset"]["file"] = str(dataset)
        manifest.pop("reference", None)
        self.write(f"{folder}/mlp.1.json", json.dumps(manifest))
        return self.write(f"{folder}/mlp.1.hlo", (PROGRAMS / "mlp.1.hlo").read_text())

    def train(self, program, *arguments):
        return reprise("train", program, "--steps", 2, "--warmup", 1, *arguments, timeout=60)

    def refused(self, done, *words):
        self.assertEqual(done.returncode, 3, done.stderr + done.stdout)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_datasets_that_are_no_files(self):
        os.mkfifo(self.write("p/x", "").parent / "fifo")
        (self.path / "p/folder").mkdir()
        for name in ("fifo", "folder"):
            self.refused(self.train(self.program(name)), "mlp.1.json", name)
        (self.path / "p/zero").symlink_to("/dev/zero")
        for name in ("/dev/zero", "/etc/hostname", "zero", "../../../../../../../../../etc/hostname"):
            self.refused(self.train(self.program(name)), "mlp.1.json", "--data")

    def test_datasets_lie_below_the_program_or_where_the_user_says(self):
        elsewhere = self.path / "elsewhere"
        elsewhere.mkdir()
        shutil.copy(PROGRAMS / "digits.bin", elsewhere)
        self.write("p/mlp.1.hlo", "")
        (self.path / "p/digits.bin").symlink_to(elsewhere / "digits.bin")
        for name in ("digits.bin", elsewhere / "digits.bin", "../elsewhere/digits.bin"):
            program = self.program(name)
            self.refused(self.train(program), "mlp.1.json", "--data")
        for name in ("digits.bin", elsewhere / "digits.bin"):
            done = self.train(self.program(name), "--data", elsewhere)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_datasets_of_other_sizes(self):
        self.write("p/odd.bin", b"x" * 66)
        self.refused(self.train(self.program("odd.bin")), "66 bytes", "records")

    def test_a_program_from_inside_a_trace_opens_no_file(self):
        trace = self.path / "run.trace"
        shutil.copytree(PROGRAMS, self.path / "p", ignore=shutil.ignore_patterns("gpt*"))
        done = self.train(self.path / "p/mlp.1.hlo", "--trace", trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        (self.path / "p/digits.bin").rename(self.path / "digits.bin")
        steps = ("--steps", 2, "--warmup", 1, "--costs", self.path / "costs.json")
        done = reprise("calibrate", trace, *steps)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = reprise("calibrate", trace, *steps, "--data", self.path)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.refused(reprise("calibrate", trace, *steps, "--data", self.path / "p"), "run.trace", "digits.bin")

    def absurd(self):
        """(file, what is said of it) without an end, of another kind, or nested."""
        os.mkfifo(self.path / "fifo")
        (self.path / "folder").mkdir()
        for name, start in (("hole", b""), ("json", b'{"traceEvents":[{"ph":"X","name":"'), ("hlo", b"HloModule m\n")):
            with open(self.path / name, "wb") as file:
                file.write(start)
                file.truncate(8 << 30)
        self.write("deep.json", "[" * 3_000_000)
        self.write("deep.hlo", "HloModule m\n\nENTRY e {\n  ROOT p = " + "(" * 1_000_000 + "f32[1]\n")
        return ["/dev/zero"] + [self.path / name for name in ("fifo", "folder", "hole", "json", "hlo", "deep.json",
                                                              "deep.hlo")]

    def test_endless_or_absurd_inputs(self):
        trace, out = self.path / "ok.trace", self.path / "out"
        self.reprise("import", ROOT / "data/samples/kineto", "-o", trace)
        plan = self.write("plan.json", "{}")
        for file in self.absurd():
            for verb in (["info", file], ["analyze", file], ["diff", trace, file], ["replay", file], ["hlo", file],
                         ["import", file, "-o", out], ["optimize", file, "-o", out], ["calibrate", file],
                         ["export", file, "--as", "csv", "-o", out], ["export", file, "--as", "ddp", "-o", out],
                         ["replay", trace, "--plan", file], ["train", PROGRAMS / "mlp.1.hlo", "--plan", file],
                         ["train", file]):
                if verb[0] == "import" and str(file).endswith("fifo"):
                    continue  # Named pipes are read: who names one knows who writes to it.
                with self.subTest(verb=verb[0], file=str(file)):
                    start = time.monotonic()
                    self.refused(reprise(*verb, timeout=60))
                    self.assertLess(time.monotonic() - start, 20)
                    self.assertFalse(out.exists())
        self.assertTrue(plan.exists())

    def test_regular_expressions_meet_long_names(self):
        text = (PROGRAMS / "mlp.1.hlo").read_text()
        name = next(line for line in text.splitlines() if " tanh(" in line).split()[0]
        program = self.program("digits.bin")
        shutil.copy(PROGRAMS / "digits.bin", program.parent)
        program.write_text(re.sub(rf"\b{re.escape(name)}\b", "t" * 300_000, text))
        done = self.train(program, "--trace", self.path / "run.trace")
        self.assertEqual(done.returncode, 0, done.stderr[-300:])
        self.reprise("replay", self.path / "run.trace", "--what-if", "op:(t|u)*x=0.5x", "--what-if", "op:^t+$=0.5x")

    @unittest.skipIf(is_sanitized(), "sanitizers reserve more memory than there is")
    def test_memory_that_is_not_there_is_said(self):
        path = self.write("long.hlo", "HloModule m\n" + "// 0123456789\n" * 20_000_000)
        limit = 400 << 20
        done = subprocess.run([BIN / "reprise", "hlo", path], capture_output=True, text=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        self.refused(done, "memory")

    def test_what_json_lacks_is_said_in_our_words(self):
        program = self.program("digits.bin")
        manifest = program.with_suffix(".json")
        for text, words in (("{", "not JSON"), ("[]", "expected an object, found array"),
                            ('{"schema": 7}', "expected string, found number"),
                            ('{"schema": "reprise.manifest/1"}', "'name' is missing")):
            manifest.write_text(text)
            done = self.train(program)
            self.refused(done, "mlp.1.json", words)
            self.assertNotIn("json.exception", done.stderr)


if __name__ == "__main__":
    os.environ.update(MPI)
    sys.exit(unittest.main(verbosity=2))
