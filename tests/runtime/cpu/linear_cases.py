"""Cases of make_cases.py: LAPACK's routines on general matrices, all that each gives: eigenvalues and eigenvectors, Schur,
Hessenberg and tridiagonal forms, QR with pivots, products by reflectors, singular values by QR."""
import functools

import jax
import jax.numpy as jnp
import numpy as np
from complex_cases import drawn_by, name_of
from jax import lax


def turned(a):
    return jnp.conj(jnp.swapaxes(a, -1, -2))


def similarities(case, name, a, symmetric):
    case(f"eig.{name}", lambda a: (*lax.linalg.eig(a), *jnp.linalg.eig(a[0]), jnp.linalg.eigvals(a),
                                   lax.linalg.eig(a, compute_right_eigenvectors=False)[1]), a)

    def schur(a):  # Through what the phases of vectors leave alone: they are those of the last of many steps.
        t, v = lax.linalg.schur(a)
        return jnp.abs(t), jnp.abs(v), v @ t @ turned(v), jnp.diagonal(t, axis1=-2, axis2=-1)

    case(f"schur.{name}", lambda a: (*schur(a), *schur(a[:, :1, :1]), jnp.abs(
        lax.linalg.schur(a[1], compute_schur_vectors=False)[0])), a)
    case(f"hessenberg.{name}", lambda a: (*lax.linalg.hessenberg(a), *jax.scipy.linalg.hessenberg(a[0], calc_q=True),
                                          lax.linalg.hessenberg(a[:, :1, :1])[0]), a)
    case(f"tridiagonal_form.{name}", lambda a: tuple(x for lower in (False, True) for x in (
        *lax.linalg.tridiagonal(a, lower=lower), *lax.linalg.tridiagonal(a[0, :1, :1], lower=lower)[:2])), symmetric)


def factors(case, name, b, c):
    case(f"qr.pivots.{name}", lambda b: tuple(x for full in (False, True) for of in (b, turned(b), b[0]) for x in lax.linalg.qr(
        of, pivoting=True, full_matrices=full)), b)

    def products(b, c):
        h, factors = jnp.linalg.qr(b, mode="raw")
        h = jnp.swapaxes(h, -1, -2)
        return tuple(lax.linalg.ormqr(h, factors, c if left else turned(c), left=left, transpose=transpose)
                     for left in (False, True) for transpose in (False, True))

    case(f"qr.products.{name}", products, b, c)
    case(f"svd.qr.{name}", lambda b: tuple(x for full in (False, True) for of in (b, turned(b)) for x in lax.linalg.svd(
        of, full_matrices=full, algorithm=lax.linalg.SvdAlgorithm.QR)) + (lax.linalg.svd(
            b[0], compute_uv=False, algorithm=lax.linalg.SvdAlgorithm.QR),), b)


def add(case, values, indices):
    for dtype in (jnp.float32, jnp.float64, jnp.complex64, jnp.complex128):
        drawn = values if jnp.issubdtype(dtype, jnp.floating) else functools.partial(drawn_by, values)
        name, a, b = name_of(dtype), drawn(dtype, 2, 5, 5), drawn(dtype, 2, 5, 3)
        similarities(case, name, a, a + turned(a))
        factors(case, name, b, drawn(dtype, 2, 5, 4))
        size = lambda x: jnp.sum(jnp.abs(x) ** 3 * jnp.arange(1, x.size + 1).reshape(x.shape))
        case(f"eig.gradient.{name}", jax.grad(lambda a: size(jnp.linalg.eigvals(a))), a)
        if jnp.finfo(dtype).bits == 32:
            case(f"eig.vectors_gradient.{name}", jax.grad(lambda a: sum(map(size, lax.linalg.eig(
                a, compute_left_eigenvectors=False, enable_eigvec_derivs=True)))),
                 a[0] + jnp.diag(3 * jnp.arange(5)).astype(dtype))
        diagonals = drawn(dtype, 3, 2, 6)
        singular = diagonals.at[1, 0].set(0).at[0, 0, 3].set(0).at[2, 0, 2].set(0)  # Of blocks, one of three rows.
        case(f"tridiagonal.perturbed.{name}", functools.partial(lax.linalg.tridiagonal_solve, perturb_singular=True),
             *diagonals, drawn(dtype, 2, 6, 3))
        case(f"tridiagonal.singular.{name}", lambda l, d, u, b: (lambda x: x / jnp.linalg.norm(x, axis=-2, keepdims=True))(
            lax.linalg.tridiagonal_solve(l, d, u, b, perturb_singular=True)), *singular, drawn(dtype, 2, 6, 1))
    a = values(jnp.float32, 4, 4)
    broken = jnp.stack([a, a.at[1, 2].set(np.nan), a.at[3, 0].set(np.inf)])
    case("eig.fails", lambda a: tuple(map(jnp.abs, lax.linalg.eig(a))), broken)
    case("schur.fails", lambda a: tuple(map(jnp.abs, lax.linalg.schur(a))), broken)
    case("eig.functions", lambda a, p: (jnp.roots(p, strip_zeros=False), *jax.scipy.linalg.qr(a, pivoting=True)), a,
         values(jnp.float32, 5))
