"""load_state: what was trained, as the step's own tree on the step's own devices."""

import json
import os
import pathlib

import jax
import numpy as np

from .. import tensors
from ..errors import RepriseError
from . import trees


def description(directory):
    """jax.json of an exported folder."""
    path = pathlib.Path(directory) / "jax.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RepriseError(f"{path}: not a folder that reprise.jax.export wrote: {error}") from error


def state_leaves(described):
    """Its leaves that are state and parameters of the program, by name."""
    return {e["name"]: e for e in described["leaves"] if e["role"] == "state" and e["parameter"] is not None}


def unread_leaves(described):
    """Names of state leaves that are no parameters: the step neither writes nor reads them."""
    return {e["name"] for e in described["leaves"] if e["role"] == "state" and e["parameter"] is None}


def whole(entry, array):
    """The global value of a stored tensor."""
    if entry["slices"] is None:
        return array
    return trees.join(array, entry["slices"], entry["shape"])


def _resolve(source, exported):
    path = pathlib.Path(source)
    if path.is_dir():
        trained = path / "trained.safetensors"
        return trained if trained.exists() else path / "state.safetensors", exported or path
    return path, exported or (path.parent if (path.parent / "jax.json").exists() else None)


def load_state(source, like, exported=None):
    """The state in `source`, a file of `train --dump-state` or an exported folder, in the structure of `like`.

    `like` is the step's state argument, or the tuple of all its state arguments, in order, or a dict of some by their
    names. `exported` is the folder that
    export wrote, needed where ranks hold different parts; it is found beside `source`. Leaves come back on the devices
    of `like`, keys as keys; one whose type the first step changes has the changed type; one that the step neither reads
    nor writes is in no file and stays as it is in `like`.
    Errors: RepriseError where names, shapes or types do not fit, or fit several arguments."""
    path, exported = _resolve(source, exported)
    described = description(exported) if exported else {"leaves": []}
    known, unread = state_leaves(described), unread_leaves(described)
    stored = tensors.load(os.fspath(path), {name: entry["type"] for name, entry in known.items()})
    stored = {name: a for name, a in stored.items() if not name.startswith("captured.")}
    values = [(name, (whole(known[name], a), known[name].get("given")) if name in known else (a, None))
              for name, a in stored.items()]
    wanted = trees.leaves(like)
    by_name = _by_name(dict(values), wanted, unread)
    if by_name is None and len(values) == len(wanted):
        by_name = _by_place(path, values, wanted)
    if by_name is None:
        raise RepriseError(f"{path} has {len(values)} tensors, `like` has {len(wanted)} leaves: give the state argument "
                           "of the step, or the tuple of all of them")
    placed = [leaf if value is None else _place(*value, leaf, trees.path_name("", key))
              for value, (key, leaf) in zip(by_name, wanted)]
    return jax.tree_util.tree_unflatten(jax.tree_util.tree_structure(like), placed)


def _by_name(values, wanted, unread):
    """Values whose names are those of the leaves, below an argument's name or not; None for those that are `unread`, and
    instead of all where they are others. Errors: RepriseError where several arguments have these names."""
    short = [trees.path_name("", path) for path, _ in wanted]
    roots = dict.fromkeys(name.split(".")[0] + "." for name in [*values, *sorted(unread)])
    fitting = [root for root in ["", *roots] if all(root + name in values or root + name in unread for name in short)]
    if len(fitting) > 1 and fitting[0]:
        arguments = [root[:-1] for root in fitting]
        raise RepriseError(f"`like` has the names that {' and '.join(arguments)} have: give the one that is meant by its "
                           f"name, like={{'{arguments[0]}': …}}, or the tuple of all state arguments")
    if fitting:
        return [values.get(fitting[0] + name) for name in short]
    if len(wanted) == 1 and len(values) == 1:
        return list(values.values())
    return None


def _by_place(path, values, wanted):
    """Values for a tuple of arguments, which has no names of those: of the leaves in order, those of the same names below
    their arguments. Errors: RepriseError where one has another name there, so that it may be meant for another leaf."""
    below = lambda name: name.partition(".")[2]
    names = [trees.path_name("", key) for key, _ in wanted]
    if [below(name) for name, _ in values] != [below(name) for name in names]:
        raise RepriseError(f"the names in {path} are {_listed(name for name, _ in values)}, those of `like` others, "
                           f"{_listed(names)}: give `like` with the names that the step's state has")
    return [value for _, value in values]


def _listed(names, most=8):
    names = list(names)
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def _place(value, given, leaf, name):
    """A stored value as a leaf of `like`; `given`: the type that export was given, where the step changes that."""
    shape, dtype = trees.physical(leaf) if hasattr(leaf, "dtype") else (np.shape(leaf), trees.to_numpy(leaf).dtype)
    dtype = value.dtype if tensors.hlo_type(dtype) == given else dtype
    try:
        value = tensors.typed(value, tensors.hlo_type(dtype))
    except ValueError as error:
        raise RepriseError(f"{name or 'the state'}: {error}") from error
    if tuple(value.shape) != tuple(shape) or value.dtype != dtype:
        raise RepriseError(f"{name or 'the state'} is {value.dtype}{list(value.shape)} in the file, "
                           f"{dtype}{list(shape)} in `like`")
    if trees.is_key(leaf):
        return jax.device_put(jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf)), leaf.sharding)
    return jax.device_put(value, leaf.sharding) if isinstance(leaf, jax.Array) else value
