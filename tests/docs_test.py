#!/usr/bin/env python3
"""Runs every command of docs/answers.md, in its order, in a copy of the folders that they name.

A command is a line indented by four spaces, or what stands between backticks and begins with "reprise" and names a
trace or a plan. Environment: REPRISE_BIN.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = re.compile(r"\.trace|\.json")


def commands(text):
    for line in text.splitlines():
        if line.startswith("    reprise"):
            yield line.strip()
        else:
            yield from (code for code in re.findall(r"`(reprise [^`]*)`", line) if FILES.search(code))


def main():
    environment = dict(os.environ, OMP_NUM_THREADS="1",
                       PATH=f"{pathlib.Path(os.environ['REPRISE_BIN']).resolve()}:{os.environ['PATH']}")
    failed, count = 0, 0
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data").symlink_to(ROOT / "data")
        for command in commands((ROOT / "docs/answers.md").read_text()):
            done = subprocess.run(shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True)
            said_no = command.startswith("reprise verify") and done.returncode == 1  # One run a side, as it says.
            count += 1
            if done.returncode != 0 and not said_no:
                failed += 1
                print(f"{command}: exit {done.returncode}\n{done.stderr}")
    print(f"{count} commands, {failed} failed")
    return 1 if failed or count < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
