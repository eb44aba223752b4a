"""What the tests that need another project's Python packages share: which Python has them."""

import os
import subprocess
import sys


def python_with(module, variable):
    """A Python that imports `module`: $variable, else the one that runs this; None where neither does."""
    for python in filter(None, (os.environ.get(variable), sys.executable)):
        try:
            if subprocess.run([python, "-c", f"import {module}"], capture_output=True, timeout=300).returncode == 0:
                return python
        except OSError:
            pass
    return None


def skip_without(module, variable):
    """The Python that has `module`, or the end of the test with a reason."""
    python = python_with(module, variable)
    if python is None:
        print(f"skipped: no Python with {module}; {variable}=PYTHON names one")
        sys.exit(77)
    return python
