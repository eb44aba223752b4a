"""How far two trained states are apart: the relative L2 error of the change, tensor by tensor."""

import dataclasses

import numpy as np

from . import tensors


@dataclasses.dataclass
class Difference:
    name: str
    type: str
    error: float  # |a - b| / |b - initial|; of a tensor that b does not change, 0 where a is equal, else infinite
    change: float  # |b - initial|


def differences(ours, theirs, initial):
    """One Difference a tensor of `theirs`, in its order. Integers are compared as what they are: equal or infinite.

    Infinities of one sign, and NaNs, are equal: a mask's -inf, the best loss so far."""
    found = []
    for name, b in theirs.items():
        kind = tensors.hlo_type(b.dtype)
        if name not in ours or ours[name].shape != b.shape:
            found.append(Difference(name, kind, float("inf"), float("nan")))
            continue
        a, before = tensors.as_float64(ours[name]), tensors.as_float64(initial[name])
        b = tensors.as_float64(b)
        same = ~np.isfinite(b) & ((a == b) | (np.isnan(a) & np.isnan(b)))
        a, b = np.where(same, 0, a), np.where(same, 0, b)
        before = np.where(same | ~np.isfinite(before), 0, before)
        change, apart = float(np.linalg.norm(b - before)), float(np.linalg.norm(a - b))
        exact = "f" not in kind and "c" not in kind
        if exact or change == 0:
            error = 0.0 if apart == 0 else float("inf")
        else:
            error = apart / change
        found.append(Difference(name, kind, error if np.isfinite(apart) else float("inf"), change))
    return found
