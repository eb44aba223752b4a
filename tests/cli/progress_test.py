#!/usr/bin/env python3
"""Bars of long work: on a terminal alone, no wider than it, gone at the end, with no name's own escapes."""

import fcntl
import json
import os
import pty
import re
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from command_case import BIN, MPI, ROOT, CommandCase

COLUMNS = 60
WILD = "\x1b[2Kred.trace"


def on_terminal(*arguments, columns=COLUMNS, **environment):
    """Exit code, stdout, and what a terminal got as stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    env = {name: text for name, text in os.environ.items() if name not in ("CI", "NO_COLOR")}
    env.update({**MPI, "TERM": "xterm", **environment})
    # Into a file: nobody reads a pipe while the terminal is read.
    with tempfile.TemporaryFile() as output, subprocess.Popen([BIN / "reprise", *map(str, arguments)], stdout=output,
                                                              stderr=theirs, env=env) as run:
        os.close(theirs)
        seen = b""
        while True:
            try:
                chunk = os.read(ours, 65536)
            except OSError:  # Nobody has it open any more.
                break
            if not chunk:
                break
            seen += chunk
        code = run.wait(timeout=240)
        output.seek(0)
        told = output.read()
    os.close(ours)
    return code, told.decode(), seen.decode()


def screen(seen):
    """The lines that a terminal shows in the end."""
    lines, at = [""], 0
    for part in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+|.", seen):
        if part == "\r":
            at = 0
        elif part == "\n":
            lines.append("")
        elif part == "\x1b[K":
            lines[-1] = lines[-1][:at]
        else:
            lines[-1] = lines[-1][:at] + part + lines[-1][at + len(part):]
            at += len(part)
    return lines


class Progress(CommandCase):
    def setUp(self):
        super().setUp()
        self.sample = ROOT / "data/samples/kineto"

    def check_bar(self, seen, words):
        self.assertIn(words, seen)
        for line in re.findall(r"\r([^\r\n]*)\x1b\[K\r", seen):
            self.assertLess(len(line), COLUMNS)
        self.assertFalse([line for line in screen(seen) if words in line], screen(seen))

    def test_reading_is_shown_and_erased(self):
        code, _, seen = on_terminal("import", self.sample, "-o", self.trace)
        self.assertEqual(code, 0, seen)
        self.check_bar(seen, "reading 2 files [")
        for verb in (["analyze"], ["replay"], ["info"], ["report", "-o", self.path / "r.html"]):
            with self.subTest(verb=verb[0]):
                code, output, seen = on_terminal(verb[0], self.trace, *verb[1:], columns=200)
                self.assertEqual(code, 0, seen)
                self.assertRegex(seen, r"reading [^\r]*out\.trace \[")
                self.assertNotIn("[#", "".join(screen(seen)))
                self.assertNotIn("reading", output)

    def test_nothing_in_pipes_in_ci_or_on_a_dumb_terminal(self):
        self.reprise("import", self.sample, "-o", self.trace)
        self.assertNotIn("reading", self.reprise("analyze", self.trace).stderr)
        for environment in ({"CI": "true"}, {"TERM": "dumb"}, {"TERM": ""}):
            with self.subTest(environment=environment):
                code, output, seen = on_terminal("analyze", self.trace, "--format", "json", **environment)
                self.assertEqual(code, 0, seen)
                json.loads(output)
                self.assertNotIn("\x1b", seen)
                self.assertNotIn("[#", seen)

    def test_names_are_escaped_and_colours_not_used(self):
        trace = self.path / WILD
        self.reprise("import", self.sample, "-o", trace)
        code, _, seen = on_terminal("info", trace, columns=300)
        self.assertEqual(code, 0, seen)
        self.assertIn(r"\x1b[2Kred.trace [", seen)
        self.assertEqual(set(re.findall(r"\x1b\[[^A-Za-z]*[A-Za-z]", seen)), {"\x1b[K"})

    def test_compiling_training_and_searching_are_shown(self):
        program = ROOT / "data/programs/mlp.1.hlo"
        cache = str(self.path / "cache")
        code, _, seen = on_terminal("train", program, "--steps", "4", "--trace", self.trace, XDG_CACHE_HOME=cache)
        self.assertEqual(code, 0, seen)
        self.check_bar(seen, "compiling ")
        code, output, seen = on_terminal("optimize", self.trace, "--no-measure", "--evaluations", "20", "-o",
                                         self.path / "plan.json", "--format", "json", XDG_CACHE_HOME=cache)
        self.assertEqual(code, 0, seen)
        json.loads(output)
        self.check_bar(seen, "searching [")

    def test_a_search_of_buckets_is_shown(self):
        code, _, seen = on_terminal("optimize", self.sample, "--only", "buckets", "-o", self.path / "plan.json")
        self.assertEqual(code, 0, seen)
        self.check_bar(seen, "searching buckets [")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
