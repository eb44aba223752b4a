"""Cases of make_cases.py with complex numbers: functions, movement, products, sums, loops, transforms of every kind."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

TYPES = [(jnp.complex64, jnp.float32), (jnp.complex128, jnp.float64)]


def name_of(dtype):
    return jnp.dtype(dtype).name


def functions(case, drawn, values, indices):
    circle = np.exp(1j * np.linspace(-3, 3, 9))
    spots = np.concatenate([circle * r for r in (1e-3, 0.5, 1, 3)] + [[2, -2, 0.5j, -0.5j, 1e-4]])
    unary = {
        "exp": (jnp.exp, jnp.expm1), "log": (jnp.log, jnp.log1p), "root": (jnp.sqrt, lax.rsqrt),
        "circle": (jnp.sin, jnp.cos, jnp.tan), "hyperbolic": (jnp.sinh, jnp.cosh, jnp.tanh, lax.logistic),
        "size": (jnp.abs, jnp.sign, jnp.angle, jnp.real, jnp.imag, jnp.conj, jnp.negative),
        "powers": (lambda x: x ** 2, lambda x: x ** -1, lambda x: x ** 0.5, lambda x: 2.0 ** x, lambda x: x ** x)}
    for dtype, real in TYPES:
        z = jnp.asarray(spots, dtype)
        for label, group in unary.items():
            # As accurate as their worst element: parts of 1e-3 beside others of 1 say nothing.
            case(f"complex.{label}.{name_of(dtype)}", lambda z, group=group: tuple(f(z) for f in group), z)
        x, y = drawn(dtype, 3, 5), drawn(dtype, 3, 5)
        case(f"complex.binary.{name_of(dtype)}", lambda x, y, r: (
            x + y, x - y, x * y, x / y, x / r, r / y, x == y, x != y, jnp.where(r > 0, x, y), lax.complex(r, r),
            jnp.isnan(x), jnp.isfinite(x), x == x), x, y, values(real, 3, 5))
        tiny = np.finfo(real).tiny ** 0.75
        case(f"complex.extremes.{name_of(dtype)}", lambda x, y: (jnp.abs(x) / jnp.abs(x).max(), x / y, jnp.sign(x)),
             jnp.asarray([3 + 4j, 1j, 1, -1 - 1j, 2], dtype) / real(tiny), jnp.asarray([1, 1j, 2, 1 + 1j, -1], dtype) / real(tiny))
        case(f"complex.convert.{name_of(dtype)}", lambda z, r: (
            z.astype(jnp.complex64), z.astype(jnp.complex128), r.astype(z.dtype), jnp.asarray(r > 0, z.dtype),
            (r * 4).astype(jnp.int32).astype(z.dtype)), x, values(real, 4))
    zero = jnp.asarray([0, 1, -1, 0j, 1j], jnp.complex64)
    case("complex.zero", lambda z: (z * z, jnp.abs(z), jnp.sign(z), jnp.sqrt(z), z ** 0, z ** 2.0, jnp.exp(z)), zero)
    case("complex.constants", lambda z: (z * jnp.asarray([1 + 2j, -3j, 0.25, 1e-3 - 1e4j], z.dtype), z + (2 - 1j),
                                         z * lax.broadcasted_iota(z.dtype, (4, 4), 0)[:, 1]),
         drawn(jnp.complex64, 4))


def movement(case, drawn, values, indices):
    for dtype, _ in TYPES:
        x = drawn(dtype, 4, 3, 5)
        case(f"complex.moved.{name_of(dtype)}", lambda x, i: (
            x.transpose(2, 0, 1), x[::-1, 1:, ::2], jnp.concatenate([x, x[:, :, ::-1]], 1), jnp.roll(x, 2, 0),
            jnp.pad(x, ((0, 1), (1, 0), (2, 2))), x.reshape(6, 10), jnp.broadcast_to(x[:, :1], x.shape), x[i, :, 1],
            lax.dynamic_slice(x, (i[0], i[1], i[2]), (2, 2, 3)), lax.dynamic_update_slice(x, x[1:2, :2], (i[2], i[1], i[0])),
            jnp.tril(x[:, :, 0]), x.at[i].add(x[::-1]), x.at[i, 1].set(x[:, 0]), lax.optimization_barrier(x)), x, indices(4, 4))


def products(case, drawn, values, indices):
    for dtype, real in TYPES:
        x, y = drawn(dtype, 2, 3, 4), drawn(dtype, 2, 4, 5)
        case(f"complex.dot.{name_of(dtype)}", lambda x, y, r: (
            x @ y, jnp.einsum("bij,bjk->ik", x, y), jnp.vdot(x, x), x @ r, jnp.tensordot(x, jnp.conj(x), 2 * [[0, 2]]),
            jnp.outer(x[0, 0], y[0, 0])), x, y, values(real, 4, 3))
        case(f"complex.sums.{name_of(dtype)}", lambda x: (
            x.sum(), x.sum(1), x.mean((0, 2)), jnp.prod(x, 2), jnp.cumsum(x, 1), jnp.linalg.norm(x), jnp.var(x, 1),
            jnp.cumprod(x, 1), lax.reduce(x, x.dtype.type(2), lax.add, (1,)), jnp.sort(x[0], 1)), x)
        case(f"complex.gradient.{name_of(dtype)}", lambda x, y: jax.grad(lambda x, y: jnp.sum(jnp.abs(jnp.tanh(x @ y) / (
            2 + jnp.exp(x[:, :, :1]))) ** 2), (0, 1))(x, y), x, y)
    case("complex.convolution", lambda x, w: lax.conv_general_dilated(x, w, (1, 2), "SAME"), drawn(jnp.complex64, 1, 2, 5, 6),
         drawn(jnp.complex64, 3, 2, 2, 3))
    case("complex.long_sum", lambda x: (x.sum(), x.sum(0), (x * jnp.conj(x)).sum((0, 1))), drawn(jnp.complex64, 40, 36))


def loops(case, drawn, values, indices):
    z = drawn(jnp.complex64, 3)
    case("complex.fori", lambda z: lax.fori_loop(0, 5, lambda i, z: z * z / (1 + jnp.abs(z)) + i, z), z)
    case("complex.while", lambda z: lax.while_loop(lambda s: jnp.abs(s[1]) < 100, lambda s: (s[0] + 1, s[1] * (1 + 2j)),
                                                   (0, z[0])), z)
    case("complex.bare_while", lambda z: lax.while_loop(lambda z: jnp.abs(z) < 100, lambda z: z * (1 + 2j), z[0]), z)
    case("complex.scan", lambda x, w: lax.scan(lambda h, v: ((g := h * w + v), jnp.abs(g)), jnp.zeros(3, x.dtype), x),
         drawn(jnp.complex64, 5, 3), z * 0.5)
    case("complex.scan_gradient", lambda x, w: jax.grad(lambda w: jnp.sum(lax.scan(lambda h, v: (
        (g := h * w + v), jnp.abs(g) ** 2), jnp.zeros(3, x.dtype), x)[1]), holomorphic=False)(w),
         drawn(jnp.complex64, 5, 3), z * 0.5)
    case("complex.associative_scan", lambda a, b: lax.associative_scan(
        lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (a, b)), drawn(jnp.complex64, 7, 2), drawn(jnp.complex64, 7, 2))
    for n in range(2):
        case(f"complex.cond.{n}", lambda p, z: lax.cond(p, lambda z: z * 2j, lambda z: jnp.conj(z), z), jnp.asarray(n == 1), z)
    case("complex.switch", lambda i, z, r: lax.switch(i, (lambda z, r: (z, r), lambda z, r: (z * r, r * 2)), z, r),
         jnp.int32(1), z, values(jnp.float32, 3))


def transforms(case, drawn, values, indices):
    for dtype, real in TYPES:
        for n in (1, 2, 3, 4, 5, 7, 8, 12, 16, 30, 37, 60, 67):
            case(f"fft.{n}.{name_of(dtype)}", lambda z, x, n=n: (
                jnp.fft.fft(z), jnp.fft.ifft(z), jnp.fft.rfft(x), jnp.fft.irfft(z[:, :n // 2 + 1], n)),
                 drawn(dtype, 2, n), values(real, 2, n))
        case(f"fft.many.{name_of(dtype)}", lambda z, x: (
            jnp.fft.fft2(z), jnp.fft.ifft2(z), jnp.fft.rfft2(x), jnp.fft.irfft2(z[..., :4], (6, 7)),
            jnp.fft.irfft2(z[..., :4], (6, 6)), jnp.fft.fftn(z), jnp.fft.ifftn(z), jnp.fft.rfftn(x),
            jnp.fft.irfftn(z[..., :4]), jnp.fft.fft(z, axis=0), jnp.fft.rfft(x, axis=1), jnp.fft.fftshift(z)),
             drawn(dtype, 3, 6, 7), values(real, 3, 6, 7))
    case("fft.gradient", lambda x, w: jax.grad(lambda x, w: jnp.sum(jnp.sin(jnp.fft.irfft(
        jnp.fft.rfft(x, 12) * w, 11))), (0, 1))(x, w), values(jnp.float32, 2, 9), drawn(jnp.complex64, 7))
    case("fft.gradient2", lambda x, w: jax.grad(lambda x, w: jnp.sum(
        jnp.fft.irfft2(jnp.fft.rfft2(x)[:, :4, :3] * w, (8, 8)) ** 2), (0, 1))(x, w), values(jnp.float32, 2, 8, 8),
         drawn(jnp.complex64, 4, 3))
    case("fft.spectrum", lambda x: jax.grad(lambda x: jnp.sum(jnp.abs(jnp.fft.fft(x)) + jnp.angle(jnp.fft.rfft(x)[1:3]).sum()))(
        x), values(jnp.float32, 16))
    case("fft.real_alone", lambda x: (jnp.fft.fft(x).real, jnp.fft.rfft2(x[None] * x[:, None]).imag), values(jnp.float32, 10))


def triangular_solves(case, group, type_name, a, b):
    """From both sides, of both triangles, plain, transposed and conjugated."""
    for left in (False, True):
        case(f"{group}.triangular.{'left' if left else 'right'}.{type_name}",
             lambda a, b, left=left: tuple(lax.linalg.triangular_solve(
                 a, b if left else jnp.swapaxes(b, 1, 2), left_side=left, lower=lower, unit_diagonal=lower,
                 transpose_a=t, conjugate_a=c) for lower in (False, True)
                                           for t, c in ((False, False), (True, False), (True, True))), a, b)


def matrices(case, values, indices):
    turned = lambda a: jnp.conj(jnp.swapaxes(a, -1, -2))
    for dtype, real in TYPES:
        drawn = functools.partial(drawn_by, values)
        a, b = drawn(dtype, 2, 4, 4), drawn(dtype, 2, 4, 3)
        positive = a @ turned(a) + 3 * jnp.eye(4, dtype=dtype)
        case(f"complex.cholesky.{name_of(dtype)}", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a, upper=True)),
             positive)
        triangular_solves(case, "complex", name_of(dtype), positive, b)
        case(f"complex.lu.{name_of(dtype)}", lambda a, b: (
            *lax.linalg.lu(a), *lax.linalg.lu(b), jnp.linalg.solve(a, b), *jnp.linalg.slogdet(a), jnp.linalg.inv(a).real,
            jnp.linalg.det(a).imag), a, b)
        case(f"complex.qr.{name_of(dtype)}", lambda b: (*jnp.linalg.qr(b), *jnp.linalg.qr(b, mode="complete"),
                                                        *jnp.linalg.qr(turned(b))), b)
        case(f"complex.eigh.{name_of(dtype)}", lambda a: (lambda w, v: (w, (v * w[:, None]) @ turned(v)))(
            *jnp.linalg.eigh(a)) + (jnp.linalg.eigvalsh(a),), positive)

        def svd(b):
            u, s, v = jnp.linalg.svd(b, full_matrices=False)
            return s, (u * s[:, None]) @ v, jnp.linalg.svd(b, compute_uv=False), jnp.linalg.pinv(b)

        case(f"complex.svd.{name_of(dtype)}", svd, b)
        case(f"complex.tridiagonal.{name_of(dtype)}", lax.linalg.tridiagonal_solve, drawn(dtype, 2, 4),
             drawn(dtype, 2, 4) + 4, drawn(dtype, 2, 4), b)
        case(f"complex.solve_gradient.{name_of(dtype)}", lambda a, b: jax.grad(
            lambda a: jnp.sum(jnp.abs(jnp.linalg.solve(a, b)) ** 2))(a), positive, b)


def drawn_by(values, dtype, *shape):
    part = jnp.finfo(dtype).dtype
    return lax.complex(values(part, *shape), values(part, *shape, seed=1))


def add(case, values, indices):
    drawn = functools.partial(drawn_by, values)
    for group in (functions, movement, products, loops, transforms):
        group(case, drawn, values, indices)
