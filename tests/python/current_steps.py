"""Steps beside language models as users write them at the end of 2026: soft actor-critic, world models, flows, filters.
As steps.py; `CURRENT[name](ranks)`."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import data_parallel, trained
from modern_steps import normal
from recent_steps import updated
from steps import cross_entropy, labelled


def mlp(p, x, name):
    return jax.nn.relu(x @ p[name + "_in"]) @ p[name + "_out"]


# Soft actor-critic: a squashed Gaussian's log-probability, two critics with averaged targets, a learnt temperature.
def squashed(ranks):
    seen, acts, width = 6, 2, 32
    actor = normal(1, pi_in=(seen, width), pi_out=(width, 2 * acts))
    critics = normal(2, a_in=(seen + acts, width), a_out=(width, 1), b_in=(seen + acts, width), b_out=(width, 1))
    tx = optax.adam(3e-3)
    state = {"actor": actor, "critics": critics, "targets": jax.tree.map(jnp.copy, critics), "alpha": jnp.float32(-1),
             "key": jax.random.key(5)}
    state |= {"tx_" + n: tx.init(state[n]) for n in ("actor", "critics", "alpha")}

    def drawn(p, x, key):
        mean, log_std = jnp.split(mlp(p, x, "pi"), 2, -1)
        log_std = jnp.clip(log_std, -5, 2)
        noise = jax.random.normal(key, mean.shape)
        action = jnp.tanh(mean + jnp.exp(log_std) * noise)
        chance = -0.5 * noise ** 2 - log_std - 0.5 * jnp.log(2 * jnp.pi) - jnp.log(1 - action ** 2 + 1e-6)
        return action, chance.sum(-1)

    def values(p, x, action):
        both = jnp.concatenate([x, action], -1)
        return mlp(p, both, "a")[:, 0], mlp(p, both, "b")[:, 0]

    def step(state, x, action, reward, after):
        key, first, second = jax.random.split(state["key"], 3)
        alpha = jnp.exp(state["alpha"])
        then, chance = drawn(state["actor"], after, first)
        wanted = reward + 0.95 * (jnp.minimum(*values(state["targets"], after, then)) - alpha * chance)

        def critics_loss(p):
            return sum(((q - wanted) ** 2).mean() for q in values(p, x, action))

        def actor_loss(p):
            mine, chance = drawn(p, x, second)
            return (alpha * chance - jnp.minimum(*values(state["critics"], x, mine))).mean(), chance.mean()

        loss, critics_grads = jax.value_and_grad(critics_loss)(state["critics"])
        (_, chance), actor_grads = jax.value_and_grad(actor_loss, has_aux=True)(state["actor"])
        alpha_grad = jax.grad(lambda a: -(a * jax.lax.stop_gradient(chance - acts)))(state["alpha"])
        grads = jax.lax.pmean({"actor": actor_grads, "critics": critics_grads, "alpha": alpha_grad}, "data")
        new = {"key": key}
        for n, g in grads.items():
            new[n], new["tx_" + n] = updated(tx, g, state["tx_" + n], state[n])
        new["targets"] = optax.incremental_update(new["critics"], state["targets"], 0.05)
        return new, {"loss": jax.lax.pmean(loss, "data")}

    def draw(rng):
        rows = 16 * ranks
        x, a, after = (rng.normal(size=(rows, n)).astype(np.float32) for n in (seen, acts, seen))
        return x, np.tanh(a), (x[:, 0] * a[:, 0]).astype(np.float32), after

    return data_parallel(ranks, state, step, draw)


# CLIP: features of all ranks gathered, each rank's logits against all of them; a learnt temperature, clipped.
def paired_views(ranks):
    params = normal(12, image=(24, 16), text=(12, 16)) | {"scale": jnp.float32(np.log(1 / 0.07))}
    unit = lambda a: a / jnp.linalg.norm(a, axis=-1, keepdims=True)

    def loss_of(p, extra, image, text):
        a, b = unit(image @ p["image"]), unit(text @ p["text"])
        all_a, all_b = (jax.lax.all_gather(f, "data", tiled=True) for f in (a, b))
        scale = jnp.exp(jnp.minimum(p["scale"], np.log(100.0)))
        labels = jnp.arange(a.shape[0]) + jax.lax.axis_index("data") * a.shape[0]
        return 0.5 * (cross_entropy(scale * a @ all_b.T, labels) + cross_entropy(scale * b @ all_a.T, labels)), extra

    def draw(rng):
        z = rng.normal(size=(8 * ranks, 12)).astype(np.float32)
        return np.tile(z, (1, 2)) + 0.1 * rng.normal(size=(8 * ranks, 24)).astype(np.float32), z

    return trained(ranks, params, loss_of, optax.adamw(1e-2), draw)


# BYOL: a student predicts an averaged teacher's projection of the other view; batch statistics of all ranks.
def teacher(ranks):
    params = normal(13, a=(16, 32), b=(32, 16), c=(16, 32), d=(32, 16))

    def normed(x):
        mean, square = jax.lax.pmean((x.mean(0), (x ** 2).mean(0)), "data")
        return (x - mean) * jax.lax.rsqrt(square - mean ** 2 + 1e-5)

    def projected(p, x):
        return jax.nn.relu(normed(x @ p["a"])) @ p["b"]

    unit = lambda a: a * jax.lax.rsqrt((a ** 2).sum(-1, keepdims=True) + 1e-12)
    tx = optax.lars(0.1, weight_decay=1e-4)

    def step(state, x, y):
        def loss_of(p):
            predicted = lambda v: unit(jax.nn.relu(normed(projected(p, v) @ p["c"])) @ p["d"])
            wanted = lambda v: jax.lax.stop_gradient(unit(projected(state["teacher"], v)))
            return 4 - 2 * ((predicted(x) * wanted(y)).sum(-1) + (predicted(y) * wanted(x)).sum(-1)).mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        tau = 1 - 0.01 * (jnp.cos(jnp.pi * state["t"] / 100) + 1) / 2
        mean = jax.tree.map(lambda a, b: tau * a + (1 - tau) * b, state["teacher"], params)
        return {"params": params, "opt": opt, "teacher": mean, "t": state["t"] + 1}, {"loss": loss}

    state = {"params": params, "opt": tx.init(params), "teacher": jax.tree.map(jnp.copy, params), "t": jnp.int32(0)}

    def draw(rng):
        x = rng.normal(size=(16 * ranks, 16)).astype(np.float32)
        return tuple(x + 0.1 * rng.normal(size=x.shape).astype(np.float32) for _ in range(2))

    return data_parallel(ranks, state, step, draw)


# Mean flow: the velocity over an interval, its target by a forward derivative inside of the loss; rectified flow beside.
def mean_flow(ranks):
    params = normal(14, a=(10, 48), b=(48, 48), c=(48, 8))

    def velocity(p, x, r, t):
        h = jax.nn.silu(jnp.concatenate([x, r[:, None], t[:, None]], -1) @ p["a"])
        return jax.nn.silu(h @ p["b"]) @ p["c"]

    def loss_of(p, key, x):
        key, *keys = jax.random.split(key, 4)
        t, r = (jax.nn.sigmoid(jax.random.normal(k, x.shape[:1]) - 0.4) for k in keys[:2])
        t, r = jnp.maximum(t, r), jnp.where(jnp.arange(x.shape[0]) % 4 == 0, jnp.minimum(t, r), jnp.maximum(t, r))
        noise = jax.random.normal(keys[2], x.shape)
        z, v = (1 - t)[:, None] * x + t[:, None] * noise, noise - x
        u, moved = jax.jvp(functools.partial(velocity, p), (z, r, t), (v, jnp.zeros_like(r), jnp.ones_like(t)))
        error = u - jax.lax.stop_gradient(v - (t - r)[:, None] * moved)
        square = (error ** 2).sum(-1)
        return (square / jax.lax.stop_gradient(square + 1e-3)).mean() + square.mean() * 0.1, key

    def draw(rng):
        angle = rng.uniform(0, 6.28, (32 * ranks, 1)).astype(np.float32)
        return (np.concatenate([np.sin(angle * (i + 1) / 2) for i in range(8)], -1),)

    return trained(ranks, params, loss_of, optax.adam(2e-3, b2=0.95), draw, jax.random.key(2))


# A controlled differential equation: a hidden state driven by an interpolated path, Heun's steps, a vector field that
# gives a matrix; time series of uneven spacing with holes.
def controlled(ranks):
    hidden, channels, times = 6, 3, 10
    params = normal(15, first=(channels, hidden), a=(hidden, 16), b=(16, hidden * channels), out=(hidden, 2))

    def loss_of(p, extra, t, x, holes, y):
        x = jnp.where(holes, jnp.nan, x)
        last = jax.lax.associative_scan(lambda a, b: jnp.where(jnp.isnan(b), a, b), x, axis=1)
        path = jnp.concatenate([t[..., None], jnp.nan_to_num(last)], -1)
        field = lambda h: jnp.tanh(jax.nn.softplus(h @ p["a"]) @ p["b"]).reshape(*h.shape, channels)

        def body(h, moved):
            one = jnp.einsum("bhc,bc->bh", field(h), moved)
            two = jnp.einsum("bhc,bc->bh", field(h + one), moved)
            return h + (one + two) / 2, None

        h, _ = jax.lax.scan(body, path[:, 0] @ p["first"], jnp.diff(path, axis=1).swapaxes(0, 1))
        return cross_entropy(h @ p["out"], y), extra

    def draw(rng):
        rows = 8 * ranks
        t = np.cumsum(rng.uniform(0.1, 1, (rows, times)), 1).astype(np.float32)
        y = rng.integers(0, 2, rows).astype(np.int32)
        x = np.sin(t[..., None] * (1 + y[:, None, None])) + np.zeros((1, 1, channels - 1))
        return t, x.astype(np.float32), rng.uniform(size=x.shape) < 0.2, y

    return trained(ranks, params, loss_of, optax.chain(optax.clip(1.0), optax.rmsprop(1e-3)), draw)


# A linear Gaussian state space: the likelihood of series by a Kalman filter, covariances in Joseph's form.
def filtered(ranks):
    states, seen, time = 4, 2, 12
    params = {"a": jnp.eye(states) * 0.9 + jnp.eye(states, k=1) * 0.1, "c": normal(16, c=(seen, states))["c"],
              "q": jnp.full(states, -2.0), "r": jnp.full(seen, -1.0)}

    def loss_of(p, extra, series):
        q, r, eye = jnp.diag(jnp.exp(p["q"])), jnp.diag(jnp.exp(p["r"])), jnp.eye(states)

        def one(series):
            def body(held, y):
                mean, cov = held
                mean, cov = p["a"] @ mean, p["a"] @ cov @ p["a"].T + q
                s = p["c"] @ cov @ p["c"].T + r
                factor = jnp.linalg.cholesky(s)
                gain = jax.scipy.linalg.cho_solve((factor, True), p["c"] @ cov).T
                error = y - p["c"] @ mean
                white = jax.scipy.linalg.solve_triangular(factor, error, lower=True)
                chance = -0.5 * white @ white - jnp.log(jnp.diag(factor)).sum() - seen / 2 * jnp.log(2 * jnp.pi)
                kept = eye - gain @ p["c"]
                return (mean + gain @ error, kept @ cov @ kept.T + gain @ r @ gain.T), chance

            return jax.lax.scan(body, (jnp.zeros(states), eye), series)[1].sum()

        return -jax.vmap(one)(series).mean() / time, extra

    draw = lambda rng: (np.cumsum(rng.normal(size=(4 * ranks, time, seen)), 1).astype(np.float32),)
    return trained(ranks, params, loss_of, optax.adabelief(1e-2), draw)


# A chain of labels: the partition function by a scan in the log domain, the best chain by a scan and its pointers back.
def label_chain(ranks):
    labels, time = 5, 9
    params = normal(17, emit=(8, labels), step=(labels, labels), first=(1, labels))

    def loss_of(p, extra, x, y, length):
        emitted = (x @ p["emit"]).swapaxes(0, 1)
        valid = jnp.arange(time)[:, None] < length
        pick = lambda a, i: jnp.take_along_axis(a, i[:, None], 1)[:, 0]

        def forward(held, part):
            a, best, score, before = held
            e, on, now = part
            new = jax.nn.logsumexp(a[:, :, None] + p["step"], 1) + e
            score = jnp.where(on, score + p["step"][before, now] + pick(e, now), score)
            paths = best[:, :, None] + p["step"]
            pointers = jnp.where(on[:, None], paths.argmax(1), jnp.arange(labels))
            keep = lambda a, b: jnp.where(on[:, None], a, b)
            return (keep(new, a), keep(paths.max(1) + e, best), score, now), pointers

        start = p["first"] + emitted[0]
        begun = (start, start, pick(start, y[:, 0]), y[:, 0])
        (a, best, score, _), pointers = jax.lax.scan(forward, begun, (emitted[1:], valid[1:], y.T[1:]))
        last = best.argmax(-1)
        _, chain = jax.lax.scan(lambda now, to: (pick(to, now), pick(to, now)), last, pointers, reverse=True)
        right = ((chain.T == y[:, :-1]) & (jnp.arange(time - 1) < length[:, None])).mean()
        return (jax.nn.logsumexp(a, -1) - score).mean(), {"right": right}

    def draw(rng):
        y = rng.integers(0, labels, (8 * ranks, time)).astype(np.int32)
        x = np.eye(8, dtype=np.float32)[y] + 0.3 * rng.normal(size=(*y.shape, 8)).astype(np.float32)
        return x, y, rng.integers(3, time + 1, 8 * ranks).astype(np.int32)

    return trained(ranks, params, loss_of, optax.nadam(1e-2), draw, {"right": jnp.float32(0)})


# Capsules: votes routed by agreement, margins; a decoder masked by the label.
def capsules(ranks):
    few, out, size = 8, 5, 6
    params = normal(18, first=(16, few * 4), decode=(out * size, 16)) | {
        "votes": jax.random.normal(jax.random.PRNGKey(4), (few, out, 4, size)) * 0.3}

    def squash(s):
        square = (s ** 2).sum(-1, keepdims=True)
        return square / (1 + square) * s / jnp.sqrt(square + 1e-7)

    def loss_of(p, extra, x, y):
        u = squash((x @ p["first"]).reshape(-1, few, 4))
        votes = jnp.einsum("bid,ijdk->bijk", u, p["votes"])
        fixed = jax.lax.stop_gradient(votes)

        def route(_, b):
            v = squash((jax.nn.softmax(b, -1)[..., None] * fixed).sum(1))
            return b + jnp.einsum("bijk,bjk->bij", fixed, v)

        b = jax.lax.fori_loop(0, 2, route, jnp.zeros(votes.shape[:3]))
        v = squash((jax.nn.softmax(b, -1)[..., None] * votes).sum(1))
        length, is_label = jnp.sqrt((v ** 2).sum(-1) + 1e-9), jax.nn.one_hot(y, out)
        margins = is_label * jax.nn.relu(0.9 - length) ** 2 + 0.5 * (1 - is_label) * jax.nn.relu(length - 0.1) ** 2
        again = (v * is_label[..., None]).reshape(x.shape[0], -1) @ p["decode"]
        return margins.sum(-1).mean() + 5e-3 * ((again - x) ** 2).mean(), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), labelled(8 * ranks, (16,), 5))


# A world model: a scan with states drawn from categories straight through, symmetric logs and two-hot values, an actor
# trained in its imagination on returns that a reversed scan adds up.
def world_model(ranks):
    width, groups, classes, acts, time, bins = 16, 3, 4, 2, 6, 11
    few = groups * classes
    params = normal(19, cell=(width + few + acts, 3 * width), prior=(width, few), post=(width + 8, few),
                    back=(width + few, 8), reward=(width + few, bins), pi=(width + few, acts),
                    value=(width + few, bins))
    places = jnp.linspace(-2, 2, bins)
    symlog = lambda x: jnp.sign(x) * jnp.log1p(jnp.abs(x))
    two_hot = lambda x: jnp.maximum(0, 1 - jnp.abs(x[..., None] - places) / (places[1] - places[0]))

    def drawn(key, logits):
        logits = logits.reshape(*logits.shape[:-1], groups, classes)
        chance = 0.99 * jax.nn.softmax(logits) + 0.01 / classes
        one = jax.nn.one_hot(jax.random.categorical(key, jnp.log(chance)), classes)
        return (one + chance - jax.lax.stop_gradient(chance)).reshape(*one.shape[:-2], -1), jnp.log(chance)

    def moved(p, h, z, action):
        reset, update, new = jnp.split(jnp.concatenate([h, z, action], -1) @ p["cell"], 3, -1)
        update = jax.nn.sigmoid(update - 1)
        return update * jnp.tanh(jax.nn.sigmoid(reset) * new) + (1 - update) * h

    def loss_of(p, key, x, action, reward):
        key, seeing, dreaming = jax.random.split(key, 3)
        divergence = lambda a, b: jnp.maximum((jnp.exp(a) * (a - b)).sum((-1, -2)), 1.0).mean()

        def see(held, part):
            h, z = held
            key, x, action = part
            h = moved(p, h, z, action)
            z, post = drawn(key, jnp.concatenate([h, x], -1) @ p["post"])
            return (h, z), (h, z, post, drawn(key, h @ p["prior"])[1])

        begun = jnp.zeros((x.shape[0], width)), jnp.zeros((x.shape[0], few))
        parts = jax.random.split(seeing, time), x.swapaxes(0, 1), action.swapaxes(0, 1)
        _, (h, z, post, prior) = jax.lax.scan(see, begun, parts)
        both, stop = jnp.concatenate([h, z], -1), jax.lax.stop_gradient
        loss = ((both @ p["back"] - symlog(x.swapaxes(0, 1))) ** 2).mean()
        loss -= (two_hot(symlog(reward.T)) * jax.nn.log_softmax(both @ p["reward"])).sum(-1).mean()
        loss += divergence(stop(post), prior) + 0.1 * divergence(post, stop(prior))
        world = stop(p) | {"pi": p["pi"]}

        def dream(held, key):
            h, z = held
            action = jnp.tanh(jnp.concatenate([h, z], -1) @ world["pi"])
            h = moved(world, h, z, action)
            z, _ = drawn(key, h @ world["prior"])
            return (h, z), jnp.concatenate([h, z], -1)

        _, seen = jax.lax.scan(dream, stop((h[-1], z[-1])), jax.random.split(dreaming, time))
        gained, worth = (jax.nn.softmax(seen @ world[n]) @ places for n in ("reward", "value"))
        _, returns = jax.lax.scan(lambda later, part: (part[0] + 0.9 * (0.05 * part[1] + 0.95 * later),) * 2, worth[-1],
                                  (gained, worth), reverse=True)
        chances = jax.nn.log_softmax(stop(seen) @ p["value"])
        return loss - returns.mean() - (stop(two_hot(returns)) * chances).sum(-1).mean(), key

    def draw(rng):
        x, action = (rng.normal(size=(8 * ranks, time, n)).astype(np.float32) for n in (8, acts))
        return x, np.tanh(action), x[..., 0] * action[..., 0]

    return trained(ranks, params, loss_of, optax.chain(optax.clip_by_global_norm(10.0), optax.adam(1e-3)), draw,
                   jax.random.key(6))


CURRENT = {f.__name__: f for f in (
    squashed, paired_views, teacher, mean_flow, controlled, filtered, label_chain, capsules, world_model)}
