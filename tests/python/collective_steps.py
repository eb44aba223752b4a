"""Training steps whose ranks do more than average gradients: experts by all-to-all, tensor-parallel blocks, weights
sharded along an inner dimension, a pipeline of stages by ppermute inside scan, layers sharded by shardings alone, a
sequence split over ranks. As steps.py: `STEPS[name](ranks)` gives a Step; on 1, 2 or 4 ranks, of which some meshes make
2 by 2."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P
from steps import Step, cross_entropy, labelled, place, shard_map


def square_mesh(ranks, first, second):
    """4 ranks as 2 by 2; fewer along the second axis alone."""
    rows = 2 if ranks == 4 else 1
    return Mesh(np.array(jax.devices()[:ranks]).reshape(rows, ranks // rows), (first, second))


def place_by(mesh, tree, specs):
    return jax.tree.map(lambda a, s: jax.device_put(a, NamedSharding(mesh, s)), tree, specs)


def specs_like(tree, of_params, params):
    """Specs of an optimizer's state: what has the shape of a parameter lies as it does."""
    by_shape = {p.shape: s for p, s in zip(jax.tree.leaves(params), jax.tree.leaves(of_params))}
    return jax.tree.map(lambda a: by_shape.get(a.shape, P()), tree)


def stream_by(mesh, draw, spec):
    return lambda t: tuple(place(mesh, draw(np.random.default_rng(1000 + t)), spec))


# Mixture of experts: two experts a rank, tokens go to their expert's rank and back by all-to-all, each expert takes as
# many tokens of each rank as it has room for; what has no room passes by.
def moe(ranks):
    mesh = Mesh(np.array(jax.devices()[:ranks]), ("expert",))
    tokens, width, hidden, local = 24, 16, 32, 2
    experts, room = local * ranks, 24 // (local * ranks) + 4
    tx = optax.adam(3e-3)
    keys = jax.random.split(jax.random.PRNGKey(11), 5)
    params = {"in": jax.random.normal(keys[0], (16, width)) * 0.25,
              "gate": jax.random.normal(keys[1], (width, experts)) * 0.25,
              "up": jax.random.normal(keys[2], (experts, width, hidden)) * 0.25,
              "down": jax.random.normal(keys[3], (experts, hidden, width)) * 0.2,
              "out": jax.random.normal(keys[4], (width, 10)) * 0.25}
    own = {"in": P(), "gate": P(), "up": P("expert"), "down": P("expert"), "out": P()}

    def experts_of(p, x):
        weights = jax.nn.softmax(x @ p["gate"])
        choice = weights.argmax(-1)
        chosen = jax.nn.one_hot(choice, experts)
        place_in = (jnp.cumsum(chosen, 0) * chosen).sum(-1).astype(jnp.int32) - 1  # Among those of its expert.
        slots = jax.nn.one_hot(place_in, room)  # Zero beyond the room.
        dispatch = chosen[:, :, None] * slots[:, None]
        sent = jnp.einsum("tec,td->ecd", dispatch, x).reshape(ranks, local, room, width)
        came = jax.lax.all_to_all(sent, "expert", 0, 0)  # [rank it came from, expert here, place, width]
        h = jax.nn.gelu(jnp.einsum("rlcd,ldh->rlch", came, p["up"]))
        back = jax.lax.all_to_all(jnp.einsum("rlch,lhd->rlcd", h, p["down"]), "expert", 0, 0)
        combine = dispatch * (weights * chosen).sum(-1)[:, None, None]
        return x + jnp.einsum("tec,ecd->td", combine, back.reshape(experts, room, width))

    def step(state, x, y):
        def loss_of(p):
            return cross_entropy(experts_of(p, jnp.tanh(x @ p["in"])) @ p["out"], y) / ranks

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        # An expert's gradient is whole where it lives: the exchange brought all ranks' tokens there.
        grads = {k: g if own[k] != P() else jax.lax.psum(g, "expert") for k, g in grads.items()}
        updates, opt = tx.update(grads, state["opt"])
        state = {"params": optax.apply_updates(state["params"], updates), "opt": opt}
        return state, {"loss": jax.lax.psum(loss, "expert")}

    state = {"params": params, "opt": tx.init(params)}
    spec = {"params": own, "opt": specs_like(state["opt"], own, params)}
    step = shard_map(step, mesh, (spec, P("expert"), P("expert")), (spec, P()), check=False)
    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, spec),
                stream_by(mesh, labelled(tokens * ranks, (16,), 10), P("expert")))


# Tensor parallelism: attention by heads and a feed-forward block by columns, then rows, of "model", whose ranks sum
# what they computed of each token; gradients are averaged over "data".
def tensor_parallel(ranks):
    mesh = square_mesh(ranks, "data", "model")
    data, model = mesh.devices.shape
    width, heads, head, hidden, time = 32, 4, 8, 64, 8
    tx = optax.adamw(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(12), 7)
    params = {"in": jax.random.normal(keys[0], (16, width)) * 0.25,
              "qkv": jax.random.normal(keys[1], (width, 3, heads, head)) * 0.18,
              "proj": jax.random.normal(keys[2], (heads, head, width)) * 0.18,
              "up": jax.random.normal(keys[3], (width, hidden)) * 0.18, "bias": jnp.zeros(hidden),
              "down": jax.random.normal(keys[4], (hidden, width)) * 0.12,
              "scale": jnp.ones((2, width)), "out": jax.random.normal(keys[5], (width, 10)) * 0.18}
    own = {"in": P(), "qkv": P(None, None, "model"), "proj": P("model"), "up": P(None, "model"), "bias": P("model"),
           "down": P("model"), "scale": P(), "out": P()}

    @jax.custom_vjp
    def enter(x):  # Copies forward, sums the gradients of all parts backward.
        return x

    enter.defvjp(lambda x: (x, None), lambda _, g: (jax.lax.psum(g, "model"),))

    @jax.custom_vjp
    def leave(x):  # Sums forward, copies backward.
        return jax.lax.psum(x, "model")

    leave.defvjp(lambda x: (jax.lax.psum(x, "model"), None), lambda _, g: (g,))

    def norm(x, scale):
        return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * scale

    def logits_of(p, x):
        x = x @ p["in"]
        q, k, v = jnp.moveaxis(jnp.einsum("btd,dnhk->bthnk", enter(norm(x, p["scale"][0])), p["qkv"]), 3, 0)
        weights = jax.nn.softmax(jnp.einsum("bthk,bshk->bhts", q, k) * head**-0.5)
        x = x + leave(jnp.einsum("bhts,bshk,hkd->btd", weights, v, p["proj"]))
        h = jax.nn.gelu(enter(norm(x, p["scale"][1])) @ p["up"] + p["bias"])
        return (x + leave(h @ p["down"])).mean(1) @ p["out"]

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda p: cross_entropy(logits_of(p, x), y))(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        updates, opt = tx.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, {"loss": loss}

    state = {"params": params, "opt": tx.init(params)}
    spec = {"params": own, "opt": specs_like(state["opt"], own, params)}
    step = shard_map(step, mesh, (spec, P("data"), P("data")), (spec, P()), check=False)
    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, spec),
                stream_by(mesh, labelled(16 * data, (time, 16), 10), P("data")))


# FSDP whose weights are cut along their last dimension, and which is gathered there before use.
def fsdp_inner(ranks):
    mesh, tx = Mesh(np.array(jax.devices()[:ranks]), ("data",)), optax.adamw(1e-3)
    keys = jax.random.split(jax.random.PRNGKey(13), 3)
    params = {f"layer_{i}": {"kernel": jax.random.normal(k, (a, b)) * a**-0.5, "bias": jnp.zeros((1, b))}
              for i, (k, (a, b)) in enumerate(zip(keys, ((48, 96), (96, 64), (64, 16))))}
    state = {"params": params, "opt": tx.init(params)}
    spec = jax.tree.map(lambda a: P(None, "data") if a.ndim == 2 else P(), state)

    def step(state, x, y):
        def loss_of(full):
            h = x
            for i in range(3):
                h = h @ full[f"layer_{i}"]["kernel"] + full[f"layer_{i}"]["bias"]
                h = jax.nn.silu(h) if i < 2 else h
            return cross_entropy(h, y)

        full = jax.tree.map(lambda p: jax.lax.all_gather(p, "data", axis=1, tiled=True), state["params"])
        loss, grads = jax.value_and_grad(loss_of)(full)
        grads = jax.tree.map(lambda g: jax.lax.psum_scatter(g, "data", scatter_dimension=1, tiled=True) / ranks, grads)
        updates, opt = tx.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, \
               {"loss": jax.lax.pmean(loss, "data")}

    step = shard_map(step, mesh, (spec, P("data"), P("data")), (spec, P()), check=False)
    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, spec),
                stream_by(mesh, labelled(32 * ranks, (48,), 16), P("data")))


# A pipeline: a rank is a stage of two layers. Micro-batches enter at the first, go on by ppermute at each turn of a scan,
# and leave at the last; the scan's transpose sends gradients back the same way.
def pipeline(ranks):
    mesh, tx = Mesh(np.array(jax.devices()[:ranks]), ("stage",)), optax.sgd(0.05, momentum=0.9)
    width, micro, rows = 24, 4, 8
    keys = jax.random.split(jax.random.PRNGKey(14), 3)
    params = {"in": jax.random.normal(keys[0], (16, width)) * 0.25,
              "stages": jax.random.normal(keys[1], (2 * ranks, width, width)) * width**-0.5,
              "out": jax.random.normal(keys[2], (width, 10)) * width**-0.5}
    own = {"in": P(), "stages": P("stage"), "out": P()}

    def loss_of(p, x, y):
        stage = jax.lax.axis_index("stage")
        entering = jnp.concatenate([x @ p["in"], jnp.zeros((ranks - 1, rows, width))])

        def turn(held, t):
            h = jnp.where(stage == 0, entering[t], held)
            for layer in range(2):
                h = h + jnp.tanh(h @ p["stages"][layer])
            return jax.lax.ppermute(h, "stage", [(r, r + 1) for r in range(ranks - 1)]), h

        _, left = jax.lax.scan(turn, jnp.zeros((rows, width)), jnp.arange(micro + ranks - 1))
        loss = cross_entropy(left[ranks - 1:] @ p["out"], y)
        return jnp.where(stage == ranks - 1, loss, 0.0)

    def step(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        grads = {k: g if own[k] != P() else jax.lax.psum(g, "stage") for k, g in grads.items()}
        updates, opt = tx.update(grads, state["opt"])
        state = {"params": optax.apply_updates(state["params"], updates), "opt": opt}
        return state, {"loss": jax.lax.psum(loss, "stage")}

    state = {"params": params, "opt": tx.init(params)}
    spec = {"params": own, "opt": specs_like(state["opt"], own, params)}
    step = shard_map(step, mesh, (spec, P(), P()), (spec, P()), check=False)
    draw = labelled(micro * rows, (16,), 10)

    def micro_batches(rng):
        x, y = draw(rng)
        return x.reshape(micro, rows, 16), y.reshape(micro, rows)

    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, spec), stream_by(mesh, micro_batches, P()))


# FSDP and tensor parallelism by shardings alone: a scan over recomputed layers of bfloat16, whose weights' gradients are
# products over batch and sequence, summed among ranks.
def sharded_layers(ranks, layers=2, width=16, words=32):
    mesh = square_mesh(ranks, "fsdp", "tensor")
    specs = {"q": P(None, "fsdp", "tensor"), "o": P(None, "tensor", "fsdp"), "up": P(None, "fsdp", "tensor"),
             "down": P(None, "tensor", "fsdp"), "words": P("tensor", "fsdp")}
    shapes = {"q": (layers, width, 3 * width), "o": (layers, width, width), "up": (layers, width, 4 * width),
              "down": (layers, 4 * width, width), "words": (words, width)}
    keys = jax.random.split(jax.random.PRNGKey(41), len(shapes))
    params = {name: jax.random.normal(key, shape) * (1 if name == "words" else 0.2)
              for key, (name, shape) in zip(keys, shapes.items(), strict=True)}
    tx = optax.adamw(1e-3)

    def put(value, *spec):
        return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, P(*spec)))

    def layer(x, weights):
        w = jax.tree.map(lambda v: v.astype(jnp.bfloat16), weights)
        scale = jax.lax.rsqrt(jnp.mean(x.astype(jnp.float32) ** 2, -1, keepdims=True) + 1e-6)
        q, k, v = jnp.split(put((x * scale.astype(x.dtype)) @ w["q"], "fsdp", None, "tensor"), 3, -1)
        scores = jnp.einsum("btd,bsd->bts", q, k).astype(jnp.float32) / width**0.5
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[1:], bool)), scores, -1e9)
        x += put(jnp.einsum("bts,bsd->btd", jax.nn.softmax(scores).astype(x.dtype), v) @ w["o"], "fsdp", None, None)
        hidden = jax.nn.gelu(put(x @ w["up"], "fsdp", None, "tensor"))
        return x + put(hidden @ w["down"], "fsdp", None, None), None

    def loss_of(p, text):
        x = put(p["words"].astype(jnp.bfloat16)[text[:, :-1]], "fsdp", None, None)
        x, _ = jax.lax.scan(jax.checkpoint(layer), x, {name: p[name] for name in p if name != "words"})
        logits = (x @ p["words"].T.astype(x.dtype)).astype(jnp.float32)
        return optax.softmax_cross_entropy_with_integer_labels(logits, text[:, 1:]).mean()

    def step(state, text):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], text)
        updates, opt = tx.update(grads, state["opt"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, {"loss": loss}

    state = {"params": params, "opt": tx.init(params)}
    spec = {"params": specs, "opt": specs_like(state["opt"], specs, params)}
    texts = stream_by(mesh, lambda rng: (rng.integers(0, words, (4 * ranks, 9)).astype(np.int32),), P("fsdp"))
    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, spec), texts)


# A linear recurrence along a sequence that is split over ranks: a scan of each part, whose first state is made of what
# the parts before leave; the last word of a part goes to the rank behind it. On one rank that shift sends nothing.
def split_recurrence(ranks, width=16, words=30, part=8):
    mesh, tx = Mesh(np.array(jax.devices()[:ranks]), ("time",)), optax.adam(3e-3)
    keys = jax.random.split(jax.random.PRNGKey(5), 3)
    params = {"words": jax.random.normal(keys[0], (words, width)) * 0.3,
              "in": jax.random.normal(keys[1], (width, 2 * width)) * 0.25,
              "out": jax.random.normal(keys[2], (width, width)) * 0.25, "decay": jnp.linspace(-2.0, 2.0, width)}

    def recurrence(decay, added):
        join = lambda a, b: (a[0] * b[0], b[0] * a[1] + b[1])
        decay, states = jax.lax.associative_scan(join, (decay, added), axis=1)
        decays, lasts = jax.lax.all_gather((decay[:, -1], states[:, -1]), "time")
        before = lambda rank, state: jnp.where(rank < jax.lax.axis_index("time"), decays[rank] * state + lasts[rank], state)
        first = jax.lax.fori_loop(0, ranks, before, jnp.zeros_like(lasts[0]))
        return states + decay * first[:, None]

    def loss_of(p, x, y):
        h = p["words"][x]
        edge = jax.lax.ppermute(h[:, -1:], "time", [(rank, rank + 1) for rank in range(ranks - 1)])
        h += 0.3 * jnp.concatenate([edge, h[:, :-1]], 1)
        added, gate = jnp.split(h @ p["in"], 2, -1)
        decay = jax.nn.sigmoid(gate + p["decay"])
        h += jax.nn.gelu(recurrence(decay, (1 - decay) * added)) @ p["out"]
        return cross_entropy(h @ p["words"].T, y)

    def step(state, x, y):
        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"], x, y), "time")
        updates, opt = tx.update(grads, state["opt"])
        return {"params": optax.apply_updates(state["params"], updates), "opt": opt}, {"loss": loss}

    def draw(rng):
        text = rng.integers(0, words, (3, part * ranks + 1)).astype(np.int32)
        return text[:, :-1], text[:, 1:]

    mapped = shard_map(step, mesh, (P(), P(None, "time"), P(None, "time")), (P(), P()), check=False)
    state = {"params": params, "opt": tx.init(params)}
    return Step(jax.jit(mapped, donate_argnums=0), place(mesh, state), stream_by(mesh, draw, P(None, "time")))


STEPS = {f.__name__: f for f in (moe, tensor_parallel, fsdp_inner, pipeline, sharded_layers, split_recurrence)}
