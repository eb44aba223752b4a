"""What the results of a step do when its arguments are changed a little, told by running it."""

import jax
import numpy as np
from jax.interpreters import partial_eval

from . import dump, trees


class Moves:
    """Runs a step on changed first values."""

    def __init__(self, step):
        self.step = step
        self.values = [trees.to_numpy(leaf) for leaf in step.leaves]

    def results(self, moves):
        """The step's results, leaves of which `moves`, {leaf: what is added to it}, are moved."""
        moved = [(value + moves[number]).astype(value.dtype) if number in moves else value
                 for number, value in enumerate(self.values)]
        return self.step.call(moved)

    def floats(self, place):
        """The leaves of the argument that are floats."""
        return [n for n, (of, _) in enumerate(self.step.paths) if of == place and is_float(self.step.leaves[n])]

    def changes(self, place):
        """{leaf: a tenth of what its elements are, up and down} of an argument; of zeros, which may be squares, up. A
        single whole number is one more."""
        signs, changes = np.random.RandomState(0), {}
        leaves = [n for n, (of, _) in enumerate(self.step.paths) if of == place]
        if len(leaves) == 1 and self.values[leaves[0]].shape == () and self.values[leaves[0]].dtype.kind in "iu":
            return {leaves[0]: np.ones(())}
        for number in self.floats(place):
            value = np.asarray(self.values[number], np.float64)
            size = float(np.sqrt(np.mean(value * value))) if value.size else 0.0
            sign = signs.randint(0, 2, value.shape) * 2 - 1 if size else 1
            changes[number] = 0.1 * (size or 1.0) * sign * np.ones(value.shape)
        return changes


def as_float(result):
    return np.asarray(jax.device_get(result), np.float64)


def is_float(leaf):
    return not trees.is_key(leaf) and jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.floating)


def _dependent(step, results):
    """The leaves of the arguments that a set of leaves of the result depends on; all where this JAX does not say."""
    jaxpr, every = step.closed.jaxpr, set(range(len(step.leaves)))
    before = len(jaxpr.invars) - len(every)  # what the step closed over
    if before < 0 or len(jaxpr.outvars) != len(step.results):
        return every
    try:
        _, used = partial_eval.dce_jaxpr(jaxpr, [n in results for n in range(len(jaxpr.outvars))])
    except Exception:  # whatever an equation's rule says
        return every
    return {n for n in every if used[before + n]}


def distances(step, places, parts):
    """{(argument, first leaf of a part of the result): how far the part's change is from the argument's own, relative to
    that}, in the median of the leaves. Parts have the structure of the arguments. 0 where the part is the argument plus
    what does not depend on it, 0.1 where it is nine tenths of it, infinite where it does not depend on it, NaN where none
    is a float or a single number. Runs the step once more than there are arguments to ask about, where it calls no Python."""
    leaves = {place: [n for n, (of, _) in enumerate(step.paths) if of == place] for place in places}
    found = {}
    for part in parts:
        dependent = _dependent(step, range(part, part + len(leaves[places[0]])))
        found.update({(p, part): float("nan" if dependent & set(leaves[p]) else "inf") for p in places})
    open_places = [p for p in places if any(np.isnan(found[p, part]) for part in parts)]
    moves = Moves(step)
    changes = {p: change for p in open_places if (change := moves.changes(p))}
    if not changes or any(dump.calls_of_python(step.text)):
        return found
    still = moves.results({})
    for place, change in changes.items():
        moved = moves.results(change)
        for part in parts:
            off = []
            for number, by in change.items():
                before, after = (as_float(results[part + number - leaves[place][0]]) for results in (still, moved))
                if before.size:
                    off.append(float(np.linalg.norm(after - before - by) / np.linalg.norm(by)))
            if off and np.isnan(found[place, part]):
                found[place, part] = float(np.median(off))
    return found
