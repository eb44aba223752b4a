"""Steps of real widths, of every kind whose speed depends on size: what jax_step_bench.py runs by name."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import EncoderBlock, image_classes, trained
from modern_steps import normal, sequences
from steps import cross_entropy, labelled

KEY = jax.random.PRNGKey


def of_model(ranks, model, example, tx, draw, loss=cross_entropy):
    params = model.init(KEY(0), example)["params"]
    return trained(ranks, params, lambda p, extra, x, y: (loss(model.apply({"params": p}, x), y), extra), tx, draw)


def of_text(ranks, model, time, vocabulary, rows):
    params = model.init(KEY(0), jnp.zeros((1, time), int))["params"]
    loss_of = lambda p, extra, t: (cross_entropy(model.apply({"params": p}, t[:, :-1]), t[:, 1:]), extra)
    return trained(ranks, params, loss_of, optax.adam(1e-3), sequences(rows * ranks, time, vocabulary))


class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (1024, 1024, 512):
            x = nn.relu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


def big_mlp(ranks):
    return of_model(ranks, Mlp(), jnp.zeros((1, 784)), optax.adam(1e-3), labelled(128 * ranks, (784,), 10))


# Weights in f32, all else in bf16.
def big_mlp_bf16(ranks):
    params = normal(2, a=(512, 1024), b=(1024, 1024), c=(1024, 10))

    def loss_of(params, extra, x, y):
        p, x = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (params, x))
        logits = jax.nn.gelu(jax.nn.gelu(x @ p["a"]) @ p["b"]) @ p["c"]
        return cross_entropy(logits.astype(jnp.float32), y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(128 * ranks, (512,), 10))


class ViT(nn.Module):
    width: int = 192

    @nn.compact
    def __call__(self, x):
        x = nn.Conv(self.width, (4, 4), strides=4)(x)
        x = x.reshape(x.shape[0], -1, self.width)
        x = x + self.param("positions", nn.initializers.normal(0.02), x.shape[1:])
        for _ in range(3):
            x = EncoderBlock(heads=4)(x)
        return nn.Dense(100)(nn.LayerNorm()(x).mean(1))


def big_vit(ranks):
    return of_model(ranks, ViT(), jnp.zeros((1, 32, 32, 3)), optax.adamw(1e-3), image_classes(16 * ranks, 32, 3, 100))


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        norm = functools.partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        conv = functools.partial(nn.Conv, use_bias=False)
        x = nn.relu(conv(32, (3, 3))(x))
        for width, stride in ((32, 1), (64, 2), (128, 2)):
            h = norm()(conv(width, (3, 3))(nn.relu(norm()(conv(width, (3, 3), strides=stride)(x)))))
            x = nn.relu(h + (x if x.shape == h.shape else norm()(conv(width, (1, 1), strides=stride)(x))))
        return nn.Dense(10)(x.mean((1, 2)))


def big_resnet(ranks):
    model = ResNet()
    made = model.init(KEY(0), jnp.zeros((1, 32, 32, 3)), True)

    def loss_of(params, extra, x, y):
        logits, new = model.apply({"params": params, "batch_stats": extra}, x, True, mutable=["batch_stats"])
        return cross_entropy(logits, y), new["batch_stats"]

    return trained(ranks, made["params"], loss_of, optax.sgd(0.1, momentum=0.9), image_classes(32 * ranks, 32),
                   extra=made["batch_stats"])


class ResNetBf16(nn.Module):
    @nn.compact
    def __call__(self, x):
        conv = functools.partial(nn.Conv, dtype=jnp.bfloat16)
        x = nn.relu(conv(32, (3, 3))(x))
        for width, stride in ((32, 1), (64, 2), (128, 2)):
            h = nn.relu(nn.GroupNorm(8, dtype=jnp.bfloat16)(conv(width, (3, 3), strides=stride)(x)))
            h = conv(width, (3, 3))(h)
            x = nn.relu(h + (x if x.shape == h.shape else conv(width, (1, 1), strides=stride)(x)))
        return nn.Dense(10)(x.mean((1, 2)).astype(jnp.float32))


def big_resnet_bf16(ranks):
    return of_model(ranks, ResNetBf16(), jnp.zeros((1, 32, 32, 3)), optax.sgd(0.1, momentum=0.9),
                    image_classes(16 * ranks, 32))


class ConvNeXt(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.Conv(48, (4, 4), strides=4)(x))
        for _ in range(3):
            h = nn.LayerNorm()(nn.Conv(48, (7, 7), feature_group_count=48)(x))
            x = x + nn.Dense(48)(nn.gelu(nn.Dense(192)(h)))
        return nn.Dense(10)(nn.LayerNorm()(x.mean((1, 2))))


def big_convnext(ranks):
    return of_model(ranks, ConvNeXt(), jnp.zeros((1, 32, 32, 3)), optax.adamw(1e-3), image_classes(32 * ranks, 32))


class UNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        unit = lambda width, stride, x: nn.silu(nn.GroupNorm(8)(nn.Conv(width, (3, 3), strides=stride)(x)))
        a = unit(32, 1, x)
        b = unit(64, 1, unit(64, 2, a))
        return nn.Conv(3, (3, 3))(jnp.concatenate([a, nn.ConvTranspose(32, (4, 4), strides=(2, 2))(b)], -1))


def big_unet(ranks):
    model = UNet()
    params = model.init(KEY(0), jnp.zeros((1, 32, 32, 3)))["params"]
    loss_of = lambda p, extra, x, y: (((model.apply({"params": p}, x) - x * 0.5) ** 2).mean(), extra)
    return trained(ranks, params, loss_of, optax.adam(1e-3), image_classes(16 * ranks, 32))


class Video(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width, stride in ((16, 1), (32, 2), (32, 1)):
            x = nn.relu(nn.Conv(width, (3, 3, 3), strides=stride)(x))
        return nn.Dense(10)(x.mean((1, 2, 3)))


def big_video(ranks):
    return of_model(ranks, Video(), jnp.zeros((1, 8, 16, 16, 3)), optax.adam(1e-3),
                    labelled(4 * ranks, (8, 16, 16, 3), 10))


def attention(x, weights, heads, mask):
    rows, time, width = x.shape
    q, k, v = jnp.split((x @ weights).reshape(rows, time, heads, 3 * width // heads), 3, -1)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k).astype(jnp.float32) * (width // heads) ** -0.5
    shares = jax.nn.softmax(jnp.where(mask, scores, -1e9)).astype(x.dtype)
    return jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape)


def scaled(x, gain):
    y = x.astype(jnp.float32)
    return (y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5) * gain).astype(x.dtype)


# Blocks by scan, rematerialised where in bf16.
def big_gpt(ranks, dtype=jnp.float32, layers=3, width=256, time=128, vocabulary=512, heads=8):
    keys = iter(jax.random.split(KEY(0), 8))
    weights = lambda *shape: jax.random.normal(next(keys), shape) * shape[-2] ** -0.5
    params = {"embed": weights(vocabulary, width), "positions": weights(time, width),
              "head": weights(width, vocabulary),
              "blocks": {"qkv": weights(layers, width, 3 * width), "out": weights(layers, width, width),
                         "up": weights(layers, width, 4 * width), "down": weights(layers, 4 * width, width),
                         "norm_1": jnp.ones((layers, width)), "norm_2": jnp.ones((layers, width))}}
    mask = jnp.tril(jnp.ones((time, time), bool))

    def block(x, p):
        x = x + attention(scaled(x, p["norm_1"]), p["qkv"], heads, mask) @ p["out"]
        return x + jax.nn.gelu(scaled(x, p["norm_2"]) @ p["up"]) @ p["down"], None

    def loss_of(params, extra, t):
        p = jax.tree.map(lambda a: a.astype(dtype), params)
        x = p["embed"][t[:, :-1]] + p["positions"]
        x, _ = jax.lax.scan(block if dtype == jnp.float32 else jax.checkpoint(block), x, p["blocks"])
        return cross_entropy((x @ p["head"]).astype(jnp.float32), t[:, 1:]), extra

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(1e-3))
    return trained(ranks, params, loss_of, tx, sequences(4 * ranks, time, vocabulary))


class Lstm(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Embed(256, 128)(x)
        for _ in range(2):
            x = nn.RNN(nn.OptimizedLSTMCell(256))(x)
        return nn.Dense(256)(x)


class Gru(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(64)(nn.RNN(nn.GRUCell(128))(nn.Embed(64, 64)(x)))


# Embedding tables, pairwise products of features.
def big_dlrm(ranks, rows=20000, width=32):
    params = {"tables": [jax.random.normal(KEY(i), (rows, width)) * 0.1 for i in range(4)],
              **normal(9, a=(13, 128), b=(128, width), c=(width + 10, 256), d=(256, 1))}
    dense = labelled(512 * ranks, (13,), 2)

    def draw(rng):
        x, y = dense(rng)
        return x, rng.integers(0, rows, (x.shape[0], 4)).astype(np.int32), y

    def loss_of(p, extra, x, ids, y):
        h = jax.nn.relu(jax.nn.relu(x @ p["a"]) @ p["b"])
        features = jnp.stack([h] + [table[ids[:, i]] for i, table in enumerate(p["tables"])], 1)
        pairs = jnp.einsum("bid,bjd->bij", features, features)[:, *np.triu_indices(5, 1)]
        logits = (jax.nn.relu(jnp.concatenate([h, pairs], 1) @ p["c"]) @ p["d"])[:, 0]
        return optax.sigmoid_binary_cross_entropy(logits, y.astype(jnp.float32)).mean(), extra

    return trained(ranks, params, loss_of, optax.adagrad(1e-2), draw)


# The two best of some experts, places by a cumulative sum, rows beyond an expert's capacity dropped.
def big_moe(ranks, experts=8, width=128, rows=512):
    capacity, keys = 2 * rows // experts, jax.random.split(KEY(3), 2)
    params = {**normal(1, first=(64, width), router=(width, experts), last=(width, 10)),
              "up": jax.random.normal(keys[0], (experts, width, 4 * width)) * width ** -0.5,
              "down": jax.random.normal(keys[1], (experts, 4 * width, width)) * (4 * width) ** -0.5}

    def loss_of(p, extra, x, y):
        x = x @ p["first"]
        shares, chosen = jax.lax.top_k(jax.nn.softmax(x @ p["router"]), 2)
        one_hot = jax.nn.one_hot(chosen.reshape(-1), experts)
        place = (jnp.cumsum(one_hot, 0) * one_hot).sum(-1).astype(int) - 1
        slot, fits = chosen.reshape(-1) * capacity + place, place < capacity
        sent = jnp.zeros((experts * capacity, width)).at[jnp.where(fits, slot, experts * capacity)].set(
            jnp.repeat(x, 2, 0), mode="drop").reshape(experts, capacity, width)
        h = jnp.einsum("ecf,efd->ecd", jax.nn.gelu(jnp.einsum("ecd,edf->ecf", sent, p["up"])), p["down"])
        back = jnp.where(fits[:, None], h.reshape(-1, width)[jnp.where(fits, slot, 0)], 0) * shares.reshape(-1, 1)
        return cross_entropy((x + back.reshape(-1, 2, width).sum(1)) @ p["last"], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(rows * ranks, (64,), 10))


# A selective state space by an associative scan.
def big_states(ranks, width=64, states=16, time=256):
    params = normal(1, first=(32, width), b=(width, states), c=(width, states), dt=(width, width), last=(width, 32))
    params["a"] = -jnp.exp(jax.random.normal(KEY(2), (width, states)))

    def loss_of(p, extra, t):
        x = jax.nn.one_hot(t[:, :-1], 32) @ p["first"]
        dt = jax.nn.softplus(x @ p["dt"])[..., None]
        decay, added = jnp.exp(dt * p["a"]), dt * (x @ p["b"])[:, :, None] * x[..., None]
        both = lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1])
        h = jax.lax.associative_scan(both, (decay, added), axis=1)[1]
        out = (h * (x @ p["c"])[:, :, None]).sum(-1)
        return cross_entropy(jax.nn.silu(out) @ p["last"], t[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), sequences(2 * ranks, time, 32))


def big_sort(ranks):
    params = normal(1, a=(64, 256), b=(256, 64))

    def loss_of(p, extra, x, y):
        h = jax.nn.gelu(x @ p["a"]) @ p["b"]
        apart = ((jnp.sort(h, axis=-1) - jnp.sort(x, axis=-1)) ** 2).mean()
        return apart + jax.lax.top_k(h, 8)[0].mean() * 1e-2 + cross_entropy(h[:, :10], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(512 * ranks, (64,), 10))


LARGER = {step.__name__: step for step in (
    big_mlp, big_mlp_bf16, big_vit, big_resnet, big_resnet_bf16, big_convnext, big_unet, big_video, big_gpt, big_dlrm,
    big_moe, big_states, big_sort)}
LARGER |= {"big_gpt_bf16": functools.partial(big_gpt, dtype=jnp.bfloat16, layers=4),
           "big_lstm": lambda ranks: of_text(ranks, Lstm(), 32, 256, 16),
           "big_gru": lambda ranks: of_text(ranks, Gru(), 128, 64, 8)}
