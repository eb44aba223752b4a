"""Steps with complex numbers and Fourier transforms: spectral convolutions, diagonal state spaces, rotary embedding by
complex products, complex weights. As steps.py; `SPECTRAL[name](ranks)`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import data_parallel, trained
from modern_steps import normal, sequences
from program_steps import mlp_logits, mlp_params
from steps import cross_entropy, labelled


def complex_normal(seed, **shapes):
    real, imaginary = normal(seed, **shapes), normal(seed + 1, **shapes)
    return {name: jax.lax.complex(real[name], imaginary[name]) * 0.7 for name in shapes}


# A Fourier neural operator for functions of one variable: the low modes of rfft mixed by complex weights; a spectral
# loss beside the plain one. Adam on complex weights, whose second moments optax keeps as |g|^2.
def operator_1d(ranks, points=30, modes=6, width=8):
    params = normal(0, lift=(2, width), mix0=(width, width), mix1=(width, width), out=(width, 1))
    params |= complex_normal(1, modes0=(width, width, modes), modes1=(width, width, modes))
    grid = jnp.linspace(0, 1, points)

    def spectral(x, weights):
        low = jnp.einsum("bkc,cdk->bkd", jnp.fft.rfft(x, axis=1)[:, :modes], weights)
        return jnp.fft.irfft(jnp.pad(low, ((0, 0), (0, points // 2 + 1 - modes), (0, 0))), points, axis=1)

    def loss_of(p, extra, a, u):
        x = jnp.stack([a, jnp.broadcast_to(grid, a.shape)], -1) @ p["lift"]
        for layer in range(2):
            x = jax.nn.gelu(spectral(x, p[f"modes{layer}"]) + x @ p[f"mix{layer}"])
        y = (x @ p["out"])[..., 0]
        apart = jnp.abs(jnp.fft.rfft(y) - jnp.fft.rfft(u)).mean()
        return jnp.mean((y - u) ** 2) + 0.1 * apart, extra

    def draw(rng):
        a = rng.normal(size=(4 * ranks, points)).astype(np.float32)
        return a, np.cumsum(a, 1).astype(np.float32) / 10

    return trained(ranks, params, loss_of, optax.adam(1e-3), draw)


# The same over pictures: two corners of rfft2 with weights of their own, put back by updates; layers by scan.
def operator_2d(ranks, side=12, modes=3, width=6):
    params = normal(2, lift=(3, width), mix=(2, width, width), out=(width, 1))
    params |= complex_normal(3, top=(2, width, width, modes, modes), bottom=(2, width, width, modes, modes))
    axis = jnp.linspace(0, 1, side)

    def layer(x, p):
        spectrum = jnp.fft.rfft2(x, axes=(1, 2))
        mixed = lambda part, weights: jnp.einsum("bxyc,cdxy->bxyd", part, weights)
        out = jnp.zeros_like(spectrum)
        out = out.at[:, :modes, :modes].set(mixed(spectrum[:, :modes, :modes], p["top"]))
        out = out.at[:, -modes:, :modes].set(mixed(spectrum[:, -modes:, :modes], p["bottom"]))
        return jax.nn.gelu(jnp.fft.irfft2(out, (side, side), axes=(1, 2)) + x @ p["mix"]), None

    def loss_of(p, extra, a, u):
        places = [jnp.broadcast_to(v, a.shape) for v in (axis[:, None], axis)]
        x = jnp.stack([a, *places], -1) @ p["lift"]
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, {name: p[name] for name in ("top", "bottom", "mix")})
        y = (x @ p["out"])[..., 0]
        return jnp.mean(jnp.linalg.norm(y - u, axis=(1, 2)) / jnp.linalg.norm(u, axis=(1, 2))), extra

    def draw(rng):
        a = rng.normal(size=(3 * ranks, side, side)).astype(np.float32)
        return a, np.fft.ifft2(np.fft.fft2(a) / (1 + np.arange(side))).real.astype(np.float32)

    return trained(ranks, params, loss_of, optax.adamw(1e-3), draw)


# Linear recurrent units: eigenvalues exp(-exp(nu) + i exp(theta)) by associative scan over complex states.
def recurrent_units(ranks, states=12, width=8, time=20):
    params = normal(4, embed=(20, width), b_re=(states, width), b_im=(states, width), c_re=(width, states),
                    c_im=(width, states), skip=(width,), up=(width, 2 * width), out=(width, 20))
    params |= {"nu": jnp.linspace(-3.0, 0.5, states), "theta": jnp.linspace(-3.0, 1.5, states)}

    def loss_of(p, extra, text):
        x = p["embed"][text[:, :-1]]
        turn = jnp.exp(-jnp.exp(p["nu"]) + 1j * jnp.exp(p["theta"]))
        scale = jnp.sqrt(1 - jnp.abs(turn) ** 2)
        inputs = jnp.einsum("btc,sc->bts", x, p["b_re"] + 1j * p["b_im"]) * scale
        turns = jnp.broadcast_to(turn, inputs.shape)
        _, h = jax.lax.associative_scan(lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1]), (turns, inputs), axis=1)
        y = (h @ (p["c_re"] + 1j * p["c_im"]).T).real + x * p["skip"]
        a, b = jnp.split(y @ p["up"], 2, -1)
        return cross_entropy((x + a * jax.nn.sigmoid(b)) @ p["out"], text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-2), sequences(2 * ranks, time, 20))


# Diagonal state spaces (S4D): a kernel of complex exponentials, a causal convolution by transforms of twice the length.
def diagonal_states(ranks, states=8, width=6, time=17):
    params = normal(5, embed=(20, width), c_re=(width, states), c_im=(width, states), skip=(width,), out=(width, 20))
    params |= {"step": jnp.linspace(-4.0, -1.0, width), "decay": jnp.full((width, states), -0.7),
               "turn": jnp.tile(jnp.pi * jnp.arange(states, dtype=jnp.float32), (width, 1))}

    def loss_of(p, extra, text):
        x = p["embed"][text[:, :-1]]
        dt = jnp.exp(p["step"])[:, None]
        a = -jnp.exp(p["decay"]) + 1j * p["turn"]
        c = (p["c_re"] + 1j * p["c_im"]) * (jnp.exp(dt * a) - 1) / a
        powers = jnp.exp((dt * a)[..., None] * jnp.arange(time))
        kernel = 2 * jnp.einsum("cs,cst->ct", c, powers).real
        product = jnp.fft.rfft(kernel, 2 * time) * jnp.fft.rfft(x.swapaxes(1, 2), 2 * time)
        y = jnp.fft.irfft(product, 2 * time)[..., :time].swapaxes(1, 2) + x * p["skip"]
        return cross_entropy((x + jax.nn.gelu(y)) @ p["out"], text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), sequences(2 * ranks, time, 20))


# Attention whose queries and keys are turned as pairs seen as complex numbers, as LLaMA's reference code does.
def turned_attention(ranks, width=16, heads=2, time=12):
    params = normal(6, table=(20, width), qkv=(width, 3 * width), out=(width, width))
    size = width // heads
    turns = jnp.exp(1j * jnp.outer(jnp.arange(time), 10000.0 ** (-jnp.arange(0, size, 2) / size)))

    def turned(x):
        pairs = x.reshape(*x.shape[:-1], -1, 2)
        z = jax.lax.complex(pairs[..., 0], pairs[..., 1]) * turns[:, None]
        return jnp.stack([z.real, z.imag], -1).reshape(x.shape)

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        q, k, v = (a.reshape(*x.shape[:2], heads, size) for a in jnp.split(x @ p["qkv"], 3, -1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", turned(q), turned(k)) / size ** 0.5
        scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e9)
        y = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape)
        return cross_entropy((x + y @ p["out"]) @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), sequences(2 * ranks, time, 20))


# A network of complex weights on complex batches, Adam written out with complex first moments, gradients averaged as
# complex numbers over the ranks.
def complex_mlp(ranks):
    params = complex_normal(8, w0=(8, 16), w1=(16, 16), w2=(16, 5)) | {"b0": jnp.zeros(16, jnp.complex64)}
    state = {"params": params, "mu": jax.tree.map(jnp.zeros_like, params),
             "nu": jax.tree.map(lambda p: jnp.zeros(p.shape), params), "t": jnp.int32(0)}

    def active(z, bias):
        size = jnp.abs(z)
        return z * jax.nn.relu(size - 0.1) / (size + 1e-3) + bias

    def step(state, z, y):
        def loss_of(p):
            h = active(z @ p["w0"], p["b0"])
            h = jnp.tanh(h @ p["w1"] * 0.3)
            return cross_entropy(jnp.abs(h @ p["w2"]) ** 2, y)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, jax.tree.map(jnp.conj, grads)), "data")
        t = state["t"] + 1
        mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["mu"], grads)
        nu = jax.tree.map(lambda n, g: 0.99 * n + 0.01 * jnp.real(g * jnp.conj(g)), state["nu"], grads)
        down = lambda p, m, n: p - 1e-2 * (m / (1 - 0.9 ** t)) / (jnp.sqrt(n / (1 - 0.99 ** t)) + 1e-6)
        return {"params": jax.tree.map(down, state["params"], mu, nu), "mu": mu, "nu": nu, "t": t}, {"loss": loss}

    draw = labelled(8 * ranks, (8, 2), 5)

    def complex_rows(rng):
        x, y = draw(rng)
        return (x[..., 0] + 1j * x[..., 1]).astype(np.complex64), y

    return data_parallel(ranks, state, step, complex_rows)


# Tokens mixed by the real part of a transform over positions and channels (FNet), and a loss on several resolutions of
# a short-time spectrum with windows that overlap.
def mixed_by_transform(ranks, width=10, time=18):
    params = normal(9, embed=(20, width), up=(width, 24), down=(24, width), wave=(width, 20))

    def spectrum(x, size):
        starts = jnp.arange(0, x.shape[1] - size + 1, size // 2)
        frames = jax.vmap(lambda s: jax.lax.dynamic_slice_in_dim(x, s, size, 1), out_axes=1)(starts)
        return jnp.abs(jnp.fft.rfft(frames * jnp.hanning(size).astype(x.dtype))) + 0.1

    def loss_of(p, extra, text):
        x = p["embed"][text[:, :-1]]
        x = x + jnp.fft.fft2(x).real
        x = x + jax.nn.gelu(x @ p["up"]) @ p["down"]
        logits = x @ p["wave"]
        wave, target = logits.mean(-1), jnp.sin(text[:, 1:].astype(jnp.float32))
        apart = sum(jnp.mean((jnp.log(spectrum(wave, n)) - jnp.log(spectrum(target, n))) ** 2) for n in (4, 6, 9))
        return cross_entropy(logits, text[:, 1:]) + 0.1 * apart, extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), sequences(2 * ranks, time, 20))


# Holographic embeddings: circular correlation by transforms; a unitary recurrence kept by a loop over complex states.
def unitary(ranks, width=8, time=10):
    params = {"head": mlp_params(11), "phase": jnp.linspace(-1.0, 1.0, 16), "turn": jnp.linspace(0.0, 3.0, 16)} | normal(12, key=(16,))

    def loss_of(p, extra, x, y):
        z = jnp.fft.ifft(jnp.fft.fft(x) * jnp.conj(jnp.fft.fft(p["key"])))

        def body(h, t):
            h = jnp.fft.fft(h * jnp.exp(1j * p["phase"])) / 4
            h = jnp.fft.ifft(h * jnp.exp(1j * p["turn"])) * 4 + 0.1 * z
            return h / (jnp.abs(h) + 1.0), jnp.abs(h).mean()

        h, sizes = jax.lax.scan(body, z, jnp.arange(time))
        return cross_entropy(mlp_logits(p["head"], jnp.abs(h)), y) + sizes.mean(), extra

    return trained(ranks, params, loss_of, optax.sgd(1e-2, momentum=0.9), labelled(8 * ranks, (16,), 5))


SPECTRAL = {f.__name__: f for f in (operator_1d, operator_2d, recurrent_units, diagonal_states, turned_attention,
                                    complex_mlp, mixed_by_transform, unitary)}
