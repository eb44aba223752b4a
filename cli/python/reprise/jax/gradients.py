"""Whether a step returns gradients where its next state would stand: they have the same structure. The loss tells."""

import numpy as np

from . import dump
from . import moves as moving


def notes(step, chosen):
    """A note where the only state of a step comes back as the gradient of its loss, to a hundredth: moved along it by what
    changes the loss by a thousandth, the loss changes as a gradient says. Runs the step three times, and only where all
    state is one argument of floats, without counters and without an optimizer's, and it calls no Python."""
    state = [place for place, first in enumerate(chosen.next_value) if first is not None]
    if chosen.loss is None or len(state) != 1 or any(dump.calls_of_python(step.text)):
        return []
    moves, numbers = moving.Moves(step), [number for number, (place, _) in enumerate(step.paths) if place in state]
    if numbers != moves.floats(state[0]):
        return []
    first = chosen.next_value[state[0]]

    def run(added):
        """(loss, what comes back as state) where the state is moved."""
        results = moves.results(dict(zip(numbers, added)))
        back = [moving.as_float(leaf) for leaf in results[first:first + len(numbers)]]
        return float(np.mean(moving.as_float(results[chosen.loss]))), back

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

