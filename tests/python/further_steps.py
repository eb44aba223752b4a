"""Steps beyond those of the other files: floats of 8 and 4 bits, integers of four and two, sets matched by assignment, tables of
which a step touches few rows, drafts that a larger model accepts, what the partitioner makes of a grid of ranks, a
step of jax.pmap, and pools of bfloat16.
As steps.py; `FURTHER[name](ranks)`."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from collective_steps import place_by, specs_like, square_mesh, stream_by
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, trained
from modern_steps import normal, sequences
from recent_steps import updated
from steps import Step, cross_entropy, labelled, shard_map


# Products of 8-bit floats, e4m3 forwards and e5m2 backwards, scaled by the largest values of past steps.
def eight_bit_floats(ranks, width=16):
    params = normal(2, a=(width, 32), b=(32, width), out=(width, 5))
    state = {n: jnp.ones(4) for n in ("x", "a", "h", "b")}

    @jax.custom_vjp
    def q(x, scale):
        return (jnp.clip(x / scale, -448, 448).astype(jnp.float8_e4m3fn).astype(jnp.float32)) * scale

    q.defvjp(lambda x, s: (q(x, s), s),
             lambda s, g: ((jnp.clip(g / s, -57344, 57344).astype(jnp.float8_e5m2).astype(jnp.float32)) * s, None))

    def loss_of(p, history, x, y):
        scale = {n: jnp.max(h) / 448 for n, h in history.items()}
        h = q(x, scale["x"]) @ q(p["a"], scale["a"])
        g = jax.nn.gelu(h)
        h2 = q(g, scale["h"]) @ q(p["b"], scale["b"])
        seen = {"x": x, "a": p["a"], "h": g, "b": p["b"]}
        largest = lambda v: jax.lax.pmax(jax.lax.stop_gradient(jnp.max(jnp.abs(v))), "data")
        new = {n: jnp.roll(history[n], 1).at[0].set(largest(v)) for n, v in seen.items()}
        return cross_entropy((x + h2) @ p["out"], y), jax.lax.stop_gradient(new)

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(8 * ranks, (width,), 5), state)


# Weights of four bits as jnp.int4: frozen ones, and adapters rounded straight through.
def four_bit_type(ranks, width=16):
    params = normal(3, a=(width, width), out=(width, 5))
    frozen = jnp.asarray(np.random.default_rng(0).integers(-8, 8, (width, width)), jnp.int8)

    def loss_of(p, extra, x, y):
        w = extra.astype(jnp.int4).astype(jnp.float32) / 8
        lo = jnp.clip(jnp.round(p["a"] * 7), -7, 7)
        lo = p["a"] + jax.lax.stop_gradient(lo.astype(jnp.int4).astype(jnp.float32) / 7 - p["a"])
        return cross_entropy(jax.nn.relu(x @ w @ lo) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.lion(1e-3), labelled(8 * ranks, (width,), 5), frozen)


def in_few_bits(signs):
    """As int2 where there is one that JAX reads: in the kernels of 0.7.2 it has other values, in each run others."""
    small = jnp.asarray(signs, jnp.int8)
    kept = small.astype(getattr(jnp, "int2", jnp.int4))
    is_read = np.array_equal(jax.jit(lambda a: a.astype(jnp.float32) / 8)(kept), signs / 8)
    return kept if is_read else small.astype(jnp.int4)


# Blocks of eight numbers with a power of two as their scale, of 8 bits forwards and backwards; frozen weights of 4 bits
# that lie two in a byte, others of three values, and a state in each of the other floats of 8 bits.
def block_scaled(ranks, width=16):
    params, rng = normal(4, a=(width, 32), b=(32, width), out=(width, 5)), np.random.default_rng(4)
    rare = (jnp.float8_e4m3, jnp.float8_e3m4, jnp.float8_e4m3fnuz, jnp.float8_e5m2fnuz, jnp.float8_e4m3b11fnuz)
    frozen = {"codes": jnp.asarray(rng.integers(0, 256, (width, width // 2)), jnp.uint8),
              "scales": jnp.asarray(2.0 ** rng.integers(-5, -2, (width, width // 8)), jnp.float8_e8m0fnu),
              "signs": in_few_bits(rng.integers(-1, 2, (width, width))),
              "means": [jnp.zeros(width, kind) for kind in rare]}

    def blocks(x, kind, largest):
        b = x.reshape(*x.shape[:-1], -1, 8)
        power = jnp.floor(jnp.log2(jnp.max(jnp.abs(b), -1, keepdims=True) + 1e-20)) - largest
        scale = jnp.exp2(power).astype(jnp.float8_e8m0fnu).astype(jnp.float32)
        top = float(jnp.finfo(kind).max)
        return (jnp.clip(b / scale, -top, top).astype(kind).astype(jnp.float32) * scale).reshape(x.shape)

    @jax.custom_vjp
    def product(x, w):
        return blocks(x, jnp.float8_e4m3fn, 8) @ blocks(w.T, jnp.float4_e2m1fn, 2).T

    product.defvjp(lambda x, w: (product(x, w), (x, w)),
                   lambda saved, g: (blocks(g, jnp.float8_e5m2, 15) @ saved[1].T, saved[0].T @ g))

    def loss_of(p, held, x, y):
        pairs = jax.lax.bitcast_convert_type(held["codes"], jnp.float4_e2m1fn).astype(jnp.float32)
        w = pairs.reshape(width, -1, 8) * held["scales"].astype(jnp.float32)[..., None]
        h = x @ (w.reshape(width, width) + held["signs"].astype(jnp.float32) / 8)
        h = product(jax.nn.gelu(product(h, p["a"])), p["b"])
        seen = jax.lax.pmean(jax.lax.stop_gradient(h.mean(0)), "data")
        means = [(0.5 * m.astype(jnp.float32) + seen).astype(m.dtype) for m in held["means"]]
        return cross_entropy((h + sum(m.astype(jnp.float32) for m in means) / 8) @ p["out"], y), held | {"means": means}

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(8 * ranks, (width,), 5), frozen)


# Queries that meet boxes and labels by the Hungarian algorithm, as in detection.
def matched_sets(ranks, slots=5, width=12, things=4):
    params = normal(1, embed=(6, width), query=(slots, width), q=(width, width), k=(width, width), v=(width, width),
                    box=(width, 4), label=(width, 4))

    def loss_of(p, extra, x, boxes, labels):
        h = x @ p["embed"]
        scores = jnp.einsum("sd,btd->bst", p["query"] @ p["q"], h @ p["k"]) * width ** -0.5
        s = p["query"] + jax.nn.softmax(scores) @ (h @ p["v"])
        guess, logits = jax.nn.sigmoid(s @ p["box"]), jax.nn.log_softmax(s @ p["label"])

        def one(guess, logits, boxes, labels):
            cost = jnp.abs(guess[:, None] - boxes[None]).sum(-1) - logits[:, labels]
            i, j = optax.assignment.hungarian_algorithm(jax.lax.stop_gradient(cost))
            return jnp.abs(guess[i] - boxes[j]).mean() - logits[i, labels[j]].mean()

        return jax.vmap(one)(guess, logits, boxes, labels).mean(), extra

    def draw(rng):
        n = 2 * ranks
        return (rng.normal(size=(n, 7, 6)).astype(np.float32), rng.uniform(size=(n, things, 4)).astype(np.float32),
                rng.integers(0, 4, (n, things)).astype(np.int32))

    return trained(ranks, params, loss_of, optax.adamw(1e-3), draw)


# Large tables: rows by hashing, touched rows alone updated (row-wise Adagrad), duplicates summed by unique.
def touched_rows(ranks, rows=64, width=8, fields=4):
    params = normal(7, a=(fields * width, 16), b=(16, 1))
    tx = optax.adam(1e-3)
    state = {"dense": params, "opt": tx.init(params), "table": normal(8, t=(rows, width))["t"], "sums": jnp.zeros(rows)}

    def step(state, ids, clicks):
        h = ids.astype(jnp.uint32) * jnp.uint32(2654435761)
        h = (h ^ (h >> 15)) % jnp.uint32(rows)
        h = h.astype(jnp.int32)

        def loss_of(dense, taken):
            x = jax.nn.relu(taken.reshape(taken.shape[0], -1) @ dense["a"])
            return optax.sigmoid_binary_cross_entropy((x @ dense["b"])[:, 0], clicks).mean()

        loss, (grads, rows_grad) = jax.value_and_grad(loss_of, (0, 1))(state["dense"], state["table"][h])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        every = jax.lax.all_gather(h, "data", tiled=True).ravel()
        grad = jax.lax.all_gather(rows_grad, "data", tiled=True).reshape(-1, width) / ranks
        touched, inverse = jnp.unique(every, return_inverse=True, size=every.size, fill_value=rows)
        grad = jax.ops.segment_sum(grad, inverse.ravel(), every.size)
        sums = state["sums"].at[touched].add((grad ** 2).mean(-1), mode="drop")
        move = -0.05 * grad / jnp.sqrt(sums.at[touched].get(mode="fill", fill_value=1.0) + 1e-8)[:, None]
        table = state["table"].at[touched].add(move, mode="drop", unique_indices=True)
        dense, opt = updated(tx, grads, state["opt"], state["dense"])
        return {"dense": dense, "opt": opt, "table": table, "sums": sums}, loss

    def draw(rng):
        ids = rng.zipf(1.5, (8 * ranks, fields)).clip(0, 10**6).astype(np.int32)
        return ids, rng.integers(0, 2, 8 * ranks).astype(np.float32)

    return data_parallel(ranks, state, step, draw)


# Speculative decoding inside the step: a draft proposes, the target accepts by drawn uniforms, the draft distils it.
def speculative(ranks, width=12, words=16, ahead=3, time=6):
    params = {"draft": normal(6, table=(words, width), out=(width, words)),
              "target": normal(7, table=(words, width), w=(width, width), out=(width, words))}
    tx = optax.multi_transform({"draft": optax.adam(1e-2), "target": optax.sgd(1e-2)}, {n: n for n in params})
    state = {"params": params, "opt": tx.init(params), "key": jax.random.key(3)}

    def draft_logits(p, w): return p["table"][w] @ p["out"]
    def target_logits(p, w): return jnp.tanh(p["table"][w] @ p["w"]) @ p["out"]

    def step(state, start):
        key, now = jax.random.split(state["key"])
        now = jax.random.fold_in(now, jax.lax.axis_index("data"))

        def one(first, key):
            def cond(c): return c[1] < time
            def body(c):
                text, n, key, taken = c
                key, *keys = jax.random.split(key, 4 + ahead)
                words_now, qs = [text[n - 1]], []
                for i in range(ahead):
                    logits = draft_logits(state["params"]["draft"], words_now[-1])
                    words_now.append(jnp.argmax(logits + jax.random.gumbel(keys[i], logits.shape)).astype(jnp.int32))
                    qs.append(jax.nn.softmax(logits))
                q = jnp.stack(qs)
                p = jax.nn.softmax(target_logits(state["params"]["target"], jnp.stack(words_now)))
                drawn = jnp.stack(words_now[1:])
                chance = lambda p: jnp.take_along_axis(p, drawn[:, None], 1)[:, 0]
                ratio = chance(p[:-1]) / chance(q)
                ok = jnp.cumprod((jax.random.uniform(keys[-1], (ahead,)) < ratio).astype(jnp.int32))
                count = ok.sum()
                left = jnp.maximum(p[count] - jnp.where(count < ahead, q[jnp.minimum(count, ahead - 1)], 0), 0)
                extra = jax.random.categorical(keys[-2], jnp.log(left / left.sum() + 1e-20))
                new = jnp.where(jnp.arange(ahead + 1) < count, jnp.append(drawn, 0), extra.astype(jnp.int32))
                return jax.lax.dynamic_update_slice(text, new, (n,)), n + count + 1, key, taken + count
            text = jnp.zeros(time + 2 * ahead + 2, jnp.int32).at[0].set(first)
            text, n, _, taken = jax.lax.while_loop(cond, body, (text, jnp.int32(1), key, jnp.int32(0)))
            return text[:time], taken / n

        text, rate = jax.vmap(one)(start, jax.random.split(now, start.shape[0]))

        def loss_of(p):
            t = target_logits(p["target"], text)
            d = draft_logits(p["draft"], text)
            kl = optax.losses.kl_divergence(jax.nn.log_softmax(d), jax.lax.stop_gradient(jax.nn.softmax(t))).mean()
            return kl + cross_entropy(t[:, :-1], text[:, 1:])

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "key": key}, {"loss": loss, "rate": jax.lax.pmean(rate.mean(), "data")}

    return data_parallel(ranks, state, step, lambda rng: (rng.integers(0, words, 4 * ranks).astype(np.int32),))


# Vocabulary-parallel logits over "model": maxima and sums across ranks, one-hot lookups by offset; Ulysses attention.
def vocabulary_parallel(ranks, width=16, time=8, words=24, heads=4):
    mesh, tx = square_mesh(ranks, "data", "model"), optax.adamw(3e-3)
    parts = mesh.shape["model"]
    params = normal(2, table=(words, width), q=(width, width), k=(width, width), v=(width, width), o=(width, width))
    specs = {"table": P("model", None), "q": P(), "k": P(), "v": P(), "o": P()}

    def step(state, text):
        def loss_of(p):
            per = words // parts
            first = jax.lax.axis_index("model") * per
            ids = text - first
            mine = (ids >= 0) & (ids < per)
            look = jnp.where(mine[..., None], p["table"][jnp.clip(ids, 0, per - 1)], 0)
            x = jax.lax.psum(look[:, :-1], "model")
            part = time // parts
            x = jax.lax.dynamic_slice_in_dim(x, jax.lax.axis_index("model") * part, part, 1)
            split = lambda n: (x @ p[n]).reshape(*x.shape[:2], heads, width // heads)
            q, k, v = (jax.lax.all_to_all(split(n), "model", 2, 1, tiled=True) for n in "qkv")
            h = jax.nn.dot_product_attention(q, k, v, is_causal=True)
            h = jax.lax.all_to_all(h, "model", 1, 2, tiled=True).reshape(x.shape)
            x = x + h @ p["o"]
            x = jax.lax.all_gather(x, "model", axis=1, tiled=True)
            logits = x @ p["table"].T
            top = jax.lax.stop_gradient(jax.lax.pmax(jax.lax.stop_gradient(logits.max(-1)), "model"))
            total = jnp.log(jax.lax.psum(jnp.exp(logits - top[..., None]).sum(-1), "model")) + top
            at = jnp.clip(ids, 0, per - 1)[:, 1:, None]
            right = jnp.where(mine[:, 1:], jnp.take_along_axis(logits, at, -1)[..., 0], 0)
            return (total - jax.lax.psum(right, "model")).mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        grads = {n: g if n == "table" else jax.lax.pmean(g, "model") for n, g in grads.items()}
        grads = {n: g / (parts if n == "table" else 1) for n, g in grads.items()}
        grads = jax.lax.pmean(grads, "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, jax.lax.pmean(loss, ("data", "model"))

    opt = tx.init(params)
    state_specs = {"params": specs, "opt": specs_like(opt, specs, params)}
    mapped = shard_map(step, mesh, (state_specs, P("data")), (state_specs, P()), check=False)
    return Step(jax.jit(mapped, donate_argnums=0), place_by(mesh, {"params": params, "opt": opt}, state_specs),
                stream_by(mesh, sequences(8, time, words), P("data")))


# Left to the partitioner on a grid of ranks: weights over both axes, constraints inside a scan over layers that are
# computed again, nothing donated. Its groups count ranks along the grid turned round.
def auto_layers(ranks, width=16, layers=3):
    mesh = square_mesh(ranks, "data", "model")
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.lamb(3e-3))
    params = {"up": normal(1, u=(layers, width, 32))["u"] * 0.4, "down": normal(2, d=(layers, 32, width))["d"] * 0.3,
              "head": normal(3, h=(width, 5))["h"]}
    specs = {"up": P(None, "data", "model"), "down": P(None, "model", "data"), "head": P("data", None)}
    held = lambda a, *s: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*s)))

    def step(params, opt, x, y):
        @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.checkpoint_dots)
        def layer(h, w):
            up, down = w
            g = held(jax.nn.gelu(h @ up), "data", "model")
            return held(h + g @ down, "data", None), g.mean()

        def loss_of(p):
            h, seen = jax.lax.scan(layer, x, (p["up"], p["down"]))
            return cross_entropy(h @ p["head"], y), seen

        (loss, seen), grads = jax.value_and_grad(loss_of, has_aux=True)(params)
        updates, opt = tx.update(grads, opt, params)
        return optax.apply_updates(params, updates), opt, {"loss": loss, "seen": seen}

    opt = tx.init(params)
    state = place_by(mesh, params, specs), place_by(mesh, opt, specs_like(opt, specs, params))
    return Step(jax.jit(step), state, stream_by(mesh, labelled(8 * ranks, (width,), 5), P("data")), donated=())


def partitioned(ranks, params, specs, loss_of, tx, draw):
    mesh = square_mesh(ranks, "data", "model")
    held = lambda a, *s: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(*s)))

    def step(state, *rows):
        loss, grads = jax.value_and_grad(lambda p: loss_of(held, p, *rows))(state["params"])
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, loss

    opt = tx.init(params)
    state = {"params": place_by(mesh, params, specs), "opt": place_by(mesh, opt, specs_like(opt, specs, params))}
    shardings = jax.tree.map(lambda a: a.sharding, state)
    jitted = jax.jit(step, donate_argnums=0, out_shardings=(shardings, None))
    return Step(jitted, state, stream_by(mesh, draw, P("data")))


# Sorts, running sums, rolls, slices and scans along dimensions that are cut over ranks, so that the partitioner moves
# them.
def auto_orders(ranks, width=8):
    params = normal(7, a=(width, 16), b=(16, width), out=(width, 5))
    specs = {"a": P(None, "model"), "b": P("model", None), "out": P()}

    def loss_of(held, p, x, y):
        h = held(jnp.tanh(x @ p["a"]), "data", "model") @ p["b"]
        rank = jnp.argsort(h[:, 0])
        sorted_rows = held(h[rank], "data", None)
        run = jnp.cumsum(held(sorted_rows, "data", None), 0) / (1 + jnp.arange(h.shape[0])[:, None])
        back = jnp.zeros_like(run).at[rank].set(run)
        rolled = jnp.roll(held(h, "data", "model"), 1, 0) + jnp.flip(held(h, "data", None), 0)
        top = jax.lax.top_k(held(h.T, "model", "data"), 3)[0].mean()
        median = jnp.median(h, 0)
        chosen = jax.lax.dynamic_slice_in_dim(h, jnp.argmax(h[:, 1]) % 8, 4, 0).mean()
        pairs = jnp.triu(held(h @ h.T, "data", "model"), 1)
        scan = jax.lax.associative_scan(jnp.maximum, held(h, "data", None), axis=0)
        x2 = h + 0.1 * back + 0.1 * rolled + 0.05 * median + 0.05 * scan
        return cross_entropy(x2 @ p["out"], y) + 0.01 * top + 0.01 * chosen + 1e-3 * (pairs ** 2).mean()

    return partitioned(ranks, params, specs, loss_of, optax.adam(1e-2), labelled(16, (width,), 5))


# As jobs were written before shardings: state copied to every device, a step of jax.pmap, batches with the devices in
# front, dropout by a key a device, averages of the batch's mean and variance.
def mapped_step(ranks, width=12):
    tx = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(optax.warmup_cosine_decay_schedule(0, 1e-2, 5, 50)))
    params = normal(3, a=(width, 32), b=(32, 5)) | {"scale": jnp.ones(32), "bias": jnp.zeros(32)}

    def step(state, x, y):
        key, own = jax.random.split(state["key"])

        def loss_of(p):
            h = x @ p["a"]
            mean, square = jax.lax.pmean((h.mean(0), (h ** 2).mean(0)), "devices")
            h = jax.nn.silu((h - mean) * jax.lax.rsqrt(square - mean ** 2 + 1e-5) * p["scale"] + p["bias"])
            h = jnp.where(jax.random.bernoulli(own, 0.9, h.shape), h / 0.9, 0)
            return cross_entropy(h @ p["b"], y), (mean, square)

        (loss, seen), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        params, opt = updated(tx, jax.lax.pmean(grads, "devices"), state["opt"], state["params"])
        averages = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, state["averages"], seen)
        return {"params": params, "opt": opt, "averages": averages, "key": key}, {
            "loss": jax.lax.pmean(loss, "devices")}

    state = {"params": params, "opt": tx.init(params), "averages": (jnp.zeros(32), jnp.ones(32))}
    state = jax.tree.map(lambda leaf: jnp.stack([leaf] * ranks), state)
    state["key"] = jax.random.split(jax.random.key(5), ranks)
    draw = labelled(ranks * 6, (width,), 5)

    def batch(t):
        return tuple(a.reshape(ranks, -1, *a.shape[1:]) for a in draw(np.random.default_rng(1000 + t)))

    return Step(jax.pmap(step, "devices", donate_argnums=0), state, batch)


# A bfloat16 network that pools to the next smaller size, as `SAME` pads it: in images and in time; one pool is padded
# before the beginning.
def same_pools(ranks, side=8):
    params = {"first": normal(6, w=(3, 3, 3, 8))["w"], "second": normal(7, w=(8, 5))["w"]}

    def loss_of(p, extra, x, y):
        p, x = jax.tree.map(lambda a: a.astype(jnp.bfloat16), (p, x))
        h = jax.lax.conv_general_dilated(x, p["first"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        h = nn.avg_pool(nn.avg_pool(jax.nn.gelu(h), (3, 3), (2, 2), "SAME"), (3, 2), (2, 1), "SAME")
        h = nn.avg_pool(h, (2, 2), (1, 1), ((1, 0), (1, 0)))
        h = nn.avg_pool(h.reshape(h.shape[0], -1, 8), (4,), (3,), "SAME").mean(1)
        return cross_entropy((h @ p["second"]).astype(jnp.float32), y), extra

    return trained(ranks, params, loss_of, optax.adamw(1e-3), labelled(4 * ranks, (side, side, 3), 5))


FURTHER = {f.__name__: f for f in (
    eight_bit_floats, four_bit_type, block_scaled, matched_sets, touched_rows, speculative, vocabulary_parallel,
    auto_layers, auto_orders, mapped_step, same_pools)}
