"""Steps of what numerical code calls beside layers: bits, permutations, linear algebra with gradients, implicit
functions, switches, patches and local weights, kernels of Pallas interpreted, shardings that are explicit.
As steps.py; `NUMERIC[name](ranks)`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, image_classes, trained
from modern_steps import normal, sequences
from steps import Step, cross_entropy, labelled, place, stream


# Features of bits: counts, leading zeros, mantissas and exponents, neighbours of floats, common divisors.
def bits(ranks, width=12):
    params = normal(1, a=(6 * width, 16), out=(16, 5))

    def loss_of(p, extra, x, y):
        u = lax.bitcast_convert_type(x, jnp.uint32)
        m, e = jnp.frexp(x)
        g = jnp.gcd(jnp.abs(e) + 12, jnp.int32(18))
        fraction, whole = jnp.modf(x * 3)
        features = [lax.population_count(u).astype(jnp.float32) / 32, lax.clz(u >> 3).astype(jnp.float32) / 32,
                    m, jnp.ldexp(m, e // 2), g.astype(jnp.float32) / 18, fraction + 0.1 * whole]
        h = jnp.concatenate(features, -1)
        h = jnp.where(jnp.nextafter(h, jnp.float32(1)) > h, h, 0.5 * h)
        return cross_entropy(jnp.tanh(h @ p["a"]) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(8 * ranks, (width,), 5))


# One of four blocks, chosen by data, in a loop over layers; expert chosen per row with vmap of switch.
def switched(ranks, width=16):
    params = normal(2, a=(3, 4, width, width), rows=(3, width, width), out=(width, 5))
    branches = [lambda w, x: jnp.tanh(x @ w[0]), lambda w, x: x + jax.nn.gelu(x @ w[1]),
                lambda w, x: x * jax.nn.sigmoid(x @ w[2]), lambda w, x: x - jnp.sin(x @ w[3])]

    def loss_of(p, extra, x, y):
        k = jnp.int32(jnp.abs(x[0, 0]) * 10) % 4

        def layer(carry, w):
            x, k = carry
            x = lax.switch(k, branches, w, x)
            return (x, (k + 1) % 4), None

        (x, _), _ = lax.scan(layer, (x, k), p["a"])
        rows = jax.vmap(lambda i, v: lax.switch(i, [lambda v, j=j: v @ p["rows"][j] for j in range(3)], v))(y % 3, x)
        return cross_entropy((x + rows) @ p["out"], y), extra + lax.pmax(k, 'data')

    return trained(ranks, params, loss_of, optax.rmsprop(1e-3), labelled(8 * ranks, (width,), 5), jnp.int32(0))


# Implicit layers: a root by bisection and Newton with lax.custom_root, a solve by lax.custom_linear_solve, jvp rules.
def implicit(ranks, width=10):
    params = normal(3, a=(width, width), out=(width, 5))

    @jax.custom_jvp
    def softly(x):
        return jnp.log1p(jnp.exp(-jnp.abs(x))) + jnp.maximum(x, 0)

    softly.defjvp(lambda p, t: (softly(*p), jax.nn.sigmoid(p[0]) * t[0]))

    def root(x):
        f = lambda z: z ** 3 + z - x
        solve = lambda f, z: lax.fori_loop(0, 20, lambda i, z: z - f(z) / (3 * z * z + 1), z)
        return lax.custom_root(f, jnp.zeros_like(x), solve, lambda g, y: y / g(jnp.ones_like(y)))

    def loss_of(p, extra, x, y):
        m = jnp.eye(width) * 4 + p["a"] @ p["a"].T
        richardson = lambda matvec, b: lax.fori_loop(0, 30, lambda i, z: z + 0.15 * (b - matvec(z)), b * 0)
        h = lax.custom_linear_solve(lambda z: z @ m, root(x), richardson, symmetric=True)
        return cross_entropy(softly(h) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adamw(3e-3), labelled(6 * ranks, (width,), 5))


# Factors with gradients: SVD, eigenvalues, QR, LU and their solves, a pseudo-inverse, a square root of a matrix.
def factors(ranks, width=8):
    params = normal(4, a=(width, width), b=(width, width), out=(width, 5))

    def loss_of(p, extra, x, y):
        a = p["a"] + 2 * jnp.eye(width)
        u, s, vt = jnp.linalg.svd(a, full_matrices=False)
        q, r = jnp.linalg.qr(p["b"])
        w = jnp.linalg.eigvalsh(a + a.T)
        h = x @ u * jax.nn.softplus(s) @ vt @ q
        h = jax.scipy.linalg.solve_triangular(r + 3 * jnp.eye(width), h.T, lower=False).T
        h = h + jnp.linalg.solve(a, x.T).T @ jnp.linalg.pinv(a) * 0.1
        return cross_entropy(jnp.tanh(h + 0.01 * w) @ p["out"], y) + 1e-3 * jnp.linalg.slogdet(a)[1], extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(6 * ranks, (width,), 5))


# Convolutions without shared weights, patches, 3 x 3 windows by im2col, a depthwise dilated one, local response.
def unshared(ranks, side=8):
    params = normal(5, local=(side - 2, side - 2, 3 * 3 * 3, 6), patch=(27, 6), deep=(3, 3, 1, 12), out=(12, 10))
    dims = ("NHWC", "HWIO", "NHWC")

    def loss_of(p, extra, x, y):
        own = lax.conv_general_dilated_local(x, p["local"] * 0.3, (1, 1), "VALID", (3, 3), dimension_numbers=dims)
        rows = lax.conv_general_dilated_patches(x, (3, 3), (1, 1), "VALID", dimension_numbers=dims)
        h = jnp.concatenate([own, rows @ p["patch"]], -1)
        h = lax.conv_general_dilated(jax.nn.relu(h), p["deep"], (1, 1), "SAME", rhs_dilation=(2, 2),
                                     dimension_numbers=dims, feature_group_count=12)
        total = lax.reduce_window(h * h, 0.0, lax.add, (1, 1, 1, 5), (1, 1, 1, 1), "SAME")
        h = h / (1 + 0.1 * total) ** 0.75
        return cross_entropy(h.mean((1, 2)) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.sgd(0.05, momentum=0.9), image_classes(4 * ranks, side))


# Convolutional LSTM over frames.
def frames(ranks, side=6):
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, x):
            h = nn.RNN(nn.ConvLSTMCell(4, (3, 3)))(x)
            h = nn.InstanceNorm()(h[:, -1])
            return nn.Dense(5)(nn.PReLU()(h).reshape(len(h), -1))

    model = Net()
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 5, side, side, 2)))["params"]
    loss_of = lambda p, extra, x, y: (cross_entropy(model.apply({"params": p}, x), y), extra)
    return trained(ranks, params, loss_of, optax.adamw(3e-3), labelled(4 * ranks, (5, side, side, 2), 5))


# Order statistics and scatters that multiply, take the smaller, and apply a function.
def ordered(ranks, width=12):
    params = normal(6, a=(width, 24), b=(24, 24), out=(24, 5))

    def loss_of(p, extra, x, y):
        h = x @ p["a"]
        k = jnp.lexsort((h[:, 1], jnp.round(h[:, 0])))
        h = h[k]
        part = jnp.partition(h, 7, axis=1)
        low = jnp.argpartition(h, 3, axis=1)[:, :3]
        h = h.at[jnp.arange(len(h))[:, None], low].multiply(0.5, unique_indices=True)
        h = h.at[:, 0].min(0.7).at[:, 1::7].max(-0.6)
        rank = jnp.digitize(h, jnp.linspace(-1, 1, 6)).astype(jnp.float32)
        h = jnp.select([h > 0.5, h < -0.5], [h * 0.9, h * 1.1], h + 0.1 * jnp.nanmean(part, 1, keepdims=True))
        h = jax.nn.relu(h @ p["b"] + 0.01 * rank)
        prod = jax.ops.segment_prod(jax.lax.stop_gradient(1 + 0.1 * h[:, 0]), y, 5)
        return cross_entropy(h @ p["out"], y[k]), extra * 0.5 + lax.psum(jnp.sum(prod), "data")

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(8 * ranks, (width,), 5), jnp.float32(0))


# Small algebra: polynomials, Kronecker and cross products, Toeplitz and block diagonal matrices, integrals.
def small_algebra(ranks, width=12):
    params = normal(7, a=(width, 9), poly=(4,), kron=(3, 3), band=(9,), blocks=(3, 3, 3), out=(9, 5))

    def loss_of(p, extra, x, y):
        h = jnp.tanh(x @ p["a"])
        h = h + 0.1 * jnp.polyval(p["poly"], h)
        h = h @ jnp.kron(p["kron"], jnp.eye(3)) + h @ jax.scipy.linalg.block_diag(*p["blocks"])
        h = h + h @ jax.scipy.linalg.toeplitz(p["band"])
        crossed = jnp.cross(h.reshape(-1, 3, 3), jnp.roll(h.reshape(-1, 3, 3), 1, 1)).reshape(h.shape)
        h = h + 0.1 * crossed + 0.01 * jnp.gradient(h, axis=1) + 0.01 * jnp.trapezoid(h, axis=1)[:, None]
        h = h + 0.01 * jnp.vander(h[:, 0], 9) + jnp.apply_along_axis(lambda v: jnp.cumsum(v) * 0.01, 1, h)
        h = h + 0.01 * jnp.unwrap(h * 6, axis=1) + 0.01 * jnp.float_power(jnp.abs(h) + 0.1, 1.5) + jnp.sinc(h) * 0.1
        return cross_entropy(h @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.nadam(3e-3), labelled(8 * ranks, (width,), 5))


# A normalisation and a product as Pallas kernels, interpreted.
def pallas(ranks, width=16):
    from jax.experimental import pallas as pl

    params = normal(8, a=(width, 32), scale=(32,), out=(32, 5))

    def norm_kernel(x, s, o):
        v = x[...]
        o[...] = v * lax.rsqrt(jnp.mean(v * v, -1, keepdims=True) + 1e-6) * s[...]

    def matmul_kernel(x, w, o):
        o[...] = x[...] @ w[...]

    @jax.custom_vjp
    def product(x, w):
        return pl.pallas_call(matmul_kernel, grid=(x.shape[0] // 4, 2), interpret=True,
                              in_specs=[pl.BlockSpec((4, x.shape[1]), lambda i, j: (i, 0)),
                                        pl.BlockSpec((x.shape[1], w.shape[1] // 2), lambda i, j: (0, j))],
                              out_specs=pl.BlockSpec((4, w.shape[1] // 2), lambda i, j: (i, j)),
                              out_shape=jax.ShapeDtypeStruct((x.shape[0], w.shape[1]), x.dtype))(x, w)

    product.defvjp(lambda x, w: (product(x, w), (x, w)), lambda r, g: (g @ r[1].T, r[0].T @ g))

    def loss_of(p, extra, x, y):
        h = product(x, p["a"])
        h = h + pl.pallas_call(norm_kernel, interpret=True, out_shape=jax.ShapeDtypeStruct(h.shape, h.dtype))(
            *lax.stop_gradient((h, p["scale"])))
        return cross_entropy(jax.nn.gelu(h) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(8 * ranks, (width,), 5))


# jax.nn.dot_product_attention with a window, grouped heads and lengths; sums that XLA's CPU rewrites.
def windowed(ranks, width=16, time=12, vocabulary=32):
    params = normal(9, embed=(vocabulary, width), q=(width, 4, 4), k=(width, 2, 4), v=(width, 2, 4), o=(4, 4, width),
                    head=(width, vocabulary))

    def loss_of(p, extra, t):
        x = p["embed"][t[:, :-1]]
        q, k, v = (jnp.einsum("btd,dhk->bthk", x, p[n]) for n in "qkv")
        a = jax.nn.dot_product_attention(q, k, v, is_causal=True, local_window_size=(4, 0))
        a = a + jax.nn.dot_product_attention(q, k, v, key_value_seq_lengths=jnp.full(len(t), 7, jnp.int32))
        x = x + jnp.einsum("bthk,hkd->btd", a, p["o"])
        return cross_entropy(x @ p["head"], t[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(3e-3), sequences(4 * ranks, time, vocabulary))


# Shardings as part of types (jax.sharding.AxisType.Explicit): the program states where each array lies.
def explicit(ranks, width=16):
    mesh = jax.make_mesh((ranks,), ("data",), axis_types=(jax.sharding.AxisType.Explicit,))
    params = normal(10, a=(width, 32), out=(32, 5))
    tx = optax.adamw(3e-3)

    def step(state, x, y):
        def loss_of(p):
            return cross_entropy(jax.nn.gelu(x @ p["a"]) @ p["out"], y)

        loss, g = jax.value_and_grad(loss_of)(state["params"])
        updates, opt = tx.update(g, state["opt_state"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt}, {"loss": loss}

    jax.sharding.set_mesh(mesh) if hasattr(jax.sharding, "set_mesh") else jax.set_mesh(mesh)
    state = {"params": params, "opt_state": tx.init(params)}
    return Step(jax.jit(step, donate_argnums=0), place(mesh, state), stream(mesh, labelled(8 * ranks, (width,), 5)))


# Second derivatives: a Hessian's product by jacfwd, a Laplacian, a Jacobian's penalty.
def second_order(ranks, width=6):
    params = normal(11, a=(width, 12), b=(12, 12), out=(12, 1))

    def loss_of(p, extra, x, y):
        f = lambda v: (jnp.sin(jnp.tanh(v @ p["a"]) @ p["b"]) @ p["out"])[0]
        laplacian = jax.vmap(lambda v: jnp.trace(jax.jacfwd(jax.jacrev(f))(v)))(x)
        slope = jax.vmap(jax.jacfwd(f))(x)
        return jnp.mean((laplacian + jax.vmap(f)(x) - y) ** 2) + 0.1 * jnp.mean(slope ** 2), extra

    draw = labelled(8 * ranks, (width,), 5)
    drawn = lambda rng: (lambda x, y: (x, y.astype(np.float32) / 5))(*draw(rng))
    return trained(ranks, params, loss_of, optax.adam(3e-3), drawn)


# Random numbers under other keys: balls, orthogonal matrices, split per row by vmap, rng_uniform's successor.
def random_forms(ranks, width=8):
    params = normal(12, a=(width, 16), out=(16, 5))

    def loss_of(p, key, x, y):
        key, *ks = jax.random.split(key, 7)
        rows = jax.random.split(ks[0], len(x))
        noise = jax.vmap(lambda k: jax.random.ball(k, width))(rows)
        o = jax.random.orthogonal(ks[1], width)
        h = (x + 0.1 * noise) @ o @ p["a"]
        h = h + 0.1 * jax.random.rademacher(ks[2], h.shape, jnp.float32) + 0.1 * jax.random.laplace(ks[3], h.shape)
        h = h + 0.01 * jax.random.t(ks[4], 5.0, h.shape) + 0.01 * jax.random.weibull_min(ks[5], 1.0, 2.0, h.shape)
        return cross_entropy(jax.nn.celu(h) @ p["out"], y), key

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(8 * ranks, (width,), 5), jax.random.key(3))


# A linear system held stable by its spectral radius and its slowest modes, whose eigenvalues have gradients.
def stable_system(ranks, states=6, time=9):
    params = normal(31, a=(states, states), b=(3, states), c=(states, 2))
    params["a"] = params["a"] / 2 + 0.5 * jnp.eye(states)

    def loss_of(p, extra, u, y):
        values = jnp.linalg.eigvals(p["a"])
        radius = jax.nn.logsumexp(8 * jnp.abs(values)) / 8
        step = lambda h, u: (jnp.tanh(h @ p["a"] + u @ p["b"]), None)
        h, _ = lax.scan(step, jnp.zeros((len(u), states)), u.swapaxes(0, 1))
        damped = jnp.mean(jnp.abs(values) ** 2 - 0.1 * values.real)
        return jnp.mean((h @ p["c"] - y) ** 2) + 0.1 * radius + 0.01 * damped, extra

    def draw(rng):
        u = rng.normal(size=(4 * ranks, time, 3)).astype(np.float32)
        return u, u.sum(1)[:, :2] / 3

    return trained(ranks, params, loss_of, optax.adam(1e-2), draw)


# Forms that JAX does not differentiate, made anew from the weights of each step: Schur, Hessenberg, tridiagonal, QR with
# pivots. Of the first a function of the matrix: the last bits decide in which order its eigenvalues come, and all of it
# with that (in 492 of 3,000 random 6 x 6 matrices; scipy's LAPACK and OpenBLAS 0.3.21 give the same for the same bits).
def matrix_forms(ranks, width=6):
    params = normal(32, a=(width, width), scale=(width,), out=(width, 4))

    def loss_of(p, extra, x, y):
        a = lax.stop_gradient(p["a"])
        t, v = jax.scipy.linalg.schur(a)
        h, q = jax.scipy.linalg.hessenberg(a, calc_q=True)
        _, diagonal, beside, _ = lax.linalg.tridiagonal(a + a.T, lower=False)
        order_q, r, order = jax.scipy.linalg.qr(a, pivoting=True)
        z = (x @ p["a"]) * p["scale"]
        z = z + 0.1 * (x @ q @ h + x @ v @ (t @ t) @ v.T / width)
        z = z + 0.1 * diagonal + 0.1 * jnp.pad(beside, (0, 1)) + (x @ order_q)[:, order] / (1 + jnp.abs(jnp.diag(r)))
        return cross_entropy(jnp.tanh(z) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(5 * ranks, (width,), 4))


# Polynomials by unrolled loops, whose gradients take stacks apart again: quantiles, a list of layers read by its places,
# windows of what was padded.
def polynomials(ranks, width=12):
    params = normal(33, a=(width, width), coefficients=(9, width), out=(width, 5))

    def loss_of(p, extra, x, y):
        z = jnp.clip(0.5 + 0.1 * x @ p["a"], 0.01, 0.99)
        z = jax.scipy.special.ndtri(z) + 0.01 * jnp.polyval(p["coefficients"], z, unroll=9)
        layers = [z]
        for _ in range(3):
            layers.append(jnp.tanh(layers[-1] @ p["a"]))
        stacked = jnp.stack(layers)
        padded = jnp.pad(stacked[3] + 0.5 * stacked[0], ((0, 0), (2, 2)))
        h = padded[:, 2:-2] + 0.1 * padded[:, 1:-3] + 0.1 * padded[:, 3:-1] + stacked[1:3].sum(0)
        return cross_entropy(h @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(8 * ranks, (width,), 5))


# Training that knows it will be quantized: products and convolutions of s8 and u8 with sums in s32, straight through.
def small_integers(ranks, width=8):
    params = normal(34, kernel=(3, 3, width, width), a=(width * 64, 10))

    def held(x, scale, kind):
        limits = jnp.iinfo(kind)
        return jnp.clip(jnp.round(x * scale), limits.min, limits.max).astype(kind)

    def loss_of(p, extra, x, y):
        x = jnp.tile(x[..., :1], width)
        convolve = lambda x, w, **more: lax.conv_general_dilated(
            x, w, (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"), **more)
        real = convolve(x, p["kernel"])
        small = convolve(held(x, 20.0, jnp.int8), held(p["kernel"], 60.0, jnp.int8), preferred_element_type=jnp.int32)
        h = jax.nn.relu(real + lax.stop_gradient(small / 1200.0 - real)).reshape(len(x), -1)
        real = h @ p["a"]
        small = lax.dot(held(h, 50.0, jnp.uint8), held(p["a"], 60.0, jnp.int8).astype(jnp.uint8),
                        preferred_element_type=jnp.int32)
        return cross_entropy(real + 1e-6 * lax.stop_gradient(small), y), extra

    return trained(ranks, params, loss_of, optax.sgd(1e-4, 0.9), image_classes(4 * ranks))


# All of float16, the state too: what a processor without arithmetic of it rounds twice.
def halves(ranks, width=12):
    params = jax.tree.map(lambda v: v.astype(jnp.float16), normal(35, a=(width, 16), b=(16,), out=(16, 5)))

    def loss_of(p, extra, x, y):
        h = jnp.tanh(x.astype(jnp.float16) @ p["a"] + p["b"])
        h = h * jnp.float16(0.75) + jax.nn.softmax(h) * h
        return cross_entropy((h @ p["out"]).astype(jnp.float32), y), extra

    return trained(ranks, params, loss_of, optax.sgd(0.05), labelled(8 * ranks, (width,), 5))


# Quotients by roots in float16, which XLA makes products with reciprocal roots where nothing else reads these, an elu,
# whose exponential it rounds before it takes one from it, and, up to JAX 0.7, other functions that round on the way.
def half_roots(ranks, width=12):
    params = jax.tree.map(lambda v: v.astype(jnp.float16), normal(38, a=(width, 16), out=(16, 5)))

    def step(state, x, y):
        def loss_of(p):
            h = jax.nn.elu(x.astype(jnp.float16) @ p["a"])
            h = h * lax.rsqrt(1 + h * h) + (jnp.log1p(jnp.abs(h)) + jnp.cbrt(1 + h * h)) / 4
            return cross_entropy((h @ p["out"]).astype(jnp.float32), y)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = lax.pmean((loss, grads), "data")
        squares = jax.tree.map(lambda v, g: 0.75 * v + g * g, state["squares"], grads)
        params = jax.tree.map(lambda p, g, v: p - g / jnp.sqrt(v + 1e-3) / 64, state["params"], grads, squares)
        return {"params": params, "squares": squares}, {"loss": loss}

    state = {"params": params, "squares": jax.tree.map(jnp.zeros_like, params)}
    return data_parallel(ranks, state, step, labelled(8 * ranks, (width,), 5))


# Functions of functions, as XLA's simplifier writes them: the way there overflows or comes to nothing, and where it
# leads does not. (From JAX 0.12 on XLA goes that way.)
def nested(ranks, width=12):
    params = normal(37, a=(width, 16), out=(16, 5))

    def loss_of(p, extra, x, y):
        h = x @ p["a"]
        still = lax.stop_gradient(h)
        far, tiny = still + 100, 1e-30 * jnp.abs(still)
        ratio = jnp.exp(far) / jnp.exp(jnp.abs(far)) + jnp.exp(far) * jnp.exp(-far) + jnp.exp(far) ** (still / far)
        small = jnp.sqrt(tiny * tiny) * 1e29 + (still * 1e-20 / tiny) / (1e16 / tiny) * 1e3
        logs = jnp.log(jnp.exp(far)) / far + jnp.log(far ** (still + 30)) / 100 + jnp.log(jnp.sqrt(far))
        h = h * jnp.tanh(ratio) + small + logs
        h = h / (1 + jnp.exp(-h)) / (2 + jnp.abs(h)) + h / (3 / (1 + h * h)) + h / jnp.sqrt(1 + h * h)
        return cross_entropy(h @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(8 * ranks, (width,), 5))


# Weights kept as 8-bit floats, frozen ones and a cache of pairs as integers of 4 bits, and batches of both: what a step
# reads and writes is of these types.
def narrow_state(ranks, width=12):
    rng = np.random.default_rng(36)
    params = normal(36, a=(width, 16), out=(16, 5))
    state = {"w": jnp.asarray(params["a"], jnp.float8_e4m3fn), "momentum": jnp.zeros((width, 16), jnp.float8_e5m2),
             "frozen": jnp.asarray(rng.integers(-8, 8, (16, 16)), jnp.int4), "out": params["out"],
             "seen": jnp.zeros(16, jnp.uint4), "largest": jnp.float32(0)}

    def step(state, x, codes, y):
        def loss_of(w, out):
            h = x.astype(jnp.float32) @ w * 4
            h = jnp.tanh(h + h @ (state["frozen"].astype(jnp.float32) / 32) + codes.astype(jnp.float32) / 16)
            return cross_entropy(h @ out, y)

        loss, (dw, dout) = jax.value_and_grad(loss_of, (0, 1))(state["w"].astype(jnp.float32), state["out"])
        loss, dw, dout = lax.pmean((loss, dw, dout), "data")
        momentum = (0.75 * state["momentum"].astype(jnp.float32) + dw).astype(jnp.float8_e5m2)
        w = (state["w"].astype(jnp.float32) - momentum.astype(jnp.float32)).astype(jnp.float8_e4m3fn)
        bits = lax.bitcast_convert_type(w, jnp.uint8)
        seen = (state["seen"] + lax.pmax(codes.astype(jnp.int32)[0], "data").astype(jnp.uint4))
        frozen = jnp.roll(state["frozen"], 1, 0) + jnp.int4(3)
        return {"w": w, "momentum": momentum, "frozen": frozen, "out": state["out"] - 0.1 * dout, "seen": seen,
                "largest": jnp.max(bits & 0x7f).astype(jnp.float32)}, {"loss": loss}

    labels = labelled(8 * ranks, (width,), 5)

    def draw(rng):
        x, y = labels(rng)
        return x.astype(jnp.float8_e4m3fn), rng.integers(-8, 8, (8 * ranks, 16)).astype(jnp.int4), y

    return data_parallel(ranks, state, step, draw)


# A table of bfloat16 that each step of a scan reads: its gradient is what that step scattered, rounded, then added.
def looked_up(ranks, width=16, time=6, vocabulary=20):
    params = normal(40, table=(vocabulary, width), mix=(width, width), out=(width, vocabulary))

    def loss_of(p, extra, text):
        p = jax.tree.map(lambda v: v.astype(jnp.bfloat16), p)

        def read(held, words):
            held = jnp.tanh(p["table"][words] + held @ p["mix"])
            return held, (held @ p["out"]).astype(jnp.float32)

        _, logits = lax.scan(read, jnp.zeros((len(text), width), jnp.bfloat16), text[:, :time].T)
        return cross_entropy(logits, text[:, 1:].T), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), sequences(4 * ranks, time, vocabulary))


NUMERIC = {f.__name__: f for f in (bits, switched, implicit, factors, unshared, frames, ordered, small_algebra, pallas,
                                   windowed, explicit, second_order, random_forms, stable_system,
                                   matrix_forms, polynomials, small_integers, halves, half_roots, nested,
                                   narrow_state, looked_up)}
