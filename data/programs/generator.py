"""The one generator of initial values and of batches, bit-exact here and in C++.

Everything derives from splitmix64 of integers, so a value depends on its place
only: no state, no order. README.md states the formulas.
"""

import numpy as np

_MASK = (1 << 64) - 1
_GOLDEN = 0x9E3779B97F4A7C15
_RANK_STRIDE = 1000003
_SKETCH_SALT = 0x5EED
SKETCH_BUCKETS = 64


def splitmix64(x):
    """The splitmix64 finalizer of x + golden ratio; an int or a uint64 array."""
    if isinstance(x, int):
        return int(splitmix64(np.array([x & _MASK], np.uint64))[0])
    z = x + np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _stream(key, count):
    """splitmix64(key + i) for i in [0, count)."""
    return splitmix64(np.arange(count, dtype=np.uint64) + np.uint64(key))


def initial_value(init, shape):
    """A float32 tensor as a manifest's `init` says."""
    kind = init["kind"]
    if kind == "uniform":
        count = int(np.prod(shape, dtype=np.int64))
        bits = _stream(splitmix64(init["seed"]), count) >> np.uint64(40)
        unit = bits.astype(np.float64) * 2.0**-24
        value = (2.0 * unit - 1.0) * init["scale"]
        return value.astype(np.float32).reshape(shape)
    constant = {"zeros": 0.0, "ones": 1.0}.get(kind, init.get("value"))
    return np.full(shape, constant, np.float32)


def batch_records(seed, step, rank, rows, record_count):
    """The record index of every row of one rank's batch at one step."""
    key = splitmix64(splitmix64(seed) + step) + rank * _RANK_STRIDE
    hashes = _stream(key & _MASK, rows)
    return (hashes % np.uint64(record_count)).astype(np.int64)


def sketch(index, change):
    """Count-sketch of a float64 vector, seeded by the tensor's index."""
    hashes = _stream(splitmix64(index + _SKETCH_SALT), change.size)
    signs = np.where(hashes >> np.uint64(63), -1.0, 1.0)
    buckets = (hashes % np.uint64(SKETCH_BUCKETS)).astype(np.int64)
    return np.bincount(buckets, signs * change.ravel(), SKETCH_BUCKETS)
