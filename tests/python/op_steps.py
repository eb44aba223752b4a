"""Steps that are mostly one kind of op, at sizes of real use (0.2 to 50 ms): what a model may be slow by.

Each minimizes the mean square of what it computes from a batch and its weights. jax_step_bench.py OPS runs them."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from model_steps import trained
from modern_steps import normal

IMAGES = ("NHWC", "HWIO", "NHWC")


def of(ranks, params, compute, *shapes, key=False, draw=None, tx=None):
    """`compute(params, *batch)`, or `(params, key, *batch)`, gives arrays; a batch has normal numbers of the shapes."""

    def loss_of(p, extra, *batch):
        if key:
            extra, mine = jax.random.split(extra)
            batch = (mine, *batch)
        return sum(jnp.mean(jnp.square(leaf)) for leaf in jax.tree.leaves(compute(p, *batch))), extra

    def normals(rng):
        return tuple(rng.normal(size=(shape[0] * ranks, *shape[1:])).astype(np.float32) for shape in shapes)

    return trained(ranks, params, loss_of, tx or optax.adam(1e-3), draw or normals,
                   extra=jax.random.PRNGKey(1) if key else None)


def weights(seed, **shapes):
    return {name: leaf / np.sqrt(leaf.shape[0]) for name, leaf in normal(seed, **shapes).items()}


def edges(nodes=2000, count=20000):
    rng = np.random.default_rng(0)
    return jnp.asarray(rng.integers(0, nodes, count)), jnp.asarray(rng.integers(0, nodes, count))


def conv(x, kernel, **options):
    return lax.conv_general_dilated(x, kernel * 0.1, (1, 1), "SAME", dimension_numbers=IMAGES, **options)


# Fourier transforms: a neural operator on 64 by 64 (Li et al. 2021), a long convolution.
def fourier_operator(ranks):
    def compute(p, x):
        for _ in range(2):
            spectrum = jnp.fft.rfft2(x, axes=(1, 2))
            low = jnp.einsum("bxyi,ioxy->bxyo", spectrum[:, :16, :9], p["re"] + 1j * p["im"])
            smooth = jnp.fft.irfft2(jnp.zeros_like(spectrum).at[:, :16, :9].set(low), axes=(1, 2), s=x.shape[1:3])
            x = jax.nn.gelu(smooth + x @ p["w"])
        return x

    return of(ranks, weights(1, re=(16, 16, 16, 9), im=(16, 16, 16, 9), w=(16, 16)), compute, (8, 64, 64, 16))


def long_convolution(ranks):
    compute = lambda p, x: jnp.fft.irfft(jnp.fft.rfft(x) * jnp.fft.rfft(p["a"]))
    return of(ranks, weights(1, a=(4096,)), compute, (32, 4096))


# Linear algebra.
def eigenvalues(ranks):
    def compute(p, x):
        matrix = p["a"] + p["a"].T + x
        return jnp.abs(jnp.linalg.eigh(matrix + matrix.transpose(0, 2, 1))[0])

    return of(ranks, normal(1, a=(64, 64)), compute, (4, 64, 64))


def solve(ranks):
    return of(ranks, normal(1, a=(192, 192)), lambda p, x: jnp.linalg.solve(p["a"] * 0.05 + 3 * jnp.eye(192), x),
              (192, 32))


def qr(ranks):
    return of(ranks, normal(1, a=(128, 64)), lambda p, x: jnp.linalg.qr(p["a"] + x)[0] * jnp.arange(64), (128, 64))


def inverse_root(ranks):
    def compute(p, x):
        one = jnp.eye(128)
        square = (p["a"] + x) @ (p["a"] + x).T / 128 + one

        def newton(_, pair):
            y, z = pair
            middle = 1.5 * one - 0.5 * z @ y
            return y @ middle, middle @ z

        return lax.fori_loop(0, 8, newton, (square / jnp.linalg.norm(square), one))[1]

    return of(ranks, normal(1, a=(128, 128)), compute, (128, 128))


def singular_values(ranks):
    return of(ranks, normal(1, a=(256, 128)), lambda p, x: jnp.linalg.svd(p["a"] + x, full_matrices=False)[1], (256, 128))


def orthogonal(ranks):
    return of(ranks, normal(1, a=(512, 256)), lambda p, x: jnp.linalg.qr(p["a"] + x)[0] * jnp.arange(256), (512, 256))


# The negative marginal likelihood of a Gaussian process (Rasmussen and Williams, algorithm 2.1).
def gaussian_process(ranks):
    def compute(p, x, y):
        apart = jnp.square((x * jnp.exp(p["scale"]))[:, None] - (x * jnp.exp(p["scale"]))[None]).sum(-1)
        factor = jnp.linalg.cholesky(jnp.exp(-apart) + 0.1 * jnp.eye(len(x)))
        half = jax.scipy.linalg.solve_triangular(factor, y, lower=True)
        return jnp.sqrt(jnp.sum(half**2) / 2 + jnp.log(jnp.diag(factor)).sum() + 1e3)

    return of(ranks, normal(1, scale=(4,)), compute, (384, 4), (384, 1))


# Shampoo's inverse fourth roots (Gupta et al. 2018) of the covariances of a weight's gradient.
def shampoo(ranks):
    def root(matrix):
        values, vectors = jnp.linalg.eigh(matrix)
        return (vectors * jnp.maximum(values, 1e-6) ** -0.25) @ vectors.T

    def update(grads, state, params=None):
        def one(g, kept):
            left, right = kept[0] * 0.9 + g @ g.T, kept[1] * 0.9 + g.T @ g
            return root(left) @ g @ root(right), (left, right)

        made = {name: one(g, state[name]) for name, g in grads.items()}
        return ({name: -1e-3 * pair[0] for name, pair in made.items()}, {name: pair[1] for name, pair in made.items()})

    init = lambda params: {name: (jnp.eye(w.shape[0]), jnp.eye(w.shape[1])) for name, w in params.items()}
    compute = lambda p, x: jnp.tanh(x @ p["a"]) @ p["b"]
    return of(ranks, weights(1, a=(256, 128), b=(128, 256)), compute, (256, 256),
              tx=optax.GradientTransformation(init, update))


# Random numbers.
def random_numbers(ranks):
    def compute(p, key, x):
        keys, shape = jax.random.split(key, 5), x.shape
        return (x * p["a"] * jax.random.bernoulli(keys[0], 0.9, shape) + jax.random.normal(keys[1], shape) * p["a"]
                + jax.random.gumbel(keys[2], shape) * p["a"] + jax.random.exponential(keys[3], shape) * p["a"]
                + jax.random.truncated_normal(keys[4], -2.0, 2.0, shape))

    return of(ranks, normal(1, a=(512,)), compute, (256, 512), key=True)


def gammas(ranks):
    def compute(p, key, x):
        a, b = jax.random.split(key)
        shape = jnp.exp(p["a"]) + 0.5
        return jax.random.gamma(a, shape, x.shape) * x + jax.random.beta(b, 2.0, shape, x.shape)

    return of(ranks, normal(1, a=(64,)), compute, (64, 64), key=True)


def categories(ranks):
    def compute(p, key, x):
        a, b = jax.random.split(key)
        scores = x + p["a"]
        chosen = jax.random.categorical(a, scores)
        return jnp.take_along_axis(jax.nn.log_softmax(scores), chosen[:, None], 1)[jax.random.permutation(b, len(x))]

    return of(ranks, normal(1, a=(1000,)), compute, (256, 1000), key=True)


# Elementwise functions.
def angles(ranks):
    compute = lambda p, x: (jnp.sin(x * p["a"]) * jnp.cos(x) + jnp.arctan2(x, p["a"])
                            + jnp.arcsin(jnp.tanh(x * p["a"]) * 0.9) + jnp.sinh(x * 0.1 * p["a"]))
    return of(ranks, normal(1, a=(1024,)), compute, (256, 1024))


def special_functions(ranks):
    compute = lambda p, x: (jax.nn.gelu(x * p["a"], approximate=False) + lax.erf_inv(jnp.tanh(x * p["a"]) * 0.9)
                            + lax.lgamma(jnp.exp(x * p["a"] * 0.1) + 1) * 0.01)
    return of(ranks, normal(1, a=(1024,)), compute, (256, 1024))


# Products of other types and forms.
def quantized(ranks):
    def compute(p, x):
        scale, step = jnp.abs(x).max(-1, keepdims=True) / 127, jnp.abs(p["a"]).max(0) / 127
        whole = lax.dot(jnp.round(x / scale).astype(jnp.int8), jnp.round(p["a"] / step).astype(jnp.int8),
                        preferred_element_type=jnp.int32)
        exact = x @ p["a"]
        return exact + lax.stop_gradient(whole.astype(jnp.float32) * scale * step - exact)

    return of(ranks, weights(1, a=(256, 256)), compute, (256, 256))


def half_precision(ranks):
    half = lambda a: a.astype(jnp.float16)
    compute = lambda p, x: (jax.nn.gelu(half(x) @ half(p["a"])) @ half(p["b"])).astype(jnp.float32)
    return of(ranks, weights(1, a=(256, 512), b=(512, 256)), compute, (128, 256))


def bilinear(ranks):
    return of(ranks, weights(1, w=(32, 64, 64)), lambda p, x, y: jnp.einsum("bi,kij,bj->bk", x, p["w"], y),
              (128, 64), (128, 64))


def tensor_train(ranks):
    compute = lambda p, x: jnp.einsum("bxyz,xir,rysj,szk->bijk", x, p["a"] * 0.1, p["b"] * 0.1, p["c"] * 0.1)
    return of(ranks, normal(1, a=(8, 8, 8), b=(8, 8, 8, 8), c=(8, 8, 8)), compute, (64, 8, 8, 8))


def vocabulary(ranks):
    compute = lambda p, x: jax.nn.logsumexp(x @ p["e"].T, -1)
    return of(ranks, weights(1, e=(32000, 64)), compute, (64, 64))


# Attention.
def long_attention(ranks):
    def compute(p, x):
        time = jnp.arange(x.shape[1])
        q, k, v = jnp.split((x @ p["q"]).reshape(len(x), -1, 4, 96), 3, -1)
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / 5.6 - 0.1 * jnp.abs(time[:, None] - time)
        shares = jax.nn.softmax(jnp.where(time[:, None] >= time, scores, -1e9))
        return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape) @ p["o"]

    return of(ranks, weights(1, q=(128, 384), o=(128, 128)), compute, (1, 1024, 128))


def relative_attention(ranks):
    def compute(p, x):
        q, k, v = jnp.split((x @ p["q"]).reshape(len(x), 64, 4, 48), 3, -1)
        places = jnp.arange(64)[:, None] - jnp.arange(64) + 63
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + jnp.einsum("bqhd,qkd->bhqk", q, p["e"][places])
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores / 4), v)

    return of(ranks, weights(1, q=(64, 192), e=(127, 16)), compute, (16, 64, 64))


# Graphs and gathers.
def graph_sums(ranks):
    start, end = edges()

    def compute(p, x):
        for name in "ab":
            x = x + jax.ops.segment_sum(jax.nn.relu(x[start] @ p[name]), end, 2000)
        return x

    return of(ranks, weights(1, a=(64, 64), b=(64, 64)), compute, (2000, 64))


def graph_attention_sums(ranks):
    start, end = edges()

    def compute(p, x):
        h = x @ p["a"]
        scores = jax.nn.leaky_relu((h @ p["u"])[start] + (h @ p["v"])[end])
        shares = jnp.exp(scores - jax.ops.segment_max(scores, end, 2000)[end])
        shares = shares / (jax.ops.segment_sum(shares, end, 2000)[end] + 1e-9)
        return jax.ops.segment_sum(shares[:, :, None] * h[start].reshape(-1, 4, 16), end, 2000)

    return of(ranks, weights(1, a=(64, 64), u=(64, 4), v=(64, 4)), compute, (2000, 64))


def gathers(ranks):
    places = jnp.asarray(np.random.default_rng(0).integers(0, 512, (64, 512, 1)))
    compute = lambda p, x, words: (jnp.take_along_axis(x, places, 1) * p["t"][:1], p["t"][words].mean(1))
    draw = lambda rng: (rng.normal(size=(64 * ranks, 512, 32)).astype(np.float32),
                        rng.integers(0, 50000, (256 * ranks, 20)).astype(np.int32))
    return of(ranks, normal(1, t=(50000, 32)), compute, draw=draw)


def grid_sampling(ranks):
    def compute(p, x):
        grid = jnp.stack(jnp.meshgrid(jnp.linspace(0, 63, 64), jnp.linspace(0, 63, 64), indexing="ij"))
        at = grid + jnp.tensordot(p["t"][:, :2] * 0.05, grid, 1) + p["t"][:, 2:, None]
        return jax.vmap(lambda image: jax.scipy.ndimage.map_coordinates(image, list(at), 1), -1)(p["m"]) * x

    return of(ranks, normal(1, t=(2, 3), m=(64, 64, 8)), compute, (8, 64, 64))


# Convolutions and images.
def dilated(ranks):
    def compute(p, x):
        for i in range(4):
            h = lax.conv_general_dilated(x, p[f"w{i}"] * 0.1, (1,), [(2 * 2**i, 0)], rhs_dilation=(2**i,),
                                         dimension_numbers=("NWC", "WIO", "NWC"))
            a, b = jnp.split(h, 2, -1)
            x = x + jnp.tanh(a) * jax.nn.sigmoid(b)
        return x

    return of(ranks, normal(1, **{f"w{i}": (3, 32, 64) for i in range(4)}), compute, (4, 2048, 32))


def depthwise(ranks):
    def compute(p, x):
        for name in ("small", "large"):
            h = jax.nn.relu6(conv(jax.nn.relu6(conv(x, p["wide"])), p[name], feature_group_count=96))
            x = x + conv(h, p["narrow"])
        return x

    return of(ranks, normal(1, small=(3, 3, 1, 96), large=(5, 5, 1, 96), wide=(1, 1, 32, 96), narrow=(1, 1, 96, 32)),
              compute, (4, 28, 28, 32))


def grouped(ranks):
    return of(ranks, normal(1, a=(3, 3, 4, 128)), lambda p, x: jax.nn.relu(conv(x, p["a"], feature_group_count=32)),
              (4, 28, 28, 128))


def recurrent_images(ranks):
    def compute(p, x):
        def cell(state, image):
            h, c = state
            i, g, f, o = jnp.split(conv(jnp.concatenate([image, h], -1), p["w"]), 4, -1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[0], 16, 16, 16)) + x[:, 0, :, :, :1] * 0
        return lax.scan(cell, (zero, zero), x.swapaxes(0, 1))[1]

    return of(ranks, normal(1, w=(3, 3, 24, 64)), compute, (4, 8, 16, 16, 8))


def resized(ranks):
    compute = lambda p, x: jax.image.resize(jax.image.resize(x * p["a"], (len(x), 96, 96, 16), "bilinear"),
                                            (len(x), 40, 40, 16), "cubic")
    return of(ranks, normal(1, a=(16,)), compute, (4, 48, 48, 16))


def pixel_shuffle(ranks):
    def compute(p, x):
        y = conv(x, p["a"]).reshape(len(x), 48, 48, 4, 4, 4)
        return y.transpose(0, 1, 3, 2, 4, 5).reshape(len(x), 192, 192, 4)

    return of(ranks, normal(1, a=(3, 3, 16, 64)), compute, (4, 48, 48, 16))


def pools(ranks):
    def compute(p, x):
        y = x * p["a"]
        return (lax.reduce_window(y, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"),
                lax.reduce_window(y, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME"),
                lax.reduce_window(y, 0.0, lax.add, (1, 7, 7, 1), (1, 7, 7, 1), "VALID"))

    return of(ranks, normal(1, a=(32,)), compute, (8, 56, 56, 32))


def pools_first(ranks):
    def compute(p, x):  # Channels first, as models of PyTorch have them.
        return lax.reduce_window(x * p["a"], -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), "SAME")

    return of(ranks, normal(1, a=(32, 1, 1)), compute, (8, 32, 56, 56))


# Reductions, norms, orders.
def norms(ranks):
    def compute(p, x):
        unit = lambda a, over: (a - a.mean(over, keepdims=True)) * lax.rsqrt(a.var(over, keepdims=True) + 1e-5)
        h = jax.nn.silu(unit(x, (1, 2)) * p["scale"] + p["bias"])
        h = (unit(h, (0, 1, 2)) * p["scale"]).reshape(*x.shape[:3], 8, 8)
        return unit(h, (1, 2, 4)) * x.reshape(h.shape)  # Squares of the norm alone would be constant.

    return of(ranks, normal(1, scale=(64,), bias=(64,)), compute, (8, 32, 32, 64))


def reductions(ranks):
    def compute(p, x):
        y = x * p["a"]
        return (y.max(0), y.min(1), jnp.prod(1 + 0.01 * y, 2), y.std((0, 2)), jnp.median(y, 1), jnp.abs(y).sum(1),
                jax.nn.logsumexp(y, (0, 1)))

    return of(ranks, normal(1, a=(64,)), compute, (32, 128, 64))


def running(ranks):
    def compute(p, x):
        y = x @ p["a"]
        return (jnp.cumsum(y, 1), lax.cummax(y, 1), lax.cumlogsumexp(x, 1) * p["a"][0],
                jnp.cumprod(1 + 0.01 * x * p["a"][1], 1))

    return of(ranks, weights(1, a=(64, 64)), compute, (16, 512, 64))


def largest(ranks):
    def compute(p, x):
        scores = x @ p["a"]
        top = lax.top_k(scores, 16)[0]
        return top, jax.nn.softmax(jnp.where(scores >= top[:, -1:], scores, -1e9))

    return of(ranks, weights(1, a=(64, 1024)), compute, (512, 64))


def nearest(ranks):
    def compute(p, x):
        z = x @ p["a"]
        squares = (z**2).sum(1)
        near, places = lax.top_k(2 * z @ z.T - squares[:, None] - squares, 16)
        return z[places].mean(1) - z, near * 0.1

    return of(ranks, weights(1, a=(64, 64)), compute, (512, 64))


def sums_back(ranks):
    def compute(p, x):
        y = x * p["a"]
        return lax.cumlogsumexp(y, 1, reverse=True), lax.cummin(y, 1, reverse=True), lax.approx_max_k(y, 5)[0]

    return of(ranks, normal(1, a=(256,)), compute, (1536, 256))


def encodings(ranks):
    def compute(p, x):  # Of places in space (Mildenhall et al. 2020).
        waves = [wave(x * (jnp.pi * 2.0**k)) for k in range(10) for wave in (jnp.sin, jnp.cos)]
        return jax.nn.relu(jnp.concatenate(waves, -1) @ p["a"])

    return of(ranks, weights(1, a=(60, 64)), compute, (4096, 3))


def distances(ranks):
    def compute(p, x):
        z = x @ p["a"]
        apart = z[:, None] - z[None]
        return jax.nn.softplus(1 - jnp.sqrt((apart**2).sum(-1) + 1e-6)), jnp.abs(apart).sum(-1)

    return of(ranks, weights(1, a=(32, 32)), compute, (384, 32))


# Loops and derivatives of derivatives.
def state_scan(ranks):
    def compute(p, x):
        step = jax.nn.softplus(x @ p["d"])
        decay = jnp.exp(step[..., None] * -jnp.exp(p["a"]))
        more = step[..., None] * (x @ p["b"])[:, :, None] * x[..., None]
        states = lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (decay, more), axis=1)[1]
        return jnp.einsum("btdn,btn->btd", states, x @ p["c"])

    return of(ranks, weights(1, a=(64, 16), b=(64, 16), c=(64, 16), d=(64, 64)), compute, (4, 128, 64))


def transport(ranks):
    def compute(p, x):
        cost = ((p["z"][:, None] - x[None]) ** 2).sum(-1) * 0.1

        def sinkhorn(_, pair):
            u = -jax.nn.logsumexp(pair[1] - cost, 1)
            return u, -jax.nn.logsumexp(u[:, None] - cost, 0)

        zero = jnp.zeros(256) + x[0, 0] * 0
        u, v = lax.fori_loop(0, 10, sinkhorn, (zero, zero))
        return jnp.exp(u[:, None] + v - cost) * cost

    return of(ranks, normal(1, z=(256, 16)), compute, (256, 16))


def label_paths(ranks):
    def compute(p, x):
        scores = (x @ p["a"]).swapaxes(0, 1)
        step = lambda paths, now: (jax.nn.logsumexp(paths[:, :, None] + p["t"], 1) + now, None)
        return jax.nn.logsumexp(lax.scan(step, scores[0], scores[1:])[0], -1)

    return of(ranks, weights(1, a=(64, 32), t=(32, 32)), compute, (16, 64, 64))


def equations(ranks):
    def value(p, z):
        for name in "abc":
            z = jnp.tanh(z @ p[name])
        return (z @ p["d"])[0]

    def compute(p, x):
        def rest(z):
            second = jax.hessian(value, 1)(p, z)
            return second[0, 0] + second[1, 1] - value(p, z) ** 2

        return jax.vmap(rest)(x)

    return of(ranks, weights(1, a=(2, 64), b=(64, 64), c=(64, 64), d=(64, 1)), compute, (1024, 2))


def many_weights(ranks):
    params = normal(1, **{f"w{i:03}": (64, 64) for i in range(200)})

    def compute(p, x):
        for name in list(p)[:8]:
            x = jnp.tanh(x @ p[name] * 0.1)
        return x + sum((leaf**2).sum() for leaf in p.values()) * 1e-4

    return of(ranks, params, compute, (16, 64), tx=optax.adamw(1e-3))


# Reducers of several operations: the element of the largest size, a norm, logaddexp in windows of four.
def folds(ranks):
    def compute(p, x):
        y = lax.stop_gradient(x * 2)
        far = lax.reduce(y, np.float32(0), lambda a, b: jnp.where(jnp.abs(a) >= jnp.abs(b), a, b), (1,))
        size = lax.reduce(y, np.float32(0), lambda a, b: jnp.sqrt(a * a + b * b), (0,))
        soft = lax.reduce_window(y, np.float32(-1e30), jnp.logaddexp, (1, 4), (1, 4), "VALID")
        return (x * p["a"] - far[:, None], size * p["a"], soft @ p["b"])

    return of(ranks, weights(1, a=(512,), b=(128, 8)), compute, (512, 512))


# Matrices times one vector: heads of one value, and the gradients of their weights.
def value_heads(ranks):
    def compute(p, x):
        h = jax.nn.silu(x @ p["a"])
        return h @ p["v"], (jnp.tanh(h @ p["b"]) @ p["u"])[:, 0]

    return of(ranks, weights(1, a=(64, 256), b=(256, 256), v=(256,), u=(256, 1)), compute, (1024, 64))


def short_scans(ranks):
    def compute(p, x):
        y = x * p["a"]
        count = jnp.cumsum((y > 0).astype(jnp.int32), 1)
        return jnp.cumsum(y, 1), jnp.cumsum(y.astype(jnp.bfloat16), 0).astype(jnp.float32), count * p["a"]

    return of(ranks, weights(1, a=(64,)), compute, (1024, 64))


def half_images(ranks):
    def compute(p, x):
        half, brain = x.astype(jnp.float16), (x @ p["a"]).astype(jnp.bfloat16)
        y = conv(jax.nn.relu(conv(half, p["k"].astype(jnp.float16))), p["l"].astype(jnp.float16))
        z = lax.reduce_window(brain, -jnp.inf, lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME")
        place = jnp.argmax(z, -1)
        return y.astype(jnp.float32), z.astype(jnp.float32) * (1 + place[..., None])

    return of(ranks, weights(1, a=(16, 16), k=(3, 3, 16, 16), l=(3, 3, 16, 16)), compute, (8, 32, 32, 16))


OPS = {f"op_{step.__name__}": step for step in (
    fourier_operator, long_convolution, eigenvalues, solve, qr, inverse_root, singular_values,
    orthogonal, gaussian_process, shampoo, random_numbers, gammas, categories,
    angles, special_functions, quantized, half_precision, bilinear, tensor_train, vocabulary, long_attention,
    relative_attention, graph_sums, graph_attention_sums, gathers, grid_sampling, dilated, depthwise, grouped,
    recurrent_images, resized, pixel_shuffle, pools, pools_first, norms, reductions, running, largest, nearest, sums_back,
    encodings, distances, state_scan, transport, label_paths, equations, many_weights, folds,
    value_heads, short_scans, half_images)}
