#!/usr/bin/env python3
"""A step whose state was not donated trains as one whose state was.

  undonated_test.py REPRISE_TRAIN PROGRAM.hlo KERNEL_CACHE
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile


def main(trainer, program, cache):
    program = pathlib.Path(program).resolve()
    text, count = re.subn(r", input_output_alias=\{(?: \{\d+\}: \(\d+, \{\}, may-alias\),?)+ \}", "",
                          program.read_text(), count=1)
    assert count == 1, "the program donates no state"
    manifest = json.loads(program.with_suffix(".json").read_text())
    manifest["reference"]["file"] = str(program.parent / manifest["reference"]["file"])
    with tempfile.TemporaryDirectory() as directory:
        copy = pathlib.Path(directory) / program.name
        copy.write_text(text)
        copy.with_suffix(".json").write_text(json.dumps(manifest))
        command = [trainer, copy, "--data", program.parent, "--verify", "--cache", cache,
                   "--result", copy.with_suffix(".result")]
        sys.exit(subprocess.run(command, check=False).returncode)


if __name__ == "__main__":
    main(*sys.argv[1:])
