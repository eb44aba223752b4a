"""Steps of today's kinds: attention in rings, experts by ragged products, chunked state spaces, local steps,
compressed gradients, pipelines left to the partitioner, nnx.jit. As steps.py; `RECENT[name](ranks)`."""

import functools
import importlib.util

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import nnx
from flax.training import train_state
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, image_classes, trained
from modern_steps import normal, sequences
from program_steps import mlp_loss, mlp_params
from steps import Step, cross_entropy, data_mesh, labelled, place, shard_map, stream


def updated(tx, grads, opt, params):
    updates, opt = tx.update(grads, opt, params)
    return optax.apply_updates(params, updates), opt


# Denoising by a U-Net with time embedding and attention; flax's TrainState with averaged weights and a typed key.
class Residual(nn.Module):
    width: int

    @nn.compact
    def __call__(self, x, time):
        h = nn.Conv(self.width, (3, 3))(nn.swish(nn.GroupNorm(4)(x)))
        scale, shift = jnp.split(nn.Dense(2 * self.width)(nn.swish(time))[:, None, None], 2, -1)
        h = nn.Conv(self.width, (3, 3))(nn.swish(nn.GroupNorm(4)(h) * (1 + scale) + shift))
        return h + (x if x.shape[-1] == self.width else nn.Conv(self.width, (1, 1))(x))


class Denoiser(nn.Module):
    @nn.compact
    def __call__(self, x, t):
        angle = t[:, None] * jnp.exp(-jnp.log(1e4) * jnp.arange(8) / 8)
        time = nn.Dense(32)(nn.swish(nn.Dense(32)(jnp.concatenate([jnp.sin(angle), jnp.cos(angle)], -1))))
        first = Residual(8)(nn.Conv(8, (3, 3))(x), time)
        h = Residual(16)(nn.Conv(8, (3, 3), strides=2)(first), time)
        b, i, j, c = h.shape
        h = h + nn.SelfAttention(2)(nn.GroupNorm(4)(h).reshape(b, i * j, c)).reshape(h.shape)
        h = nn.Conv(8, (3, 3))(jax.image.resize(h, (b, 2 * i, 2 * j, c), "nearest"))
        return nn.Conv(3, (3, 3))(nn.swish(Residual(8)(jnp.concatenate([h, first], -1), time)))


class Averaged(train_state.TrainState):
    ema: dict
    key: jax.Array


def denoiser(ranks):
    model, kept = Denoiser(), jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, 50))
    params = model.init(jax.random.key(0), jnp.zeros((1, 8, 8, 3)), jnp.zeros(1))["params"]
    state = Averaged.create(apply_fn=model.apply, params=params, tx=optax.adam(1e-3), ema=params, key=jax.random.key(3))

    def step(state, x, y):
        keys = jax.random.split(jax.random.fold_in(state.key, state.step))
        t, noise = jax.random.randint(keys[0], x.shape[:1], 0, 50), jax.random.normal(keys[1], x.shape)
        part = kept[t][:, None, None, None]
        noisy = jnp.sqrt(part) * x + jnp.sqrt(1 - part) * noise
        loss, grads = jax.value_and_grad(lambda p: (
            (state.apply_fn({"params": p}, noisy, t.astype(jnp.float32)) - noise) ** 2).mean())(state.params)
        state = state.apply_gradients(grads=grads)
        return state.replace(ema=optax.incremental_update(state.params, state.ema, 0.01)), {"loss": loss, "t": t.mean()}

    mesh = data_mesh(ranks)
    return Step(jax.jit(step, donate_argnums=0), place(mesh, jax.tree.map(jnp.copy, state)),
                stream(mesh, image_classes(4 * ranks, 8)))


# Mamba's second form: products within chunks masked by sums of decays, a scan over the chunks' states.
def chunked_states(ranks):
    width, heads, size, states, time, chunk = 16, 2, 8, 4, 16, 4
    params = normal(4, table=(20, width), into=(width, heads * size + 2 * states + heads), out=(heads * size, width))
    params |= {"a": jnp.zeros(heads), "scale": jnp.ones(heads * size)}

    def decays(x):
        sums = jnp.cumsum(x, -1)
        apart = sums[..., :, None] - sums[..., None, :]
        return jnp.exp(jnp.where(jnp.tril(jnp.ones((chunk, chunk), bool)), apart, -jnp.inf))

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        u, b, c, dt = jnp.split(x @ p["into"], np.cumsum([heads * size, states, states]), -1)
        dt = jax.nn.softplus(dt)
        chunks = lambda a, *rest: a.reshape(a.shape[0], time // chunk, chunk, *rest)
        u = chunks(u.reshape(*u.shape[:2], heads, size) * dt[..., None], heads, size)
        b, c = chunks(b, states), chunks(c, states)
        a = chunks(-jnp.exp(p["a"]) * dt, heads).transpose(0, 3, 1, 2)
        sums = jnp.cumsum(a, -1)
        y = jnp.einsum("bcln,bcsn,bhcls,bcshp->bclhp", c, b, decays(a), u)
        left = jnp.einsum("bcln,bhcl,bclhp->cbhpn", b, jnp.exp(sums[..., -1:] - sums), u)

        def body(h, part):
            made, decay = part
            return h * decay[..., None, None] + made, h

        _, before = jax.lax.scan(body, jnp.zeros(left.shape[1:]), (left, jnp.exp(sums[..., -1]).transpose(2, 0, 1)))
        y = (y + jnp.einsum("bcln,cbhpn,bhcl->bclhp", c, before, jnp.exp(sums))).reshape(*x.shape[:2], -1)
        y = y * jax.lax.rsqrt((y ** 2).mean(-1, keepdims=True) + 1e-5) * p["scale"]
        return cross_entropy((x + y @ p["out"]) @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), sequences(2 * ranks, time, 20))


# Mamba's first form: a state a channel, its scan taken two places at a time, each recomputed in the backward pass. So
# what one recomputation gives goes into the next one's barrier, inside the loop's body.
def selective_states(ranks):
    width, states, time = 12, 4, 16
    params = normal(2, table=(20, width), into=(width, 2 * width), dt=(width, width), bc=(width, 2 * states),
                    out=(width, width)) | {"conv": jnp.ones((4, 1, width)) / 4, "d": jnp.ones(width)}
    params["a"] = jnp.log(jnp.tile(jnp.arange(1.0, states + 1), (width, 1)))

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        u, z = jnp.split(x @ p["into"], 2, -1)
        u = jax.nn.silu(jax.lax.conv_general_dilated(
            u, p["conv"], (1,), [(3, 0)], dimension_numbers=("NWC", "WIO", "NWC"), feature_group_count=width))
        dt = jax.nn.softplus(u @ p["dt"])
        b, c = jnp.split(u @ p["bc"], 2, -1)
        kept = jnp.exp(jnp.einsum("btd,dn->tbdn", dt, -jnp.exp(p["a"])))
        added = jnp.einsum("btd,btn,btd->tbdn", dt, b, u)

        @jax.checkpoint
        def body(h, part):
            kept, added, c = part
            h = kept * h + added
            return h, jnp.einsum("bdn,bn->bd", h, c)

        first = jnp.zeros((x.shape[0], width, states))
        _, y = jax.lax.scan(body, first, (kept, added, c.swapaxes(0, 1)), unroll=2)
        y = (y.swapaxes(0, 1) + u * p["d"]) * jax.nn.silu(z)
        return cross_entropy((x + y @ p["out"]) @ p["table"].T, text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.sgd(1e-2, momentum=0.9), sequences(2 * ranks, time, 20))


# Experts by ragged products over tokens sorted by expert, the best two of each, a balancing loss.
def ragged_experts(ranks):
    count, width, best = 4, 16, 2
    params = normal(8, gate=(width, count), head=(width, 5)) | {
        "up": jax.random.normal(jax.random.PRNGKey(1), (count, width, 24)) * 0.2,
        "down": jax.random.normal(jax.random.PRNGKey(2), (count, 24, width)) * 0.2}

    def loss_of(p, extra, x, y):
        chance = jax.nn.softmax(x @ p["gate"])
        weight, index = jax.lax.top_k(chance, best)
        order, sizes = jnp.argsort(index.ravel()), jnp.bincount(index.ravel(), length=count).astype(jnp.int32)
        h = jax.nn.gelu(jax.lax.ragged_dot(x[order // best], p["up"], sizes))
        h = jax.lax.ragged_dot(h, p["down"], sizes)
        h = jnp.zeros_like(h).at[order].set(h).reshape(x.shape[0], best, width)
        balance = count * (chance.mean(0) * sizes / sizes.sum()).sum()
        return cross_entropy((x + (h * weight[..., None]).sum(1)) @ p["head"], y) + 0.01 * balance, extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(8 * ranks, (width,), 5))


# Attention over a sequence that is cut over the ranks: keys and values go round by ppermute.
def ring_attention(ranks):
    mesh, width, tx = data_mesh(ranks), 16, optax.adamw(1e-3)
    params = normal(9, table=(20, width), qkv=(width, 3 * width), out=(width, width))

    def attend(q, k, v):
        count, me, time = jax.lax.psum(1, "data"), jax.lax.axis_index("data"), q.shape[1]

        def body(carry, turn):
            most, total, sums, k, v = carry
            first = (me - turn) % count * time
            scores = jnp.einsum("bqd,bkd->bqk", q, k) * width ** -0.5
            seen = me * time + jnp.arange(time)[:, None] >= first + jnp.arange(time)
            scores = jnp.where(seen, scores, -1e30)
            new = jnp.maximum(most, scores.max(-1))
            p, keep = jnp.exp(scores - new[..., None]), jnp.exp(most - new)
            sums, total = sums * keep[..., None] + p @ v, total * keep + p.sum(-1)
            k, v = jax.lax.ppermute((k, v), "data", [(i, (i + 1) % count) for i in range(count)])
            return (new, total, sums, k, v), None

        start = (jnp.full(q.shape[:2], -1e30), jnp.zeros(q.shape[:2]), jnp.zeros_like(q), k, v)
        (_, total, sums, _, _), _ = jax.lax.scan(body, start, jnp.arange(count))
        return sums / total[..., None]

    def step(state, text, target):
        def loss_of(p):
            x = p["table"][text]
            x = x + attend(*jnp.split(x @ p["qkv"], 3, -1)) @ p["out"]
            return cross_entropy(x @ p["table"].T, target)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, loss

    def batch(t):
        text = np.random.default_rng(t).integers(0, 20, (2, 8 * ranks + 1)).astype(np.int32)
        return tuple(place(mesh, (text[:, :-1], text[:, 1:]), P(None, "data")))

    mapped = shard_map(step, mesh, (P(), P(None, "data"), P(None, "data")), (P(), P()), check=False)
    return Step(jax.jit(mapped, donate_argnums=0), place(mesh, {"params": params, "opt": tx.init(params)}), batch)


# An ensemble: parameters, moments and typed keys with an axis of members; rates that the state carries.
def ensemble(ranks):
    init = lambda key: {"a": jax.random.normal(key, (16, 24)) * 0.25, "b": jax.random.normal(key, (24, 5)) * 0.2}
    params, tx = jax.vmap(init)(jax.random.split(jax.random.key(1), 3)), optax.inject_hyperparams(optax.adamw)(1e-3)

    def step(state, x, y):
        def one(params, opt, key):
            kept = jax.random.bernoulli(key, 0.8, (x.shape[0], 24))
            loss, grads = jax.value_and_grad(lambda p: cross_entropy((jnp.tanh(x @ p["a"]) * kept) @ p["b"], y))(params)
            params, opt = updated(tx, jax.lax.pmean(grads, "data"), opt, params)
            return params, opt, jax.random.split(key, 1)[0], loss

        params, opt, keys, losses = jax.vmap(one)(state["params"], state["opt"], state["keys"])
        each = jax.lax.pmean(losses, "data")
        return {"params": params, "opt": opt, "keys": keys}, {"loss": each.mean(), "each": each}

    state = {"params": params, "opt": jax.vmap(tx.init)(params), "keys": jax.random.split(jax.random.key(2), 3)}
    return data_parallel(ranks, state, step, labelled(8 * ranks, (16,), 5))


# All in one 16-bit type over so many rows that a bias's gradient summed one by one would stop growing.
def many_rows(ranks):
    params, tx = jax.tree.map(lambda a: a.astype(jnp.bfloat16), mlp_params(80)), optax.sgd(0.1)

    def step(state, x, y):
        def loss_of(p):
            h = x.astype(jnp.bfloat16)
            for i, layer in enumerate(p):
                h = h @ layer["w"] + layer["b"]
                h = jnp.tanh(h) if i < 2 else h
            return cross_entropy(h.astype(jnp.float32), y)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, loss

    return data_parallel(ranks, {"params": params, "opt": tx.init(params)}, step, labelled(2048 * ranks, (16,), 5))


# Gradients that ranks add as bfloat16; those too small to matter kept for later, signs and bytes in place of floats.
def compressed(ranks):
    mesh, params, tx = data_mesh(ranks), mlp_params(69), optax.sgd(0.1)

    def best(a):
        flat = a.ravel()
        index = jax.lax.top_k(jnp.abs(flat), max(1, flat.size // 8))[1]
        every = [jax.lax.all_gather(v, "data").ravel() for v in (index, flat[index])]
        sent = jnp.zeros_like(flat).at[index].set(flat[index])
        return (jnp.zeros_like(flat).at[every[0]].add(every[1]) / ranks).reshape(a.shape), a - sent.reshape(a.shape)

    def signs(a):
        scale = jnp.abs(a).mean()
        bits = jax.lax.all_gather(jnp.packbits(a.ravel() > 0), "data")
        signed = jax.vmap(lambda b: jnp.unpackbits(b, count=a.size))(bits).astype(jnp.float32) * 2 - 1
        mean = (signed * jax.lax.all_gather(scale, "data")[:, None]).mean(0)
        return mean.reshape(a.shape), a - jnp.where(a > 0, scale, -scale)

    def halves(a):
        return jax.lax.psum(a.astype(jnp.bfloat16), "data").astype(jnp.float32) / ranks, jnp.zeros_like(a)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, None, x, y)[0])(state["params"])
        grads = jax.tree.map(lambda g, left: g + left[0], grads, state["left"])
        pairs = [{"w": f(g["w"]), "b": halves(g["b"])} for f, g in zip((best, signs, halves), grads)]
        is_pair = lambda x: isinstance(x, tuple)
        mean, left = (jax.tree.map(lambda pair, i=i: pair[i], pairs, is_leaf=is_pair) for i in (0, 1))
        params, opt = updated(tx, mean, state["opt"], state["params"])
        left = jax.tree.map(lambda a: a[None], left)
        return {"params": params, "opt": opt, "left": left}, jax.lax.pmean(loss, "data")

    specs = {"params": P(), "opt": P(), "left": P("data")}
    mapped = shard_map(step, mesh, (specs, P("data"), P("data")), (specs, P()), check=False)
    state = place(mesh, {"params": params, "opt": tx.init(params)})
    state["left"] = place(mesh, jax.tree.map(lambda a: jnp.zeros((ranks, *a.shape)), params), P("data"))
    return Step(jax.jit(mapped, donate_argnums=0), state, stream(mesh, labelled(8 * ranks, (16,), 5)))


# Ranks that go their own ways and meet every third step, where an outer optimizer takes the mean of what they moved.
def local_steps(ranks):
    mesh, params = data_mesh(ranks), mlp_params(68)
    inner, outer = optax.adamw(1e-3), optax.sgd(0.7, momentum=0.9, nesterov=True)

    def step(state, x, y):
        mine = jax.tree.map(lambda a: a[0], state["mine"])
        loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, None, x, y)[0])(mine["params"])
        params, opt = updated(inner, grads, mine["opt"], mine["params"])

        def meet(params, shared, opt):
            moved = jax.lax.pmean(jax.tree.map(jnp.subtract, shared, params), "data")
            shared, opt = updated(outer, moved, opt, shared)
            return shared, shared, opt

        params, shared, outer_opt = jax.lax.cond(state["t"] % 3 == 2, meet, lambda *same: same, params,
                                                 state["shared"], state["outer"])
        mine = jax.tree.map(lambda a: a[None], {"params": params, "opt": opt})
        return {"mine": mine, "shared": shared, "outer": outer_opt, "t": state["t"] + 1}, jax.lax.pmean(loss, "data")

    specs = {"mine": P("data"), "shared": P(), "outer": P(), "t": P()}
    mapped = shard_map(step, mesh, (specs, P("data"), P("data")), (specs, P()), check=False)
    state = place(mesh, {"shared": mlp_params(68), "outer": outer.init(params), "t": jnp.int32(0)})
    own = {"params": params, "opt": inner.init(params)}
    state["mine"] = place(mesh, jax.tree.map(lambda a: jnp.stack([a] * ranks), own), P("data"))
    return Step(jax.jit(mapped, donate_argnums=0), state, stream(mesh, labelled(8 * ranks, (16,), 5)))


# A pipeline left to the partitioner: stages by vmap over an axis that is cut over ranks, a roll between turns.
def rolled_pipeline(ranks):
    mesh, stages, width, tx = data_mesh(ranks), max(ranks, 2), 16, optax.sgd(0.05)
    cut = NamedSharding(mesh, P("data"))
    params = {"w": jax.device_put(jax.random.normal(jax.random.PRNGKey(1), (stages, width, width)) * 0.3, cut),
              "out": place(mesh, normal(2, out=(width, 5))["out"])}

    def step(state, x, y):
        def loss_of(p):
            rows = x.reshape(4, -1, width)

            def body(held, turn):
                held = held.at[0].set(rows[jnp.minimum(turn, 3)])
                held = jax.lax.with_sharding_constraint(held, cut)
                held = jax.vmap(lambda w, h: h + jnp.tanh(h @ w))(p["w"], held)
                return jnp.roll(held, 1, 0), held[-1]

            _, out = jax.lax.scan(body, jnp.zeros((stages, *rows.shape[1:])), jnp.arange(3 + stages))
            return cross_entropy(out[stages - 1:].reshape(-1, width) @ p["out"], y)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, loss

    draw = labelled(16, (width,), 5)
    return Step(jax.jit(step, donate_argnums=0), {"params": params, "opt": tx.init(params)},
                lambda t: tuple(place(mesh, draw(np.random.default_rng(t)))))


# A convolution over pictures whose rows are cut over ranks: the partitioner exchanges borders.
def halo(ranks):
    mesh, tx = data_mesh(ranks), optax.adam(1e-3)
    params = {n: jax.random.normal(jax.random.PRNGKey(i), s) * 0.2
              for i, (n, s) in enumerate({"a": (3, 3, 3, 8), "b": (3, 3, 8, 4)}.items())}
    convolved = functools.partial(jax.lax.conv_general_dilated, padding="SAME",
                                  dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def step(state, x):
        def loss_of(p):
            h = convolved(jax.nn.relu(convolved(x, p["a"], (1, 1))), p["b"], (2, 2))
            return (h ** 2).mean() + jnp.sort(h, 1)[:, 0].mean() + 0.01 * jnp.cumsum(h, 1).mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, loss

    def batch(t):
        x = np.random.default_rng(t).normal(size=(2, 8, 8, 3)).astype(np.float32)
        return (jax.device_put(x, NamedSharding(mesh, P(None, "data"))),)

    return Step(jax.jit(step, donate_argnums=0), place(mesh, {"params": params, "opt": tx.init(params)}), batch)


# nnx.jit: a module and its optimizer, updated in place, with batch norm, dropout and a metric; rows over ranks.
def nnx_jit(ranks):
    class Net(nnx.Module):
        def __init__(self, rngs):
            self.a, self.norm = nnx.Linear(16, 32, rngs=rngs), nnx.LayerNorm(32, rngs=rngs)
            self.drop, self.b = nnx.Dropout(0.2, rngs=rngs), nnx.Linear(32, 5, rngs=rngs)

        def __call__(self, x):
            return self.b(self.drop(nnx.relu(self.norm(self.a(x)))))

    net = Net(nnx.Rngs(0))
    held = {"net": net, "tx": nnx.Optimizer(net, optax.adamw(1e-3), wrt=nnx.Param), "seen": nnx.metrics.Average("loss")}
    holds_net = hasattr(held["tx"], "model")  # As in flax before 0.11.

    @nnx.jit
    def step(held, x, y):
        loss, grads = nnx.value_and_grad(lambda net: cross_entropy(net(x), y))(held["net"])
        held["tx"].update(*((grads,) if holds_net else (held["net"], grads)))
        held["seen"].update(loss=loss)
        return loss

    return Step(step, held, stream(data_mesh(ranks), labelled(8 * ranks, (16,), 5)))


# equinox.filter_jit: modules that hold functions beside arrays come and go whole.
def equinox_jit(ranks):
    import equinox as eqx

    net, tx = eqx.nn.MLP(16, 5, 32, 2, key=jax.random.key(0)), optax.adam(1e-3)

    @eqx.filter_jit
    def step(held, x, y):
        net, opt = held
        loss, grads = eqx.filter_value_and_grad(lambda net: cross_entropy(jax.vmap(net)(x), y))(net)
        updates, opt = tx.update(grads, opt, net)
        return (eqx.apply_updates(net, updates), opt), loss

    state = net, tx.init(eqx.filter(net, eqx.is_array))
    return Step(step, state, stream(data_mesh(ranks), labelled(8 * ranks, (16,), 5)))


RECENT = {f.__name__: f for f in (
    denoiser, chunked_states, selective_states, ragged_experts, ring_attention, ensemble, many_rows, compressed,
    local_steps, rolled_pipeline, halo, nnx_jit)}
if importlib.util.find_spec("equinox"):
    RECENT["equinox_jit"] = equinox_jit
