"""Models of published sizes: ResNet-50, GPT-2 small, BERT, a small Llama, the U-Net of a diffusion model.

Only batches are small, so that a step takes seconds on one core. jax_step_bench.py REAL runs them."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import image_classes, trained
from modern_steps import sequences
from steps import cross_entropy

KEY = jax.random.PRNGKey


# ResNet-50 (He et al. 2016): 25.6 million weights, images of 224 by 224, label smoothing, SGD with Nesterov's momentum.
class Bottleneck(nn.Module):
    width: int
    stride: int

    @nn.compact
    def __call__(self, x, train):
        norm = functools.partial(nn.BatchNorm, use_running_average=not train, momentum=0.9)
        conv = functools.partial(nn.Conv, use_bias=False)
        y = nn.relu(norm()(conv(self.width, (1, 1))(x)))
        y = nn.relu(norm()(conv(self.width, (3, 3), strides=self.stride)(y)))
        y = norm(scale_init=nn.initializers.zeros_init())(conv(4 * self.width, (1, 1))(y))
        if x.shape != y.shape:
            x = norm()(conv(4 * self.width, (1, 1), strides=self.stride)(x))
        return nn.relu(x + y)


class ResNet50(nn.Module):
    @nn.compact
    def __call__(self, x, train):
        norm = nn.BatchNorm(use_running_average=not train, momentum=0.9)
        x = nn.relu(norm(nn.Conv(64, (7, 7), strides=2, padding=[(3, 3), (3, 3)], use_bias=False)(x)))
        x = nn.max_pool(x, (3, 3), strides=(2, 2), padding=[(1, 1), (1, 1)])
        for stage, blocks in enumerate((3, 4, 6, 3)):
            for block in range(blocks):
                x = Bottleneck(64 * 2**stage, 2 if stage > 0 and block == 0 else 1)(x, train)
        return nn.Dense(1000)(x.mean((1, 2)))


def resnet50(ranks, rows=4):
    model = ResNet50()
    made = jax.jit(functools.partial(model.init, train=True))(KEY(0), jnp.zeros((1, 224, 224, 3)))

    def loss_of(params, extra, x, y):
        logits, new = model.apply({"params": params, "batch_stats": extra}, x, True, mutable=["batch_stats"])
        targets = optax.smooth_labels(jax.nn.one_hot(y, 1000), 0.1)
        return optax.softmax_cross_entropy(logits, targets).mean(), new["batch_stats"]

    tx = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.1, momentum=0.9, nesterov=True))
    return trained(ranks, made["params"], loss_of, tx, image_classes(rows * ranks, 224), extra=made["batch_stats"])


# GPT-2 small (Radford et al. 2019): 124 million weights, words tied to the last layer, trained as nanoGPT does.
class CausalBlock(nn.Module):
    heads: int

    @nn.compact
    def __call__(self, x, mask):
        width = x.shape[-1]
        split = lambda a: a.reshape(*a.shape[:-1], self.heads, width // self.heads)
        q, k, v = map(split, jnp.split(nn.Dense(3 * width)(nn.LayerNorm(epsilon=1e-5)(x)), 3, -1))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(width // self.heads)
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e9), -1)
        x = x + nn.Dense(width)(jnp.einsum("bhqk,bkhd->bqhd", weights, v).reshape(x.shape))
        return x + nn.Dense(width)(nn.gelu(nn.Dense(4 * width)(nn.LayerNorm(epsilon=1e-5)(x))))


class Gpt2(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        time = tokens.shape[1]
        words = nn.Embed(50257, 768, embedding_init=nn.initializers.normal(0.02))
        x = words(tokens) + self.param("positions", nn.initializers.normal(0.02), (1024, 768))[:time]
        for _ in range(12):
            x = CausalBlock(12)(x, jnp.tril(jnp.ones((time, time), bool)))
        return words.attend(nn.LayerNorm(epsilon=1e-5)(x))


def gpt2(ranks, rows=1, time=128):
    model = Gpt2()
    params = jax.jit(model.init)(KEY(0), jnp.zeros((1, time), int))["params"]
    loss_of = lambda p, extra, t: (cross_entropy(model.apply({"params": p}, t[:, :-1]), t[:, 1:]), extra)
    rate = optax.warmup_cosine_decay_schedule(0, 6e-4, 5, 100)
    matrices = functools.partial(jax.tree.map, lambda leaf: leaf.ndim > 1)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate, b2=0.95, weight_decay=0.1, mask=matrices))
    return trained(ranks, params, loss_of, tx, sequences(rows * ranks, time, 50257))


# BERT (Devlin et al. 2019) of six layers, as DistilBERT: 66 million weights, dropout, exact gelu, a class a sequence.
class Bert(nn.Module):
    @nn.compact
    def __call__(self, tokens, key):
        norm = functools.partial(nn.LayerNorm, epsilon=1e-12)
        drop = lambda x, place: nn.Dropout(0.1, deterministic=False)(x, rng=jax.random.fold_in(key, place))
        positions = self.param("positions", nn.initializers.normal(0.02), (512, 768))
        x = norm()(nn.Embed(30522, 768)(tokens) + positions[:tokens.shape[1]])
        for layer in range(6):
            attention = nn.MultiHeadDotProductAttention(12, dropout_rate=0.1, deterministic=False)
            x = norm()(x + drop(attention(x, dropout_rng=jax.random.fold_in(key, 3 * layer)), 3 * layer + 1))
            h = nn.Dense(768)(nn.gelu(nn.Dense(3072)(x), approximate=False))
            x = norm()(x + drop(h, 3 * layer + 2))
        return nn.Dense(2)(nn.tanh(nn.Dense(768)(x[:, 0])))


def bert(ranks, rows=2, time=128):
    model = Bert()
    params = jax.jit(model.init)(KEY(0), jnp.zeros((1, time), int), KEY(1))["params"]

    def loss_of(params, key, tokens):
        key, kept = jax.random.split(key)
        return cross_entropy(model.apply({"params": params}, tokens, key), tokens[:, 0] % 2), kept

    return trained(ranks, params, loss_of, optax.adamw(2e-5), sequences(rows * ranks, time - 1, 30522), extra=KEY(3))


# A Llama (Touvron et al. 2023) of 8 layers, 54 million weights: bfloat16 but for weights and norms, rotary embedding,
# grouped queries, SwiGLU, layers by scan, each computed again for its gradient.
def llama(ranks, rows=2, time=256, layers=8, width=512, heads=8, groups=2, inner=1408, words=32000):
    draw = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(draw.normal(0, 0.02, shape), jnp.float32)
    size = width // heads
    params = {"words": normal(words, width), "out": normal(width, words), "norm": jnp.ones(width), "layers": {
        "q": normal(layers, width, width), "k": normal(layers, width, groups * size),
        "v": normal(layers, width, groups * size), "o": normal(layers, width, width),
        "gate": normal(layers, width, inner), "up": normal(layers, width, inner), "down": normal(layers, inner, width),
        "norm_1": jnp.ones((layers, width)), "norm_2": jnp.ones((layers, width))}}
    angles = jnp.arange(time)[:, None, None] * (10000.0 ** (-jnp.arange(0, size, 2) / size))
    mask = jnp.tril(jnp.ones((time, time), bool))

    def normed(x, weight):
        x = x.astype(jnp.float32)
        return (x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight).astype(jnp.bfloat16)

    def rotated(x):
        a, b, cosine, sine = x[..., ::2], x[..., 1::2], jnp.cos(angles), jnp.sin(angles)
        return jnp.stack([a * cosine - b * sine, a * sine + b * cosine], -1).reshape(x.shape).astype(jnp.bfloat16)

    def layer(x, weights):
        w = jax.tree.map(lambda leaf: leaf.astype(jnp.bfloat16), weights)
        y = normed(x, weights["norm_1"])
        split = lambda a: a.reshape(*a.shape[:-1], -1, size)
        q, k, v = rotated(split(y @ w["q"])), rotated(split(y @ w["k"])), split(y @ w["v"])
        k, v = (jnp.repeat(a, heads // groups, 2) for a in (k, v))
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k, preferred_element_type=jnp.float32) / np.sqrt(size)
        shares = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf), -1).astype(jnp.bfloat16)
        x = x + jnp.einsum("bhqk,bkhd->bqhd", shares, v).reshape(x.shape) @ w["o"]
        y = normed(x, weights["norm_2"])
        return x + (jax.nn.silu(y @ w["gate"]) * (y @ w["up"])) @ w["down"], None

    def loss_of(params, extra, tokens):
        x = params["words"].astype(jnp.bfloat16)[tokens[:, :-1]]
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, params["layers"])
        logits = normed(x, params["norm"]) @ params["out"].astype(jnp.bfloat16)
        return cross_entropy(logits.astype(jnp.float32), tokens[:, 1:]), extra

    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, b2=0.95))
    return trained(ranks, params, loss_of, tx, sequences(rows * ranks, time, words))


# The U-Net of a diffusion model (Ho et al. 2020) for images of 32 by 32, half as wide: 8 million weights and their
# moving average, times and noise drawn inside the step.
class Residual(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, times):
        unit = lambda a: nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(32)(a)))
        h = unit(unit(x) + nn.Dense(self.width)(nn.silu(times))[:, None, None])
        return h + (x if x.shape == h.shape else nn.Conv(self.width, (1, 1))(x))


class ImageAttention(nn.Module):
    @nn.compact
    def __call__(self, x):
        h = nn.GroupNorm(32)(x).reshape(x.shape[0], -1, x.shape[-1])
        return x + nn.MultiHeadDotProductAttention(4)(h).reshape(x.shape)


class DiffusionUNet(nn.Module):
    @nn.compact
    def __call__(self, x, times):
        angles = times[:, None] * jnp.exp(-jnp.arange(64) * np.log(1e4) / 64)
        times = nn.Dense(256)(nn.silu(nn.Dense(256)(jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], -1))))
        x = nn.Conv(64, (3, 3))(x)
        skipped = [x]
        for width in (64, 128, 256):
            for _ in range(2):
                x = Residual(width)(x, times)
                x = ImageAttention()(x) if width == 256 else x
                skipped.append(x)
            if width < 256:
                x = nn.Conv(width, (3, 3), strides=2)(x)
                skipped.append(x)
        x = Residual(256)(ImageAttention()(Residual(256)(x, times)), times)
        for width in (256, 128, 64):
            for _ in range(3):
                x = Residual(width)(jnp.concatenate([x, skipped.pop()], -1), times)
            if width > 64:
                rows, height, breadth, _ = x.shape
                x = nn.Conv(width, (3, 3))(jax.image.resize(x, (rows, 2 * height, 2 * breadth, width), "nearest"))
        return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(32)(x)))


def diffusion_unet(ranks, rows=8):
    model = DiffusionUNet()
    params = jax.jit(model.init)(KEY(0), jnp.zeros((1, 32, 32, 3)), jnp.zeros(1))["params"]
    kept = jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, 1000))

    def loss_of(params, extra, x, y):
        key, time_key, noise_key = jax.random.split(extra["key"], 3)
        times, noise = jax.random.randint(time_key, x.shape[:1], 0, 1000), jax.random.normal(noise_key, x.shape)
        share = kept[times][:, None, None, None]
        noisy = jnp.sqrt(share) * x + jnp.sqrt(1 - share) * noise
        guess = model.apply({"params": params}, noisy, times.astype(x.dtype))
        average = jax.tree.map(lambda mean, new: 0.999 * mean + 0.001 * new, extra["average"], params)
        return ((guess - noise) ** 2).mean(), {"key": key, "average": average}

    extra = {"key": KEY(5), "average": jax.tree.map(jnp.copy, params)}
    return trained(ranks, params, loss_of, optax.adamw(2e-4), image_classes(rows * ranks, 32), extra=extra)


REAL = {step.__name__: step for step in (resnet50, gpt2, bert, llama, diffusion_unet)}
