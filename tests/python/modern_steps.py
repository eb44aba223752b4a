"""Networks as users of 2026 write them, beyond model_steps.py: nnx, equinox and haiku, state spaces, blocked attention,
radiance fields, flows. As steps.py; `MODERN[name](ranks)`. One whose library is not installed is left out."""

import functools
import importlib.util
import inspect

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import data_parallel, image_classes, trained
from program_steps import mlp_logits, mlp_params
from steps import cross_entropy, labelled


def normal(seed, **shapes):
    keys = jax.random.split(jax.random.PRNGKey(seed), len(shapes))
    return {n: jax.random.normal(k, s) * s[0] ** -0.5 for k, (n, s) in zip(keys, shapes.items())}


def sequences(rows, time, vocabulary):
    table = np.random.default_rng(3).integers(0, vocabulary, (64, time + 1)).astype(np.int32)
    return lambda rng: (table[rng.integers(0, 64, rows)],)


# nnx: a convolutional net with batch norm and dropout, split into a graph and its state inside the step.
def nnx_net(ranks):
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.conv = nnx.Conv(3, 8, (3, 3), rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.drop = nnx.Dropout(0.2, rngs=rngs)
            self.out = nnx.Linear(8, 10, rngs=rngs)

        def __call__(self, x):
            x = nnx.avg_pool(nnx.relu(self.norm(self.conv(x))), (2, 2), (2, 2))
            return self.out(self.drop(x).mean((1, 2)))

    graph, params, rest = nnx.split(Net(nnx.Rngs(0)), nnx.Param, ...)
    copy = {"copy": True} if "copy" in inspect.signature(nnx.merge).parameters else {}  # flax before 0.11 always does.
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.warmup_cosine_decay_schedule(0, 1e-2, 5, 20)))

    def step(state, x, y):
        def loss_of(params):
            net = nnx.merge(graph, params, state["rest"], **copy)
            loss = cross_entropy(net(x), y)
            return loss, nnx.split(net, nnx.Param, ...)[2]

        (loss, rest), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        grads, loss = jax.lax.pmean((grads, loss), "data")
        updates, opt = tx.update(grads, state["opt"], state["params"])
        rest = jax.tree.map(lambda a: jax.lax.pmean(a, "data") if a.dtype == jnp.float32 else a, rest)
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt, "rest": rest}, loss

    state = {"params": params, "opt": tx.init(params), "rest": rest}
    return data_parallel(ranks, state, step, image_classes(4 * ranks, 8))


# equinox: a module that is a tree, filtered gradients, a GRU by scan.
def equinox_gru(ranks):
    import equinox as eqx

    class Net(eqx.Module):
        cell: eqx.nn.GRUCell
        out: eqx.nn.MLP

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.cell, self.out = eqx.nn.GRUCell(6, 12, key=a), eqx.nn.MLP(12, 5, 16, 2, key=b)

        def __call__(self, x):
            h, _ = jax.lax.scan(lambda h, v: (self.cell(v, h), None), jnp.zeros(12), x)
            return self.out(h)

    params, static = eqx.partition(Net(jax.random.PRNGKey(1)), eqx.is_inexact_array)

    def loss_of(params, extra, x, y):
        return cross_entropy(jax.vmap(eqx.combine(params, static))(x), y), extra

    return trained(ranks, params, loss_of, optax.adabelief(1e-3), labelled(8 * ranks, (7, 6), 5))


# haiku: a transformed function with state (moving averages) and its own keys.
def haiku_net(ranks):
    import haiku as hk

    def forward(x):
        x = hk.Conv2D(8, 3, stride=2)(x)
        x = hk.BatchNorm(True, True, 0.9)(x, is_training=True)
        x = hk.dropout(hk.next_rng_key(), 0.1, jax.nn.relu(x))
        return hk.Linear(10)(hk.Flatten()(x))

    net = hk.transform_with_state(forward)
    params, moving = net.init(jax.random.PRNGKey(2), jnp.zeros((2, 8, 8, 3)))

    def loss_of(params, extra, x, y):
        logits, moving = net.apply(params, extra["moving"], extra["key"], x)
        moving = jax.tree.map(lambda a: jax.lax.pmean(a, "data") if a.dtype == jnp.float32 else a, moving)
        return cross_entropy(logits, y), {"moving": moving, "key": jax.random.split(extra["key"])[0]}

    return trained(ranks, params, loss_of, optax.rmsprop(1e-3, momentum=0.9), image_classes(4 * ranks, 8),
                   {"moving": moving, "key": jax.random.PRNGKey(3)})


# A selective state-space layer: an associative scan of pairs, a causal depthwise convolution, gates.
def state_space(ranks):
    width, inner, states = 12, 16, 4
    params = normal(4, table=(20, width), up=(width, 2 * inner), conv=(4, 1, inner), x=(inner, 2 * states + 1),
                    down=(inner, width)) | {"a": jnp.log(jnp.tile(jnp.arange(1.0, states + 1), (inner, 1))),
                                            "d": jnp.ones(inner), "dt": jnp.zeros(inner)}

    def combine(a, b):
        return a[0] * b[0], a[1] * b[0] + b[1]

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        u, gate = jnp.split(x @ p["up"], 2, -1)
        u = jax.nn.silu(jax.lax.conv_general_dilated(u, p["conv"], (1,), [(3, 0)], feature_group_count=inner,
                                                     dimension_numbers=("NWC", "WIO", "NWC")))
        b, c, dt = jnp.split(u @ p["x"], (states, 2 * states), -1)
        dt = jax.nn.softplus(dt + p["dt"])
        decay = jnp.exp(-jnp.exp(p["a"]) * dt[..., None])
        _, h = jax.lax.associative_scan(combine, (decay, dt[..., None] * b[:, :, None] * u[..., None]), axis=1)
        y = jnp.einsum("btis,bts->bti", h, c) + p["d"] * u
        y = x + (y * jax.nn.silu(gate)) @ p["down"]
        return cross_entropy(y @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.lion(1e-3), sequences(4 * ranks, 13, 20))


# Attention a block at a time with a running maximum, in bfloat16 over f32 weights, recomputed but for its products.
def blocked_attention(ranks):
    width, heads, time, block = 16, 2, 16, 4
    layers = jax.vmap(lambda k: {n: jax.random.normal(q, s) * 0.2 for q, (n, s) in zip(jax.random.split(k, 3), (
        ("qkv", (width, 3 * width)), ("out", (width, width)), ("scale", (width,))))})(
            jax.random.split(jax.random.PRNGKey(5), 2))
    params = {"layers": layers, "table": jax.random.normal(jax.random.PRNGKey(6), (20, width)) * 0.3}

    def attend(q, k, v):
        blocks = lambda a: jnp.moveaxis(a.reshape(a.shape[0], heads, time // block, block, -1), 2, 0)

        def body(carry, part):
            most, total, sums = carry
            kb, vb, first = part
            s = jnp.einsum("bhqd,bhkd->bhqk", q, kb).astype(jnp.float32) * (width // heads) ** -0.5
            s = jnp.where(jnp.arange(time)[:, None] >= first + jnp.arange(block), s, -1e30)
            new = jnp.maximum(most, s.max(-1))
            p, keep = jnp.exp(s - new[..., None]), jnp.exp(most - new)
            sums = sums * keep[..., None] + jnp.einsum("bhqk,bhkd->bhqd", p.astype(q.dtype), vb)
            return (new, total * keep + p.sum(-1), sums), None

        start = (jnp.full(q.shape[:3], -1e30), jnp.zeros(q.shape[:3]), jnp.zeros(q.shape, jnp.float32))
        (_, total, sums), _ = jax.lax.scan(body, start, (blocks(k), blocks(v), jnp.arange(0, time, block)))
        return (sums / total[..., None]).astype(q.dtype)

    @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.dots_with_no_batch_dims_saveable)
    def layer(x, p):
        p = jax.tree.map(lambda a: a.astype(jnp.bfloat16), p)
        f = x.astype(jnp.float32)
        h = (f * jax.lax.rsqrt((f * f).mean(-1, keepdims=True) + 1e-6)).astype(x.dtype) * (1 + p["scale"])
        q, k, v = (a.reshape(*a.shape[:2], heads, -1).transpose(0, 2, 1, 3) for a in jnp.split(h @ p["qkv"], 3, -1))
        return x + attend(q, k, v).transpose(0, 2, 1, 3).reshape(x.shape) @ p["out"], None

    def loss_of(params, extra, text):
        x = params["table"].astype(jnp.bfloat16)[text[:, :-1]]
        x, _ = jax.lax.scan(layer, x, params["layers"])
        logits = (x @ params["table"].T.astype(jnp.bfloat16)).astype(jnp.float32)
        return cross_entropy(logits, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), sequences(4 * ranks, time, 20))


# Transformer-XL: relative positions by a shifted product, the memory of the last segment as state.
def relative(ranks):
    width, heads, time = 12, 2, 8
    params = normal(14, table=(20, width), **{n: (width, width) for n in "qkvro"})
    params |= {n: jnp.zeros((heads, width // heads)) for n in "uw"}

    def loss_of(p, memory, text):
        x = p["table"][text[:, :-1]]
        seen = jnp.concatenate([jax.lax.stop_gradient(memory), x], 1)
        split = lambda a: a.reshape(*a.shape[:-1], heads, -1)
        angle = jnp.arange(2 * time - 1, -1, -1.0)[:, None] / 100 ** (jnp.arange(0, width, 2) / width)
        position = split(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1) @ p["r"])
        q, k, v = split(x @ p["q"]), split(seen @ p["k"]), split(seen @ p["v"])
        content = jnp.einsum("bqhd,bkhd->bhqk", q + p["u"], k)
        shifted = jnp.einsum("bqhd,khd->bhqk", q + p["w"], position)
        shifted = jnp.pad(shifted, ((0, 0), (0, 0), (0, 0), (1, 0)))
        shifted = shifted.reshape(*shifted.shape[:2], 2 * time + 1, time)[:, :, 1:].reshape(content.shape)
        allowed = jnp.tril(jnp.ones((time, 2 * time), bool), time)
        weights = jax.nn.softmax(jnp.where(allowed, (content + shifted) * (width // heads) ** -0.5, -jnp.inf))
        y = x + jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape) @ p["o"]
        return cross_entropy(y @ p["table"].T, text[:, 1:]), jax.lax.pmean(x, "data")

    memory = jnp.zeros((4, time, width))
    tx = optax.adafactor(1e-2, min_dim_size_to_factor=8)
    return trained(ranks, params, loss_of, tx, sequences(4 * ranks, time, 20), memory)


# Video by three-dimensional convolutions, group norm, a transposed convolution and pixels from channels.
class Video(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.relu(nn.GroupNorm(4)(nn.Conv(8, (3, 3, 3), strides=(1, 2, 2))(x)))
        h = nn.Conv(8, (3, 3, 3), feature_group_count=8)(h)
        h = nn.InstanceNorm()(nn.ConvTranspose(8, (2, 2, 2), strides=(1, 2, 2))(h)).mean(1)
        h = nn.WeightNorm(nn.Conv(12, (3, 3)))(h)
        b, i, j, _ = h.shape
        return h.reshape(b, i, j, 2, 2, 3).transpose(0, 1, 3, 2, 4, 5).reshape(b, 2 * i, 2 * j, 3)


def video(ranks):
    model = Video()
    params = model.init(jax.random.PRNGKey(18), jnp.zeros((1, 4, 8, 8, 3)))["params"]

    def loss_of(params, extra, x, y):
        made = model.apply({"params": params}, x)
        want = jax.image.resize(x.mean(1), made.shape, "bilinear")
        return optax.huber_loss(made, want).mean(), extra

    return trained(ranks, params, loss_of, optax.nadam(1e-3), labelled(2 * ranks, (4, 8, 8, 3), 5))


# Mixture densities of a full covariance's factor; a flow of coupling layers; both by log-likelihood.
def densities(ranks):
    params = {"net": mlp_params(19), "head": normal(20, w=(5, 4 * 6))["w"],
              "flow": [normal(30 + i, a=(2, 16), b=(16, 4)) for i in range(4)]}

    def loss_of(params, extra, x, unused):
        inputs, target = x, x[:, :2]
        h = jax.nn.softplus(mlp_logits(params["net"], inputs)) @ params["head"]
        logit, mean, diagonal, off = jnp.split(h.reshape(-1, 4, 6), (1, 3, 5), -1)
        diagonal = jax.nn.softplus(diagonal) + 1e-3
        z0 = (target[:, None, 0] - mean[..., 0]) / diagonal[..., 0]
        z1 = (target[:, None, 1] - mean[..., 1] - off[..., 0] * z0) / diagonal[..., 1]
        log_part = -0.5 * (z0 ** 2 + z1 ** 2) - jnp.log(diagonal).sum(-1) + jax.nn.log_softmax(logit[..., 0])
        mixture = -jax.scipy.special.logsumexp(log_part, -1).mean()
        z, log_det = jnp.concatenate([target, x[:, 2:4]], -1), 0.0
        for p in params["flow"]:
            a, b = jnp.split(z[:, ::-1], 2, -1)
            scale, shift = jnp.split(jnp.tanh(a @ p["a"]) @ p["b"], 2, -1)
            z = jnp.concatenate([a, b * jnp.exp(jnp.tanh(scale)) + shift], -1)
            log_det += jnp.tanh(scale).sum(-1)
        flow = -(jax.scipy.stats.norm.logpdf(z).sum(-1) + log_det).mean()
        return mixture + flow, extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(16 * ranks, (16,), 5))


# A radiance field: sines of many octaves (arguments to 2^12), samples along rays, transmittance by cumprod, lax.map.
def field(ranks):
    octaves = 2.0 ** jnp.arange(12)
    params = normal(24, a=(72, 32), b=(32, 32), c=(32, 4))

    def loss_of(p, extra, rays, color):
        def ray(r):
            depth = jnp.linspace(0.5, 2.0, 12)
            at = (r[:3] + depth[:, None] * r[3:])[:, :, None] * octaves
            h = jnp.concatenate([jnp.sin(at), jnp.cos(at)], -1).reshape(12, -1)
            h = jax.nn.relu(jax.nn.relu(h @ p["a"]) @ p["b"]) @ p["c"]
            opaque = 1 - jnp.exp(-jax.nn.softplus(h[:, 3]) * jnp.diff(depth, append=2.2))
            passed = jnp.concatenate([jnp.ones(1), jnp.cumprod(1 - opaque + 1e-10)[:-1]])
            return ((opaque * passed)[:, None] * jax.nn.sigmoid(h[:, :3])).sum(0)

        made = jax.lax.map(ray, rays, batch_size=4)
        return ((made - color) ** 2).mean(), extra

    def draw(rng):
        return rng.normal(size=(8 * ranks, 6)).astype(np.float32), rng.uniform(size=(8 * ranks, 3)).astype(np.float32)

    return trained(ranks, params, loss_of, optax.adam(1e-3), draw)


# flax linen in bfloat16: scanned and recomputed blocks with their own dropout keys, f32 parameters.
class Mixed(nn.Module):
    @nn.compact
    def __call__(self, x, deterministic=False):
        class Block(nn.Module):
            @nn.compact
            def __call__(self, x, _):
                h = nn.LayerNorm(dtype=jnp.bfloat16)(x)
                h = nn.gelu(nn.Dense(48, dtype=jnp.bfloat16)(h))
                h = nn.Dropout(0.1, deterministic=deterministic)(h)
                return x + nn.Dense(24, dtype=jnp.bfloat16)(h), None

        x = nn.Dense(24, dtype=jnp.bfloat16)(x)
        blocks = nn.scan(nn.remat(Block, prevent_cse=False), variable_axes={"params": 0},
                         split_rngs={"params": True, "dropout": True}, length=3)
        x, _ = blocks()(x, None)
        return nn.Dense(10, dtype=jnp.bfloat16)(x).astype(jnp.float32)


def mixed(ranks):
    model = Mixed()
    keys = {"params": jax.random.PRNGKey(0), "dropout": jax.random.PRNGKey(1)}
    params = model.init(keys, jnp.zeros((1, 16)))["params"]

    def loss_of(params, key, x, y):
        logits = model.apply({"params": params}, x, rngs={"dropout": key})
        return cross_entropy(logits, y), jax.random.split(key, 1)[0]

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(16 * ranks, (16,), 10), jax.random.PRNGKey(2))


# A graph's attention: softmax over the edges of each node by segment maximum and sum; edges drawn each step.
def graph_attention(ranks):
    params = normal(33, q=(8, 8), k=(8, 8), v=(8, 8), out=(8, 3))

    def loss_of(p, extra, nodes, edges, labels):
        a, b = edges[..., 0].ravel() % 20, edges[..., 1].ravel() % 20
        x = nodes.reshape(-1, 8)[:20]
        score = (jnp.take(x @ p["q"], b, 0) * jnp.take(x @ p["k"], a, 0)).sum(-1) * 8 ** -0.5
        top = jax.ops.segment_max(score, b, 20)
        weight = jnp.exp(score - jnp.where(jnp.isfinite(top), top, 0)[b])
        weight = weight / (jax.ops.segment_sum(weight, b, 20)[b] + 1e-9)
        h = x + jax.ops.segment_sum(weight[:, None] * (x @ p["v"])[a], b, 20)
        return cross_entropy(jax.nn.celu(h) @ p["out"], labels.ravel()[:20]), extra

    def draw(rng):
        nodes = rng.normal(size=(ranks, 20, 8)).astype(np.float32)
        edges, labels = rng.integers(0, 20, (ranks, 60, 2)), rng.integers(0, 3, (ranks, 20))
        return nodes, edges.astype(np.int32), labels.astype(np.int32)

    return trained(ranks, params, loss_of, optax.amsgrad(1e-3), draw)


MODERN = {f.__name__: f for f in (
    nnx_net, state_space, blocked_attention, relative, video, densities, field, mixed, graph_attention)}
for _name, _library, _step in (("equinox_gru", "equinox", equinox_gru), ("haiku_net", "haiku", haiku_net)):
    if importlib.util.find_spec(_library):
        MODERN[_name] = _step
