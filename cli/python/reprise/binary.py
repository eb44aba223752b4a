"""The `reprise` program: $REPRISE_BIN (the program, or a folder that holds it), else the one on PATH."""

import os
import shutil
import subprocess

from .errors import RepriseError


def find(name="reprise"):
    """Its path. Errors: RepriseError where there is none."""
    given = os.environ.get("REPRISE_BIN")
    if given:
        path = os.path.join(given, name) if os.path.isdir(given) else os.path.join(os.path.dirname(given), name)
        if os.access(path, os.X_OK):
            return path
        raise RepriseError(f"REPRISE_BIN={given}: no {name} there")
    path = shutil.which(name)
    if path is None:
        raise RepriseError(f"{name} is not on PATH: set REPRISE_BIN to the folder that holds it (build/release/bin)")
    return path


def run(words):
    """Runs `reprise WORDS…`; what it printed. Errors: RepriseError with its own message where it fails."""
    done = subprocess.run([find(), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        own = [line for line in lines if line.startswith("reprise")]  # not mpirun's banners around them
        message = "\n".join(dict.fromkeys(own or lines[-12:]))
        raise RepriseError(f"reprise {' '.join(map(str, words))} failed with {done.returncode}:\n{message}")
    return done.stdout
