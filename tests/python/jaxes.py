"""Which interpreters have JAX, and tests that run in them.

$REPRISE_JAX_PYTHON names interpreters, separated by colons, as of one virtual environment a version of JAX; without it
the one that runs the test is tried, then python3 on PATH. None has what is needed: the test is skipped (77)."""

import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
PACKAGE = HERE.parent.parent / "cli" / "python"
SKIPPED = 77


def interpreters(modules, names=()):
    """Those that import all of `modules`, and know `names` of them."""
    given = os.environ.get("REPRISE_JAX_PYTHON")
    candidates = given.split(":") if given else [sys.executable, shutil.which("python3")]
    found = []
    for candidate in dict.fromkeys(filter(None, candidates)):
        words = [candidate, "-W", "ignore", "-c", "\n".join(["import " + ", ".join(modules), *names])]
        if subprocess.run(words, capture_output=True, check=False).returncode == 0:
            found.append(candidate)
    return found


def run_in_each(script, modules, arguments=(), names=()):
    """Runs a script of this folder in each; exits with 77 where there is none, 1 where one failed."""
    found = interpreters(modules, names)
    if not found:
        print(f"skipped: no interpreter has {', '.join([*modules, *names])}; REPRISE_JAX_PYTHON names some (colon-separated)")
        sys.exit(SKIPPED)
    environment = dict(os.environ, PYTHONPATH=f"{PACKAGE}:{HERE}")
    failed = [python for python in found
              if subprocess.run([python, HERE / script, *arguments], env=environment, check=False).returncode != 0]
    print("".join(f"failed with {python}\n" for python in failed), end="")
    sys.exit(1 if failed else 0)
