"""Present-day JAX training steps, one file: seven kinds, each small enough for one core.

`make(name, ranks)` gives a Step: a jitted train step, its first arguments, and a stream of batches. Works
with JAX 0.5.3, 0.7.2 and 0.10.2 on `ranks` CPU devices (jax_num_cpu_devices must be set before)."""

import dataclasses
import functools
from typing import Any, Callable

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P


@dataclasses.dataclass
class Step:
    step: Callable[..., Any]  # jitted: (state, *batch) -> (state, metrics)
    state: Any  # first value of the state, placed
    batch: Callable[[int], tuple]  # t -> the global batch of step t, placed
    donated: tuple = (0,)


def shard_map(f, mesh, in_specs, out_specs, check=True):
    if hasattr(jax, "shard_map"):
        return jax.shard_map(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_vma=check)
    from jax.experimental.shard_map import shard_map as old

    return old(f, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=check)


def data_mesh(ranks):
    return Mesh(np.array(jax.devices()[:ranks]), ("data",))


def place(mesh, tree, spec=P()):
    return jax.tree.map(lambda x: jax.device_put(x, NamedSharding(mesh, spec)), tree)


def stream(mesh, draw):
    """Batches from a seeded generator: draw(rng) gives numpy arrays whose first axis is split over ranks."""
    return lambda t: tuple(place(mesh, draw(np.random.default_rng(1000 + t)), P("data")))


def labelled(rows, shape, classes):
    """Class means plus noise: something that can be learnt."""
    means = np.random.default_rng(7).normal(size=(classes, *shape)).astype(np.float32)

    def draw(rng):
        y = rng.integers(0, classes, rows).astype(np.int32)
        return means[y] + rng.normal(size=(rows, *shape)).astype(np.float32), y

    return draw


def cross_entropy(logits, labels):
    return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()


# 1. flax MLP, adamw, shard_map with the check of varying values on: differentiating the mean loss sums the gradients.
# JAX before 0.6 cannot see through adamw that they are equal on all ranks; there each rank averages them itself.
class Mlp(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width in (128, 128):
            x = nn.gelu(nn.Dense(width)(x))
        return nn.Dense(10)(x)


def mlp(ranks):
    mesh, model, tx = data_mesh(ranks), Mlp(), optax.adamw(1e-3)
    checked = hasattr(jax, "shard_map")
    params = model.init(jax.random.PRNGKey(0), jnp.zeros((1, 64)))["params"]

    def step(state, x, y):
        def loss_of(params):
            loss = cross_entropy(model.apply({"params": params}, x), y)
            return jax.lax.pmean(loss, "data") if checked else loss

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        if not checked:
            loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt}, {"loss": loss}

    step = shard_map(step, mesh, (P(), P("data"), P("data")), (P(), P()), check=checked)
    state = {"params": params, "opt_state": tx.init(params)}
    return Step(jax.jit(step, donate_argnums=0), place(mesh, state), stream(mesh, labelled(32 * ranks, (64,), 10)))


# 2. Decoder in bfloat16 with f32 weights: RMSNorm, rotary embedding, SwiGLU, clipping, warm-up and cosine decay.
WIDTH, HEADS, SEQUENCE, VOCABULARY, LAYERS = 64, 4, 32, 64, 2


def rms_norm(x, scale):
    y = x.astype(jnp.float32)
    y = y * jax.lax.rsqrt(jnp.mean(y * y, axis=-1, keepdims=True) + 1e-6)
    return (y * scale).astype(x.dtype)


def rotary(x):
    half = x.shape[-1] // 2
    angle = jnp.arange(x.shape[1])[:, None] * 10000.0 ** (-jnp.arange(half) / half)
    sin, cos = jnp.sin(angle)[None, :, None], jnp.cos(angle)[None, :, None]
    a, b = jnp.split(x.astype(jnp.float32), 2, axis=-1)
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1).astype(x.dtype)


def decoder_params(key):
    keys = iter(jax.random.split(key, 64))
    normal = lambda *shape: jax.random.normal(next(keys), shape) * shape[0] ** -0.5
    head, hidden = WIDTH // HEADS, WIDTH * 2
    layer = lambda: {
        "norm_1": jnp.ones(WIDTH), "norm_2": jnp.ones(WIDTH),
        "q": normal(WIDTH, HEADS, head), "k": normal(WIDTH, HEADS, head), "v": normal(WIDTH, HEADS, head),
        "o": normal(HEADS, head, WIDTH) * 0.5,
        "gate": normal(WIDTH, hidden), "up": normal(WIDTH, hidden), "down": normal(hidden, WIDTH)}
    return {"embed": normal(VOCABULARY, WIDTH), "layers": [layer() for _ in range(LAYERS)],
            "norm": jnp.ones(WIDTH), "head": normal(WIDTH, VOCABULARY)}


def decoder_logits(params, tokens, dtype):
    cast = lambda p: jax.tree.map(lambda a: a.astype(dtype) if a.ndim > 1 else a, p)
    params = cast(params)
    x = params["embed"][tokens]
    mask = jnp.tril(jnp.ones((tokens.shape[1],) * 2, bool))
    for p in params["layers"]:
        h = rms_norm(x, p["norm_1"])
        q, k, v = (jnp.einsum("btd,dhk->bthk", h, p[n]) for n in "qkv")
        scores = jnp.einsum("bthk,bshk->bhts", rotary(q), rotary(k)).astype(jnp.float32) * q.shape[-1] ** -0.5
        weights = jax.nn.softmax(jnp.where(mask, scores, -1e30)).astype(dtype)
        x = x + jnp.einsum("bhts,bshk,hkd->btd", weights, v, p["o"])
        h = rms_norm(x, p["norm_2"])
        x = x + (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
    return (rms_norm(x, params["norm"]) @ params["head"]).astype(jnp.float32)


def decoder(ranks, dtype=jnp.bfloat16):
    mesh = data_mesh(ranks)
    schedule = optax.warmup_cosine_decay_schedule(0.0, 3e-3, 5, 100)
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule, b2=0.95, weight_decay=0.1))
    params = decoder_params(jax.random.PRNGKey(1))

    def step(state, tokens):
        params, opt = state

        def loss_of(params):
            return cross_entropy(decoder_logits(params, tokens[:, :-1], dtype), tokens[:, 1:])

        loss, grads = jax.value_and_grad(loss_of)(params)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt = tx.update(grads, opt, params)
        return (optax.apply_updates(params, updates), opt), loss

    step = jax.jit(shard_map(step, mesh, (P(), P("data")), (P(), P()), check=False), donate_argnums=0)

    def draw(rng):  # a random walk over the vocabulary
        start = rng.integers(0, VOCABULARY, (4 * ranks, 1))
        steps = rng.integers(0, 4, (4 * ranks, SEQUENCE + 1))
        return (((start + np.cumsum(steps, 1)) % VOCABULARY).astype(np.int32),)

    return Step(step, place(mesh, (params, tx.init(params))), stream(mesh, draw))


# 3. ResNet with batch normalisation (statistics of the rank's own rows, running means averaged), SGD with momentum.
class Block(nn.Module):
    channels: int
    stride: int

    @nn.compact
    def __call__(self, x):
        norm = functools.partial(nn.BatchNorm, use_running_average=False, momentum=0.9)
        conv = functools.partial(nn.Conv, use_bias=False)
        y = nn.relu(norm()(conv(self.channels, (3, 3), (self.stride, self.stride))(x)))
        y = norm()(conv(self.channels, (3, 3))(y))
        if x.shape != y.shape:
            x = norm()(conv(self.channels, (1, 1), (self.stride, self.stride))(x))
        return nn.relu(x + y)


class ResNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.Conv(8, (3, 3), use_bias=False)(x)
        x = nn.relu(nn.BatchNorm(use_running_average=False, momentum=0.9)(x))
        x = nn.max_pool(x, (3, 3), (2, 2), "SAME")
        for channels, stride in ((8, 1), (16, 2)):
            x = Block(channels, stride)(x)
        return nn.Dense(10)(x.mean((1, 2)))


def resnet(ranks):
    mesh, model = data_mesh(ranks), ResNet()
    tx = optax.sgd(0.05, momentum=0.9, nesterov=True)
    variables = model.init(jax.random.PRNGKey(2), jnp.zeros((1, 16, 16, 3)))
    state = {"params": variables["params"], "batch_stats": variables["batch_stats"],
             "opt_state": tx.init(variables["params"])}

    def step(state, image, label):
        def loss_of(params):
            logits, new = model.apply({"params": params, "batch_stats": state["batch_stats"]}, image,
                                      mutable=["batch_stats"])
            return cross_entropy(logits, label), (new["batch_stats"], (logits.argmax(-1) == label).mean())

        (loss, (stats, accuracy)), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        grads, stats, loss, accuracy = jax.lax.pmean((grads, stats, loss, accuracy), "data")
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        state = {"params": optax.apply_updates(state["params"], updates), "batch_stats": stats, "opt_state": opt}
        return state, {"accuracy": accuracy, "loss": loss}

    step = jax.jit(shard_map(step, mesh, (P(), P("data"), P("data")), (P(), P()), check=False), donate_argnums=0)
    return Step(step, place(mesh, state), stream(mesh, labelled(16 * ranks, (16, 16, 3), 10)))


# 4. LSTM by lax.scan over time.
def lstm(ranks):
    mesh, tx = data_mesh(ranks), optax.adam(3e-3)
    hidden, time, features = 32, 12, 16
    keys = jax.random.split(jax.random.PRNGKey(3), 3)
    params = {"input": jax.random.normal(keys[0], (features, 4 * hidden)) * features**-0.5,
              "recurrent": jax.random.normal(keys[1], (hidden, 4 * hidden)) * hidden**-0.5,
              "bias": jnp.zeros(4 * hidden), "out": jax.random.normal(keys[2], (hidden, 10)) * hidden**-0.5}

    def logits_of(params, x):
        def cell(carry, xt):
            h, c = carry
            i, f, g, o = jnp.split(xt @ params["input"] + h @ params["recurrent"] + params["bias"], 4, axis=-1)
            c = jax.nn.sigmoid(f + 1.0) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zero = jnp.zeros((x.shape[0], hidden))
        (h, _), _ = jax.lax.scan(cell, (zero, zero), jnp.swapaxes(x, 0, 1))
        return h @ params["out"]

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: cross_entropy(logits_of(p, x), y))(state["params"])
        grads = jax.lax.pmean(grads, "data")
        updates, opt = tx.update(grads, state["opt_state"])
        state = {"params": optax.apply_updates(state["params"], updates), "opt_state": opt}
        return state, {"loss": jax.lax.pmean(loss, "data")}

    step = jax.jit(shard_map(step, mesh, (P(), P("data"), P("data")), (P(), P()), check=False), donate_argnums=0)
    state = {"params": params, "opt_state": tx.init(params)}
    return Step(step, place(mesh, state), stream(mesh, labelled(16 * ranks, (time, features), 10)))


# 5. Dropout with a jax.random key in the state, folded with the rank.
def dropout(ranks):
    mesh, tx = data_mesh(ranks), optax.adam(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(4), 3)
    params = [{"w": jax.random.normal(k, (a, b)) * a**-0.5, "b": jnp.zeros(b)}
              for k, (a, b) in zip(keys, ((64, 96), (96, 96), (96, 10)))]
    state = {"params": params, "opt_state": tx.init(params), "rng": jax.random.key(5)}

    def step(state, x, y):
        new_key, key = jax.random.split(state["rng"])
        key = jax.random.fold_in(key, jax.lax.axis_index("data"))

        def loss_of(params):
            h = x
            for i, layer in enumerate(params[:-1]):
                h = jnp.tanh(h @ layer["w"] + layer["b"])
                keep = jax.random.bernoulli(jax.random.fold_in(key, i), 0.9, h.shape)
                h = jnp.where(keep, h / 0.9, 0.0)
            return cross_entropy(h @ params[-1]["w"] + params[-1]["b"], y)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt = tx.update(grads, state["opt_state"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt, "rng": new_key}, loss

    step = jax.jit(shard_map(step, mesh, (P(), P("data"), P("data")), (P(), P()), check=False), donate_argnums=0)
    return Step(step, place(mesh, state), stream(mesh, labelled(32 * ranks, (64,), 10)))


# 6. FSDP: every weight lives as a shard on each rank; gathered before use, gradients reduce-scattered.
def fsdp(ranks):
    mesh, tx = data_mesh(ranks), optax.adamw(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(6), 3)
    params = {f"layer_{i}": {"kernel": jax.random.normal(k, (a, b)) * a**-0.5, "bias": jnp.zeros(b)}
              for i, (k, (a, b)) in enumerate(zip(keys, ((64, 128), (128, 128), (128, 16))))}
    state = {"params": params, "opt_state": tx.init(params)}
    spec = jax.tree.map(lambda a: P("data") if a.ndim else P(), state)

    def step(state, x, y):
        def loss_of(full):
            h = x
            for i in range(3):
                h = h @ full[f"layer_{i}"]["kernel"] + full[f"layer_{i}"]["bias"]
                h = jax.nn.relu(h) if i < 2 else h
            return cross_entropy(h, y)

        full = jax.tree.map(lambda p: jax.lax.all_gather(p, "data", tiled=True), state["params"])
        loss, grads = jax.value_and_grad(loss_of)(full)
        grads = jax.tree.map(lambda g: jax.lax.psum_scatter(g, "data", tiled=True) / ranks, grads)
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        state = {"params": optax.apply_updates(state["params"], updates), "opt_state": opt}
        return state, {"loss": jax.lax.pmean(loss, "data")}

    step = jax.jit(shard_map(step, mesh, (spec, P("data"), P("data")), (spec, P()), check=False), donate_argnums=0)
    placed = jax.tree.map(lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), state, spec)
    return Step(step, placed, stream(mesh, labelled(32 * ranks, (64,), 16)))


# 7. jit with shardings: the partitioner makes the collectives.
def auto(ranks):
    mesh, tx = data_mesh(ranks), optax.adam(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(8), 3)
    params = [(jax.random.normal(k, (a, b)) * a**-0.5, jnp.zeros(b))
              for k, (a, b) in zip(keys, ((64, 128), (128, 64), (64, 10)))]

    def step(params, opt, batch):
        def loss_of(params):
            h = batch["x"]
            for w, b in params[:-1]:
                h = jnp.tanh(h @ w + b)
            return cross_entropy(h @ params[-1][0] + params[-1][1], batch["y"])

        loss, grads = jax.value_and_grad(loss_of)(params)
        updates, opt = tx.update(grads, opt)
        return optax.apply_updates(params, updates), opt, loss

    whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("data"))
    step = jax.jit(step, donate_argnums=(0, 1), in_shardings=(whole, whole, split),
                   out_shardings=(whole, whole, whole))
    draw = labelled(32 * ranks, (64,), 10)
    batches = stream(mesh, lambda rng: ({k: v for k, v in zip("xy", draw(rng))},))
    return Step(step, (place(mesh, params), place(mesh, tx.init(params))), batches, donated=(0, 1))


STEPS = {f.__name__: f for f in (mlp, decoder, resnet, lstm, dropout, fsdp, auto)}


def make(name, ranks):
    return STEPS[name](ranks)


def arguments(step, t):
    """The arguments of step t with the first state."""
    state = step.state if step.donated != (0,) else (step.state,)
    return (*state, *step.batch(t))
