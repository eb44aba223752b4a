#!/usr/bin/env python3
"""cmake/packages.sh: one apt line for who may not install, an installation for root, silence when nothing is missing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "cmake/packages.sh"
PRODUCT = """libglpk-dev libboost-graph-dev libtbb-dev nlohmann-json3-dev libsqlite3-dev libsimdjson-dev libisal-dev
 libfmt-dev libcli11-dev libexpected-dev libdnnl-dev libgloo-dev libopenmpi-dev openmpi-bin g++""".split()


class Packages(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)
        self.addCleanup(self.directory.cleanup)
        self.log = self.path / "apt.log"
        self.fake("apt-get", f'echo "$*" >> {self.log}')
        self.fake("sudo", "exit 1")
        self.installed("exit 1")
        self.user(1000)

    def fake(self, name, body):
        (self.path / name).write_text(f"#!/bin/sh\n{body}\n")
        (self.path / name).chmod(0o755)

    def installed(self, answer):
        self.fake("dpkg-query", answer)

    def user(self, number):
        self.fake("id", f"echo {number}")

    def run_script(self, *arguments, before=()):
        environment = dict(os.environ, PATH=f"{self.path}:/usr/bin:/bin")
        return subprocess.run([*before, SCRIPT, *arguments], env=environment, capture_output=True, text=True)

    def test_without_root_the_one_line_is_printed(self):
        done = self.run_script()
        self.assertEqual(done.returncode, 4, done.stderr)
        lines = [line for line in done.stderr.splitlines() if "apt-get" in line]
        self.assertEqual(len(lines), 1, done.stderr)
        self.assertTrue(lines[0].startswith("  sudo apt-get update && sudo apt-get install -y "))
        for package in PRODUCT:
            self.assertIn(f" {package}", lines[0])
        self.assertNotIn("chromium", lines[0])
        self.assertFalse(self.log.exists())

    def test_root_and_passwordless_sudo_install_what_is_missing(self):
        self.installed('case "$*" in *libfmt-dev|*valgrind) exit 1;; *) echo "install ok installed";; esac')
        self.user(0)
        done = self.run_script("test")
        self.assertEqual(done.returncode, 0, done.stderr)
        install = "install -y --no-install-recommends libfmt-dev valgrind"
        self.assertEqual(self.log.read_text().splitlines(), ["update -qq", install])
        self.log.unlink()
        self.user(1000)
        self.fake("sudo", 'shift; exec "$@"')
        self.assertEqual(self.run_script("test").returncode, 0)
        self.assertEqual(self.log.read_text().splitlines()[-1], install)

    def test_nothing_missing_is_silent(self):
        self.installed('echo "install ok installed"')
        done = self.run_script("test")
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_browser_is_wanted_where_apt_has_one(self):
        for system, wanted in (("debian", True), ("ubuntu", False)):
            release = self.path / "os-release"
            release.write_text(f"NAME=x\nID={system}\n")
            inner = f'mount --bind {release} /etc/os-release && exec "$@"'
            done = self.run_script("test", before=["unshare", "--user", "--map-root-user", "--mount",
                                                   "sh", "-c", inner, "sh"])
            if any(word in done.stderr for word in ("unshare:", "mount:", "unshare failed")):
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 4, done.stderr)
            self.assertEqual("chromium-driver" in done.stderr, wanted, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
