"""Steps made of what people take from libraries: sparse arrays, solvers and integrators of jax.scipy and
jax.experimental, images, splines, second-order methods, energy models, rollouts with caches, rarer optimizers and
distributions. As steps.py; `LIBRARY[name](ranks)`."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from model_steps import data_parallel, image_classes, trained
from modern_steps import normal, sequences
from program_steps import mlp_logits, mlp_loss, mlp_params
from recent_steps import updated
from steps import cross_entropy, labelled


# A graph as a sparse matrix in coordinates, its values learnt; products from both sides, a sparse times a sparse.
def sparse_matrix(ranks, nodes=14, width=6):
    from jax.experimental import sparse

    rng = np.random.default_rng(0)
    indices = jnp.asarray(np.stack([np.arange(nodes).repeat(3), rng.integers(0, nodes, 3 * nodes)], 1).astype(np.int32))
    params = normal(0, w0=(width, width), w1=(width, 4), values=(3 * nodes,))

    def loss_of(p, extra, x, y):
        matrix = sparse.BCOO((p["values"], indices), shape=(nodes, nodes))
        beside = x.transpose(1, 0, 2).reshape(nodes, -1)
        h = (matrix @ beside).reshape(nodes, -1, width).transpose(1, 0, 2)
        h = jnp.tanh(h @ p["w0"])
        h = h + (h.transpose(0, 2, 1).reshape(-1, nodes) @ matrix).reshape(-1, width, nodes).transpose(0, 2, 1)
        dense = sparse.bcoo_reduce_sum(matrix, axes=(0,)).todense()
        return cross_entropy((h * dense[:, None]).mean(1) @ p["w1"], y) + 1e-3 * jnp.sum(matrix.todense() ** 2), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(4 * ranks, (nodes, width), 4))


# A neural differential equation by jax.experimental.ode: Dormand-Prince with steps that fit, its adjoint backwards.
def adaptive_ode(ranks, width=6):
    from jax.experimental.ode import odeint

    params = normal(1, w0=(width, 12), w1=(12, width), out=(width, 4))

    def loss_of(p, extra, x, y):
        field = lambda h, t, w0, w1: jnp.tanh(h @ w0 + jnp.sin(t)) @ w1
        path = odeint(field, x, jnp.array([0.0, 0.4, 1.0]), p["w0"], p["w1"], rtol=1e-5, atol=1e-5)
        return cross_entropy(path[-1] @ p["out"], y) + 1e-2 * jnp.mean(path ** 2), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(4 * ranks, (width,), 4))


# Physics-informed: second derivatives by forward over reverse inside the loss, a boundary term, learnt coefficients.
def physics(ranks):
    params = normal(2, w0=(2, 20), w1=(20, 20), w2=(20, 1)) | {"b": jnp.zeros(20), "speed": jnp.float32(0.5)}

    def loss_of(p, extra, points, edge):
        u = lambda at: (jnp.tanh(jnp.tanh(at @ p["w0"] + p["b"]) @ p["w1"]) @ p["w2"])[0]
        def residual(at):
            slope = jax.grad(u)
            bend = jax.jvp(lambda a: slope(a)[1], (at,), (jnp.array([0.0, 1.0]),))[1]
            return slope(at)[0] + u(at) * slope(at)[1] - p["speed"] ** 2 * bend
        hessian = jax.vmap(jax.hessian(u))(points[:2])
        inner = jnp.mean(jax.vmap(residual)(points) ** 2) + 1e-3 * jnp.mean(jnp.trace(hessian, axis1=1, axis2=2) ** 2)
        return inner + jnp.mean((jax.vmap(u)(edge) + jnp.sin(jnp.pi * edge[:, 1])) ** 2), extra

    def draw(rng):
        return tuple(rng.uniform(-1, 1, (8 * ranks, 2)).astype(np.float32) for _ in range(2))

    return trained(ranks, params, loss_of, optax.adam(1e-2), draw)


# A Gaussian process: the marginal likelihood through a factor, an inverse by solves; kernels with learnt lengths.
def gaussian_process(ranks, rows=10):
    params = {"length": jnp.zeros(3), "size": jnp.float32(0.3), "noise": jnp.float32(-1.0), "feature": normal(3, w=(4, 3))["w"]}

    def loss_of(p, extra, x, y):
        z = jnp.tanh(x @ p["feature"]) / jnp.exp(p["length"])
        apart = jnp.sum((z[:, None] - z[None]) ** 2, -1)
        kernel = jnp.exp(p["size"]) * (1 + jnp.sqrt(apart + 1e-6)) * jnp.exp(-jnp.sqrt(apart + 1e-6))
        kernel = kernel + jnp.exp(p["noise"]) * jnp.eye(x.shape[0])
        factor = jax.scipy.linalg.cho_factor(kernel, lower=True)
        fit = y @ jax.scipy.linalg.cho_solve(factor, y)
        whitened = jax.scipy.linalg.solve_triangular(factor[0], y, lower=True)
        likely = jax.scipy.stats.multivariate_normal.logpdf(y[:4], jnp.zeros(4), kernel[:4, :4])
        return 0.5 * fit + jnp.sum(jnp.log(jnp.diag(factor[0]))) - 0.1 * likely + 1e-2 * jnp.sum(jnp.abs(whitened)), extra

    def draw(rng):
        x = rng.normal(size=(rows * ranks, 4)).astype(np.float32)
        return x, np.sin(x.sum(1)).astype(np.float32)

    return trained(ranks, params, loss_of, optax.rmsprop(1e-2, centered=True, momentum=0.5), draw)


# Linear systems inside the loss: GMRES and BiCGSTAB with implicit gradients, a tridiagonal solve, least squares.
def linear_systems(ranks, size=8):
    params = normal(4, a=(size, size), low=(size,), high=(size,), out=(3 * size, 5))

    def loss_of(p, extra, x, y):
        a = 0.2 * p["a"] + 2 * jnp.eye(size)
        one = jax.vmap(lambda b: jax.scipy.sparse.linalg.gmres(lambda v: a @ v, b, tol=1e-6, restart=size)[0])(x)
        two = jax.vmap(lambda b: jax.scipy.sparse.linalg.bicgstab(lambda v: a.T @ v, b, tol=1e-6)[0])(x)
        near = jnp.zeros(size)
        three = jax.lax.linalg.tridiagonal_solve(
            near.at[1:].set(0.3 * p["low"][1:]), near + 2, near.at[:-1].set(0.3 * p["high"][:-1]), x.T).T
        fit = jnp.linalg.lstsq(x[:, :3] + 0.1 * one[:, :3], x[:, 3:5])[0]
        return cross_entropy(jnp.concatenate([one, two, three], 1) @ p["out"], y) + 1e-3 * jnp.sum(fit ** 2), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(12 * ranks, (size,), 5))


# Pictures bent and cut as they come: an affine sampler of coordinates, crops at drawn places, resizing, blending,
# similarity in windows; keys in the state.
def bent_pictures(ranks):
    params = normal(5, look=(192, 6), out=(108, 10), conv=(3 * 9, 3))
    state = {"params": params, "opt": optax.adam(1e-3).init(params), "key": jax.random.PRNGKey(3)}

    def step(state, x, y):
        key, now = jax.random.split(jax.random.fold_in(state["key"], 0))
        now = jax.random.fold_in(now, jax.lax.axis_index("data"))
        crop_key, mix_key, flip_key = jax.random.split(now, 3)

        def loss_of(p):
            turn = jnp.eye(2, 3) + 0.1 * jnp.tanh((x.reshape(x.shape[0], -1) @ p["look"]).reshape(-1, 2, 3))
            grid = jnp.stack(jnp.meshgrid(jnp.linspace(-1, 1, 8), jnp.linspace(-1, 1, 8), indexing="ij"), 0)
            places = jnp.einsum("nij,jhw->nihw", turn[..., :2], grid) + turn[..., 2][..., None, None]
            places = (places + 1) * 3.5
            sample = lambda image, at: jax.scipy.ndimage.map_coordinates(image, [at[0], at[1]], order=1, mode="nearest")
            bent = jax.vmap(lambda image, at: jax.vmap(lambda c: sample(c, at), 2, 2)(image))(x, places)
            corner = jax.random.randint(crop_key, (x.shape[0], 2), 0, 3)
            cut = jax.vmap(lambda image, c: jax.lax.dynamic_slice(image, (c[0], c[1], 0), (6, 6, 3)))(bent, corner)
            cut = jnp.where(jax.random.bernoulli(flip_key, 0.5, (x.shape[0], 1, 1, 1)), cut[:, :, ::-1], cut)
            large = jax.image.resize(cut, (x.shape[0], 8, 8, 3), "cubic", antialias=False)
            blend = jax.random.beta(mix_key, 0.4, 0.4, (x.shape[0], 1, 1, 1))
            mixed = blend * cut + (1 - blend) * jnp.roll(cut, 1, 0)
            mean = lambda a: jax.lax.reduce_window(a, 0.0, jax.lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "VALID") / 9
            alike = (2 * mean(large) * mean(x) + 0.01) / (mean(large) ** 2 + mean(x) ** 2 + 0.01)
            return cross_entropy(mixed.reshape(x.shape[0], -1) @ p["out"], y) - 0.1 * alike.mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params, opt = updated(optax.adam(1e-3), grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "key": key}, loss

    return data_parallel(ranks, state, step, image_classes(4 * ranks, 8))


# A flow of rational splines: bins by softmax and cumulative sums, places by searchsorted; survival times by a sorted
# running logsumexp; interpolation, quantiles, unique values in a fixed number.
def splines(ranks, bins=6):
    params = normal(6, w0=(5, 20), w1=(20, 3 * bins + 1), risk=(5, 1))

    def loss_of(p, extra, x, times):
        raw = jnp.tanh(x @ p["w0"]) @ p["w1"]
        widths = 1e-2 + (1 - 1e-2 * bins) * jax.nn.softmax(raw[:, :bins])
        heights = 1e-2 + (1 - 1e-2 * bins) * jax.nn.softmax(raw[:, bins:2 * bins])
        slopes = 1e-2 + jax.nn.softplus(raw[:, 2 * bins:])
        edges = jnp.pad(jnp.cumsum(widths, 1), ((0, 0), (1, 0)))
        rises = jnp.pad(jnp.cumsum(heights, 1), ((0, 0), (1, 0)))
        u = jax.nn.sigmoid(x[:, 0])
        place = jnp.clip(jax.vmap(lambda e, v: jnp.searchsorted(e, v))(edges, u) - 1, 0, bins - 1)
        pick = lambda a, at: jnp.take_along_axis(a, at[:, None], 1)[:, 0]
        w, h, a, b = pick(widths, place), pick(heights, place), pick(slopes, place), pick(slopes, place + 1)
        t = (u - pick(edges, place)) / w
        s = h / w
        under = s + (a + b - 2 * s) * t * (1 - t)
        out = pick(rises, place) + h * (s * t ** 2 + a * t * (1 - t)) / under
        dense = jnp.log(s ** 2 * (b * t ** 2 + 2 * s * t * (1 - t) + a * (1 - t) ** 2)) - 2 * jnp.log(under)
        order = jnp.argsort(-times)
        risk = (x @ p["risk"])[order, 0]
        survival = jnp.mean(jax.lax.cumlogsumexp(risk) - risk)
        bent = jnp.interp(out, jnp.linspace(0, 1, 5), jnp.array([0.0, 0.1, 0.5, 0.6, 1.0]))
        groups = jnp.unique(jnp.floor(times * 3), size=4, fill_value=0.0)
        return -dense.mean() + survival + jnp.quantile(bent, 0.3) + 1e-3 * groups.sum() * out.mean(), extra

    def draw(rng):
        return rng.normal(size=(8 * ranks, 5)).astype(np.float32), rng.random(8 * ranks).astype(np.float32)

    return trained(ranks, params, loss_of, optax.adam(1e-2), draw)


# Gauss-Newton: products with the curvature by linearize and its transpose, conjugate gradients, damping that adapts; a
# diagonal by Hutchinson's draws.
def curvature(ranks):
    from jax.flatten_util import ravel_pytree

    flat, unravel = ravel_pytree(mlp_params(12))
    state = {"flat": flat, "damping": jnp.float32(1.0), "diagonal": jnp.zeros_like(flat), "key": jax.random.PRNGKey(8)}

    def step(state, x, y):
        key, now = jax.random.split(state["key"])
        model = lambda flat: mlp_logits(unravel(flat), x)
        loss_of = lambda flat: jax.lax.pmean(cross_entropy(model(flat), y), "data")
        local = lambda flat: cross_entropy(model(flat), y)
        loss, grad = jax.value_and_grad(local)(state["flat"])
        loss, grad = jax.lax.pmean((loss, grad), "data")
        logits, forward = jax.linearize(model, state["flat"])
        backward = jax.linear_transpose(forward, state["flat"])
        chance = jax.nn.softmax(logits)

        def product(v):
            jv = forward(v)
            curved = chance * (jv - jnp.sum(chance * jv, -1, keepdims=True)) / x.shape[0]
            return jax.lax.pmean(backward(curved)[0], "data") + state["damping"] * v

        move, _ = jax.scipy.sparse.linalg.cg(product, -grad, maxiter=6)
        draw = jax.random.rademacher(now, state["flat"].shape, jnp.float32)
        bend = jax.jvp(jax.grad(local), (state["flat"],), (draw,))[1]
        diagonal = 0.9 * state["diagonal"] + 0.1 * jax.lax.pmean(bend * draw, "data")
        new = state["flat"] + move / (1 + 0.1 * jnp.abs(diagonal))
        ratio = (loss_of(new) - loss) / (grad @ move + 0.5 * move @ product(move))
        damping = state["damping"] * jnp.where(ratio > 0.75, 0.9, jnp.where(ratio < 0.25, 1.1, 1.0))
        return {"flat": new, "damping": damping, "diagonal": diagonal, "key": key}, loss

    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# An energy model: Langevin chains kept in a buffer, started anew by chance; a Boltzmann machine by contrasts.
def energies(ranks):
    params = normal(9, w0=(6, 16), w1=(16, 1), pair=(6, 8)) | {"a": jnp.zeros(6), "b": jnp.zeros(8)}
    tx = optax.chain(optax.clip(0.1), optax.adam(1e-3, b1=0.0))
    state = {"params": params, "opt": tx.init(params), "chains": jnp.linspace(-1, 1, 48).reshape(8, 6),
             "key": jax.random.key(4)}

    def step(state, x):
        key, walk_key, start_key, bit_key = jax.random.split(state["key"], 4)
        energy = lambda p, x: (jax.nn.swish(x @ p["w0"]) @ p["w1"])[:, 0] + 0.1 * jnp.sum(x ** 2, -1)
        fresh = jax.random.uniform(start_key, (8, 6), minval=-1.0, maxval=1.0)
        chains = jnp.where(jax.random.uniform(start_key, (8, 1)) < 0.1, fresh, state["chains"])

        def walk(x, k):
            slope = jax.grad(lambda x: energy(state["params"], x).sum())(x)
            return x - 0.05 * slope + 0.02 * jax.random.normal(k, x.shape), jnp.abs(slope).mean()

        chains, slopes = jax.lax.scan(walk, chains, jax.random.split(walk_key, 12))

        def gibbs(visible, k):
            up, down = jax.random.split(k)
            hidden = jax.random.bernoulli(up, jax.nn.sigmoid(visible @ state["params"]["pair"] + state["params"]["b"]))
            back = jax.nn.sigmoid(hidden.astype(jnp.float32) @ state["params"]["pair"].T + state["params"]["a"])
            return jax.random.bernoulli(down, back).astype(jnp.float32), None

        seen = (x > 0).astype(jnp.float32)
        dreamt, _ = jax.lax.scan(gibbs, seen[:8], jax.random.split(bit_key, 4))

        def loss_of(p):
            free = lambda v: jnp.mean(-v @ p["a"] - jax.nn.softplus(v @ p["pair"] + p["b"]).sum(-1))
            good, bad = energy(p, x), energy(p, chains)
            return good.mean() - bad.mean() + 0.1 * (good ** 2).mean() + 0.1 * (bad ** 2).mean() + free(seen) - free(dreamt)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "chains": jax.lax.pmean(chains, "data"), "key": key}, {
            "loss": loss, "slope": jax.lax.pmean(slopes.mean(), "data")}

    return data_parallel(ranks, state, step, lambda rng: (rng.normal(size=(8 * ranks, 6)).astype(np.float32),))


# A rollout with a cache: a decoder writes keys and values by dynamic updates as it samples, then learns from what it
# wrote by a reward minus the group's mean; blocks keep by name what is not recomputed.
def rollouts(ranks, width=16, time=10, vocabulary=12):
    from jax.ad_checkpoint import checkpoint_name

    params = normal(10, table=(vocabulary, width), qkv=(width, 3 * width), up=(width, 32), down=(32, width))
    tx = optax.adamw(1e-3)
    state = {"params": params, "opt": tx.init(params), "key": jax.random.key(5)}

    def cell(p, x, attend):
        q, k, v = jnp.split(x @ p["qkv"], 3, -1)
        x = x + checkpoint_name(attend(q, k, v), "attended")
        return x + jax.nn.gelu(x @ p["up"]) @ p["down"]

    def sample(p, first, key):
        def body(carry, now):
            t, token, keys, values = carry
            grown = []

            def attend(q, k, v):
                grown.extend(jax.lax.dynamic_update_slice(c, n[:, None], (0, t, 0)) for c, n in ((keys, k), (values, v)))
                scores = jnp.einsum("bd,btd->bt", q, grown[0]) / 4 + jnp.where(jnp.arange(time) <= t, 0, -1e9)
                return jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), grown[1])

            logits = cell(p, p["table"][token], attend) @ p["table"].T
            kept = jax.lax.top_k(logits, 5)[0][:, -1:]
            following = jax.random.categorical(now, jnp.where(logits < kept, -jnp.inf, logits))
            return (t + 1, following, *grown), following

        empty = jnp.zeros((first.shape[0], time, width))
        _, tokens = jax.lax.scan(body, (0, first, empty, empty), jax.random.split(key, time))
        return jnp.concatenate([first[:, None], tokens.T], 1)

    def step(state, first):
        key, now = jax.random.split(state["key"])
        text = sample(state["params"], first, jax.random.fold_in(now, jax.lax.axis_index("data")))
        reward = jnp.mean(text[:, 1:] == (text[:, :-1] + 1) % vocabulary, 1, dtype=jnp.float32)
        advantage = (reward - reward.mean()) / (reward.std() + 1e-2)

        @functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.save_only_these_names("attended"))
        def block(p, x):
            def attend(q, k, v):
                scores = jnp.einsum("bqd,bkd->bqk", q, k) / 4
                return jax.nn.softmax(jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -1e9)) @ v

            return cell(p, x, attend)

        def loss_of(p):
            logits = block(p, p["table"][text[:, :-1]]) @ p["table"].T
            chosen = jnp.take_along_axis(jax.nn.log_softmax(logits), text[:, 1:, None], -1)[..., 0]
            return -jnp.mean(advantage[:, None] * chosen)

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "key": key}, {"loss": loss, "reward": jax.lax.pmean(reward.mean(), "data")}

    return data_parallel(ranks, state, step, lambda rng: (rng.integers(0, vocabulary, 4 * ranks).astype(np.int32),))


# Evolution: a population of noise by seeds that each rank draws a part of, ranks of fitness, no gradients of the model.
def evolution(ranks, half=6):
    from jax.flatten_util import ravel_pytree

    flat, unravel = ravel_pytree(mlp_params(13))
    tx = optax.adam(3e-2)
    state = {"flat": flat, "opt": tx.init(flat), "key": jax.random.PRNGKey(9)}

    def step(state, x, y):
        key, now = jax.random.split(state["key"])
        mine = jax.random.fold_in(now, jax.lax.axis_index("data"))
        noise = jax.vmap(lambda k: jax.random.normal(k, flat.shape))(jax.random.split(mine, half))
        noise = jnp.concatenate([noise, -noise])
        fitness = jax.lax.map(lambda n: -mlp_loss(unravel(state["flat"] + 0.05 * n), None, x, y)[0], noise, batch_size=4)
        everyone = jax.lax.all_gather(fitness, "data", tiled=True)
        places = jnp.argsort(jnp.argsort(everyone)) / (everyone.size - 1) - 0.5
        own = jax.lax.dynamic_slice_in_dim(places, jax.lax.axis_index("data") * 2 * half, 2 * half)
        grad = -jax.lax.pmean(own @ noise / (2 * half * 0.05), "data")
        new, opt = updated(tx, grad, state["opt"], state["flat"])
        return {"flat": new, "opt": opt, "key": key}, -jax.lax.pmean(fitness.mean(), "data")

    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# Draws of the rarer distributions, reparametrised where they can be: gamma, Student, Dirichlet, binomial, Poisson,
# truncated, multivariate, orthogonal, a weighted reservoir.
def rare_draws(ranks):
    params = normal(11, w=(6, 9)) | {"shape": jnp.zeros(3)}
    state = {"params": params, "opt": optax.amsgrad(1e-2).init(params), "key": jax.random.key(6)}

    def step(state, x):
        key, *keys = jax.random.split(state["key"], 10)

        def loss_of(p):
            h = x @ p["w"]
            shape = jax.nn.softplus(p["shape"]) + 0.5
            gamma = jax.random.gamma(keys[0], shape, (x.shape[0], 3))
            simplex = jax.random.dirichlet(keys[1], shape, (x.shape[0],))
            student = jax.random.t(keys[2], 4.0, (x.shape[0], 3))
            cut = jax.random.truncated_normal(keys[3], -1.0, 1.5, (x.shape[0], 3))
            many = jax.random.multivariate_normal(keys[4], jnp.zeros(3), jnp.eye(3) + 0.3, (x.shape[0],), method="cholesky")
            counts = jax.random.poisson(keys[5], jnp.exp(jax.lax.stop_gradient(h[:, :3]).clip(-2, 2)))
            wins = jax.random.binomial(keys[6], 10, jax.nn.sigmoid(jax.lax.stop_gradient(h[:, 3:6])))
            turn = jax.random.orthogonal(keys[7], 3)
            chosen = jax.random.choice(keys[8], x.shape[0], (3,), replace=False, p=jax.nn.softmax(x[:, 0]))
            likely = jax.scipy.stats.poisson.logpmf(counts, jnp.exp(h[:, :3].clip(-2, 2)))
            likely += jax.scipy.stats.gamma.logpdf(gamma, shape) + jax.scipy.stats.betabinom.logpmf(
                wins, 10, jnp.exp(h[:, 3:6].clip(-2, 2)), shape)
            fit = (h[:, 6:9] - (student.clip(-3, 3) + cut + many @ jnp.abs(turn)) * gamma) ** 2
            return -likely.mean() + fit.mean() + jnp.sum(simplex * h[:, :3] ** 2) + jnp.abs(h[chosen]).mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params, opt = updated(optax.amsgrad(1e-2), grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "key": key}, loss

    return data_parallel(ranks, state, step, lambda rng: (rng.normal(size=(8 * ranks, 6)).astype(np.float32),))


# Layers of flax with state of their own: a decoder's cache filled token by token, spectral and weight norms, recurrent
# cells both ways, local convolutions.
def stateful_layers(ranks, time=6, width=12):
    class Net(nn.Module):
        @nn.compact
        def __call__(self, text, train=True):
            embed = nn.Embed(20, width)
            x = embed(text)
            x = nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(width // 2)), nn.RNN(nn.MGUCell(width // 2)))(x)
            x = nn.SpectralNorm(nn.Dense(width))(x, update_stats=train)
            x = nn.WeightNorm(nn.Dense(width))(x)
            x = x + nn.ConvLocal(width, (3,), padding="SAME")(nn.GroupNorm(3)(x))
            return embed.attend(nn.PReLU()(x))

    model = Net()
    variables = model.init(jax.random.PRNGKey(0), jnp.zeros((1, time), jnp.int32))

    def loss_of(p, stats, text):
        logits, new = model.apply({"params": p, **stats}, text[:, :-1], mutable=list(stats))
        loss = cross_entropy(logits, text[:, 1:])
        return loss, jax.tree.map(lambda a: jax.lax.pmean(a, "data"), new)

    stats = {name: value for name, value in variables.items() if name != "params"}
    return trained(ranks, variables["params"], loss_of, optax.novograd(1e-2), sequences(2 * ranks, time, 20), stats)


# equinox: attention and convolutions in modules with a state (batch norm), dropout by keys, recomputed by filter.
def equinox_layers(ranks, time=9, width=8):
    import equinox as eqx

    class Net(eqx.Module):
        embed: eqx.nn.Embedding
        attention: eqx.nn.MultiheadAttention
        conv: eqx.nn.Conv1d
        norm: eqx.nn.LayerNorm
        rotary: eqx.nn.RotaryPositionalEmbedding
        out: eqx.nn.Linear

        def __init__(self, key):
            a, b, c, d = jax.random.split(key, 4)
            self.embed = eqx.nn.Embedding(20, width, key=a)
            self.attention = eqx.nn.MultiheadAttention(2, width, key=b)
            self.conv, self.norm = eqx.nn.Conv1d(width, width, 3, padding=1, groups=2, key=c), eqx.nn.LayerNorm(width)
            self.rotary, self.out = eqx.nn.RotaryPositionalEmbedding(width // 2), eqx.nn.Linear(width, 20, key=d)

        def __call__(self, text, key):
            x = jax.vmap(self.embed)(text)
            turned = lambda q, k, v: (jax.vmap(self.rotary, 1, 1)(q), jax.vmap(self.rotary, 1, 1)(k), v)
            mask = jnp.tril(jnp.ones((time, time), bool))
            x = x + eqx.filter_checkpoint(self.attention)(x, x, x, mask, process_heads=turned)
            x = x + jax.nn.mish(self.conv(jax.vmap(self.norm)(x).T)).T
            return jax.vmap(self.out)(eqx.nn.Dropout(0.1)(x, key=key))

    params, static = eqx.partition(Net(jax.random.PRNGKey(2)), eqx.is_inexact_array)

    def loss_of(p, key, text):
        key, now = jax.random.split(key)
        keys = jax.random.split(jax.random.fold_in(now, jax.lax.axis_index("data")), text.shape[0])
        logits = jax.vmap(eqx.combine(p, static))(text[:, :-1], keys)
        return cross_entropy(logits, text[:, 1:]), key

    return trained(ranks, params, loss_of, optax.adan(1e-2), sequences(2 * ranks, time, 20), jax.random.PRNGKey(7))


OPTIMIZERS = {
    "ademamix": lambda: optax.contrib.ademamix(1e-3), "adopt": lambda: optax.contrib.adopt(1e-3),
    "acprop": lambda: optax.contrib.acprop(1e-3),
    "lion_ema": lambda: optax.chain(
        optax.ema(0.9), optax.scale_by_lion(), optax.scale(-1e-3)),
    "trust": lambda: optax.chain(optax.scale_by_rss(), optax.scale_by_trust_ratio(), optax.scale(-1e-2)),
    "centralized": lambda: optax.chain(optax.centralize(), optax.scale_by_adam(mu_dtype=jnp.bfloat16), optax.scale(-1e-3)),
    "orthogonal": lambda: optax.chain(optax.normalize_by_update_norm(), optax.add_noise(1e-3, 0.5, 3), optax.sgd(1e-2))}


def rare_optimizer(ranks, make):
    return trained(ranks, mlp_params(14), mlp_loss, make(), labelled(16 * ranks, (16,), 5))


LIBRARY = {f.__name__: f for f in (
    sparse_matrix, adaptive_ode, physics, gaussian_process, linear_systems, bent_pictures, splines, curvature, energies,
    rollouts, evolution, rare_draws, stateful_layers, equinox_layers)}
LIBRARY |= {f"optax_{name}": functools.partial(rare_optimizer, make=make) for name, make in OPTIMIZERS.items()}
