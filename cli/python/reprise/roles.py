"""Which argument of a step is state, and which result is its next value. Standard library only.

An argument is state where a part of the result has its structure: leaves of the same names below it, shapes and types.
Everything is by path: what JAX donates to what says only that sizes agree."""

import dataclasses

from .errors import RepriseError


@dataclasses.dataclass
class Leaf:
    path: tuple  # of names, from the argument or the result down
    shape: tuple
    dtype: str


@dataclasses.dataclass
class Argument:
    name: str
    leaves: list
    donated: bool


def _same(ours, theirs, depth):
    return len(ours) == len(theirs) and all(
        a.path == b.path[depth:] and a.shape == b.shape and a.dtype == b.dtype for a, b in zip(ours, theirs))


def _is_key(leaf):
    """Typed, or the pair of numbers that jax.random.PRNGKey gives."""
    return leaf.dtype.startswith("key<") or (leaf.dtype, leaf.shape) == ("uint32", (2,))


def _parts(results):
    """(path, first leaf, leaves) of every part of the result, outer before inner."""
    seen = {}
    for depth in range(max((len(r.path) for r in results), default=0) + 1):
        for index, leaf in enumerate(results):
            if len(leaf.path) >= depth:
                seen.setdefault((depth, leaf.path[:depth]), []).append(index)
    for (_, path), indices in seen.items():
        yield path, indices[0], [results[i] for i in indices]


def _scalars(results, taken):
    return [i for i, r in enumerate(results) if i not in taken and r.shape == () and "float" in r.dtype]


def next_values(arguments, results, batch=None):
    """[first result leaf or None] by argument: where its next value stands.

    `batch` (a set of places) says which arguments are none; without it, single arrays count as state only where they are
    donated or nothing is, or are keys of jax.random. A number that is not donated is none where all that could be its
    next value is the only floating scalar of the result, the loss, unless that has its name."""
    taken, found = set(), []
    any_donated = any(a.donated for a in arguments)
    for place, argument in enumerate(arguments):
        single = len(argument.leaves) == 1 and not argument.leaves[0].path
        if batch is not None and place in batch or not argument.leaves or (
                batch is None and single and any_donated and not argument.donated and not _is_key(argument.leaves[0])):
            found.append(None)
            continue
        fitting = [(path, first) for path, first, leaves in _parts(results)
                   if _same(argument.leaves, leaves, len(path))
                   and not taken & set(range(first, first + len(leaves)))]
        named = [item for item in fitting if item[0] and item[0][-1] == argument.name]
        scalars = _scalars(results, taken)
        if single and not argument.donated and len(scalars) == 1 and [first for _, first in fitting] == scalars:
            fitting = []
        choice = (named or fitting or [(None, None)])[0][1]
        found.append(choice)
        if choice is not None:
            taken |= set(range(choice, choice + len(argument.leaves)))
    return found


def check_donated(arguments, found, batch):
    """A donated argument that comes back nowhere is most likely state whose structure changed."""
    for place, (argument, first) in enumerate(zip(arguments, found)):
        if argument.donated and first is None and argument.leaves and not (batch and place in batch):
            raise RepriseError(
                f"argument {argument.name} is donated, but no part of the result has its structure, shapes and types: "
                f"return its next value in the same structure, or name it in batch=")


def pick_loss(results, taken, loss=None):
    """The result leaf that is the loss, or None where there is none: of `results` as a rank has them, a scalar, or where
    none is, an array of one element, as pmap returns. Errors: RepriseError where it cannot be told."""
    scalars = _scalars(results, taken) or [
        i for i, r in enumerate(results) if i not in taken and set(r.shape) <= {1} and "float" in r.dtype]
    names = {i: ".".join(results[i].path) for i in scalars}
    listed = ", ".join(repr(n) for n in names.values()) or "none"
    if loss is not None:
        matching = [i for i in scalars if names[i] == str(loss) or names[i].endswith("." + str(loss))]
        if len(matching) != 1:
            raise RepriseError(f"loss={loss!r} names {len(matching)} results; scalars that are no state: {listed}")
        return matching[0]
    if len(scalars) <= 1:
        return scalars[0] if scalars else None
    matching = [i for i in scalars if "loss" in names[i].lower()]
    exact = [i for i in matching if results[i].path[-1].lower() == "loss"]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    raise RepriseError(f"the step returns several scalars ({listed}): name the loss, loss='…'")
