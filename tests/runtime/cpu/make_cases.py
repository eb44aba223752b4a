#!/usr/bin/env python3
"""Small programs with what JAX computes for them: make_cases.py OUT (jax_cases.jsonl beside this file).

Run by hand with JAX 0.10 on CPU; jax_cases_test reads the file. One line a case: its name, the HLO that JAX lowers it
to (before any pass), inputs and outputs as base64 of their bytes. Deterministic for a version of JAX.
"""
import base64
import functools
import json
import re
import sys

import complex_cases
import jax
import jax.numpy as jnp
import linear_cases
import more_cases
import numpy as np
from jax import lax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

CASES = {}
FLOATS = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64]
INTEGERS = [jnp.int8, jnp.int16, jnp.int32, jnp.int64, jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64]


def name_of(dtype):
    return jnp.dtype(dtype).name


def case(name, function, *inputs):
    assert name not in CASES, name
    CASES[name] = (function, tuple(jnp.asarray(x) for x in inputs))


def values(dtype, *shape, seed=0, low=-4, high=5):
    rng = np.random.default_rng([seed, *shape, len(CASES)])
    dtype = jnp.dtype(dtype)
    if dtype == bool:
        return jnp.asarray(rng.integers(0, 2, shape).astype(bool))
    if jnp.issubdtype(dtype, jnp.floating):
        return jnp.asarray(rng.normal(size=shape)).astype(dtype)
    return jnp.asarray(rng.integers(max(low, jnp.iinfo(dtype).min), high, shape)).astype(dtype)


def indices(high, *shape, dtype=jnp.int32, low=0):
    rng = np.random.default_rng([7, *shape, len(CASES)])
    return jnp.asarray(rng.integers(low, high, shape)).astype(dtype)


def elementwise():
    unary = {
        "abs": jnp.abs, "ceil": jnp.ceil, "cos": jnp.cos, "erf": lax.erf, "exp": jnp.exp, "expm1": jnp.expm1,
        "floor": jnp.floor, "log": lambda x: jnp.log(jnp.abs(x)), "log1p": lambda x: jnp.log1p(jnp.abs(x)),
        "logistic": lax.logistic, "neg": jnp.negative, "round": jnp.round, "afz": lambda x: lax.round(x),
        "rsqrt": lambda x: lax.rsqrt(jnp.abs(x)), "sign": jnp.sign, "sin": jnp.sin, "sqrt": lambda x: jnp.sqrt(jnp.abs(x)),
        "tan": jnp.tan, "tanh": jnp.tanh, "is_finite": jnp.isfinite, "cbrt": jnp.cbrt}
    for dtype in FLOATS:
        x = values(dtype, 3, 7)
        case(f"unary.{name_of(dtype)}", lambda x: tuple(f(x) for f in unary.values()), x)
        y = values(dtype, 3, 7, seed=1)
        case(f"binary.{name_of(dtype)}",
             lambda x, y: (x + y, x - y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), lax.rem(x, y),
                           jnp.abs(x) ** y, jnp.arctan2(x, y), x < y, x >= y, x == y, x != y,
                           lax.clamp(x.dtype.type(-0.5), x, x.dtype.type(0.5)), jnp.where(x < y, x, y)), x, y)
    for dtype in INTEGERS:
        x, y = values(dtype, 4, 6, high=90, low=-90), values(dtype, 4, 6, seed=2)
        case(f"integers.{name_of(dtype)}",
             lambda x, y: (x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), jnp.maximum(x, y), x & y, x | y, x ^ y,
                           ~x, lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y),
                           lax.population_count(x), lax.clz(x), jnp.sign(x), jnp.abs(x), x < y, x == y), x, y)
    types = FLOATS + INTEGERS + [jnp.bool_]
    for source in types:
        x = values(source, 9)
        case(f"convert.{name_of(source)}", lambda x: tuple(lax.convert_element_type(x, t) for t in types), x)
    x = values(jnp.float32, 4, 2)
    case("bitcast.wide_to_narrow", lambda x: tuple(lax.bitcast_convert_type(x, t) for t in
                                                   (jnp.uint8, jnp.int16, jnp.bfloat16, jnp.uint32)), x)
    case("bitcast.narrow_to_wide", lambda x: (lax.bitcast_convert_type(x, jnp.uint64),
                                              lax.bitcast_convert_type(x, jnp.float64)), x)
    case("bitcast.bytes", lambda x: (lax.bitcast_convert_type(x, jnp.float32), lax.bitcast_convert_type(x, jnp.int32)),
         values(jnp.uint8, 3, 4, high=120))
    for dtype in FLOATS:
        case(f"reduce_precision.{name_of(dtype)}",
             lambda x: tuple(lax.reduce_precision(x, e, m) for e, m in ((8, 7), (5, 10), (4, 3), (3, 2))),
             jnp.asarray([0.0, -0.0, 1.0009, -3.14159, 1e-5, 7e4, 3.3e-8, np.inf, np.nan, 0.0625]).astype(dtype))


def movement():
    x = values(jnp.float32, 4, 3, 5)
    case("movement", lambda x: (x.transpose(2, 0, 1), x[::-1, :, ::2], x.reshape(6, 10), jnp.flip(x, (1, 2)),
                                jnp.concatenate([x, x[:2]], 0), jnp.broadcast_to(x[0], (2, 3, 5)),
                                lax.broadcasted_iota(jnp.int32, (3, 4), 1)), x)
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int16, jnp.uint64, jnp.bool_):
        x = values(dtype, 3, 4)
        zero = jnp.zeros((), dtype)
        case(f"pad.{name_of(dtype)}", lambda x, z: (lax.pad(x, z, ((1, 2, 0), (0, 1, 2))),
                                                    lax.pad(x, z, ((-1, 0, 0), (2, -1, 1)))), x, zero)
    start = indices(9, 2, low=-3)
    case("dynamic_slice", lambda x, i: (lax.dynamic_slice(x, (i[0], i[1]), (2, 3)),
                                        lax.dynamic_update_slice(x, x[:2, :2] * 2, (i[1], i[0]))),
         values(jnp.float32, 5, 6), start)


def dots():
    numbers = {
        "matrix": ((5, 7), (7, 3), (((1,), (0,)), ((), ()))),
        "transposed": ((7, 5), (3, 7), (((0,), (1,)), ((), ()))),
        "vector": ((7,), (7, 3), (((0,), (0,)), ((), ()))),
        "inner": ((7,), (7,), (((0,), (0,)), ((), ()))),
        "outer": ((4,), (3,), (((), ()), ((), ()))),
        "batch": ((2, 4, 5), (2, 5, 3), (((2,), (1,)), ((0,), (0,)))),
        "batch_last": ((4, 5, 2), (5, 3, 2), (((1,), (0,)), ((2,), (2,)))),
        "two_batches": ((2, 3, 4, 5), (3, 2, 5, 4), (((3,), (2,)), ((0, 1), (1, 0)))),
        "two_contracted": ((4, 2, 3), (3, 5, 2), (((1, 2), (2, 0)), ((), ()))),
        "scattered": ((3, 2, 4, 5), (2, 5, 3, 6), (((0, 3), (2, 1)), ((1,), (0,)))),
        "free_apart": ((3, 4, 5), (4, 6, 2), (((1,), (0,)), ((), ())))}
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64, jnp.int32, jnp.uint8, jnp.int64):
        for label, (a, b, dims) in numbers.items():
            if dtype not in (jnp.float32, jnp.bfloat16) and label in ("vector", "inner", "free_apart", "transposed"):
                continue
            case(f"dot.{label}.{name_of(dtype)}", functools.partial(lax.dot_general, dimension_numbers=dims),
                 values(dtype, *a), values(dtype, *b, seed=1))
    for source, target in ((jnp.bfloat16, jnp.float32), (jnp.int8, jnp.int32), (jnp.float32, jnp.float64)):
        case(f"dot.preferred.{name_of(source)}.{name_of(target)}",
             functools.partial(lax.dot_general, dimension_numbers=(((1,), (0,)), ((), ())),
                               preferred_element_type=target), values(source, 4, 6), values(source, 6, 5, seed=1))
    case("einsum.attention", lambda q, k, v: jnp.einsum("bhts,bshk->bthk", jax.nn.softmax(
        jnp.einsum("bthk,bshk->bhts", q, k)), v), values(jnp.float32, 2, 4, 2, 3), values(jnp.float32, 2, 4, 2, 3, seed=1),
         values(jnp.float32, 2, 4, 2, 3, seed=2))


def convolutions():
    def conv(labels, **options):
        return lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=labels, **options)

    forms = {
        "plain": dict(window_strides=(1, 1), padding="SAME"),
        "strided": dict(window_strides=(2, 1), padding=((1, 0), (0, 2))),
        "negative_padding": dict(window_strides=(1, 1), padding=((-1, 1), (2, -1))),
        "rhs_dilated": dict(window_strides=(1, 1), padding="SAME", rhs_dilation=(2, 2)),
        "lhs_dilated": dict(window_strides=(1, 1), padding=((2, 1), (1, 2)), lhs_dilation=(2, 3))}
    for labels, x_shape, w_shape in ((("NHWC", "HWIO", "NHWC"), (2, 6, 5, 4), (3, 2, 4, 6)),
                                     (("NCHW", "OIHW", "NCHW"), (2, 4, 6, 5), (6, 4, 3, 2))):
        for form, options in forms.items():
            f = conv(labels, **options)
            x, w = values(jnp.float32, *x_shape), values(jnp.float32, *w_shape, seed=1)
            case(f"conv.{labels[0]}.{form}", f, x, w)
            case(f"conv.{labels[0]}.{form}.gradients",
                 lambda x, w, f=f: jax.grad(lambda x, w: jnp.sum(jnp.sin(f(x, w))), (0, 1))(x, w), x, w)
        channel = labels[0].index("C")
        for groups in (2, 4):
            shape = list(w_shape)
            shape[labels[1].index("I")] = x_shape[channel] // groups
            shape[labels[1].index("O")] = 8
            f = conv(labels, window_strides=(1, 2), padding="SAME", feature_group_count=groups)
            x, w = values(jnp.float32, *x_shape), values(jnp.float32, *shape, seed=1)
            case(f"conv.{labels[0]}.groups{groups}", f, x, w)
            case(f"conv.{labels[0]}.groups{groups}.gradients",
                 lambda x, w, f=f: jax.grad(lambda x, w: jnp.sum(jnp.sin(f(x, w))), (0, 1))(x, w), x, w)
    case("conv.batch_groups", conv(("NHWC", "HWIO", "NHWC"), window_strides=(1, 1), padding="VALID",
                                   batch_group_count=2), values(jnp.float32, 4, 5, 5, 3),
         values(jnp.float32, 2, 2, 3, 6, seed=1))
    case("conv.1d", conv(("NHC", "HIO", "NHC"), window_strides=(2,), padding="SAME"), values(jnp.float32, 2, 9, 3),
         values(jnp.float32, 4, 3, 5, seed=1))
    case("conv.3d", conv(("NDHWC", "DHWIO", "NDHWC"), window_strides=(1, 2, 1), padding="SAME"),
         values(jnp.float32, 1, 3, 4, 4, 2), values(jnp.float32, 2, 3, 2, 2, 3, seed=1))
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float64, jnp.int32):
        case(f"conv.{name_of(dtype)}", conv(("NHWC", "HWIO", "NHWC"), **forms["strided"]), values(dtype, 2, 5, 4, 3),
             values(dtype, 2, 2, 3, 4, seed=1))
    case("conv.transpose", lambda x, w: lax.conv_transpose(x, w, (2, 2), "SAME"), values(jnp.float32, 1, 3, 4, 2),
         values(jnp.float32, 3, 3, 2, 3, seed=1))


def reductions():
    for dtype in FLOATS + [jnp.int32, jnp.uint8]:
        x = values(dtype, 3, 4, 19)
        case(f"reduce.{name_of(dtype)}", lambda x: tuple(
            f(x, axis) for f in (lambda x, a: lax.reduce_sum_p.bind(x, axes=a, out_sharding=None), jnp.max, jnp.min)
            for axis in ((0,), (2,), (0, 2), (0, 1, 2))), x)
        case(f"argmax.{name_of(dtype)}", lambda x: (jnp.argmax(x, 2), jnp.argmin(x, 0), jnp.argmax(x)), x)
        case(f"cumulative.{name_of(dtype)}", lambda x: (jnp.cumsum(x, 1, dtype=x.dtype), lax.cummax(x, 2),
                                                        lax.cumprod(x, 0)), x)
    case("reduce.logic", lambda x: (x.any(0), x.all(1), x.any()), values(jnp.bool_, 3, 5))
    case("reduce.bits", lambda x: (lax.reduce(x, np.int32(-1), lax.bitwise_and, (0,)),
                                   lax.reduce(x, np.int32(0), lax.bitwise_xor, (1,))), values(jnp.int32, 4, 5, high=99))
    case("reduce.variadic", lambda x, y: lax.reduce((x, y), (np.float32(0), np.float32(1)), lambda a, b: (
        a[0] + b[0] * b[1], jnp.maximum(a[1], b[1])), (1,)), values(jnp.float32, 3, 5), values(jnp.float32, 3, 5, seed=1))
    case("reduce.unusual", lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.abs(a) + 2 * jnp.abs(b), (0,)),
         values(jnp.float32, 6, 3))
    case("logsumexp", lambda x: (jax.nn.logsumexp(x, 1), jax.nn.softmax(x), x.mean(0), x.var(1), x.std()),
         values(jnp.float32, 4, 17))


def windows():
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float64, jnp.int32):
        x = values(dtype, 2, 6, 7, 2)
        low = -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min
        case(f"reduce_window.{name_of(dtype)}", lambda x, low=low: (
            lax.reduce_window(x, x.dtype.type(low), lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
            lax.reduce_window(x, x.dtype.type(0), lax.add, (1, 2, 2, 1), (1, 1, 1, 1), ((0, 0), (1, 0), (0, 2), (0, 0)),
                              window_dilation=(1, 2, 1, 1)),
            lax.reduce_window(x, x.dtype.type(0), lax.add, (1, 9, 9, 1), (1, 1, 1, 1), "SAME")), x)
    x = values(jnp.float32, 2, 6, 7, 2)
    pool = lambda x, op, init: lax.reduce_window(x, init, op, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
    case("max_pool.gradient", lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(pool(x, lax.max, -jnp.inf))))(x), x)
    case("max_pool.gradient.f64", lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(pool(x, lax.max, -jnp.inf))))(x),
         values(jnp.float64, 1, 5, 5, 2))
    case("min_pool.gradient", lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(pool(x, lax.min, jnp.inf))))(x), x)
    case("average_pool.gradient", lambda x: jax.grad(lambda x: jnp.sum(jnp.sin(pool(x, lax.add, 0.0))))(x), x)
    case("reduce_window.base_dilated", lambda x: lax.reduce_window(
        x, np.float32(0), lax.add, (2, 3), (1, 2), "VALID", base_dilation=(2, 3)), values(jnp.float32, 4, 5))


def sorting():
    special = jnp.asarray([3.0, -0.0, np.nan, 0.0, -np.inf, 1.5, np.inf, -1.5, 2.0])
    for dtype in FLOATS:
        case(f"sort.{name_of(dtype)}", lambda x: (jnp.sort(x), jnp.argsort(x), jnp.sort(x, descending=True)),
             special.astype(dtype))
    for dtype in (jnp.int8, jnp.int32, jnp.uint32, jnp.int64):
        case(f"sort.{name_of(dtype)}", lambda x: (jnp.sort(x, 0), jnp.sort(x, 1), jnp.argsort(x, 1)),
             values(dtype, 5, 7, high=60))
    case("sort.keys", lambda x, y, z: lax.sort((x, y, z), dimension=0, num_keys=2), indices(3, 9),
         values(jnp.float32, 9), indices(100, 9))
    case("sort.gradient", lambda x: jax.grad(lambda x: jnp.sum(jnp.sort(x) * jnp.arange(6.0, dtype=x.dtype)))(x),
         values(jnp.float32, 6))
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float64, jnp.int32):
        case(f"top_k.{name_of(dtype)}", lambda x: lax.top_k(x, 3), values(dtype, 2, 8, high=50))
    case("median", lambda x: (jnp.median(x), jnp.percentile(x, 30.0), jnp.unique(x, size=4)), values(jnp.float32, 9))


def gathers():
    x = values(jnp.float32, 6, 4, 3)
    for mode in ("clip", "fill", "wrap"):
        case(f"take.{mode}", lambda x, i, mode=mode: jnp.take(x, i, axis=1, mode=mode), x, indices(7, 5, low=-2))
    case("gather.points", lambda x, i, j: (x[i, j], x[i, :, j], x[:, i % 4], x[i[:, None], j[None]]), x, indices(6, 3),
         indices(3, 3))
    case("gather.types", lambda x, i: (x[i], x[i.astype(jnp.int64)], x[i.astype(jnp.uint8)]), x, indices(6, 4))
    case("take_along_axis", lambda x, i: (jnp.take_along_axis(x, i, 1), jnp.take_along_axis(x, i[:, :1], 2)), x,
         indices(3, 6, 2, 3))
    case("gather.gradient", lambda x, i: jax.grad(lambda x: jnp.sum(jnp.sin(x[i])))(x), x, indices(6, 9))
    case("gather.batched", jax.vmap(lambda x, i: x[i]), x, indices(4, 6, 2))
    case("slices.batched", jax.vmap(lambda x, i: lax.dynamic_slice(x, (i, i), (2, 2))), x, indices(5, 6, low=-1))
    case("updates.batched", jax.vmap(lambda x, i: lax.dynamic_update_slice(x, x[:2, :2] + 1, (i, i))), x,
         indices(5, 6, low=-1))
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float64, jnp.int32, jnp.uint8):
        y = values(dtype, 6, 4)
        i, u = indices(8, 5, low=-1), values(dtype, 5, 4, seed=3)
        case(f"scatter.{name_of(dtype)}", lambda x, i, u: (x.at[i].add(u), x.at[i].max(u), x.at[i].min(u),
                                                           x.at[i].multiply(u), x.at[jnp.arange(5)].set(u)), y, i, u)
    case("scatter.points", lambda x, i, j: (x.at[i, j].set(1.0), x.at[i, :, j].add(2.0), x.at[:, i % 4].mul(0.5)), x,
         jnp.asarray([4, 1, 3]), jnp.asarray([2, 0, 1]))
    case("scatter.apply", lambda x, i: x.at[i].apply(jnp.sin), x, jnp.asarray([1, 4, 4, 9]))
    case("scatter.batched", jax.vmap(lambda x, i, u: x.at[i].add(u)), x, indices(4, 6, 2), values(jnp.float32, 6, 2, 3))
    case("segment_sum", lambda x, i: (jax.ops.segment_sum(x, i, 4), jax.ops.segment_max(x, i, 4)),
         values(jnp.float32, 9), indices(5, 9))
    case("one_hot", lambda i: jax.nn.one_hot(i, 5), indices(6, 7))
    case("histogram", lambda i: jnp.bincount(i, length=5), indices(5, 20))


def control():
    case("fori", lambda x: lax.fori_loop(0, 5, lambda i, x: x * 2 + i, x), values(jnp.float32, 3))
    case("fori.none", lambda x: lax.fori_loop(0, 0, lambda i, x: x * 2 + i, x), values(jnp.float32, 3))
    case("while.dynamic", lambda n, x: lax.while_loop(lambda s: s[0] > 1, lambda s: (
        jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1, s[2] + s[0].astype(jnp.float32)),
        (n, 0, x)), jnp.int32(27), jnp.float32(0))
    case("while.swap", lambda x, y: lax.fori_loop(0, 3, lambda i, s: (s[1], s[0] + s[1]), (x, y)),
         values(jnp.float32, 2), values(jnp.float32, 2, seed=1))
    case("while.invariant", lambda x, w: lax.fori_loop(0, 4, lambda i, s: (jnp.tanh(s[0] @ s[1]), s[1]), (x, w)),
         values(jnp.float32, 2, 3), values(jnp.float32, 3, 3, seed=1))
    case("while.nested", lambda x: lax.fori_loop(0, 3, lambda i, x: lax.fori_loop(
        0, i + 1, lambda j, y: y * 1.5 + j, x), x), values(jnp.float32, 3))
    case("scan", lambda x, w: lax.scan(lambda h, v: ((g := jnp.tanh(h @ w + v)), g * 2), jnp.zeros((2, 3), x.dtype), x),
         values(jnp.float32, 5, 2, 3), values(jnp.float32, 3, 3, seed=1))
    case("scan.gradient", lambda x, w: jax.grad(lambda w: jnp.sum(lax.scan(lambda h, v: (
        (g := jnp.tanh(h @ w + v)), g * 2), jnp.zeros((2, 3), x.dtype), x)[1]))(w), values(jnp.float32, 5, 2, 3),
         values(jnp.float32, 3, 3, seed=1))
    case("scan.reverse", lambda x: lax.scan(lambda c, v: (c + v, c), jnp.float32(0), x, reverse=True),
         values(jnp.float32, 6))
    case("scan.remat", lambda x, w: jax.grad(lambda w: jnp.sum(lax.scan(jax.checkpoint(lambda h, v: (
        jnp.sin(h @ w), jnp.sum(h * v))), x[0], x)[1]))(w), values(jnp.float32, 4, 2, 3), values(jnp.float32, 3, 3))
    for n in range(2):
        case(f"cond.{n}", lambda p, x: lax.cond(p, lambda x: (jnp.sin(x), x[0]), lambda x: (x * 2, x[1]), x),
             jnp.asarray(n == 1), values(jnp.float32, 3))
    for n in (-1, 0, 1, 2, 5):
        case(f"switch.{n}", lambda i, x: lax.switch(i, (jnp.sin, jnp.cos, lambda x: x @ x.T), x), jnp.int32(n),
             values(jnp.float32, 3, 3))
    case("cond.in_loop", lambda x: lax.fori_loop(0, 6, lambda i, x: lax.cond(
        i % 2 == 0, lambda x: x + i, lambda x: x * 2, x), x), values(jnp.float32, 3))
    case("map", lambda x: lax.map(lambda v: jnp.sort(v) * v[0], x), values(jnp.float32, 3, 4))
    case("associative_scan", lambda x: lax.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x)),
         values(jnp.float32, 7))
    case("custom_vjp", lambda x: jax.grad(lambda x: jnp.sum(jax.nn.relu(x) * jax.nn.gelu(x)))(x), values(jnp.float32, 9))
    case("barrier", lambda x: lax.optimization_barrier((x * 2, x + 1)), values(jnp.float32, 3))


def random():
    key = jnp.asarray([0x12345678, 0x9abcdef0, 3, 4], jnp.uint32)
    for algorithm in ("RNG_THREE_FRY", "RNG_PHILOX", "RNG_DEFAULT"):
        for dtype in (jnp.uint32, jnp.uint64, jnp.uint8, jnp.uint16):
            for shape in ((7,), (3, 5), (4, 3), ()):
                if dtype != jnp.uint32 and shape in ((), (4, 3)):
                    continue
                case(f"bits.{algorithm[4:].lower()}.{name_of(dtype)}.{'x'.join(map(str, shape))}",
                     lambda k, a=algorithm, s=shape, d=dtype: lax.rng_bit_generator(
                         k, s, d, getattr(lax.RandomAlgorithm, a)), key)
    seed = jnp.asarray([7, 11], jnp.uint32)
    wrap = lambda f: lambda k: f(jax.random.wrap_key_data(k))
    case("random.uniform", wrap(lambda k: jax.random.uniform(k, (3, 5), jnp.float32)), seed)
    case("random.normal", wrap(lambda k: jax.random.normal(k, (7,), jnp.float32)), seed)
    case("random.bernoulli", wrap(lambda k: jax.random.bernoulli(k, 0.3, (4, 4))), seed)
    case("random.randint", wrap(lambda k: jax.random.randint(k, (9,), 0, 17, jnp.int32)), seed)
    case("random.split", wrap(lambda k: jax.random.key_data(jax.random.split(jax.random.fold_in(k, 3), 4))), seed)
    case("random.permutation", wrap(lambda k: jax.random.permutation(k, 9)), seed)
    case("random.categorical", wrap(lambda k: jax.random.categorical(k, jnp.arange(5.0, dtype=jnp.float32))), seed)
    case("random.bf16", wrap(lambda k: jax.random.normal(k, (6,), jnp.bfloat16)), seed)


def long_windows():
    """Windows as long as the array: recurrences, from either end."""
    for dtype in (jnp.float32, jnp.bfloat16, jnp.int32):
        x = values(dtype, 2, 70, 3)
        case(f"cumulative.long.{name_of(dtype)}", lambda x: (
            jnp.cumsum(x, 1, dtype=x.dtype), lax.cumsum(x, 1, reverse=True), lax.cummax(x, 1), lax.cummin(x, 1, reverse=True),
            lax.cumsum(x[0], 0), lax.cummax(x[0, :, 0], 0, reverse=True)), x)
    x = values(jnp.float32, 2, 70, 3)
    case("cumulative.long.kept", lambda x: (lax.cumprod(1 + x / 99, 1), lax.cumlogsumexp(x, 1),
                                            jax.grad(lambda x: jnp.sum(jnp.cumsum(x, 1) ** 2))(x)), x)
    reduce = lambda x, f, first, low, high: lax.reduce_window(
        x, np.float32(first), f, (1, 70, 1), (1, 1, 1), ((0, 0), (low, high), (0, 0)))
    case("cumulative.long.edges", lambda x: (
        reduce(x, lax.add, 0, 69, 0), reduce(x, lax.add, 0, 0, 69), reduce(x, lax.add, 0, 68, 1),
        reduce(x, lax.max, -np.inf, 69, 69), reduce(x, lambda a, b: jnp.maximum(a, b), -np.inf, 0, 69)), x)
    case("cumulative.long.variadic", lambda x, y: lax.reduce_window(
        (x, y), (np.float32(0), np.int32(0)), lambda a, b: (jnp.maximum(a[0], b[0]), a[1] + b[1]), (70,), (1,), ((69, 0),)),
         values(jnp.float32, 70), values(jnp.int32, 70))


def strip(text):
    text = re.sub(r", metadata=\{[^{}]*\}", "", text)
    text = re.split(r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\b", text)[0]
    return text.strip() + "\n"


def encode(x):
    return base64.b64encode(np.asarray(x).tobytes()).decode()


def main():
    for group in (elementwise, movement, dots, convolutions, reductions, windows, sorting, gathers, control, random):
        group()
    more_cases.add(case, values, indices)
    complex_cases.add(case, values, indices)
    more_cases.tridiagonal(case, values, indices)
    more_cases.narrow(case, values, indices)
    long_windows()
    more_cases.recurrent(case, values, indices)
    complex_cases.matrices(case, values, indices)
    linear_cases.add(case, values, indices)
    more_cases.parts_of_words(case, values, indices)
    more_cases.long_products(case, values, indices)
    more_cases.long_functions(case, values, indices)
    with open(sys.argv[1], "w") as out:
        for name, (function, inputs) in CASES.items():
            jitted = jax.jit(function, keep_unused=True)
            try:
                results = jax.tree.leaves(jitted(*inputs))
            except Exception as error:  # A version of JAX that lacks the case says so; the others are made.
                print(name, str(error).splitlines()[0], file=sys.stderr)
                continue
            record = {"name": name, "hlo": strip(jitted.lower(*inputs).as_text("hlo")),
                      "inputs": [encode(x) for x in inputs], "outputs": [encode(x) for x in results]}
            out.write(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
