"""Cases of make_cases.py by type and form: what movement, windows, scatters, sorts, loops and convolutions do to every
type; edges of the functions; matrices factored. `add` registers them after all others, so that theirs stay as they are."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

FLOATS = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64]
INTEGERS = [jnp.int8, jnp.int16, jnp.int32, jnp.int64, jnp.uint8, jnp.uint16, jnp.uint32, jnp.uint64]
TYPES = [*FLOATS, *INTEGERS, jnp.bool_]


def name_of(dtype):
    return jnp.dtype(dtype).name


def lowest(dtype):
    return -jnp.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def movement(case, values, indices):
    for dtype in TYPES:
        x = values(dtype, 4, 3, 5)
        case(f"moved.{name_of(dtype)}", lambda x: (
            x.transpose(2, 0, 1), x[::-1, 1:, ::2], jnp.concatenate([x, x[:, :, ::-1]], 1), jnp.roll(x, 2, 0),
            jnp.where(x[:1] == x, x, x[::-1]), jnp.repeat(x[0], 2, axis=0), jnp.tril(x[:, :, 0])), x)
        case(f"dynamic.{name_of(dtype)}", lambda x, i: (
            lax.dynamic_slice(x, (i[0], i[1], i[2]), (2, 2, 3)), lax.dynamic_update_slice(x, x[1:2, :2], (i[2], i[1], i[0])),
            x[i, :, 1], jnp.take(x, i, axis=2, mode="clip")), x, indices(4, 3, low=-2))


def edges(case, values, indices):
    special = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -2.5, 1e-6, 88.0, -88.0, 200.0, -200.0, np.inf, -np.inf, np.nan,
               3.1415927, 1e30, 0.99, -0.99]
    unary = {
        "exp": (jnp.exp, jnp.expm1, jnp.exp2), "log": (jnp.log, jnp.log1p, jnp.log2), "root": (jnp.sqrt, lax.rsqrt, jnp.cbrt),
        "circle": (jnp.sin, jnp.cos, jnp.tan), "tanh": (jnp.tanh, lax.logistic), "erf": (lax.erf, lax.erfc, lax.erf_inv),
        "inverse": (jnp.arcsin, jnp.arccos, jnp.arctan), "hyperbolic": (jnp.sinh, jnp.cosh, jnp.arcsinh, jnp.arctanh),
        "rounding": (jnp.round, jnp.floor, jnp.ceil, jnp.sign, jnp.abs, lax.round, jnp.trunc),
        "gamma": (lax.lgamma, lax.digamma), "bessel": (lax.bessel_i0e, lax.bessel_i1e)}
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64):
        for label, functions in unary.items():
            x = jnp.asarray([v for v in special if label != "circle" or not 1e5 < abs(v) < np.inf], dtype)
            case(f"edges.{label}.{name_of(dtype)}", lambda x, f=functions: tuple(g(x) for g in f), x)
        x, y = jnp.asarray(special, dtype), jnp.asarray(special[::-1], dtype)
        case(f"edges.binary.{name_of(dtype)}", lambda x, y: (
            x + y, x * y, x / y, jnp.maximum(x, y), jnp.minimum(x, y), jnp.arctan2(x, y), lax.rem(x, y), lax.pow(x, y),
            x < y, x == y, x != y, jnp.isfinite(x), lax.nextafter(x, y) if x.dtype != jnp.bfloat16 else x,
            jnp.sort(x), jnp.argmax(x), x.max(), x.min(), lax.integer_pow(x, 3), jnp.hypot(x, y)), x, y)
        case(f"edges.convert.{name_of(dtype)}", lambda x: tuple(
            lax.convert_element_type(x, t) for t in (jnp.int8, jnp.int32, jnp.uint32, jnp.int64, jnp.bool_)),
             jnp.asarray([0.0, -0.9, 0.9, 1.5, -1.5, 100.0, -100.0, 2.0], dtype))
    for dtype in INTEGERS:
        info = jnp.iinfo(dtype)
        x, y = jnp.asarray([0, 1, info.max, info.min, 7, 2], dtype), jnp.asarray([1, info.max, 1, 1, 0, 3], dtype)
        case(f"edges.{name_of(dtype)}", lambda x, y: (
            x + y, x - y, x * y, lax.div(x, y), lax.rem(x, y), jnp.abs(x), -x, jnp.sign(x), x ** 3,
            lax.shift_left(x, y), lax.shift_right_logical(x, y), lax.shift_right_arithmetic(x, y), x // jnp.maximum(y, 1),
            lax.clamp(jnp.asarray(1, x.dtype), x, jnp.asarray(5, x.dtype)), x > y, jnp.sort(x), x.max(), x.sum()), x, y)
    x, y = values(jnp.bool_, 4, 5), values(jnp.bool_, 4, 5, seed=1)
    case("logic", lambda x, y: (x & y, x | y, x ^ y, ~x, x == y, x < y, jnp.where(x, y, ~y), x.sum(), jnp.argmax(x, 1),
                                jnp.cumsum(x, 0), jnp.sort(x, 1), x.astype(jnp.float32) @ y.T.astype(jnp.float32)), x, y)


def reductions(case, values, indices):
    for dtype in (jnp.int8, jnp.int16, jnp.int64, jnp.uint16, jnp.uint32, jnp.uint64):
        x = values(dtype, 3, 4, 7)
        case(f"reduce.{name_of(dtype)}", lambda x: (
            x.sum(1, dtype=x.dtype), x.max((0, 2)), x.min(), jnp.prod(x, 0, dtype=x.dtype), jnp.argmax(x, 2), jnp.argmin(x),
            jnp.cumsum(x, 1, dtype=x.dtype), lax.cummin(x, 0, reverse=True), lax.reduce_xor(x, axes=(1,)),
            lax.reduce_and(x, axes=(0,)), lax.reduce_or(x, axes=(2,))), x)
    for dtype in FLOATS:
        x = values(dtype, 3, 40)
        case(f"reduce.rounding.{name_of(dtype)}", lambda x: (
            lax.reduce(x, x.dtype.type(0), lax.add, (1,)), lax.reduce(x, x.dtype.type(1), lax.mul, (0,)), x.mean(1),
            jnp.var(x, 1), jax.nn.logsumexp(x, 1), lax.cumlogsumexp(x, 1), lax.cumsum(x, 1, reverse=True)), x)
        case(f"norms.{name_of(dtype)}", lambda x: (
            jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1), jnp.linalg.norm(x, 1, axis=0), jnp.abs(x).max(),
            jax.nn.softmax(x), jax.nn.log_softmax(x, 0), jax.nn.gelu(x), jax.nn.silu(x), jax.nn.standardize(x)), x)


def windows(case, values, indices):
    for dtype in (jnp.float16, jnp.int8, jnp.uint8, jnp.int64, jnp.uint32):
        x = values(dtype, 2, 6, 5, 2)
        case(f"reduce_window.{name_of(dtype)}", lambda x, low=lowest(dtype): (
            lax.reduce_window(x, x.dtype.type(low), lax.max, (1, 3, 2, 1), (1, 2, 1, 1), "SAME"),
            lax.reduce_window(x, x.dtype.type(0), lax.add, (1, 2, 2, 1), (1, 1, 1, 1), "VALID"),
            lax.reduce_window(x, x.dtype.type(1), lax.mul, (1, 1, 2, 2), (1, 1, 2, 1), "VALID")), x)
    for dtype in (jnp.bfloat16, jnp.float16):
        case(f"max_pool.gradient.{name_of(dtype)}", lambda x: jax.grad(lambda x: jnp.sum(lax.reduce_window(
            x, x.dtype.type(-jnp.inf), lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") * x.dtype.type(0.5)))(x),
             values(dtype, 1, 6, 6, 2))
    case("reduce_window.logic", lambda x: lax.reduce_window(x, False, lax.bitwise_or, (2, 2), (1, 1), "SAME"),
         values(jnp.bool_, 4, 5))
    case("reduce_window.variadic", lambda x, y: lax.reduce_window(
        (x, y), (np.float32(0), np.int32(0)), lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])), (2, 2), (2, 1), "VALID"),
         values(jnp.float32, 4, 5), values(jnp.int32, 4, 5))
    case("pools.1d3d", lambda x: (lax.reduce_window(x, -np.inf, lax.max, (1, 2, 2, 2, 1), (1, 2, 2, 2, 1), "VALID"),
                                  lax.reduce_window(x[0, 0, 0], 0.0, lax.add, (2, 1), (1, 1), "SAME")),
         values(jnp.float32, 1, 4, 4, 4, 2))


def scatters(case, values, indices):
    for dtype in (jnp.float16, jnp.int8, jnp.int64, jnp.uint32, jnp.bool_):
        x, y = values(dtype, 6, 4), values(dtype, 5, 4, seed=1)
        case(f"scatter.forms.{name_of(dtype)}", lambda x, y, i: (
            x.at[i].set(y, unique_indices=False), x.at[i % 6].max(y) if x.dtype != bool else x.at[i].set(y, mode="clip"),
            x.at[i, 1].min(y[:, 0]) if x.dtype != bool else x.at[i % 6, i % 4].set(True)), x, y,
             jnp.asarray([5, 0, 3, 2, 4], jnp.int32))
    x, y = values(jnp.float32, 6, 4, 3), values(jnp.float32, 5, 3)
    rows, columns = indices(8, 5, low=-2), indices(5, 5)
    case("scatter.modes", lambda x, y, i, j: (
        x.at[i, j].add(y, mode="drop"), x.at[i, j].add(y, mode="clip"), x.at[:, j].multiply(y[:, None, :1].mean(0)),
        x.at[1:3, j % 4].set(2.0), x.at[..., 0].add(1.0), x.at[i % 6, :, 1].divide(2.0)), x, y, rows, columns)
    case("scatter.gradient", lambda x, y, i: jax.grad(lambda x, y: jnp.sum(jnp.sin(x.at[i].add(y * y))), (0, 1))(x, y),
         values(jnp.float32, 6, 3), y, indices(6, 5))
    case("scatter.set_gradient", lambda x, y, i: jax.grad(lambda x, y: jnp.sum(jnp.sin(x.at[i].set(y))), (0, 1))(x, y),
         values(jnp.float32, 6, 3), y, jnp.asarray([1, 4, 0, 5, 2], jnp.int32))
    case("segment.forms", lambda y, i: (jax.ops.segment_max(y, i, 4), jax.ops.segment_min(y, i, 4),
                                        jax.ops.segment_prod(y, i, 4), jnp.bincount(i, length=4)), y, indices(4, 5))
    case("gather.forms", lambda x, i, j: (
        x[i, :, j % 3], x[i[:, None], j[None] % 4], jnp.take_along_axis(x, (j % 6)[:, None, None], 0), x[..., j % 3],
        jnp.choose(j % 2, [i, j], mode="clip"), jnp.searchsorted(jnp.arange(6), j), jnp.select([i > 1, i > 3], [i, j], 7)), x,
         indices(6, 5), columns)


def sorts(case, values, indices):
    for dtype in (jnp.int16, jnp.uint8, jnp.uint16, jnp.uint64, jnp.bool_):
        case(f"sort.{name_of(dtype)}", lambda x: (jnp.sort(x, 0), jnp.sort(x, 1, descending=True), jnp.argsort(x, 1)),
             values(dtype, 5, 6, high=60))
    for dtype in (jnp.float16, jnp.uint8, jnp.uint32, jnp.int64):
        case(f"top_k.{name_of(dtype)}", lambda x: (lax.top_k(x, 3), lax.top_k(x[0], 1)), values(dtype, 2, 8, high=50))
    x = values(jnp.float32, 3, 16)
    case("approx_k", lambda x: (lax.approx_max_k(x, 4), lax.approx_min_k(x, 2)), x)
    case("top_k.gradient", lambda x: jax.grad(lambda x: jnp.sum(lax.top_k(x, 3)[0] ** 2))(x), x)
    case("sort.lexical", lambda x, y: (jnp.lexsort((x, y)), lax.sort((y, x), num_keys=1, is_stable=True)),
         values(jnp.float32, 9), indices(3, 9))
    case("ranks", lambda x: (jnp.argsort(jnp.argsort(x)), jnp.flip(jnp.sort(x)), jnp.partition(x, 4)), values(jnp.float32, 9))


def loops(case, values, indices):
    for dtype in (jnp.bfloat16, jnp.float64, jnp.int32, jnp.uint8, jnp.bool_):
        x = values(dtype, 4, 3)
        case(f"scan.{name_of(dtype)}", lambda x: lax.scan(lambda c, r: (jnp.where(r > c, r, c), c), x[0], x), x)
        case(f"cond.{name_of(dtype)}", lambda x, i: lax.cond(i[0] > 0, lambda x: (x, x[::-1]), lambda x: (x[::-1], x), x), x,
             jnp.asarray([1], jnp.int32))
    matrix = values(jnp.float32, 3, 3) * 0.3
    nested = lambda w, x: lax.scan(lambda c, r: (lax.scan(lambda d, s: (jnp.tanh(d @ w + s), d.sum()), c, r)[0], c.sum()),
                                   x[0, 0], x)
    case("scan.nested_gradient", lambda w, x: jax.grad(lambda w: sum(jnp.sum(a) for a in nested(w, x)))(w), matrix,
         values(jnp.float32, 2, 4, 3))
    case("scan.remat_gradient", lambda w, x: jax.grad(lambda w: jnp.sum(lax.scan(
        jax.checkpoint(lambda c, r: (jnp.sin(c @ w) + r, None)), x[0], x)[0]))(w), matrix, values(jnp.float32, 5, 3))
    case("scan.unroll", lambda x: lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x, unroll=3), values(jnp.float32, 8, 3))
    case("while.random", lambda k: lax.while_loop(
        lambda c: c[1] < 0.7, lambda c: (jax.random.split(c[0], 2)[0], jax.random.uniform(c[0], (), jnp.float32)),
        (k, jnp.float32(0))), jnp.asarray([3, 5], jnp.uint32))
    case("fori.bounds", lambda n: lax.fori_loop(n[0], n[1], lambda i, c: c + i * i, jnp.int32(0)), jnp.asarray([-2, 6], jnp.int32))
    case("switch.vmapped", lambda i, x: jax.vmap(lambda i, x: lax.switch(i, [jnp.sin, jnp.cos, jnp.exp], x))(i, x),
         indices(3, 5), values(jnp.float32, 5))
    case("cond.gradient", lambda x, i: jax.grad(lambda x: lax.cond(
        i[0] > 2, lambda x: jnp.sum(x ** 3), lambda x: jnp.sum(jnp.sin(x)), x))(x), values(jnp.float32, 4), jnp.asarray([1]))
    case("associative.reverse", lambda a, b: lax.associative_scan(lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1]), (a, b),
                                                                  reverse=True), values(jnp.float32, 7), values(jnp.float32, 7))


def convolutions(case, values, indices):
    labels = ("NHWC", "HWIO", "NHWC")
    conv = lambda **options: lambda x, w: lax.conv_general_dilated(x, w, dimension_numbers=labels, **options)
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float64):
        x, w = values(dtype, 2, 6, 5, 4), values(dtype, 3, 2, 2, 6, seed=1)
        f = conv(window_strides=(1, 2), padding="SAME", feature_group_count=2, rhs_dilation=(2, 1))
        case(f"conv.gradients.{name_of(dtype)}", lambda x, w, f=f: (f(x, w), *jax.vjp(f, x, w)[1](f(x, w) * x.dtype.type(0.25))),
             x, w)
    case("conv.int8", conv(window_strides=(1, 1), padding="VALID", preferred_element_type=jnp.int32),
         values(jnp.int8, 1, 4, 4, 3), values(jnp.int8, 2, 2, 3, 4, seed=1))
    f = conv(window_strides=(1, 1), padding="SAME", feature_group_count=6)
    case("conv.depthwise.gradients", lambda x, w, f=f: jax.vjp(f, x, w)[1](f(x, w)), values(jnp.float32, 2, 5, 5, 6),
         values(jnp.float32, 3, 3, 1, 12, seed=1))
    f = conv(window_strides=(1, 1), padding="VALID", batch_group_count=2)
    case("conv.batch_groups.gradients", lambda x, w, f=f: jax.vjp(f, x, w)[1](f(x, w)), values(jnp.float32, 4, 5, 5, 3),
         values(jnp.float32, 2, 2, 3, 6, seed=1))
    for rank, names in ((1, ("NHC", "HIO", "NHC")), (3, ("NCDHW", "OIDHW", "NCDHW"))):
        shape = (2, *(5,) * rank, 3) if rank == 1 else (2, 3, *(4,) * rank)
        window = (3, 3, 4) if rank == 1 else (4, 3, 2, 2, 2)
        g = functools.partial(lax.conv_general_dilated, dimension_numbers=names, window_strides=(2,) * rank, padding="SAME")
        case(f"conv.{rank}d.gradients", lambda x, w, g=g: jax.vjp(g, x, w)[1](g(x, w)), values(jnp.float32, *shape),
             values(jnp.float32, *window, seed=1))
    case("conv.odd_labels", lambda x, w: lax.conv_general_dilated(
        x, w, (1, 1), "SAME", dimension_numbers=("HWNC", "OHWI", "CNHW")), values(jnp.float32, 4, 5, 2, 3),
         values(jnp.float32, 4, 2, 3, 3, seed=1))
    t = lambda x, w: lax.conv_transpose(x, w, (2, 2), "VALID", rhs_dilation=(1, 2))
    case("conv.transpose.gradients", lambda x, w: jax.vjp(t, x, w)[1](t(x, w)), values(jnp.float32, 1, 3, 4, 2),
         values(jnp.float32, 3, 2, 2, 3, seed=1))
    case("conv.patches", lambda x: lax.conv_general_dilated_patches(x, (2, 2), (1, 2), "VALID"), values(jnp.float32, 1, 3, 5, 4))


def products(case, values, indices):
    forms = {"abij,cjad->bdci": ((2, 3, 4, 5), (2, 5, 2, 3)), "ij,ij->": ((4, 5), (4, 5)), "i,j->ij": ((3,), (4,)),
             "bij,bjk->bk": ((2, 3, 4), (2, 4, 5)), "ii->i": ((4, 4), None), "aij,bij->ab": ((2, 3, 4), (5, 3, 4)),
             "abc->ca": ((2, 3, 4), None), "ij,j->i": ((3, 4), (4,)), "bhqd,bhkd->bhqk": ((2, 2, 3, 4), (2, 2, 5, 4))}
    for number, (text, (a, b)) in enumerate(forms.items()):
        for dtype in (jnp.float32, jnp.bfloat16):
            arrays = [values(dtype, *s, seed=i) for i, s in enumerate((a, b)) if s]
            case(f"einsum.{number}.{name_of(dtype)}", functools.partial(jnp.einsum, text), *arrays)
    case("einsum.gradients", lambda x, y: jax.grad(lambda x, y: jnp.sum(jnp.sin(jnp.einsum("abij,cjad->bdci", x, y))), (0, 1))(
        x, y), values(jnp.float32, 2, 3, 4, 5), values(jnp.float32, 2, 5, 2, 3))
    for source, target in ((jnp.float16, jnp.float32), (jnp.bfloat16, jnp.bfloat16), (jnp.uint8, jnp.int32),
                           (jnp.int16, jnp.int64), (jnp.float32, jnp.bfloat16)):
        case(f"dot.preferred.{name_of(source)}.{name_of(target)}", functools.partial(
            lax.dot_general, dimension_numbers=(((2,), (1,)), ((0,), (0,))), preferred_element_type=target),
             values(source, 2, 4, 6), values(source, 2, 6, 5, seed=1))
    case("dot.highest", lambda x, y: (jnp.dot(x, y, precision="highest"), jnp.matmul(x[None], y), jnp.inner(x, x),
                                      jnp.tensordot(x, x, 2), jnp.kron(x[:2, :2], y[:2, :2]), jnp.vdot(x, x)),
         values(jnp.float32, 4, 5), values(jnp.float32, 5, 3))
    case("dot.ragged", lambda x, y, n: lax.ragged_dot(x, y, n), values(jnp.float32, 6, 4), values(jnp.float32, 3, 4, 5),
         jnp.asarray([2, 1, 3], jnp.int32))


def matrices(case, values, indices):
    for dtype in (jnp.float32, jnp.float64):
        a = values(dtype, 2, 4, 4)
        spd = a @ a.transpose(0, 2, 1) + 3 * jnp.eye(4, dtype=dtype)
        b = values(dtype, 2, 4, 3)
        case(f"cholesky.{name_of(dtype)}", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a, upper=True)), spd)
        for left in (False, True):
            for lower in (False, True):
                case(f"triangular.{'left' if left else 'right'}.{'lower' if lower else 'upper'}.{name_of(dtype)}",
                     lambda a, b, left=left, lower=lower: tuple(lax.linalg.triangular_solve(
                         a, b if left else b.transpose(0, 2, 1), left_side=left, lower=lower, transpose_a=t, unit_diagonal=u)
                                                                for t in (False, True) for u in (False, True)), spd, b)
        case(f"lu.{name_of(dtype)}", lambda a, b: (*lax.linalg.lu(a), jnp.linalg.solve(a, b), jnp.linalg.slogdet(a)[1],
                                                   jnp.linalg.inv(a), jnp.linalg.det(a)), a, b)
        case(f"lu.wide.{name_of(dtype)}", lambda b: (*lax.linalg.lu(b), *lax.linalg.lu(b.transpose(0, 2, 1))), b)
        case(f"qr.{name_of(dtype)}", lambda b: (*jnp.linalg.qr(b), *jnp.linalg.qr(b, mode="complete"),
                                                *jnp.linalg.qr(b.transpose(0, 2, 1))), b)
        rebuilt = lambda a: (lambda w, v: (w, (v * w[:, None]) @ v.transpose(0, 2, 1)))(*jnp.linalg.eigh(a))
        case(f"eigh.{name_of(dtype)}", rebuilt, spd)
        for full in (False, True):
            def svd(b, full=full):
                u, s, v = jnp.linalg.svd(b, full_matrices=full)
                return s, (u[:, :, :3] * s[:, None]) @ v[:, :3], u.transpose(0, 2, 1) @ u, v @ v.transpose(0, 2, 1)

            case(f"svd.{'full' if full else 'thin'}.{name_of(dtype)}", svd, b)
        case(f"svd.wide.{name_of(dtype)}", lambda b: (jnp.linalg.svd(b.transpose(0, 2, 1), compute_uv=False),
                                                     jnp.linalg.pinv(b), jnp.linalg.matrix_rank(b)), b)
    case("cholesky.fails", lambda a: jnp.linalg.cholesky(a), jnp.asarray([[1.0, 2.0], [2.0, 1.0]], jnp.float32))
    case("cholesky.gradient", lambda a: jax.grad(lambda a: jnp.sum(jnp.sin(jnp.linalg.cholesky(a))))(a),
         jnp.asarray([[3.0, 1.0], [1.0, 2.0]], jnp.float32))


def narrow(case, values, indices):
    """Floats of 8 bits and integers of 4 inside a program: rounding in all their ranges, arithmetic, movement, products."""
    special = np.float32([0, -0.0, np.inf, -np.inf, np.nan, 448, 464, 464.1, 480, 57344, 61440, 61441, 1e9, 2 ** -6, 2 ** -9,
                          2 ** -10, 1.01 * 2 ** -10, 3 * 2 ** -10, 2 ** -14, 2 ** -16, 2 ** -17, 3 * 2 ** -17, 1e-30])
    spread = np.ldexp(np.linspace(1, 2, 96, endpoint=False), np.arange(96) % 28 - 18).astype(np.float32)
    x = jnp.asarray(np.concatenate([special, -special, spread]))
    a, b = values(jnp.float32, 4, 6), values(jnp.float32, 6, 5)
    wide = jnp.float32
    for dtype in (jnp.float8_e4m3fn, jnp.float8_e5m2):
        case(f"narrow.{name_of(dtype)}", lambda x, t=dtype: (
            x.astype(t).astype(wide), (x.astype(t) * x[::-1].astype(t)).astype(wide), (-x.astype(t)).astype(wide),
            jnp.maximum(x.astype(t), 1).astype(wide), jnp.sqrt(jnp.abs(x).astype(t)).astype(wide), x.astype(t) < 0.3,
            jnp.where(x > 0, x.astype(t), 2).astype(jnp.bfloat16), x.astype(jnp.float16).astype(t).astype(wide)), x)
        case(f"narrow.products.{name_of(dtype)}", lambda a, b, i, t=dtype: (
            lax.dot(a.astype(t), b.astype(t), preferred_element_type=wide), (a.astype(t) @ b.astype(t)).astype(wide),
            a.astype(t)[i].T.astype(wide), lax.scan(lambda c, r: (jnp.maximum(c, r), c), a.astype(t)[0], a.astype(t))[1].astype(
                wide)), a, b, indices(4, 3))
    floats = jnp.asarray(np.float32([-100, -9, -8.6, -8, 7, 7.9, 8, 20, 3.7, -3.7, np.nan, -1, 15, 15.9, 16]))
    ints = jnp.asarray(np.int32([-100, -9, -8, 7, 8, 20, 15, 16, -1, 0, 3]))
    for dtype in (jnp.int4, jnp.uint4):
        case(f"narrow.{name_of(dtype)}", lambda x, i, t=dtype: (
            x.astype(t).astype(wide), i.astype(t).astype(jnp.int32), (i.astype(t) + i.astype(t)).astype(jnp.int32),
            (i.astype(t) * i[::-1].astype(t)).astype(jnp.int32), (i.astype(t) & 5).astype(jnp.int32), i.astype(t) > 2,
            jnp.maximum(i.astype(t), 1).astype(wide),
            jnp.concatenate([i.astype(t), i[::-1].astype(t)]).reshape(2, -1).T.astype(jnp.int32)), floats, ints)


def parts_of_words(case, values, indices):
    """Upper halves of products; ops that read bits from above, of 4 bits and of 2: of each number with each."""
    for dtype in INTEGERS:
        info = jnp.iinfo(dtype)
        x = np.asarray([info.min, info.min + 1, max(info.min, -1), 1, 7, 1 << (info.bits - 2), info.max], dtype)
        case(f"mulhi.{name_of(dtype)}", lax.mulhi, np.repeat(x, 7), np.tile(x, 7))
    for dtype in (jnp.int4, jnp.uint4, jnp.int2, jnp.uint2):
        info = jnp.iinfo(dtype)
        x = np.arange(info.min, info.max + 1, dtype=np.int32)
        case(f"narrow.bits.{name_of(dtype)}", lambda x, y, t=dtype: tuple(z.astype(jnp.int32) for z in (
            lax.clz(x.astype(t)), lax.population_count(x.astype(t)), *(f(x.astype(t), y.astype(t)) for f in (
                lax.shift_left, lax.shift_right_logical, lax.shift_right_arithmetic, lax.mulhi)))),
             np.repeat(x, len(x)), np.tile(x, len(x)))


def long_products(case, values, indices):
    for dtype in (jnp.bfloat16, jnp.float16):
        x = 1 + values(dtype, 2, 300, 3) / 16
        case(f"cumprod.long.{name_of(dtype)}", lambda x: (
            lax.cumprod(x, 1), lax.cumprod(x, 1, reverse=True), lax.cumprod(x[0, :24, 0], 0)), x)


def long_functions(case, values, indices):
    """Cumulative windows whose function is of several ops: by blocks, and by blocks of those."""
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32):
        case(f"cumlogsumexp.long.{name_of(dtype)}", lambda x: (
            lax.cumlogsumexp(x, 1), lax.cumlogsumexp(x, 1, reverse=True), lax.cumlogsumexp(x[0, :40, 0], 0)),
             values(dtype, 2, 300, 3))


def tridiagonal(case, values, indices):
    for dtype in (jnp.float32, jnp.float64):
        low, high = values(dtype, 2, 6).at[:, 0].set(0), values(dtype, 2, 6, seed=1).at[:, -1].set(0)
        for label, middle in (("dominant", values(dtype, 2, 6, seed=2) + 6), ("exchanged", 0.1 * values(dtype, 2, 6, seed=2))):
            case(f"tridiagonal.{label}.{name_of(dtype)}", lax.linalg.tridiagonal_solve, low, middle, high,
                 values(dtype, 2, 6, 3))
    one = jnp.ones((1,), jnp.float32)
    case("tridiagonal.one", lax.linalg.tridiagonal_solve, one, 2 * one, one, one[:, None])


def recurrent(case, values, indices):
    """Loops whose products leave them (data/hlo/loop_products.h): of inputs, of weights' gradients, of inputs' gradients."""
    def cell(params, h, x):
        h = jnp.tanh(x @ params[0] + h @ params[1] + params[2])
        return h, h

    def loss(params, x, reverse):
        h = jnp.zeros((x.shape[1], params[1].shape[0]), x.dtype)
        last, all_h = lax.scan(lambda h, row: cell(params, h, row), h, x, reverse=reverse)
        return jnp.sum(last ** 2) + jnp.sum(all_h ** 4)

    for dtype in (jnp.float32, jnp.float64, jnp.bfloat16):
        x = values(dtype, 6, 3, 10)
        params = tuple(0.3 * values(dtype, *shape) for shape in ((10, 20), (20, 20), (20,)))
        for reverse in (False, True):
            case(f"recurrent.{'reverse.' if reverse else ''}{name_of(dtype)}", lambda x, *p, reverse=reverse: (
                loss(p, x, reverse), *jax.tree.leaves(jax.grad(loss, (0, 1))(p, x, reverse))), x, *params)
    x, w = values(jnp.float32, 5, 2, 8), 0.3 * values(jnp.float32, 12, 8)
    turned = lambda w, x: lax.scan(lambda h, row: ((h := jnp.tanh(row @ w.T + h)), h), jnp.zeros((2, 12), x.dtype), x)[1]
    case("recurrent.turned", lambda w, x: (turned(w, x), *jax.grad(lambda w, x: jnp.sum(turned(w, x) ** 2), (0, 1))(w, x)), w, x)
    # By index from the end; the sum is read in the loop too, or by its condition, so it stays.
    added = lambda seen: lambda a, b: lax.fori_loop(0, 5, lambda i, s: (
        s[0] + a[-1 - i].T @ b[-1 - i], s[1] + (jnp.sum(s[0]) if seen else 1)), (jnp.ones((9, 11), a.dtype), jnp.zeros((), a.dtype)))
    a, b = values(jnp.float32, 5, 2, 9), values(jnp.float32, 5, 2, 11)
    case("recurrent.added", added(False), a, b)
    case("recurrent.added.seen", added(True), a, b)
    case("recurrent.added.until", lambda a, b: lax.while_loop(lambda s: (s[0] < 5) & (jnp.sum(s[1]) < 1e4), lambda s: (
        s[0] + 1, s[1] + a[s[0]].T @ b[s[0]]), (0, jnp.ones((9, 11), a.dtype))), a, b)
    case("recurrent.nested", lambda a, b: lax.scan(lambda c, row: (c + lax.fori_loop(0, 5, lambda i, s: (
        s + a[i].T @ (row * b[i])), jnp.zeros((9, 11), a.dtype)), row[0]), jnp.zeros((9, 11), a.dtype), b), a, b)


def add(*register):
    for group in (movement, edges, reductions, windows, scatters, sorts, loops, convolutions, products, matrices):
        group(*register)
