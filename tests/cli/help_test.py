#!/usr/bin/env python3
"""Every help page fits one screen (24 lines of 80 columns) and exits 0."""

import os
import pathlib
import subprocess
import sys
import unittest

BIN = pathlib.Path(os.environ.get("REPRISE_BIN", "build/release/bin"))
VERBS = ["train", "profile", "import", "info", "analyze", "diff", "replay", "calibrate", "optimize", "export", "verify",
         "report", "view", "hlo", "doctor"]


def reprise(*arguments):
    return subprocess.run([BIN / "reprise", *arguments], capture_output=True, text=True)


class Help(unittest.TestCase):
    def fits(self, *arguments):
        done = reprise(*arguments, "--help")
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = done.stdout.strip().splitlines()
        self.assertLessEqual(len(lines), 24, "\n".join(lines))
        for line in lines:
            self.assertLessEqual(len(line), 80, line)

    def test_the_whole_fits_a_screen(self):
        self.fits()

    def test_every_verb_is_listed(self):
        text = reprise("--help").stdout
        for verb in VERBS:
            self.assertIn(verb, text)

    def test_every_verb_fits_a_screen(self):
        for verb in VERBS:
            with self.subTest(verb):
                self.fits(verb)

    def test_a_range_is_shown_as_one(self):
        self.assertRegex(reprise("profile", "--help").stdout, r"--steps A:B +record steps A to B - 1")

    def test_a_stream_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            for verb in (["doctor"], ["doctor", "--format", "json"]):
                done = subprocess.run([BIN / "reprise", *verb], stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("No space left", done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_doctor_says_what_is_missing_and_fails_only_when_asked(self):
        self.assertEqual(reprise("doctor").returncode, 0)
        self.assertIn(reprise("doctor", "--for", "profile").returncode, (0, 4))


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
