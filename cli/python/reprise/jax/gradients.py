"""Whether a step returns gradients where its next state would stand: they have the same structure. The loss tells."""

import jax
import numpy as np

from . import dump, trees


def notes(step, chosen):
    """A note where the only state of a step comes back as the gradient of its loss, to a hundredth: moved along it by what
    changes the loss by a thousandth, the loss changes as a gradient says. Runs the step three times, and only where all
    state is one argument of floats, without counters and without an optimizer's, and it calls no Python."""
    state = [place for place, first in enumerate(chosen.next_value) if first is not None]
    numbers = [number for number, (place, _) in enumerate(step.paths) if place in state]
    if chosen.loss is None or len(state) != 1 or any(dump.calls_of_python(step.text)):
        return []
    if not all(_is_float(step.leaves[number]) for number in numbers):
        return []
    first = chosen.next_value[state[0]]
    values = [leaf if trees.is_key(leaf) else trees.to_numpy(leaf) for leaf in step.leaves]

    def run(moves):
        """(loss, what comes back as state) where the state is moved."""
        moved = list(values)
        for number, move in zip(numbers, moves):
            moved[number] = (values[number] + move).astype(values[number].dtype)
        results = step.call(moved)
        back = [np.asarray(jax.device_get(leaf), np.float64) for leaf in results[first:first + len(numbers)]]
        return float(np.mean(np.asarray(jax.device_get(results[chosen.loss]), np.float64))), back

    loss, back = run([0] * len(numbers))
    square = sum(float(np.vdot(leaf, leaf)) for leaf in back)
    length = 1e-3 * abs(loss) / square if square > 0 else 0.0
    if not 0 < length < float("inf"):
        return []
    ahead, behind = (run([sign * length * leaf for leaf in back])[0] for sign in (1, -1))
    if not abs((ahead - behind) / (2 * length * square) - 1) < 0.01:
        return []
    name = step.names[state[0]]
    return [f"what is taken for the next value of {name} is the gradient of the loss: return {name} as it is after the "
            "update"]


def _is_float(leaf):
    return not trees.is_key(leaf) and jax.numpy.issubdtype(jax.numpy.result_type(leaf), jax.numpy.floating)
