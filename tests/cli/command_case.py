"""What the tests of the command line share: the program under test and a folder of each test's own."""

import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()
# Open MPI starts ranks as root, as in a container, only when told so twice.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


def reprise(*arguments, **options):
    """`env` is added to this process's own."""
    options.setdefault("timeout", 120)
    environment = dict(os.environ, **MPI, **options.pop("env", {}))
    return subprocess.run([BIN / "reprise", *map(str, arguments)], capture_output=True, text=True, env=environment,
                          **options)


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
