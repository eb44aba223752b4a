"""Ways to train, as users of 2026 write them, beyond program_steps.py: per-example and second-order gradients,
quantisation, search, replay memories, fixed points, meshes of two axes. As steps.py; `SCHEMES[name](ranks)`."""

import functools

import jax
import jax.numpy as jnp
import optax
from collective_steps import place_by, specs_like, square_mesh, stream_by
from jax.flatten_util import ravel_pytree
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, trained
from modern_steps import normal
from program_steps import mlp_logits, mlp_loss, mlp_params
from steps import Step, cross_entropy, data_mesh, labelled, place, shard_map, stream


# Sharpness-aware: the gradient where the loss is worse nearby; averaged weights; weights alone decay.
def sharpness(ranks):
    params = mlp_params(11)
    tx = optax.chain(optax.masked(optax.add_decayed_weights(1e-2), lambda p: [{"w": True, "b": False}] * len(p)),
                     optax.sgd(0.1, momentum=0.9, nesterov=True))

    def step(state, x, y):
        grad = jax.grad(lambda p: mlp_loss(p, None, x, y)[0])
        first = jax.lax.pmean(grad(state["params"]), "data")
        scale = 0.05 / (optax.global_norm(first) + 1e-12)
        near = jax.tree.map(lambda p, g: p + scale * g, state["params"], first)
        updates, opt = tx.update(jax.lax.pmean(grad(near), "data"), state["opt"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        ema = optax.incremental_update(params, state["ema"], 0.01)
        return {"params": params, "opt": opt, "ema": ema}, mlp_loss(params, None, x, y)[0]

    return data_parallel(ranks, {"params": params, "opt": tx.init(params), "ema": mlp_params(11)}, step,
                         labelled(16 * ranks, (16,), 5))


# Fake-quantised weights and activations with straight-through gradients, learnt step sizes.
@jax.custom_vjp
def fake_quantised(x, scale):
    return jnp.clip(jnp.round(x / scale), -8, 7) * scale


def _quantised_forward(x, scale):
    return fake_quantised(x, scale), (x, scale)


def _quantised_backward(saved, g):
    x, scale = saved
    inside = (x / scale >= -8) & (x / scale <= 7)
    by_scale = jnp.where(inside, jnp.round(x / scale) - x / scale, jnp.clip(x / scale, -8, 7))
    return jnp.where(inside, g, 0), (g * by_scale).sum()


fake_quantised.defvjp(_quantised_forward, _quantised_backward)


def quantised(ranks):
    params = [p | {"ws": jnp.float32(0.1), "xs": jnp.float32(0.2)} for p in mlp_params(12)]

    def loss_of(params, extra, x, y):
        for p in params:
            x = jax.nn.relu(fake_quantised(x, p["xs"]) @ fake_quantised(p["w"], p["ws"]) + p["b"])
        return cross_entropy(x, y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(16 * ranks, (16,), 5))


# Each example's gradient by vmap, clipped, summed, with noise of the step's key.
def private(ranks):
    params, tx = mlp_params(13), optax.adam(1e-3)

    def step(state, x, y):
        one = lambda p, x, y: mlp_loss(p, None, x[None], y[None])[0]
        losses, grads = jax.vmap(jax.value_and_grad(one), (None, 0, 0))(state["params"], x, y)
        norms = jnp.sqrt(sum(jnp.sum(g.reshape(g.shape[0], -1) ** 2, 1) for g in jax.tree.leaves(grads)))
        scale = jnp.minimum(1, 0.5 / norms)
        grads = jax.tree.map(lambda g: jnp.tensordot(scale, g, 1), grads)
        key = jax.random.fold_in(jax.random.wrap_key_data(state["key"]), state["t"])
        leaves, tree = jax.tree.flatten(jax.lax.psum(grads, "data"))
        noisy = [g + 0.1 * jax.random.normal(k, g.shape) for g, k in zip(leaves, jax.random.split(key, len(leaves)))]
        updates, opt = tx.update(tree.unflatten(noisy), state["opt"])
        new = {"params": optax.apply_updates(state["params"], updates), "opt": opt, "t": state["t"] + 1}
        return new | {"key": state["key"]}, jax.lax.pmean(losses.mean(), "data")

    state = {"params": params, "opt": tx.init(params), "t": jnp.int32(0), "key": jax.random.PRNGKey(8)}
    return data_parallel(ranks, state, step, labelled(8 * ranks, (16,), 5))


# Wasserstein with gradient penalty: gradients of gradients, several critic steps by fori_loop, spectral norm.
def penalty(ranks):
    critic, maker = mlp_params(15), normal(16, a=(8, 24), b=(24, 16))
    txs = optax.adam(1e-3, b1=0.5), optax.adam(1e-3, b1=0.5)

    def score(c, x):
        sigma = jnp.linalg.norm(c[0]["w"], axis=0).max()
        return mlp_logits([c[0] | {"w": c[0]["w"] / sigma}, *c[1:]], x, jax.nn.leaky_relu).mean(-1)

    def made(m, key, rows):
        return jnp.tanh(jax.random.normal(key, (rows, 8)) @ m["a"]) @ m["b"]

    def step(state, x, y):
        def critic_step(i, carry):
            c, opt, _ = carry
            key = jax.random.fold_in(jax.random.fold_in(state["key"], i), state["t"])
            fake = made(state["maker"], key, x.shape[0])

            def loss_of(c):
                e = jax.random.uniform(key, (x.shape[0], 1))
                g = jax.vmap(jax.grad(lambda v: score(c, v)))(e * x + (1 - e) * fake)
                return (score(c, fake) - score(c, x)).mean() + 10 * ((jnp.linalg.norm(g, axis=-1) - 1) ** 2).mean()

            loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(c), "data")
            updates, opt = txs[0].update(grads, opt)
            return optax.apply_updates(c, updates), opt, loss

        c, opt_c, loss = jax.lax.fori_loop(0, 3, critic_step, (state["critic"], state["opt_c"], jnp.zeros(())))
        grads = jax.grad(lambda m: -score(c, made(m, state["key"], x.shape[0])).mean())(state["maker"])
        grads = jax.lax.pmean(grads, "data")
        updates, opt_m = txs[1].update(grads, state["opt_m"])
        return {"critic": c, "opt_c": opt_c, "maker": optax.apply_updates(state["maker"], updates), "opt_m": opt_m,
                "key": state["key"], "t": state["t"] + 1}, loss

    state = {"critic": critic, "opt_c": txs[0].init(critic), "maker": maker, "opt_m": txs[1].init(maker),
             "key": jax.random.PRNGKey(9), "t": jnp.int32(0)}
    return data_parallel(ranks, state, step, labelled(8 * ranks, (16,), 5))


# Gradients through an inner loop of gradients, a learnt rate a layer.
def meta(ranks):
    params = {"start": mlp_params(17), "rate": jnp.full(3, 0.1)}

    def loss_of(params, extra, x, y):
        tasks = jax.tree.map(lambda a: a.reshape(4, -1, *a.shape[1:]), (x, y))

        def task(x, y):
            def inner(p, _):
                g = jax.grad(lambda p: mlp_loss(p, None, x[:4], y[:4])[0])(p)
                return [jax.tree.map(lambda a, b: a - r * b, q, h) for q, h, r in zip(p, g, params["rate"])], None

            adapted, _ = jax.lax.scan(inner, params["start"], None, length=3)
            return mlp_loss(adapted, None, x[4:], y[4:])[0]

        return jax.vmap(task)(*tasks).mean(), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(32 * ranks, (16,), 5))


# Shampoo: inverse fourth roots of the statistics by Newton's iteration, every few steps by a conditional.
def shampoo(ranks):
    params = [p["w"] for p in mlp_params(21)]

    def root(a):
        n = a.shape[0]
        a = a / jnp.trace(a) + 1e-3 * jnp.eye(n)

        def body(carry):
            x, m, i = carry
            t = (5 * jnp.eye(n) - m) / 4
            return x @ t, jnp.linalg.matrix_power(t, 4) @ m, i + 1

        x, _, _ = jax.lax.while_loop(lambda c: (jnp.abs(c[1] - jnp.eye(n)).max() > 1e-4) & (c[2] < 30), body,
                                     (jnp.eye(n), a, 0))
        return x

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: cross_entropy(
            jnp.tanh(jnp.tanh(x @ p[0]) @ p[1]) @ p[2], y))(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        left = [s + g @ g.T for s, g in zip(state["left"], grads)]
        right = [s + g.T @ g for s, g in zip(state["right"], grads)]
        roots = jax.lax.cond(state["t"] % 4 == 0, lambda: [(root(a), root(b)) for a, b in zip(left, right)],
                             lambda: state["roots"])
        params = [p - 0.02 * a @ g @ b for p, g, (a, b) in zip(state["params"], grads, roots)]
        return {"params": params, "left": left, "right": right, "roots": roots, "t": state["t"] + 1}, loss

    eyes = lambda axis: [1e-2 * jnp.eye(p.shape[axis]) for p in params]
    state = {"params": params, "left": eyes(0), "right": eyes(1), "roots": list(zip(eyes(0), eyes(1))),
             "t": jnp.int32(0)}
    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# A codebook of nearest entries, moved by averages; straight-through; sums by segment.
def codebook(ranks):
    params = normal(22, e1=(16, 24), e2=(24, 4), d1=(4, 24), d2=(24, 16))
    book = jax.random.normal(jax.random.PRNGKey(23), (12, 4))

    def loss_of(p, extra, x, unused):
        z = jax.nn.elu(x @ p["e1"]) @ p["e2"]
        distance = (z ** 2).sum(-1, keepdims=True) - 2 * z @ extra["book"].T + (extra["book"] ** 2).sum(-1)
        index = distance.argmin(-1)
        code = extra["book"][index]
        straight = z + jax.lax.stop_gradient(code - z)
        made = jax.nn.elu(straight @ p["d1"]) @ p["d2"]
        count = jax.lax.psum(jax.ops.segment_sum(jnp.ones_like(index, jnp.float32), index, 12), "data")
        total = jax.lax.psum(jax.ops.segment_sum(z, index, 12), "data")
        count, total = 0.9 * extra["count"] + 0.1 * count, 0.9 * extra["total"] + 0.1 * total
        new = {"book": total / (count[:, None] + 1e-3), "count": count, "total": total}
        commitment = ((z - jax.lax.stop_gradient(code)) ** 2).mean()
        return ((made - x) ** 2).mean() + 0.25 * commitment, jax.lax.stop_gradient(new)

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(16 * ranks, (16,), 5),
                   {"book": book, "count": jnp.ones(12), "total": jnp.copy(book)})


# Entropic transport between clouds by a fixed number of log-domain iterations; a sort; a soft top-k; a median.
def transport(ranks):
    params = mlp_params(25)

    def loss_of(params, extra, x, y):
        a = mlp_logits(params, x)
        cost = jnp.abs(a[:, None] - jax.nn.one_hot(y, 5)[None]).sum(-1)

        def body(carry, _):
            f, g = carry
            f = -0.5 * jax.nn.logsumexp((g[None] - cost) / 0.5, 1)
            return (f, -0.5 * jax.nn.logsumexp((f[:, None] - cost) / 0.5, 0)), None

        n = cost.shape[0]
        (f, g), _ = jax.lax.scan(body, (jnp.zeros(n), jnp.zeros(n)), None, length=8)
        plan = jnp.exp((f[:, None] + g[None] - cost) / 0.5)
        order = jnp.sort(cost.ravel())[: n * 2]
        values, _ = jax.lax.top_k(a, 3)
        return (plan * cost).mean() + 0.1 * order.mean() + 0.01 * values.std() + 0.01 * jnp.median(a), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(8 * ranks, (16,), 5))


# Beams: the best continuations kept by top-k over beams and words, sequences reordered by gathers; loss of the winners.
def beams(ranks):
    width, words, count = 12, 10, 3
    params = normal(26, table=(words, width), cell=(2 * width, width), out=(width, words))

    def cell(p, h, word):
        return jnp.tanh(jnp.concatenate([h, p["table"][word]], -1) @ p["cell"])

    def search(p, h):
        def body(carry, t):
            h, score, text = carry
            logits = jax.nn.log_softmax(h @ p["out"])
            total, flat = jax.lax.top_k((score[:, None] + logits).ravel(), count)
            beam, word = flat // words, flat % words
            text = text[beam].at[:, t].set(word)
            return (cell(p, h[beam], word), total, text), None

        start = (jnp.broadcast_to(h, (count, width)), jnp.where(jnp.arange(count) == 0, 0.0, -1e9),
                 jnp.zeros((count, 5), jnp.int32))
        return jax.lax.scan(body, start, jnp.arange(5))[0]

    def loss_of(p, extra, x, y):
        _, score, text = jax.vmap(lambda v: search(p, v))(x[:, :width])
        reward = (text == y[:, None, None] % words).mean(-1)
        return -(jax.nn.softmax(score) * (reward - reward.mean(-1, keepdims=True))).sum(-1).mean(), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(4 * ranks, (16,), 5))


# Deep Q: a target network, a replay memory in the state that grows by dynamic updates, priorities by categorical draws.
def replay(ranks):
    params = mlp_params(27)
    tx = optax.chain(optax.clip(1.0), optax.adam(1e-3))
    memory = {"x": jnp.zeros((64, 16)), "a": jnp.zeros(64, jnp.int32), "r": jnp.zeros(64), "p": jnp.full(64, -5.0)}

    def step(state, x, y):
        m, at = state["memory"], (state["t"] * x.shape[0]) % 64
        fill = lambda a, v: jax.lax.dynamic_update_slice(a, v.astype(a.dtype), (at,) + (0,) * (a.ndim - 1))
        key = jax.random.fold_in(jax.random.PRNGKey(5), state["t"])
        greedy = mlp_logits(state["params"], x).argmax(-1)
        random = jax.random.randint(key, greedy.shape, 0, 5)
        action = jnp.where(jax.random.bernoulli(key, 0.3, greedy.shape), random, greedy)
        m = {n: fill(m[n], v) for n, v in (("x", x), ("a", action), ("r", action == y), ("p", y * 0.1))}
        pick = jax.random.categorical(jax.random.fold_in(key, 1), m["p"], shape=(16,))

        def loss_of(params):
            q = jnp.take_along_axis(mlp_logits(params, m["x"][pick]), m["a"][pick][:, None], 1)[:, 0]
            best = mlp_logits(state["target"], m["x"][(pick + 1) % 64]).max(-1)
            error = m["r"][pick] + 0.9 * jax.lax.stop_gradient(best) - q
            return optax.huber_loss(error).mean(), jnp.abs(error)

        (loss, error), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        updates, opt = tx.update(jax.lax.pmean(grads, "data"), state["opt"])
        params = optax.apply_updates(state["params"], updates)
        target = optax.periodic_update(params, state["target"], state["t"], 4)
        m["p"] = jax.lax.pmean(m["p"].at[pick].set(jnp.log(error + 1e-3)), "data")
        m |= {n: (jax.lax.pmax if n == "a" else jax.lax.pmean)(m[n], "data") for n in "xar"}
        new = {"params": params, "target": target, "opt": opt, "memory": m, "t": state["t"] + 1}
        return new, jax.lax.pmean(loss, "data")

    state = {"params": params, "target": mlp_params(27), "opt": tx.init(params), "memory": memory, "t": jnp.int32(0)}
    return data_parallel(ranks, state, step, labelled(8 * ranks, (16,), 5))


# All weights, gradients and moments in bfloat16, rounded stochastically by bits of the key.
def all_bf16(ranks):
    params = jax.tree.map(lambda a: a.astype(jnp.bfloat16), mlp_params(28))
    tx = optax.adam(1e-2, mu_dtype=jnp.bfloat16)

    def step(state, x, y):
        def loss_of(p):
            return cross_entropy(mlp_logits(p, x.astype(jnp.bfloat16)).astype(jnp.float32), y)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        updates, opt = tx.update(grads, state["opt"], state["params"])

        def rounded(p, u, key):
            exact = jax.lax.bitcast_convert_type(p.astype(jnp.float32) + u.astype(jnp.float32), jnp.uint32)
            bits = exact + (jax.random.bits(key, p.shape, jnp.uint16).astype(jnp.uint32))
            return jax.lax.bitcast_convert_type((bits >> 16).astype(jnp.uint16), jnp.bfloat16)

        key, *keys = jax.random.split(state["key"], 1 + len(jax.tree.leaves(params)))
        keys = jax.tree.unflatten(jax.tree.structure(params), keys)
        return {"params": jax.tree.map(rounded, state["params"], updates, keys), "opt": opt, "key": key}, loss

    return data_parallel(ranks, {"params": params, "opt": tx.init(params), "key": jax.random.PRNGKey(3)}, step,
                         labelled(16 * ranks, (16,), 5))


# An equilibrium: a fixed point by a loop that ends by its data, its gradient by another.
def equilibrium(ranks):
    params = normal(29, w=(16, 16), u=(16, 16), out=(16, 5))

    def fixed_point(f, start):
        def body(c):
            z, _, i = c
            new = f(z)
            return new, jnp.abs(new - z).max(), i + 1

        return jax.lax.while_loop(lambda c: (c[1] > 1e-5) & (c[2] < 40), body, (start, jnp.float32(1), 0))[0]

    layer = lambda p, x, z: jnp.tanh(0.3 * z @ p["w"] + x @ p["u"])

    @jax.custom_vjp
    def solve(p, x):
        return fixed_point(functools.partial(layer, p, x), jnp.zeros_like(x))

    def forward(p, x):
        z = solve(p, x)
        return z, (p, x, z)

    def backward(saved, g):
        p, x, z = saved
        _, by_z = jax.vjp(lambda z: layer(p, x, z), z)
        w = fixed_point(lambda w: g + by_z(w)[0], g)
        return jax.vjp(lambda p, x: layer(p, x, z), p, x)[1](w)

    solve.defvjp(forward, backward)

    def loss_of(p, extra, x, y):
        return cross_entropy(solve(p, x) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-3), labelled(8 * ranks, (16,), 5))


# Two mesh axes left to the partitioner: rows over one, hidden units over the other, moments as their parameters.
def auto_grid(ranks):
    mesh = square_mesh(ranks, "data", "model")
    params = normal(34, up=(16, 32), gate=(16, 32), down=(32, 16), out=(16, 8))
    specs = {"up": P(None, "model"), "gate": P(None, "model"), "down": P("model", None), "out": P(None, None)}
    tx = optax.adamw(optax.cosine_decay_schedule(1e-2, 30))

    def step(state, x, y):
        def loss_of(p):
            h = jax.nn.silu(x @ p["gate"]) * (x @ p["up"])
            h = jax.lax.with_sharding_constraint(h, NamedSharding(mesh, P("data", "model")))
            return cross_entropy((x + h @ p["down"]) @ p["out"], y)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        updates, opt = tx.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, {"loss": loss}

    state = {"params": params, "opt": tx.init(params)}
    state = place_by(mesh, state, {"params": specs, "opt": specs_like(state["opt"], specs, params)})
    return Step(jax.jit(step, donate_argnums=0), state, stream_by(mesh, labelled(16, (16,), 8), P("data")))


# ZeRO-1: gradients scattered, each rank updates its part of flattened moments, parameters gathered.
def zero_one(ranks):
    mesh, params = data_mesh(ranks), mlp_params(35)
    flat, unravel = ravel_pytree(params)
    length = -(-flat.size // ranks) * ranks
    tx = optax.adam(1e-3)
    moments = tx.init(jnp.zeros(length))

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, None, x, y)[0])(state["params"])
        flat = jnp.pad(ravel_pytree(grads)[0], (0, length - ravel_pytree(params)[0].size))
        mine = jax.lax.psum_scatter(flat, "data", tiled=True) / ranks
        updates, opt = tx.update(mine, state["opt"])
        whole = jax.lax.all_gather(updates, "data", tiled=True)[: ravel_pytree(params)[0].size]
        new = optax.apply_updates(state["params"], unravel(whole))
        return {"params": new, "opt": opt}, jax.lax.pmean(loss, "data")

    specs = jax.tree.map(lambda a: P("data") if a.ndim else P(), moments)
    state_specs = {"params": P(), "opt": specs}
    mapped = shard_map(step, mesh, (state_specs, P("data"), P("data")), (state_specs, P()), check=False)
    state = {"params": place(mesh, params), "opt": jax.tree.map(
        lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), moments, specs)}
    return Step(jax.jit(mapped, donate_argnums=0), state, stream(mesh, labelled(16 * ranks, (16,), 5)))


# Bytes and booleans among floats: int8 weights with a scale a column as state, masks drawn by bits, integer products.
def int_products(ranks):
    params = mlp_params(36)

    def step(state, x, y):
        def loss_of(p):
            h = x
            for i, layer in enumerate(p):
                ws = jnp.abs(layer["w"]).max(0) / 127
                xs = jnp.abs(h).max(-1, keepdims=True) / 127 + 1e-8
                q = jax.lax.dot(jnp.round(h / xs).astype(jnp.int8), jnp.round(layer["w"] / ws).astype(jnp.int8),
                                preferred_element_type=jnp.int32).astype(jnp.float32) * xs * ws
                h = q + layer["b"] + (h @ layer["w"] - jax.lax.stop_gradient(h @ layer["w"]))
                h = jax.nn.relu(h) if i < 2 else h
            return cross_entropy(h, y)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        keys = jax.random.split(state["key"], len(params))
        mask = [jax.random.bernoulli(k, 0.9, p["w"].shape) for k, p in zip(keys, params)]
        new = [{"w": jnp.where(m, p["w"] - 0.1 * g["w"], p["w"]), "b": p["b"] - 0.1 * g["b"]}
               for p, g, m in zip(state["params"], grads, mask)]
        seen = [s | m for s, m in zip(state["seen"], mask)]
        return {"params": new, "key": state["key"] + jnp.uint32(1), "seen": seen}, loss

    state = {"params": params, "key": jax.random.PRNGKey(1), "seen": [jnp.zeros(p["w"].shape, bool) for p in params]}
    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


SCHEMES = {f.__name__: f for f in (
    sharpness, quantised, private, penalty, meta, shampoo, codebook, transport, beams, replay, all_bf16, equilibrium,
    auto_grid, zero_one, int_products)}
