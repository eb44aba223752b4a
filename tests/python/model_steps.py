"""Networks that people train with JAX, each a whole step: attention, convolutions, recurrence, embeddings, sampling.

As steps.py: `make` of a name and a number of ranks gives a Step. Sizes are small; the forms are those of real code
(flax modules, optax chains, jax.checkpoint, lax.scan over layers, keys in the state)."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P
from steps import Step, cross_entropy, data_mesh, labelled, place, shard_map, stream


def data_parallel(ranks, state, step, draw):
    """A Step of step(state, *batch) -> (state, metrics), which runs on each rank's rows."""
    mesh, count = data_mesh(ranks), len(draw(np.random.default_rng(0)))
    mapped = shard_map(step, mesh, (P(), *[P("data")] * count), (P(), P()), check=False)
    return Step(jax.jit(mapped, donate_argnums=0), place(mesh, state), stream(mesh, draw))


def trained(ranks, params, loss_of, tx, draw, extra=None):
    """Gradients of loss_of(params, extra, *batch) -> (loss, extra), averaged, through an optax transformation."""

    def step(state, *batch):
        (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"], state["extra"], *batch)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt, "extra": new}, {"loss": loss}

    return data_parallel(ranks, {"params": params, "opt_state": tx.init(params), "extra": extra}, step, draw)


def image_classes(rows, side=16, channels=3, classes=10):
    return labelled(rows, (side, side, channels), classes)


# A vision transformer: patches by a strided convolution, a class token, pre-norm blocks, label smoothing.
class EncoderBlock(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        h = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(num_heads=self.heads)(h, h)
        h = nn.Dense(2 * x.shape[-1])(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(h))


class ViT(nn.Module):
    width: int = 32

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (4, 4), strides=(4, 4), padding="VALID")(x)
        x = x.reshape(x.shape[0], -1, self.width)
        token = self.param("cls", nn.initializers.zeros, (1, 1, self.width))
        x = jnp.concatenate([jnp.tile(token, (x.shape[0], 1, 1)), x], axis=1)
        x = x + self.param("position", nn.initializers.normal(0.02), (1, x.shape[1], self.width))
        for _ in range(2):
            x = EncoderBlock(4)(x)
        return nn.Dense(10)(nn.LayerNorm()(x)[:, 0])


def vit(ranks):
    model = ViT()
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 16, 16, 3)))["params"]
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-3, 4, 50)
    tx = optax.adamw(schedule, weight_decay=0.05, mask=lambda p: jax.tree.map(lambda a: a.ndim > 1, p))

    def loss_of(params, extra, x, y):
        targets = optax.smooth_labels(jax.nn.one_hot(y, 10), 0.1)
        return optax.softmax_cross_entropy(model.apply({"params": params}, x), targets).mean(), extra

    return trained(ranks, params, loss_of, tx, image_classes(8 * ranks))


# GPT in bfloat16 with f32 master weights; its blocks are recomputed backwards, as a scan over layers or one by one.
def gpt_block(x, p):
    def norm(x, scale, bias):
        x = x.astype(jnp.float32)
        x = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
        return (x * scale + bias).astype(jnp.bfloat16)

    p = jax.tree.map(lambda a: a.astype(jnp.bfloat16) if a.ndim > 1 else a, p)
    batch, time, width = x.shape
    q, k, v = jnp.split(norm(x, p["g1"], p["b1"]) @ p["qkv"], 3, axis=-1)
    q, k, v = (a.reshape(batch, time, 4, width // 4) for a in (q, k, v))
    scores = jnp.einsum("bthd,bshd->bhts", q, k, preferred_element_type=jnp.float32) * (width // 4) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, jnp.finfo(jnp.float32).min)
    mixed = jnp.einsum("bhts,bshd->bthd", jax.nn.softmax(scores).astype(jnp.bfloat16), v)
    x = x + mixed.reshape(batch, time, width) @ p["out"]
    return x + jax.nn.gelu(norm(x, p["g2"], p["b2"]) @ p["up"]) @ p["down"]


def gpt(ranks, scan=True, layers=3, width=32, vocabulary=48, time=16):
    keys = iter(jax.random.split(jax.random.PRNGKey(2), 8))
    normal = lambda *shape: jax.random.normal(next(keys), shape) * 0.08
    blocks = {"qkv": normal(layers, width, 3 * width), "out": normal(layers, width, width),
              "up": normal(layers, width, 4 * width), "down": normal(layers, 4 * width, width)}
    blocks |= {name: jnp.full((layers, width), name[0] == "g", jnp.float32) for name in ("g1", "b1", "g2", "b2")}
    params = {"embed": normal(vocabulary, width), "position": normal(time, width), "blocks": blocks}
    if not scan:
        params["blocks"] = [jax.tree.map(lambda a, i=i: a[i], blocks) for i in range(layers)]

    def loss_of(params, extra, tokens):
        x = (params["embed"][tokens[:, :-1]] + params["position"]).astype(jnp.bfloat16)
        block = jax.checkpoint(gpt_block, policy=None if scan else jax.checkpoint_policies.dots_saveable)
        if scan:
            x, _ = jax.lax.scan(lambda x, p: (block(x, p), None), x, params["blocks"])
        else:
            for p in params["blocks"]:
                x = block(x, p)
        logits = (x @ params["embed"].T.astype(jnp.bfloat16)).astype(jnp.float32)
        return cross_entropy(logits, tokens[:, 1:]), extra

    def draw(rng):
        start = rng.integers(0, vocabulary, (4 * ranks, 1))
        return (((start + np.cumsum(rng.integers(0, 3, (4 * ranks, time + 1)), 1)) % vocabulary).astype(np.int32),)

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95))
    return trained(ranks, params, loss_of, tx, draw)


# U-Net: depthwise and pointwise convolutions down, transposed convolutions up, group norm, skips, resizing.
class UNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        skips = []
        for channels in (8, 16):
            x = nn.Conv(x.shape[-1], (3, 3), feature_group_count=x.shape[-1])(x)
            x = nn.swish(nn.GroupNorm(4)(nn.Conv(channels, (1, 1))(x)))
            skips.append(x)
            x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.swish(nn.Conv(16, (3, 3), kernel_dilation=2)(x))
        for channels, skip in zip((16, 8), reversed(skips)):
            x = nn.ConvTranspose(channels, (3, 3), strides=(2, 2))(x)
            x = nn.swish(nn.GroupNorm(4)(nn.Conv(channels, (3, 3))(jnp.concatenate([x, skip], -1))))
        small = jax.image.resize(x, (x.shape[0], 8, 8, 8), "bilinear")
        return nn.Conv(1, (1, 1))(x + jax.image.resize(nn.avg_pool(small, (3, 3), padding="SAME"), x.shape, "nearest"))


def unet(ranks):
    model, rows = UNet(), 4 * ranks
    params = model.init(jax.random.PRNGKey(1), jnp.zeros((1, 16, 16, 3)))["params"]

    def loss_of(params, extra, x, y):
        logits = model.apply({"params": params}, x)
        return optax.sigmoid_binary_cross_entropy(logits, y).mean(), extra

    def draw(rng):
        x = rng.normal(size=(rows, 16, 16, 3)).astype(np.float32)
        return x, (x.sum(-1, keepdims=True) > 0).astype(np.float32)

    return trained(ranks, params, loss_of, optax.sgd(0.05, momentum=0.9, nesterov=True), draw)


# A recommender in DLRM's form: bags of ids summed by segment, pairwise interactions, adagrad.
def dlrm(ranks):
    rows, tables, ids, width, bags = 16, 3, 50, 8, 40
    keys = iter(jax.random.split(jax.random.PRNGKey(3), 16))
    dense = lambda a, b: {"w": jax.random.normal(next(keys), (a, b)) * a**-0.5, "b": jnp.zeros(b)}
    params = {"tables": [jax.random.normal(next(keys), (ids, width)) * 0.1 for _ in range(tables)],
              "bottom": [dense(6, 16), dense(16, width)], "top": [dense(width + 6, 16), dense(16, 1)]}

    def mlp(layers, x):
        for layer in layers[:-1]:
            x = jax.nn.relu(x @ layer["w"] + layer["b"])
        return x @ layers[-1]["w"] + layers[-1]["b"]

    def loss_of(params, extra, x, found, bag, clicked):
        features = [mlp(params["bottom"], x)]
        for t, table in enumerate(params["tables"]):
            features.append(jax.ops.segment_sum(jnp.take(table, found[0, t], axis=0), bag[0, t], num_segments=rows))
        stacked = jnp.stack(features, 1)
        pairs = jnp.einsum("nid,njd->nij", stacked, stacked)
        i, j = jnp.triu_indices(tables + 1, 1)
        logits = mlp(params["top"], jnp.concatenate([features[0], pairs[:, i, j]], 1))[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, clicked).mean(), extra

    def draw(rng):
        bag = np.sort(rng.integers(0, rows, (ranks, tables, bags)), -1).astype(np.int32)
        return (rng.normal(size=(rows * ranks, 6)).astype(np.float32),
                rng.integers(0, ids, (ranks, tables, bags)).astype(np.int32), bag,
                rng.integers(0, 2, rows * ranks).astype(np.float32))

    return trained(ranks, params, loss_of, optax.adagrad(0.05), draw)


# Sequence to sequence: flax GRU both ways over padded rows, a decoder that attends with masks, token loss by length.
class Seq2Seq(nn.Module):
    vocabulary: int = 20
    width: int = 16

    @nn.compact
    def __call__(self, source, lengths, target):
        embed = nn.Embed(self.vocabulary, self.width)
        forward, backward = (nn.RNN(nn.GRUCell(self.width), reverse=r, keep_order=r) for r in (False, True))
        encoded = nn.Bidirectional(forward, backward)(embed(source), seq_lengths=lengths)
        keys = nn.Dense(self.width)(encoded)
        hidden = nn.RNN(nn.GRUCell(self.width))(embed(target))
        scores = jnp.einsum("btd,bsd->bts", hidden, keys) * self.width**-0.5
        mask = jnp.arange(source.shape[1])[None, None] < lengths[:, None, None]
        weights = jax.nn.softmax(scores, where=mask)
        mixed = jnp.concatenate([hidden, jnp.einsum("bts,bsd->btd", weights, encoded)], -1)
        return embed.attend(nn.tanh(nn.Dense(self.width)(mixed)))


def seq2seq(ranks):
    model, rows, time = Seq2Seq(), 8 * ranks, 7
    params = model.init(jax.random.PRNGKey(4), *[jnp.ones(s, jnp.int32) for s in ((1, time), (1,), (1, time))])["params"]

    def loss_of(params, extra, source, lengths, target):
        logits = model.apply({"params": params}, source, lengths, jnp.pad(target[:, :-1], ((0, 0), (1, 0))))
        losses = optax.softmax_cross_entropy_with_integer_labels(logits, target)
        mask = jnp.arange(time) < lengths[:, None]
        return jnp.sum(jnp.where(mask, losses, 0.0)) / jnp.sum(mask), extra

    def draw(rng):
        source, lengths = rng.integers(1, 20, (rows, time)), rng.integers(2, time + 1, rows)
        return source.astype(np.int32), lengths.astype(np.int32), source[:, ::-1].astype(np.int32)

    return trained(ranks, params, loss_of, optax.adam(3e-3), draw)


# A variational autoencoder with discrete and continuous codes; every rank draws for itself.
def vae(ranks, impl="threefry2x32"):
    keys = jax.random.split(jax.random.PRNGKey(5), 4)
    dense = lambda key, a, b: jax.random.truncated_normal(key, -2, 2, (a, b)) * a**-0.5
    params = {"encode": dense(keys[0], 32, 24), "code": dense(keys[1], 24, 8 + 8 + 6),
              "decode": dense(keys[2], 14, 24), "out": dense(keys[3], 24, 32)}

    def loss_of(params, key, x):
        key, used = jax.random.split(key)
        used = jax.random.fold_in(used, jax.lax.axis_index("data"))
        normal, gumbel, noise, choice, cut = jax.random.split(used, 5)
        x = x + 0.1 * jax.random.uniform(noise, x.shape, minval=-1.0)
        x = x + 0.01 * jax.random.truncated_normal(cut, -1.0, 1.0, x.shape)
        mean, logvar, logits = jnp.split(jax.nn.elu(x @ params["encode"]) @ params["code"], (8, 16), axis=-1)
        z = mean + jnp.exp(0.5 * logvar) * jax.random.normal(normal, mean.shape)
        soft = jax.nn.softmax((logits + jax.random.gumbel(gumbel, logits.shape)) / 0.7)
        hard = jax.nn.one_hot(jax.random.categorical(choice, logits), 6)
        code = soft + jax.lax.stop_gradient(hard - soft)
        made = jax.nn.softplus(jnp.concatenate([z, code], -1) @ params["decode"]) @ params["out"]
        divergence = -0.5 * jnp.mean(1 + logvar - mean**2 - jnp.exp(logvar))
        return jnp.mean((made - x) ** 2) + 0.1 * divergence, key

    draw = lambda rng: (np.sin(rng.normal(size=(16 * ranks, 1)) + np.arange(32)).astype(np.float32),)
    return trained(ranks, params, loss_of, optax.adamax(2e-3), draw, extra=jax.random.key(6, impl=impl))


# Diffusion: noise at a random time, sinusoidal embedding, a residual convolution; weights averaged over steps.
class Denoiser(nn.Module):
    @nn.compact
    def __call__(self, x, t):
        angle = t[:, None] * jnp.exp(-jnp.arange(4) * 1.5)
        time = nn.Dense(16)(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))
        h = nn.Conv(16, (5,), padding="CIRCULAR")(x)
        h = nn.silu(nn.LayerNorm()(h) + time[:, None])
        return nn.Conv(2, (3,), feature_group_count=2)(h) + x


def diffusion(ranks):
    model, tx = Denoiser(), optax.chain(optax.clip(1.0), optax.scale_by_adam(), optax.scale(-1e-3))
    params = model.init(jax.random.PRNGKey(7), jnp.zeros((1, 12, 2)), jnp.zeros(1))["params"]
    state = {"params": params, "ema": params, "opt_state": tx.init(params), "key": jax.random.key(8, impl="rbg")}

    def step(state, x):
        key = jax.random.fold_in(state["key"], jax.lax.axis_index("data"))
        time_key, noise_key = jax.random.split(key)
        t = jax.random.uniform(time_key, x.shape[:1])
        noise = jax.random.normal(noise_key, x.shape)
        alpha = jnp.cos(t * jnp.pi / 2)[:, None, None]
        mixed = alpha * x + jnp.sqrt(1 - alpha**2) * noise
        loss_of = lambda p: jnp.mean((model.apply({"params": p}, mixed, t) - noise) ** 2)
        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        updates, opt = tx.update(grads, state["opt_state"])
        params = optax.apply_updates(state["params"], updates)
        ema = optax.incremental_update(params, state["ema"], 0.05)
        return {"params": params, "ema": ema, "opt_state": opt, "key": jax.random.split(state["key"], 2)[0]}, loss

    draw = lambda rng: (np.cumsum(rng.normal(size=(8 * ranks, 12, 2)), 1).astype(np.float32),)
    return data_parallel(ranks, state, step, draw)


# A graph network: messages gathered along edges, summed and maximized at nodes, softmax over neighbours.
def graph(ranks):
    nodes, edges, width = 20, 60, 8
    keys = jax.random.split(jax.random.PRNGKey(9), 4)
    params = {n: jax.random.normal(k, s) * 0.3 for n, k, s in zip(
        ("in", "message", "gate", "out"), keys, ((5, width), (2 * width, width), (2 * width, 1), (2 * width, 3)))}

    def one(params, x, source, target, label):
        h = jnp.tanh(x @ params["in"])
        pair = jnp.concatenate([h[source], h[target]], -1)
        score = (pair @ params["gate"])[:, 0]
        highest = jax.ops.segment_max(score, target, num_segments=nodes)
        weight = jnp.exp(score - highest[target])
        weight = weight / jax.ops.segment_sum(weight, target, num_segments=nodes)[target]
        message = weight[:, None] * (pair @ params["message"])
        summed = jnp.zeros((nodes, width)).at[target].add(message)
        largest = jnp.full((nodes, width), -5.0).at[target].max(message)
        return cross_entropy(jnp.concatenate([summed, largest], -1) @ params["out"], label)

    def loss_of(params, extra, *batch):
        return jax.vmap(one, (None, 0, 0, 0, 0))(params, *batch).mean(), extra

    def draw(rng):
        x = rng.normal(size=(2 * ranks, nodes, 5)).astype(np.float32)
        return (x, *rng.integers(0, nodes, (2, 2 * ranks, edges)).astype(np.int32), x[..., :3].argmax(-1).astype(np.int32))

    return trained(ranks, params, loss_of, optax.rmsprop(1e-3, centered=True), draw)


# Speech: dilated causal convolutions, CTC over padded labels.
class Wave(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(12, (1,))(x)
        for dilation in (1, 2, 4):
            h = nn.Conv(24, (2,), kernel_dilation=dilation, padding="CAUSAL")(x)
            a, b = jnp.split(h, 2, -1)
            x = x + nn.Conv(12, (1,))(jnp.tanh(a) * nn.sigmoid(b))
        return nn.Conv(6, (3,), strides=2)(x)


def speech(ranks):
    model = Wave()
    params = model.init(jax.random.PRNGKey(10), jnp.zeros((1, 24, 4)))["params"]

    def loss_of(params, extra, x, padding, labels, unused):
        logits = model.apply({"params": params}, x)
        return optax.ctc_loss(logits, padding[:, ::2], labels, unused).mean(), extra

    def draw(rng):
        rows = 4 * ranks
        lengths = rng.integers(16, 25, (rows, 1))
        return (rng.normal(size=(rows, 24, 4)).astype(np.float32), (np.arange(24) >= lengths).astype(np.float32),
                rng.integers(1, 6, (rows, 4)).astype(np.int32),
                (np.arange(4) >= rng.integers(2, 5, (rows, 1))).astype(np.float32))

    return trained(ranks, params, loss_of, optax.novograd(1e-3), draw)


# Experts chosen by top-k, dispatched by one-hot products with a capacity; flax dropout with its own key.
def experts(ranks):
    count, width, capacity, tokens = 4, 12, 10, 24
    keys = jax.random.split(jax.random.PRNGKey(11), 4)
    params = {n: jax.random.normal(k, s) * 0.3 for n, k, s in zip(
        ("router", "up", "down", "out"), keys, ((width, count), (count, width, 24), (count, 24, width), (width, 5)))}
    dropout = nn.Dropout(0.2)

    def loss_of(params, key, x, y):
        gates = jax.nn.softmax(x @ params["router"])
        weight, chosen = jax.lax.top_k(gates, 2)
        hot = jax.nn.one_hot(chosen, count)
        place_of = jnp.cumsum(hot.reshape(-1, count), 0).reshape(hot.shape) * hot - 1
        slot = jax.nn.one_hot(place_of.max(-1).astype(jnp.int32), capacity) * (place_of.max(-1, keepdims=True) < capacity)
        dispatch = jnp.einsum("tke,tkc->tec", hot, slot)
        combine = jnp.einsum("tke,tkc,tk->tec", hot, slot, weight)
        inside = jax.nn.relu(jnp.einsum("tec,td,edh->ech", dispatch, x, params["up"]))
        mixed = x + jnp.einsum("tec,ech,ehd->td", combine, inside, params["down"])
        mixed = dropout.apply({}, mixed, deterministic=False, rngs={"dropout": jax.random.fold_in(key, 1)})
        balance = count * jnp.sum(gates.mean(0) * hot[:, 0].mean(0))
        return cross_entropy(mixed @ params["out"], y) + 0.01 * balance, jax.random.split(key)[0]

    return trained(ranks, params, loss_of, optax.lamb(2e-3), labelled(tokens * ranks, (width,), 5),
                   extra=jax.random.PRNGKey(12))


MODELS = {f.__name__: f for f in (vit, unet, dlrm, seq2seq, vae, diffusion, graph, speech, experts)}
MODELS |= {"gpt_scan": gpt, "gpt_unrolled": functools.partial(gpt, scan=False),
           "vae_rbg": functools.partial(vae, impl="rbg"), "vae_unsafe_rbg": functools.partial(vae, impl="unsafe_rbg")}
