#!/usr/bin/env python3
"""The tool's Debian package alone in a bare root of this release: three commands from nothing to a report, in a minute.

bare_root_test.py BUILD. Skipped (77) where there is no mmdebstrap, cpack, root or Debian mirror.
"""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BUILD = pathlib.Path(sys.argv.pop(1)).resolve() if len(sys.argv) > 1 else None
ROOT = pathlib.Path(__file__).resolve().parent.parent
COMMANDS = re.search(r"A new machine needs.*?```\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
# Of its own mount namespace: what is mounted goes with it.
INSIDE = 'mount -t proc proc "$0/proc"; mount --bind /dev "$0/dev"; exec chroot "$0" sh -c "cd /tmp; $1"'


class BareRoot(unittest.TestCase):
    def test_three_commands_in_a_minute(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder)
            subprocess.run(["cpack", "--config", BUILD / "CPackConfig.cmake", "-B", path / "made"], check=True,
                           capture_output=True)
            root = path / "root"
            made = subprocess.run(["mmdebstrap", "--variant=minbase", platform.freedesktop_os_release()["VERSION_CODENAME"],
                                   root], capture_output=True, text=True, check=False)
            if made.returncode != 0:
                self.skipTest(f"no bare root was made: {made.stderr[-300:]}")
            shutil.copy("/etc/resolv.conf", root / "etc")
            shutil.copy(next((path / "made").glob("reprise_*.deb")), root / "tmp")
            told, began = [], time.monotonic()
            for command in COMMANDS.strip().splitlines():
                done = subprocess.run(["unshare", "-m", "sh", "-c", INSIDE, root, command], capture_output=True, text=True,
                                      check=False, env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"))
                self.assertEqual(done.returncode, 0, done.stdout[-2000:] + done.stderr)
                told.append(done.stdout)
            took = time.monotonic() - began
            self.assertEqual(len(told), 3)
            self.assertIn("rank 1 is late", told[1])
            self.assertIn("</html>", (root / "tmp/report.html").read_text())
            self.assertLess(took, 60)
            print(f"{took:.1f} s")


if __name__ == "__main__":
    lacking = [tool for tool in ("mmdebstrap", "cpack", "unshare") if not shutil.which(tool)]
    if lacking or os.geteuid() != 0:
        print(f"skipped: needs {', '.join(lacking) or 'root'}")
        sys.exit(77)
    unittest.main(verbosity=2)
