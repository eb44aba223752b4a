"""What the tests of the command line share: the program under test and a folder of each test's own."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()


def reprise(*arguments, **options):
    options.setdefault("timeout", 120)
    return subprocess.run([BIN / "reprise", *map(str, arguments)], capture_output=True, text=True, **options)


class CommandCase(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = pathlib.Path(directory.name)
        self.trace = self.path / "out.trace"

    def write(self, name, content):
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def reprise(self, *arguments, status=0):
        done = reprise(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        return done
