"""What a GPU must keep: every limit that tests/gpu/run.py judges, in one place."""

import typing


class Limit(typing.NamedTuple):
    """`words` and `holds` take the value and what else the limit depends on."""
    words: typing.Callable
    holds: typing.Callable


STATE = 1e-3  # Of a tensor's norm: rounding of dots in another order, over a few steps.
REPLAY, SCRIPT_REPLAY, FUSION_GAIN, OVERHEAD, OWN_KERNELS, KEPT_KERNELS = 0.02, 0.03, 1.2, 0.01, 0.9, 0.8


def is_share(value, least):
    return value is not None and value >= least


LIMITS = {
    # Of `verification` in the trainer's answer.
    "jax": Limit(lambda worst, check: f"≤ {check['limit']:g} from JAX",
                 lambda worst, check: check["passed"] and worst <= check["limit"]),
    "equal": Limit(lambda refused: "equal to JAX", lambda refused: refused == 0),
    "state": Limit(lambda worst: f"≤ {STATE:g}", lambda worst: worst <= STATE),
    "clean": Limit(lambda problems: "clean", lambda problems: problems == 0),
    "same bits": Limit(lambda different: "same bits", lambda different: different == 0),
    "replay": Limit(lambda error: f"within {REPLAY:.0%}",
                    lambda error: error is not None and abs(error) <= REPLAY),
    "script replay": Limit(lambda error: f"within {SCRIPT_REPLAY:.0%}",
                           lambda error: error is not None and abs(error) <= SCRIPT_REPLAY),
    "fusion": Limit(lambda gain: f"≥ {FUSION_GAIN}×", lambda gain: gain >= FUSION_GAIN),
    "overhead": Limit(lambda cost: f"≤ {OVERHEAD:.0%} on steps over 10 ms",
                      lambda cost: cost is not None and cost <= OVERHEAD),
    "xla": Limit(lambda won, programs: f"≥ half of {programs}", lambda won, programs: 2 * won >= programs),
    "some": Limit(lambda count: "> 0", lambda count: count > 0),
    "one": Limit(lambda count: "1", lambda count: count == 1),
    "own kernels": Limit(lambda share: f"≥ {OWN_KERNELS} of them", lambda share: is_share(share, OWN_KERNELS)),
    "kept kernels": Limit(lambda share: f"≥ {KEPT_KERNELS}", lambda share: is_share(share, KEPT_KERNELS)),
    "done": Limit(lambda done: "profiled and replayed", lambda done: bool(done)),
}


def held(name, value, limit, *depends):
    """The line of a value under a limit: (name, value, words, whether it holds)."""
    return name, value, LIMITS[limit].words(value, *depends), LIMITS[limit].holds(value, *depends)
