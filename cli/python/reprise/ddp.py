"""DistributedDataParallel under a plan file, without a step between:

    import reprise.ddp
    model = reprise.ddp.wrap(model, "plan.json")   # for DistributedDataParallel(model)

The plan is exported by `reprise export --as ddp` to a folder of this process, whose module does the rest: it warns in
the third step where the buckets are not the planned ones. Needs torch and the `reprise` program.
"""

import importlib.util
import os
import pathlib
import tempfile

from . import binary

_FOLDERS = []  # Kept while the process lives: modules read their plan from there once.


def exported(plan):
    """The module that `reprise export PLAN --as ddp` writes: wrap, watch, kwargs, check. Errors: RepriseError with the
    tool's message."""
    folder = tempfile.TemporaryDirectory(prefix="reprise-ddp-")
    _FOLDERS.append(folder)
    out = pathlib.Path(folder.name) / "ddp"
    binary.run(["export", os.fspath(plan), "--as", "ddp", "-o", out])
    spec = importlib.util.spec_from_file_location("reprise_ddp", out / "reprise_ddp.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrap(model, plan, **arguments):
    """DistributedDataParallel(model, **arguments) with the buckets of `plan`, watched."""
    return exported(plan).wrap(model, **arguments)


def watch(model, plan):
    """A DistributedDataParallel made elsewhere, told apart from `plan` by a warning in its third step."""
    return exported(plan).watch(model)
