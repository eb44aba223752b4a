#!/usr/bin/env python3
"""Small programs as JAX lowers them for GPUs, with what it computes for the same functions on CPU: make_gpu_cases.py OUT
(gpu_cases.jsonl beside this file).

Run by hand with JAX 0.11.2 on CPU; jax_cases_test reads the file. Lines are those of make_cases.py. Here stand what the
lowerings for GPUs alone write: scans, ragged dots and the calls of cuSOLVER and cuSPARSE. Values that only the library
chooses (the signs of singular vectors, the basis of equal eigenvalues) are left out. Deterministic for a version of JAX.
"""
import functools
import json
import re
import sys
import types

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from complex_cases import triangular_solves
from make_cases import encode, name_of, strip

CASES = {}
REALS = (jnp.float32, jnp.float64)
NUMBERS = (jnp.float32, jnp.float64, jnp.complex64, jnp.complex128)


def case(name, function, *inputs):
    assert name not in CASES, name
    CASES[name] = (function, tuple(jnp.asarray(x) for x in inputs))


def drawn(dtype, *shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if jnp.issubdtype(dtype, jnp.integer):
        return jnp.asarray(rng.integers(-4 if jnp.issubdtype(dtype, jnp.signedinteger) else 0, 5, shape)).astype(dtype)
    real = rng.normal(size=shape)
    if jnp.issubdtype(dtype, jnp.complexfloating):
        real = real + 1j * rng.normal(size=shape)
    return jnp.asarray(real).astype(dtype)


def turned(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def positive(dtype, *batch, n=4):
    a = drawn(dtype, *batch, n, n)
    return a @ turned(a) + n * jnp.eye(n, dtype=dtype)


def size(x):
    """A real number of any array, of which all its elements have a gradient."""
    return jnp.sum(jnp.abs(x) ** 2 * jnp.cos(jnp.arange(x.size, dtype=jnp.abs(x).dtype)).reshape(x.shape))


def without_shardings(text):
    return re.sub(r', frontend_attributes=\{(?:[^{}"]|"[^"]*")*\}', "", strip(text))


def scans():
    for dtype in (*REALS, jnp.bfloat16, jnp.float16, jnp.int32, jnp.int64, jnp.uint8):
        case(f"gpu.cumsum.{name_of(dtype)}", lambda x: tuple(jnp.cumsum(x, axis, dtype=x.dtype) for axis in range(3)),
             drawn(dtype, 3, 5, 4))
        case(f"gpu.cumsum.one_dimension.{name_of(dtype)}", lambda x: lax.cumsum(x), drawn(dtype, 9))
    for dtype in (*REALS, jnp.bfloat16, jnp.int32):
        case(f"gpu.cumsum.long.{name_of(dtype)}", lambda x: (lax.cumsum(x, 0), lax.cumsum(x.T, 1)), drawn(dtype, 70, 3))
    x = drawn(jnp.float32, 6, 5)
    case("gpu.cumsum.gradient", jax.grad(lambda x: size(jnp.cumsum(x, 1)) + size(jnp.cumsum(x ** 2, 0))), x)
    case("gpu.cumsum.reverse", lambda x: (lax.cumsum(x, 0, reverse=True), jnp.cumsum(x[::-1], 0)), x)
    case("gpu.cumsum.loop", lambda x: (lax.fori_loop(0, 3, lambda i, x: jnp.cumsum(x, 0) / (i + 2), x),
                                       lax.scan(lambda c, row: (c + jnp.cumsum(row), jnp.cumsum(c * row)),
                                                jnp.ones(5, x.dtype), x)), x)
    case("gpu.cumsum.branch", lambda x: lax.cond(x[0, 0] > 9, lambda x: x, lambda x: lax.cumsum(x, 0), x), x)
    case("gpu.cumsum.mapped", jax.vmap(lambda x: jnp.cumsum(x, 0)), drawn(jnp.float32, 2, 6, 3))
    case("gpu.cumsum.flags", lambda x: (jnp.cumsum(x > 0), jnp.cumsum(x > 0, 1)), x)
    case("gpu.cumulative", lambda x: (lax.cumprod(x, 0), lax.cummax(x, 1), lax.cummin(x, 0), lax.cumlogsumexp(x, 1),
                                      lax.cumprod(x, 0, reverse=True), lax.cumlogsumexp(x, 0, reverse=True)), x)
    case("gpu.cumulative.gradient", jax.grad(lambda x: size(lax.cumprod(x, 0)) + size(lax.cummax(x, 1)) + size(
        lax.cumlogsumexp(x, 0)) + size(lax.cummin(x, 1, reverse=True))), x)


def ragged_dots():
    sizes = jnp.asarray([2, 0, 3], jnp.int32)
    for dtype in (*REALS, jnp.bfloat16):
        x, w = drawn(dtype, 7, 4), drawn(dtype, 3, 4, 5)
        case(f"gpu.ragged_dot.{name_of(dtype)}", lambda x, w, n: lax.ragged_dot(x, w, n), x, w, sizes)
        case(f"gpu.ragged_dot.gradient.{name_of(dtype)}", lambda x, w, n: jax.grad(lambda x, w: size(
            lax.ragged_dot(x, w, n).astype(jnp.float32)), (0, 1))(x, w), x, w, sizes)
    case("gpu.ragged_dot.preferred", functools.partial(lax.ragged_dot, preferred_element_type=jnp.float32),
         drawn(jnp.bfloat16, 7, 4), drawn(jnp.bfloat16, 3, 4, 5), sizes.astype(jnp.int64))
    many = jnp.asarray([[2, 0, 3], [1, 5, 1]], jnp.int32)
    x, w = drawn(jnp.float32, 2, 7, 4), drawn(jnp.float32, 2, 3, 4, 5)
    mapped = jax.vmap(lambda x, w, n: lax.ragged_dot(x, w, n))
    case("gpu.ragged_dot.mapped", lambda x, w, n: (mapped(x, w, n), *jax.grad(
        lambda x, w: size(mapped(x, w, n)), (0, 1))(x, w)), x, w, many)
    by = lambda *args: lax.RaggedDotDimensionNumbers(*args)
    case("gpu.ragged_dot.contracted", lambda x, y, n: lax.ragged_dot_general(
        x, y, n, by((((0,), (0,)), ((), ())), [0], [])), drawn(jnp.float32, 7, 4), drawn(jnp.float32, 7, 5), sizes)
    case("gpu.ragged_dot.contracted_batch", lambda x, y, n: lax.ragged_dot_general(
        x, y, n, by((((1,), (2,)), ((2,), (0,))), [1], [])), drawn(jnp.float32, 4, 7, 2), drawn(jnp.float32, 2, 5, 7), many)
    case("gpu.ragged_dot.inner", lambda x, w, n: lax.ragged_dot_general(
        x, w, n, by((((2,), (1,)), ((1,), (3,))), [0], [0])), drawn(jnp.float32, 7, 2, 4), drawn(jnp.float32, 3, 4, 5, 2),
         many)
    case("gpu.ragged_dot.kept_before", lambda x, w, n: lax.ragged_dot_general(
        x, w, n, by((((2,), (1,)), ((), ())), [1], [0])), drawn(jnp.float32, 2, 7, 4), drawn(jnp.float32, 3, 4, 5), many)


def factors():
    for dtype in NUMBERS:
        name = name_of(dtype)
        a, b, m = drawn(dtype, 2, 4, 4), drawn(dtype, 2, 4, 3), drawn(dtype, 4, 4, seed=1)
        spd = positive(dtype, 2)
        case(f"gpu.cholesky.{name}", lambda a: (jnp.linalg.cholesky(a), jnp.linalg.cholesky(a[0], upper=True)), spd)
        case(f"gpu.lu.{name}", lambda a, b, m: (
            *lax.linalg.lu(a), *lax.linalg.lu(b), *lax.linalg.lu(turned(b)), *lax.linalg.lu(m), jnp.linalg.solve(a, b),
            jnp.linalg.solve(m, b[0]), *jnp.linalg.slogdet(a), jnp.linalg.inv(m)), a, b, m)
        case(f"gpu.qr.{name}", lambda b, m: (*jnp.linalg.qr(b), *jnp.linalg.qr(b, mode="complete"),
                                             *jnp.linalg.qr(turned(b)), *jnp.linalg.qr(m)), b, m)
        case(f"gpu.eigh.{name}", lambda a: (lambda w, v: (w, (v * w[:, None]) @ turned(v), jnp.abs(v)))(
            *jnp.linalg.eigh(a)) + (jnp.linalg.eigvalsh(a), jnp.linalg.eigvalsh(a[1], UPLO="U")), spd)
        case(f"gpu.eigh.triangles.{name}", lambda a: tuple(
            lax.linalg.eigh(a, lower=lower, symmetrize_input=False)[1] for lower in (False, True)), a)
        triangular_solves(case, "gpu", name, spd, b)
        case(f"gpu.tridiagonal.{name}", lambda l, d, u, b: (lax.linalg.tridiagonal_solve(l, d, u, b),
                                                            lax.linalg.tridiagonal_solve(l[0], d[0], u[0], b[0])),
             drawn(dtype, 2, 4).at[:, 0].set(0), drawn(dtype, 2, 4) + 4, drawn(dtype, 2, 4).at[:, -1].set(0), b)
    for dtype in REALS:
        case(f"gpu.symmetric_product.{name_of(dtype)}", lambda a, c: (
            lax.linalg.symmetric_product(a, c, alpha=0.5, beta=2, symmetrize_output=True),
            lax.linalg.symmetric_product(a[0], c[0], symmetrize_output=True)), drawn(dtype, 2, 4, 3), positive(dtype, 2))
    case("gpu.cholesky.fails", jnp.linalg.cholesky, jnp.asarray([[1.0, 2.0], [2.0, 1.0]], jnp.float32))


def singular_values():
    """Through sums that signs leave alone; QR, by which a wide matrix is turned, gives them otherwise than on CPU."""
    def all_of(b, full, algorithm=None):
        u, s, v = lax.linalg.svd(b, full_matrices=full, algorithm=algorithm)
        k = s.shape[-1]
        return (s, (u[..., :k] * s[..., None, :].astype(u.dtype)) @ v[..., :k, :], jnp.abs(u[..., :k]),
                jnp.abs(v[..., :k, :]), u @ turned(u), v @ turned(v), lax.linalg.svd(b, compute_uv=False, algorithm=algorithm))

    qr = lax.linalg.SvdAlgorithm.QR
    for dtype in NUMBERS:
        b = drawn(dtype, 2, 5, 3)
        for label, algorithm in (("jacobi", None), ("qr", qr)):
            for full in (False, True):
                what = f"gpu.svd.{label}.{'full' if full else 'thin'}.{name_of(dtype)}"
                case(what, lambda b, full=full, algorithm=algorithm: (
                    *all_of(b, full, algorithm), *all_of(turned(b), full, algorithm), *all_of(b[0], full, algorithm)), b)
    case("gpu.svd.economy", lambda b: all_of(b, False), drawn(jnp.float32, 40, 35))
    case("gpu.svd.uses", lambda b: (jnp.linalg.pinv(b), jnp.linalg.matrix_rank(b), jnp.linalg.cond(b),
                                    jnp.linalg.norm(b, "nuc"), jnp.linalg.norm(b, 2)), drawn(jnp.float32, 5, 3))


def eigen():
    """By cuSOLVER, as of a version that has geev, and left vectors too by what JAX calls on the host beside a GPU."""
    sys.modules["jax._src.lax.linalg"].cuda_versions = types.SimpleNamespace(cusolver_get_version=lambda: 11701)
    for dtype in NUMBERS:
        name, a, b, c = name_of(dtype), drawn(dtype, 2, 5, 5), drawn(dtype, 2, 5, 3), drawn(dtype, 2, 5, 4)
        right = functools.partial(lax.linalg.eig, compute_left_eigenvectors=False)
        case(f"gpu.eig.{name}", lambda a, right=right: (*right(a), *right(a[0]), jnp.linalg.eigvals(a)), a)
        case(f"gpu.eig.host.{name}", lambda a: (*lax.linalg.eig(a), *lax.linalg.eig(a[0], compute_right_eigenvectors=False)), a)
        case(f"gpu.tridiagonal_form.{name}", lambda a: tuple(x for lower in (False, True) for x in lax.linalg.tridiagonal(
            a, lower=lower)), a + turned(a))
        case(f"gpu.qr.pivots.{name}", lambda b: (*lax.linalg.qr(b, pivoting=True), *lax.linalg.qr(turned(b), pivoting=True)), b)
        case(f"gpu.qr.products.{name}", lambda b, c: tuple(lax.linalg.ormqr(
            jnp.swapaxes(h, -1, -2), factors, c if left else turned(c), left=left, transpose=transpose)
            for h, factors in (jnp.linalg.qr(b, mode="raw"),) for left in (False, True) for transpose in (False, True)), b, c)


def gradients():
    for dtype in NUMBERS:
        name = name_of(dtype)
        a, b, spd = drawn(dtype, 2, 4, 4), drawn(dtype, 2, 4, 3), positive(dtype, 2)
        case(f"gpu.gradient.solve.{name}", lambda a, b: jax.grad(lambda a, b: size(jnp.linalg.solve(a, b)), (0, 1))(a, b),
             a + 3 * jnp.eye(4, dtype=dtype), b)
        case(f"gpu.gradient.cholesky.{name}", jax.grad(lambda a: size(jnp.linalg.cholesky(a))), spd)
        case(f"gpu.gradient.qr.{name}", jax.grad(lambda b: sum(map(size, jnp.linalg.qr(b)))), b)
        case(f"gpu.gradient.eigenvalues.{name}", jax.grad(lambda a: size(jnp.linalg.eigvalsh(a))), spd)
        case(f"gpu.gradient.singular_values.{name}", jax.grad(lambda b: size(jnp.linalg.svd(b, compute_uv=False))), b)
        case(f"gpu.gradient.slogdet.{name}", jax.grad(lambda a: size(jnp.linalg.slogdet(a)[1])), a)
    for dtype in REALS:
        name = name_of(dtype)
        a, b, spd = drawn(dtype, 4, 4), drawn(dtype, 5, 3), positive(dtype)

        def eigenvectors(a):
            w, v = jnp.linalg.eigh(a)
            return size((v * jnp.sin(w)) @ turned(v))

        def singular_vectors(b):
            u, s, v = jnp.linalg.svd(b, full_matrices=False)
            return size((u * jnp.sin(s)) @ v)

        case(f"gpu.gradient.eigenvectors.{name}", jax.grad(eigenvectors), spd)
        case(f"gpu.gradient.singular_vectors.{name}", jax.grad(singular_vectors), b)
        case(f"gpu.gradient.lu.{name}", jax.grad(lambda a: size(lax.linalg.lu(a)[0])), a)
        case(f"gpu.gradient.expm.{name}", jax.grad(lambda a: size(jax.scipy.linalg.expm(a * 0.3))), a)
        case(f"gpu.gradient.triangular.{name}", jax.grad(lambda a, b: size(jax.scipy.linalg.solve_triangular(
            a, b, lower=True)), (0, 1)), spd, drawn(dtype, 4, 2))
        case(f"gpu.gradient.cho_solve.{name}", jax.grad(lambda a, b: size(jax.scipy.linalg.cho_solve(
            jax.scipy.linalg.cho_factor(a), b)), (0, 1)), spd, drawn(dtype, 4, 2))
        case(f"gpu.gradient.lstsq.{name}", jax.grad(lambda b: size(jnp.linalg.lstsq(b, jnp.ones(5, b.dtype))[0])), b)
        case(f"gpu.gradient.tridiagonal.{name}", jax.grad(lambda d, b: size(lax.linalg.tridiagonal_solve(
            0.1 * d, d, 0.2 * d, b)), (0, 1)), drawn(dtype, 4) + 4, drawn(dtype, 4, 2))


def main():
    for group in (scans, ragged_dots, factors, singular_values, gradients, eigen):
        group()
    with open(sys.argv[1], "w") as out:
        for name, (function, inputs) in CASES.items():
            jitted = jax.jit(function, keep_unused=True)
            try:
                results = jax.tree.leaves(jitted(*inputs))
                text = jitted.trace(*inputs).lower(lowering_platforms=("cuda",)).as_text("hlo")
            except Exception as error:  # A version of JAX that lacks the case says so; the others are made.
                print(name, str(error).splitlines()[0], file=sys.stderr)
                continue
            record = {"name": name, "hlo": without_shardings(text), "inputs": [encode(x) for x in inputs],
                      "outputs": [encode(x) for x in results]}
            out.write(json.dumps(record, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
