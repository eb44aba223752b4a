"""Language models' steps as users write them at the end of 2026: delta rules, latent attention, experts with room,
preference losses, four-bit weights, cut sequences. As steps.py; `TOKENS[name](ranks)`."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from collective_steps import place_by, specs_like, square_mesh, stream_by
from jax.sharding import PartitionSpec as P
from model_steps import trained
from modern_steps import normal, sequences
from recent_steps import updated
from steps import Step, cross_entropy, labelled, shard_map


# A gated delta rule a chunk at a time: the chunk's writes by a triangular solve, states handed on by a scan.
def delta_rule(ranks):
    width, heads, size, time, chunk = 16, 2, 8, 16, 8
    params = normal(6, table=(20, width), qkv=(width, 3 * heads * size), beta=(width, heads), gate=(width, heads),
                    out=(heads * size, width))

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        q, k, v = (a.reshape(*x.shape[:2], heads, size) for a in jnp.split(x @ p["qkv"], 3, -1))
        q, k = (a / jnp.sqrt((a ** 2).sum(-1, keepdims=True) + 1e-6) for a in (q, k))
        beta, g = jax.nn.sigmoid(x @ p["beta"]), jax.nn.log_sigmoid(x @ p["gate"] + 3)
        parts = lambda a: a.reshape(a.shape[0], time // chunk, chunk, *a.shape[2:]).swapaxes(2, 3).swapaxes(0, 1)
        q, k, v, beta, g = (parts(a) for a in (q, k, v, beta[..., None], g))

        def body(h, part):
            q, k, v, beta, g = part
            sums = jnp.cumsum(g, -1)
            apart = jnp.exp(jnp.tril(sums[..., :, None] - sums[..., None, :]))
            strict = jnp.tril(jnp.einsum("bhik,bhjk->bhij", beta * k, k) * apart, -1)
            right = beta * jnp.concatenate([v, k * jnp.exp(sums)[..., None]], -1)
            solved = jax.scipy.linalg.solve_triangular(jnp.eye(chunk) + strict, right, lower=True, unit_diagonal=True)
            u, w = jnp.split(solved, 2, -1)
            u = u - w @ h
            y = (q * jnp.exp(sums)[..., None]) @ h + jnp.tril(q @ k.swapaxes(-1, -2) * apart) @ u
            left = jnp.exp(sums[..., -1:] - sums)[..., None]
            return h * jnp.exp(sums[..., -1])[..., None, None] + (k * left).swapaxes(-1, -2) @ u, y

        _, y = jax.lax.scan(body, jnp.zeros((x.shape[0], heads, size, size)), (q, k, v, beta, g))
        y = y.transpose(1, 0, 3, 2, 4).reshape(*x.shape[:2], -1)
        return cross_entropy((x + y @ p["out"]) @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-2), sequences(2 * ranks, time, 20))


# RWKV: tokens mixed with their predecessors, exponential weights kept beside their running maximum.
def weighted_keys(ranks):
    width, time = 16, 12
    params = normal(7, table=(20, width), r=(width, width), k=(width, width), v=(width, width), out=(width, width),
                    up=(width, 32), down=(32, width)) | {
        "mix": jnp.linspace(0.1, 0.9, width), "decay": jnp.linspace(-2, 1, width), "first": jnp.zeros(width)}

    def shifted(x):
        return jnp.pad(x, ((0, 0), (1, 0), (0, 0)))[:, :-1]

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        mixed = x * p["mix"] + shifted(x) * (1 - p["mix"])
        k, v = (mixed @ p["k"]).swapaxes(0, 1), (mixed @ p["v"]).swapaxes(0, 1)

        def body(held, part):
            a, b, top = held
            k, v = part
            most = jnp.maximum(top, k + p["first"])
            old, new = jnp.exp(top - most), jnp.exp(k + p["first"] - most)
            y = (old * a + new * v) / (old * b + new)
            most = jnp.maximum(top - jnp.exp(p["decay"]), k)
            old, new = jnp.exp(top - jnp.exp(p["decay"]) - most), jnp.exp(k - most)
            return (old * a + new * v, old * b + new, most), y

        none = jnp.zeros((x.shape[0], width))
        _, y = jax.lax.scan(body, (none, none, none - 1e38), (k, v))
        x = x + jax.nn.sigmoid(mixed @ p["r"]) * y.swapaxes(0, 1) @ p["out"]
        x = x + jnp.square(jax.nn.relu(shifted(x) @ p["up"])) @ p["down"]
        return cross_entropy(x @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), sequences(4 * ranks, time, 20))


# Latent attention: keys and values from a few shared numbers, rotary parts apart, queries in groups, a sliding window
# with sinks, capped logits; jax.nn.dot_product_attention in the second layer.
def latent(ranks):
    width, heads, size, few, time, window = 16, 4, 8, 6, 12, 4
    params = normal(8, table=(20, width), q=(width, heads * size), down=(width, few), up=(few, 2 * 2 * size),
                    out=(heads * size, width), q2=(width, heads * size), kv2=(width, 2 * size),
                    out2=(heads * size, width))
    params["sink"] = jnp.zeros(heads)

    def rotated(x):
        angle = jnp.arange(time)[:, None] * 100.0 ** (-jnp.arange(size // 4) / (size // 4))
        left, right, rest = x[..., :size // 4], x[..., size // 4:size // 2], x[..., size // 2:]
        sin, cos = jnp.sin(angle)[:, None], jnp.cos(angle)[:, None]
        return jnp.concatenate([left * cos - right * sin, left * sin + right * cos, rest], -1)

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        q = rotated((x @ p["q"]).reshape(-1, time, heads, size)).reshape(-1, time, 2, heads // 2, size)
        k, v = jnp.split((x @ p["down"] @ p["up"]).reshape(-1, time, 2, 2 * size), 2, -1)
        scores = 5 * jnp.tanh(jnp.einsum("btghd,bsgd->bghts", q, rotated(k)) / (5 * size ** 0.5))
        apart = jnp.arange(time)[:, None] - jnp.arange(time)
        scores = jnp.where((apart >= 0) & (apart < window), scores, -1e30)
        sinks = jnp.broadcast_to(p["sink"].reshape(2, -1, 1, 1), (*scores.shape[:-1], 1))
        weights = jax.nn.softmax(jnp.concatenate([scores, sinks], -1))[..., :-1]
        x = x + jnp.einsum("bghts,bsgd->btghd", weights, v).reshape(*x.shape[:2], -1) @ p["out"]
        k, v = jnp.split((x @ p["kv2"]).reshape(-1, time, 1, 2 * size), 2, -1)
        q = (x @ p["q2"]).reshape(-1, time, heads, size)
        x = x + jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(*x.shape[:2], -1) @ p["out2"]
        return cross_entropy(x @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.lion(1e-3), sequences(4 * ranks, time, 20))


# Experts with room for so many tokens: assignments sorted by expert, places by a prefix sum, what is over is dropped.
def sorted_experts(ranks):
    count, width, best, room = 4, 16, 2, 10
    params = normal(9, gate=(width, count), head=(width, 5)) | {
        "up": jax.random.normal(jax.random.PRNGKey(1), (count, width, 24)) * 0.2,
        "down": jax.random.normal(jax.random.PRNGKey(2), (count, 24, width)) * 0.2}

    def loss_of(p, extra, x, y):
        logits = x @ p["gate"]
        weight, index = jax.lax.top_k(jax.nn.sigmoid(logits), best)
        weight = weight / weight.sum(-1, keepdims=True)
        flat = index.ravel()
        order = jnp.argsort(flat, stable=True)
        sizes = jnp.bincount(flat, length=count)
        place = jnp.arange(flat.size) - (jnp.cumsum(sizes) - sizes)[flat[order]]
        held = jnp.zeros((count, room, width)).at[flat[order], place].set(x[order // best], mode="drop")
        h = jnp.einsum("ecf,efd->ecd", jax.nn.silu(jnp.einsum("ecd,edf->ecf", held, p["up"])), p["down"])
        back = h.at[flat[order], place].get(mode="fill", fill_value=0.0) * weight.ravel()[order][:, None]
        x = x + jnp.zeros_like(x).at[order // best].add(back)
        z = 1e-3 * (jax.nn.logsumexp(logits, -1) ** 2).mean()
        return cross_entropy(x @ p["head"], y) + z, extra

    return trained(ranks, params, loss_of, optax.adamw(1e-2), labelled(16 * ranks, (16,), 5))


def token_chances(p, text):
    logits = (jnp.cumsum(p["table"][text[:, :-1]], 1) / jnp.arange(1.0, text.shape[1])[:, None]) @ p["out"]
    return jnp.take_along_axis(jax.nn.log_softmax(logits), text[:, 1:, None], -1)[..., 0]


# Preferences over pairs against a frozen reference, and groups of samples with relative advantages, clipped ratios and
# a divergence: DPO and GRPO in one step.
def preferences(ranks):
    params = normal(10, table=(20, 16), out=(16, 20))
    reference = normal(11, table=(20, 16), out=(16, 20))

    def loss_of(p, extra, good, bad, group, reward, old):
        of = lambda t: (token_chances(p, t) - token_chances(extra, t)).sum(-1)
        paired = -jax.nn.log_sigmoid(0.5 * (of(good) - of(bad))).mean()
        now, kept = token_chances(p, group), token_chances(extra, group)
        mean, std = reward.reshape(-1, 4).mean(1), reward.reshape(-1, 4).std(1)
        gain = ((reward.reshape(-1, 4) - mean[:, None]) / (std[:, None] + 1e-4)).reshape(-1, 1)
        ratio = jnp.exp(now - old)
        mask = jnp.cumsum(group[:, 1:] == 0, -1) <= 1
        apart = jnp.exp(kept - now) - (kept - now) - 1
        each = jnp.minimum(ratio * gain, jnp.clip(ratio, 0.8, 1.28) * gain) - 0.04 * apart
        return paired - (each * mask).sum() / mask.sum(), extra

    def draw(rng):
        texts = [rng.integers(0, 20, (4 * ranks, 9)).astype(np.int32) for _ in range(3)]
        return *texts, rng.normal(size=4 * ranks).astype(np.float32), (
            rng.normal(size=(4 * ranks, 8)) * 0.1 - 3).astype(np.float32)

    return trained(ranks, params, loss_of, optax.adam(1e-2), draw, reference)


# Weights frozen as four bits a weight, two in a byte, with a scale a block of them; adapters of low rank in bfloat16.
def four_bits(ranks):
    width, block, rank = 16, 8, 4
    levels = np.float32([-1, -.7, -.53, -.39, -.28, -.18, -.09, 0, .08, .16, .25, .34, .44, .56, .72, 1])
    rng = np.random.default_rng(8)
    frozen = {n: {"bits": jnp.asarray(rng.integers(0, 256, (width * width // 2,)), jnp.uint8),
                  "scale": jnp.asarray(rng.integers(40, 90, width * width // block), jnp.int8)} for n in "ab"}
    params = {n: {"down": jnp.asarray(rng.normal(size=(width, rank)) * 0.3, jnp.bfloat16),
                  "up": jnp.zeros((rank, width), jnp.bfloat16)} for n in "ab"}
    params["head"] = normal(20, head=(width, 5))["head"].astype(jnp.bfloat16)

    def weight(f):
        pairs = jnp.stack([f["bits"] >> 4, f["bits"] & 15], -1).ravel()
        blocks = jnp.asarray(levels)[pairs].reshape(-1, block) * (f["scale"].astype(jnp.float32) / 127)[:, None]
        return blocks.reshape(width, width).astype(jnp.bfloat16)

    def loss_of(p, extra, x, y):
        h = x.astype(jnp.bfloat16)
        for n in "ab":
            h = jax.nn.gelu(h @ weight(extra[n]) + h @ p[n]["down"] @ p[n]["up"])
        return cross_entropy((h @ p["head"]).astype(jnp.float32), y), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(8 * ranks, (width,), 5), frozen)


# Weights that change while they read: an inner model's gradient steps in a scan, inside the outer gradient.
def learnt_at_test(ranks):
    width, time = 12, 8
    params = normal(21, table=(20, width), k=(width, width), v=(width, width), q=(width, width), a=(width, 16),
                    b=(16, width), rate=(width, 1))

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]

        def one(x):
            inner = lambda w, k, v: ((jax.nn.gelu(k @ w["a"]) @ w["b"] - v) ** 2).sum() / 2

            def body(held, x):
                w, speed = held
                g = jax.grad(inner)(w, x @ p["k"], x @ p["v"])
                rate = 0.5 * jax.nn.sigmoid(x @ p["rate"])[0]
                speed = jax.tree.map(lambda s, g: 0.8 * s - rate * g, speed, g)
                w = jax.tree.map(lambda w, s: 0.98 * w + s, w, speed)
                return (w, speed), jax.nn.gelu(x @ p["q"] @ w["a"]) @ w["b"]

            w = {n: p[n] for n in "ab"}
            return jax.lax.scan(body, (w, jax.tree.map(jnp.zeros_like, w)), x)[1]

        return cross_entropy((x + jax.vmap(one)(x)) @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), sequences(4 * ranks, time, 20))


# Cross entropy over many words a block of rows at a time, with its own backward pass that makes the logits again.
@jax.custom_vjp
def blocked_loss(x, w, y):
    return _blocked_forward(x, w, y)[0]


def _blocked_forward(x, w, y):
    def body(total, part):
        x, y = part
        logits = x @ w
        top = jax.nn.logsumexp(logits, -1)
        return total + (top - jnp.take_along_axis(logits, y[:, None], 1)[:, 0]).sum(), top

    total, tops = jax.lax.scan(body, 0.0, (x.reshape(-1, 4, x.shape[-1]), y.reshape(-1, 4)))
    return total / y.size, (x, w, y, tops)


def _blocked_backward(saved, g):
    x, w, y, tops = saved

    def body(dw, part):
        x, y, top = part
        d = (jnp.exp(x @ w - top[:, None]) - jax.nn.one_hot(y, w.shape[1])) * (g / saved[2].size)
        return dw + x.T @ d, d @ w.T

    dw, dx = jax.lax.scan(body, jnp.zeros_like(w), (x.reshape(-1, 4, x.shape[-1]), y.reshape(-1, 4), tops))
    return dx.reshape(x.shape), dw, None


blocked_loss.defvjp(_blocked_forward, _blocked_backward)


# Tokens that skip a layer, chosen by a router's top-k and put back by scatter; two heads that predict further words.
def skipped_tokens(ranks):
    width, time, kept = 16, 12, 6
    params = normal(22, table=(40, width), route=(width, 1), up=(width, 32), down=(32, width), next=(width, width),
                    head=(width, 40), place=(time - 1, width))

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-2]] + p["place"]
        score = (x @ p["route"])[..., 0]
        weight, index = jax.lax.top_k(score, kept)
        index, order = jax.lax.sort_key_val(index, jnp.broadcast_to(jnp.arange(kept), index.shape))
        weight = jnp.take_along_axis(jax.nn.sigmoid(weight), order, 1)
        chosen = jnp.take_along_axis(x, index[..., None], 1)
        h = jax.nn.gelu(chosen @ p["up"]) @ p["down"] * weight[..., None]
        x = jax.vmap(lambda x, i, h: x.at[i].add(h, unique_indices=True))(x, index, h)
        mask = jax.vmap(lambda i: jnp.zeros(time - 1).at[i].set(1.0))(index)
        aside = optax.sigmoid_binary_cross_entropy(score, mask).mean()
        one = blocked_loss(x.reshape(-1, width), p["head"], text[:, 1:-1].ravel())
        two = blocked_loss((x @ p["next"]).reshape(-1, width), p["head"], text[:, 2:].ravel())
        return one + 0.3 * two + 0.01 * aside, extra

    return trained(ranks, params, loss_of, optax.adamw(3e-3), sequences(4 * ranks, time, 40))


# Megatron's sequence parallelism: between blocks each rank of "model" has a part of the sequence, gathered before and
# scattered as it is summed after; rows over "data".
def cut_sequence(ranks):
    mesh, tx = square_mesh(ranks, "data", "model"), optax.adam(3e-3)
    width, time, parts = 16, 8, mesh.shape["model"]
    params = normal(23, table=(20, width), up=(width, 4 * width), gate=(width, 4 * width), down=(4 * width, width)) | {
        "norm": jnp.ones(width)}
    specs = {"table": P(), "up": P(None, "model"), "gate": P(None, "model"), "down": P("model", None), "norm": P()}

    def step(state, text):
        def loss_of(p):
            mine = jax.lax.axis_index("model") * (time // parts)
            take = lambda a: jax.lax.dynamic_slice_in_dim(a, mine, time // parts, 1)
            x = p["table"][take(text[:, :-1])]
            h = x * jax.lax.rsqrt((x ** 2).mean(-1, keepdims=True) + 1e-6) * p["norm"]
            h = jax.lax.all_gather(h, "model", axis=1, tiled=True)
            h = (jax.nn.silu(h @ p["gate"]) * (h @ p["up"])) @ p["down"]
            x = x + jax.lax.psum_scatter(h, "model", scatter_dimension=1, tiled=True)
            return cross_entropy(x @ p["table"].T, take(text[:, 1:])) / parts

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        grads = {n: g if "model" in specs[n] else jax.lax.psum(g, "model") for n, g in grads.items()}
        grads = jax.lax.pmean(grads, "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, jax.lax.pmean(jax.lax.psum(loss, "model"), "data")

    opt = tx.init(params)
    state_specs = {"params": specs, "opt": specs_like(opt, specs, params)}
    mapped = shard_map(step, mesh, (state_specs, P("data")), (state_specs, P()), check=False)
    return Step(jax.jit(mapped, donate_argnums=0), place_by(mesh, {"params": params, "opt": opt}, state_specs),
                stream_by(mesh, sequences(8, time, 20), P("data")))


TOKENS = {f.__name__: f for f in (
    delta_rule, weighted_keys, latent, sorted_experts, preferences, four_bits,
    learnt_at_test, skipped_tokens, cut_sequence)}
