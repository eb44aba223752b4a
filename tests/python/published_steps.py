"""More models of published sizes: ViT-B/16, ConvNeXt-T, EfficientNet-B0, T5 small, a mixture of experts, a Mamba.

As real_steps.py, whose list they lengthen (jax_step_bench.py REAL)."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from model_steps import image_classes, trained
from modern_steps import sequences
from steps import cross_entropy

KEY = jax.random.PRNGKey


def smoothed_loss(logits, y):
    return optax.softmax_cross_entropy(logits, optax.smooth_labels(jax.nn.one_hot(y, 1000), 0.1)).mean()


# ViT-B/16 (Dosovitskiy et al. 2021): 86 million weights, images of 224 by 224.
class EncoderBlock(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x):
        x = x + nn.MultiHeadDotProductAttention(self.heads)(nn.LayerNorm()(x))
        return x + nn.Dense(x.shape[-1])(nn.gelu(nn.Dense(4 * x.shape[-1])(nn.LayerNorm()(x))))


class VisionTransformer(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(768, (16, 16), strides=(16, 16), padding="VALID")(x).reshape(x.shape[0], -1, 768)
        token = self.param("token", nn.initializers.zeros, (1, 1, 768))
        x = jnp.concatenate([jnp.tile(token, (x.shape[0], 1, 1)), x], 1)
        x = x + self.param("positions", nn.initializers.normal(0.02), (1, x.shape[1], 768))
        for _ in range(12):
            x = EncoderBlock(12)(x)
        return nn.Dense(1000)(nn.LayerNorm()(x)[:, 0])


def vit_b16(ranks, rows=1):
    model = VisionTransformer()
    params = jax.jit(model.init)(KEY(0), jnp.zeros((1, 224, 224, 3)))["params"]
    loss_of = lambda p, extra, x, y: (smoothed_loss(model.apply({"params": p}, x), y), extra)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, weight_decay=0.1))
    return trained(ranks, params, loss_of, tx, image_classes(rows * ranks, 224))


# ConvNeXt-T (Liu et al. 2022): 28 million weights, depthwise convolutions of 7 by 7, stochastic depth.
class ConvNeXt(nn.Module):
    @nn.compact
    def __call__(self, x, key):
        x = nn.LayerNorm()(nn.Conv(96, (4, 4), strides=4)(x))
        block = 0
        for width, depth in ((96, 3), (192, 3), (384, 9), (768, 3)):
            if width > 96:
                x = nn.Conv(width, (2, 2), strides=2)(nn.LayerNorm()(x))
            for _ in range(depth):
                h = nn.LayerNorm()(nn.Conv(width, (7, 7), feature_group_count=width)(x))
                h = nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(h)))
                h = h * self.param(f"scale_{block}", nn.initializers.constant(1e-6), (width,))
                kept = jax.random.bernoulli(jax.random.fold_in(key, block), 0.9, (x.shape[0], 1, 1, 1))
                x, block = x + jnp.where(kept, h / 0.9, 0), block + 1
        return nn.Dense(1000)(nn.LayerNorm()(x.mean((1, 2))))


def convnext_t(ranks, rows=2):
    model = ConvNeXt()
    params = jax.jit(model.init)(KEY(0), jnp.zeros((1, 224, 224, 3)), KEY(1))["params"]

    def loss_of(params, key, x, y):
        key, mine = jax.random.split(key)
        return smoothed_loss(model.apply({"params": params}, x, mine), y), key

    return trained(ranks, params, loss_of, optax.adamw(1e-3, weight_decay=0.05), image_classes(rows * ranks, 224),
                   extra=KEY(2))


# EfficientNet-B0 (Tan and Le 2019): 5 million weights, depthwise convolutions, squeeze and excitation, RMSProp.
class InvertedBottleneck(nn.Module):
    out: int
    expansion: int
    kernel: int
    stride: int

    @nn.compact
    def __call__(self, x, norm):
        conv, width = functools.partial(nn.Conv, use_bias=False), x.shape[-1] * self.expansion
        y = nn.silu(norm()(conv(width, (1, 1))(x))) if self.expansion > 1 else x
        y = nn.silu(norm()(conv(width, (self.kernel,) * 2, strides=self.stride, feature_group_count=width)(y)))
        squeezed = nn.silu(nn.Conv(max(1, x.shape[-1] // 4), (1, 1))(y.mean((1, 2), keepdims=True)))
        y = norm()(conv(self.out, (1, 1))(y * nn.sigmoid(nn.Conv(width, (1, 1))(squeezed))))
        return x + y if x.shape == y.shape else y


class EfficientNet(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        norm = functools.partial(nn.BatchNorm, use_running_average=not train, momentum=0.99, epsilon=1e-3)
        x = nn.silu(norm()(nn.Conv(32, (3, 3), strides=2, use_bias=False)(x)))
        for out, expansion, kernel, stride, count in (
                (16, 1, 3, 1, 1), (24, 6, 3, 2, 2), (40, 6, 5, 2, 2), (80, 6, 3, 2, 3), (112, 6, 5, 1, 3), (192, 6, 5, 2, 4),
                (320, 6, 3, 1, 1)):
            for block in range(count):
                x = InvertedBottleneck(out, expansion, kernel, stride if block == 0 else 1)(x, norm)
        x = nn.silu(norm()(nn.Conv(1280, (1, 1), use_bias=False)(x)))
        return nn.Dense(1000)(x.mean((1, 2)))


def efficientnet_b0(ranks, rows=4):
    model = EfficientNet()
    made = jax.jit(functools.partial(model.init, train=True))(KEY(0), jnp.zeros((1, 224, 224, 3)))

    def loss_of(params, extra, x, y):
        logits, new = model.apply({"params": params, "batch_stats": extra}, x, True, mutable=["batch_stats"])
        return smoothed_loss(logits, y), new["batch_stats"]

    tx = optax.chain(optax.add_decayed_weights(1e-5), optax.rmsprop(0.016, decay=0.9, eps=1e-3, momentum=0.9))
    return trained(ranks, made["params"], loss_of, tx, image_classes(rows * ranks, 224), extra=made["batch_stats"])


# T5 small (Raffel et al. 2020): 61 million weights, an encoder and a decoder, relative positions, Adafactor.
def position_buckets(count, causal, buckets=32, furthest=128):
    apart = np.arange(count)[None] - np.arange(count)[:, None]
    side = 0
    if not causal:
        buckets //= 2
        side = (apart > 0) * buckets
    apart = np.maximum(-apart, 0) if causal else abs(apart)
    exact = buckets // 2
    far = exact + (np.log(np.maximum(apart, 1) / exact) / np.log(furthest / exact) * (buckets - exact)).astype(int)
    return side + np.where(apart < exact, apart, np.minimum(far, buckets - 1))


class T5Attention(nn.Module):
    causal: bool = False

    @nn.compact
    def __call__(self, queries, x, bias=0.0):
        heads = functools.partial(nn.DenseGeneral, (8, 64), use_bias=False)
        scores = jnp.einsum("bqhd,bkhd->bhqk", heads()(queries), heads()(x)) + bias
        if self.causal:
            scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -1e9)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), heads()(x))
        return nn.DenseGeneral(512, axis=(-2, -1), use_bias=False)(mixed)


class T5(nn.Module):
    @nn.compact
    def __call__(self, source, target):
        norm, words = functools.partial(nn.RMSNorm, epsilon=1e-6), nn.Embed(32128, 512)
        dense = functools.partial(nn.Dense, use_bias=False)
        wide = lambda x: x + dense(512)(nn.relu(dense(2048)(norm()(x))))

        def bias(name, count, causal):
            table = self.param(name, nn.initializers.normal(0.05), (32, 8))
            return table[position_buckets(count, causal)].transpose(2, 0, 1)[None]

        x, near = words(source), bias("encoder_positions", source.shape[1], False)
        for _ in range(6):
            h = norm()(x)
            x = wide(x + T5Attention()(h, h, near))
        encoded, y = norm()(x), words(target)
        near = bias("decoder_positions", target.shape[1], True)
        for _ in range(6):
            h = norm()(y)
            y = y + T5Attention(True)(h, h, near)
            y = wide(y + T5Attention()(norm()(y), encoded))
        return words.attend(norm()(y) * 512**-0.5)


def t5_small(ranks, rows=2, time=128):
    model = T5()
    params = jax.jit(model.init)(KEY(0), *[jnp.zeros((1, time), int)] * 2)["params"]

    def loss_of(params, extra, tokens):
        logits = model.apply({"params": params}, tokens[:, :time], tokens[:, time:-1])
        return cross_entropy(logits, tokens[:, time + 1:]), extra

    return trained(ranks, params, loss_of, optax.adafactor(1e-3), sequences(rows * ranks, 2 * time, 32128))


def normals(seed=0):
    draw = np.random.default_rng(seed)
    return lambda *shape: jnp.asarray(draw.normal(0, 0.02, shape), jnp.float32)


def rms_norm(x, weight):
    return x * lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-6) * weight


# A mixture of eight experts of which two take a token (Shazeer et al. 2017), with capacities as in GShard, and Lion.
def moe_lm(ranks, rows=2, time=128, width=512, experts=8, layers=4, words=32000):
    normal, capacity = normals(), 2 * rows * time * 2 // experts
    params = {"words": normal(words, width), "out": normal(width, words), "blocks": [
        {"qkv": normal(width, 3 * width), "o": normal(width, width), "gate": normal(width, experts),
         "up": normal(experts, width, 2 * width), "down": normal(experts, 2 * width, width),
         "norm_1": jnp.ones(width), "norm_2": jnp.ones(width)} for _ in range(layers)]}
    mask = jnp.tril(jnp.ones((time, time), bool))

    def mixture(x, block):
        tokens = x.reshape(-1, width)
        shares = jax.nn.softmax(tokens @ block["gate"])
        weights, chosen = lax.top_k(shares, 2)
        taken = jax.nn.one_hot(chosen, experts).reshape(-1, experts)
        place = (jnp.cumsum(taken, 0) - 1) * taken
        sent = (taken * (place < capacity))[..., None] * jax.nn.one_hot(place.astype(int), capacity)
        sent = sent.reshape(len(tokens), 2, experts, capacity)
        hidden = jax.nn.silu(jnp.einsum("tkec,td,edf->ecf", sent, tokens, block["up"]))
        mixed = jnp.einsum("tkec,tk,ecd->td", sent, weights / weights.sum(-1, keepdims=True),
                           jnp.einsum("ecf,efd->ecd", hidden, block["down"]))
        balance = (shares.mean(0) * taken.reshape(-1, 2, experts).sum(1).mean(0)).sum() * experts
        return mixed.reshape(x.shape), balance

    def loss_of(params, extra, tokens):
        x, balance = params["words"][tokens[:, :-1]], 0.0
        for block in params["blocks"]:
            q, k, v = jnp.split((rms_norm(x, block["norm_1"]) @ block["qkv"]).reshape(*x.shape[:2], 8, -1), 3, -1)
            scores = jnp.where(mask, jnp.einsum("bqhd,bkhd->bhqk", q, k) * 64**-0.5, -jnp.inf)
            x = x + jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), v).reshape(x.shape) @ block["o"]
            mixed, one = mixture(rms_norm(x, block["norm_2"]), block)
            x, balance = x + mixed, balance + one
        return cross_entropy(x @ params["out"], tokens[:, 1:]) + 0.01 * balance, extra

    return trained(ranks, params, loss_of, optax.lion(1e-4), sequences(rows * ranks, time, words))


# Mamba (Gu and Dao 2023) of six layers: selective state spaces by an associative scan, layers by scan, recomputed.
def mamba(ranks, rows=1, time=256, width=512, inner=1024, state=16, layers=6, words=32000):
    normal = normals()
    params = {"words": normal(words, width), "norm": jnp.ones(width), "blocks": {
        "in": normal(layers, width, 2 * inner), "conv": normal(layers, 4, inner),
        "bc": normal(layers, inner, 2 * state),
        "dt_1": normal(layers, inner, 32), "dt_2": normal(layers, 32, inner), "dt": jnp.full((layers, inner), -4.0),
        "a": jnp.log(jnp.tile(jnp.arange(1.0, state + 1), (layers, inner, 1))), "d": jnp.ones((layers, inner)),
        "out": normal(layers, inner, width), "norm": jnp.ones((layers, width))}}

    def layer(x, w):
        u, gate = jnp.split(rms_norm(x, w["norm"]) @ w["in"], 2, -1)
        before = jnp.pad(u, ((0, 0), (3, 0), (0, 0)))
        u = jax.nn.silu(sum(before[:, i:i + u.shape[1]] * w["conv"][i] for i in range(4)))
        b, c = jnp.split(u @ w["bc"], 2, -1)
        dt = jax.nn.softplus(u @ w["dt_1"] @ w["dt_2"] + w["dt"])
        decay, added = jnp.exp(dt[..., None] * -jnp.exp(w["a"])), (dt * u)[..., None] * b[:, :, None]
        combine = lambda left, right: (left[0] * right[0], right[0] * left[1] + right[1])
        states = lax.associative_scan(combine, (decay, added), axis=1)[1]
        y = (states * c[:, :, None]).sum(-1) + w["d"] * u
        return x + (y * jax.nn.silu(gate)) @ w["out"], None

    def loss_of(params, extra, tokens):
        x, _ = lax.scan(jax.checkpoint(layer), params["words"][tokens[:, :-1]], params["blocks"])
        return cross_entropy(rms_norm(x, params["norm"]) @ params["words"].T, tokens[:, 1:]), extra

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3, b2=0.95))
    return trained(ranks, params, loss_of, tx, sequences(rows * ranks, time, words))


PUBLISHED = {step.__name__: step for step in (vit_b16, convnext_t, efficientnet_b0, t5_small, moe_lm, mamba)}
