"""What the results of a step do when its arguments are changed a little, told by running it."""

import jax
import numpy as np

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
        """{leaf: a tenth of what its elements are, up and down} of an argument; of zeros, which may be squares, up."""
        signs, changes = np.random.RandomState(0), {}
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


def distances(step, places, parts):
    """{(argument, first leaf of a part of the result): how far the part's change is from the argument's own, relative to
    that}, in the median of the leaves. Parts have the structure of the arguments. 0 where the part is the argument plus
    what does not depend on it, 0.1 where it is nine tenths of it, 1 where it does not depend on it, NaN where it is no
    number. Runs the step once more than there are arguments; {} where it calls Python."""
    if any(dump.calls_of_python(step.text)):
        return {}
    moves, found = Moves(step), {}
    first_leaf = [min(n for n, (of, _) in enumerate(step.paths) if of == place) for place in places]
    still = moves.results({})
    for place, start in zip(places, first_leaf):
        changes = moves.changes(place)
        moved = moves.results(changes) if changes else still
        for part in parts:
            off = []
            for number, change in changes.items():
                before, after = (as_float(results[part + number - start]) for results in (still, moved))
                if before.size:
                    off.append(float(np.linalg.norm(after - before - change) / np.linalg.norm(change)))
            found[place, part] = float(np.median(off)) if off else float("nan")
    return found
