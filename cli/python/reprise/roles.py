"""Which argument of a step is state, and which result is its next value. Standard library only.

An argument is state where a part of the result has its structure: leaves of the same names below it, shapes and types.
Everything is by path: what JAX donates to what says only that sizes agree."""

import dataclasses
import re

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


def _same(ours, theirs, depth, types=True):
    return len(ours) == len(theirs) and all(
        a.path == b.path[depth:] and a.shape == b.shape and (a.dtype == b.dtype or not types)
        for a, b in zip(ours, theirs))


def _is_single(argument):
    return len(argument.leaves) == 1 and not argument.leaves[0].path


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
    next value is the only floating scalar of the result, the loss, unless that has its name. What has no part of its
    types may have one of its names and shapes: state that is of another type from the first step on, as a momentum that
    begins as zeros of bfloat16; JAX compiles the second step anew. A single array is only such state where it is donated.
    Errors: RepriseError where one that is not stands where its next value would, and may be a batch."""
    any_donated = any(a.donated for a in arguments)
    found, taken = [None] * len(arguments), set()

    def fitting(argument, types):
        return [(path, first) for path, first, leaves in _parts(results)
                if _same(argument.leaves, leaves, len(path), types)
                and not taken & set(range(first, first + len(leaves)))]

    def take(place, parts):
        named = [item for item in parts if item[0] and item[0][-1] == arguments[place].name]
        for _, found[place] in (named or parts)[:1]:
            taken.update(range(found[place], found[place] + len(arguments[place].leaves)))

    open_places = [p for p, a in enumerate(arguments) if a.leaves and not (batch is not None and p in batch)]
    loose = [p for p in open_places if _is_single(arguments[p]) and not arguments[p].donated]
    firm = [p for p in open_places if p not in loose]
    for types in (True, False):
        for place in firm:
            if found[place] is None and (types or any(leaf.shape for leaf in arguments[place].leaves)):
                take(place, fitting(arguments[place], types))
    for place in loose:
        argument = arguments[place]
        if batch is None and any_donated and not _is_key(argument.leaves[0]):
            continue
        parts, scalars = fitting(argument, True), _scalars(results, taken)
        named = [item for item in parts if item[0] and item[0][-1] == argument.name]
        if not named and len(scalars) == 1 and [first for _, first in parts] == scalars:
            continue
        if not named and batch is None and not _is_key(argument.leaves[0]):
            parts = _in_order(place, arguments, found, parts)
        take(place, parts)
        in_place = [results[first].dtype for path, first in fitting(argument, False)
                    if path == (str(place),) and argument.leaves[0].shape]
        if found[place] is None and in_place and batch is None and None not in found[:place]:
            raise RepriseError(
                f"argument {argument.name} is {argument.leaves[0].dtype}, the result in its place {in_place[0]}: where that "
                f"is its next value, give it as {in_place[0]}; where not, name the batches, batch=")
    return found


def _in_order(place, arguments, found, parts):
    """Of the parts that could be the next value of an array, which one of its name is none of, that which stands where
    it would: right after that of the state before, or right before that of the state after. Elsewhere, one of another
    name is an output beside (a reconstruction). Errors: RepriseError where it may be the one or the other."""
    name = arguments[place].name
    before = next((p for p in reversed(range(place)) if found[p] is not None), None)
    after = next((p for p in range(place + 1, len(arguments)) if found[p] is not None), None)
    if not parts or before is None and after is None:
        return parts
    start = found[after] - 1 if before is None else found[before] + len(arguments[before].leaves)
    own = re.compile(rf"\d+|(.*_)?{re.escape(name)}(_.*|\d*)")  # A place, or as new_x, x_next and x1 of x.
    following = [(path, first) for path, first in parts if first == start and own.fullmatch(path[-1])]
    others = [path for path, first in parts if path[-1].isdigit() or first == start]
    if not following and others:
        raise RepriseError(
            f"result {'.'.join(others[0])} has the shape and type of argument {name}: where it is its next value, name the "
            f"batches without it, batch=(…), or () where there are none; where not, with it, batch={name!r}")
    return following


def changed_leaf(argument, results):
    """Why an argument of several leaves is no state, though a part of the result has its names and some of its shapes
    and types: the first leaf of another, in words; "" where no part does."""
    for path, _, leaves in _parts(results):
        pairs = list(zip(argument.leaves, leaves))
        names_agree = len(argument.leaves) == len(leaves) and all(a.path == b.path[len(path):] for a, b in pairs)
        others = [(a, b) for a, b in pairs if (a.shape, a.dtype) != (b.shape, b.dtype)]
        if names_agree and 0 < len(others) < len(pairs):
            before, after = others[0]
            return (f"{'.'.join([argument.name, *before.path])} goes in as {before.dtype}{list(before.shape)} and comes "
                    f"out, in result {'.'.join(after.path)}, as {after.dtype}{list(after.shape)}")
    return ""


def returned_part(argument, results):
    """Why an argument is no state, though a part of it comes back, in words; "" where none of several leaves does."""
    own = [(path, [dataclasses.replace(leaf, path=leaf.path[len(path):]) for leaf in leaves])
           for path, _, leaves in _parts(argument.leaves) if path and len(leaves) > 1]
    for path, _, leaves in _parts(results):
        for part, of_part in own:
            if _same(of_part, leaves, len(path)):
                name = ".".join([argument.name, *part])
                return (f"result {'.'.join(path)} has the leaves of {name}: return {argument.name} whole, with these in "
                        f"it, or give {name} as an argument of its own")
    return ""


def check_donated(arguments, found, results, batch):
    """A donated argument that comes back nowhere is most likely state whose structure changed."""
    for place, (argument, first) in enumerate(zip(arguments, found)):
        if argument.donated and first is None and argument.leaves and not (batch and place in batch):
            changed = changed_leaf(argument, results)
            raise RepriseError(
                f"argument {argument.name} is donated, but no part of the result has its structure, shapes and types"
                f"{' (' + changed + ')' if changed else ''}: return its next value in the same structure, or name it in "
                "batch=")


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
