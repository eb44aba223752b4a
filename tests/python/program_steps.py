"""Steps built around what networks rarely use together: optimizers, sorting, loops that end by their data, small linear
algebra, every type. As model_steps.py."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, trained
from steps import Step, cross_entropy, data_mesh, labelled, place, shard_map, stream

SHAPES = ((16, 24), (24, 24), (24, 5))


def mlp_params(seed=0):
    keys = jax.random.split(jax.random.PRNGKey(seed), len(SHAPES))
    return [{"w": jax.random.normal(k, s) * s[0] ** -0.5, "b": jnp.zeros(s[1])} for k, s in zip(keys, SHAPES)]


def mlp_logits(params, x, activation=jax.nn.tanh):
    for layer in params[:-1]:
        x = activation(x @ layer["w"] + layer["b"])
    return x @ params[-1]["w"] + params[-1]["b"]


def mlp_loss(params, extra, x, y):
    return cross_entropy(mlp_logits(params, x), y), extra


def optimizer(ranks, make, loss_of=mlp_loss):
    return trained(ranks, mlp_params(), loss_of, make(), labelled(16 * ranks, (16,), 5))


# Gradients of four microbatches summed by a scan; of several steps by optax.MultiSteps (a conditional); averaged weights.
def accumulate(ranks):
    params, tx = mlp_params(), optax.MultiSteps(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-3)), 3)
    state = {"params": params, "average": params, "opt_state": tx.init(params)}

    def step(state, x, y):
        def body(carry, part):
            loss, grads = jax.value_and_grad(lambda p: mlp_loss(p, None, *part)[0])(state["params"])
            return jax.tree.map(jnp.add, carry, (loss, grads)), None

        zero = (jnp.zeros(()), jax.tree.map(jnp.zeros_like, state["params"]))
        parts = jax.tree.map(lambda a: a.reshape(4, -1, *a.shape[1:]), (x, y))
        total, _ = jax.lax.scan(body, zero, parts)
        loss, grads = jax.lax.pmean(jax.tree.map(lambda a: a / 4, total), "data")
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        params = optax.apply_updates(state["params"], updates)
        average = jax.tree.map(lambda a, b: 0.99 * a + 0.01 * b, state["average"], params)
        return {"params": params, "average": average, "opt_state": opt}, {"loss": loss, "norm": optax.global_norm(grads)}

    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# float16 with a loss scale that grows and halves by a conditional where gradients are not finite.
def half(ranks):
    params, tx = mlp_params(), optax.sgd(0.05, momentum=0.9)
    state = {"params": params, "opt_state": tx.init(params), "scale": jnp.float32(2.0**15), "good": jnp.int32(0)}

    def step(state, x, y):
        def loss_of(params):
            cast = jax.tree.map(lambda a: a.astype(jnp.float16), params)
            logits = mlp_logits(cast, x.astype(jnp.float16)).astype(jnp.float32)
            loss = cross_entropy(logits, y)
            return loss * state["scale"], loss

        grads, loss = jax.grad(loss_of, has_aux=True)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        grads = jax.tree.map(lambda g: g / state["scale"], grads)
        finite = jnp.all(jnp.asarray([jnp.isfinite(g).all() for g in jax.tree.leaves(grads)]))

        def take(_):
            updates, opt = tx.update(grads, state["opt_state"])
            return optax.apply_updates(state["params"], updates), opt

        params, opt = jax.lax.cond(finite, take, lambda _: (state["params"], state["opt_state"]), None)
        good = jnp.where(finite, state["good"] + 1, 0)
        scale = jnp.where(finite, jnp.where(good >= 5, state["scale"] * 2, state["scale"]), state["scale"] / 2)
        state = {"params": params, "opt_state": opt, "scale": scale, "good": jnp.where(good >= 5, 0, good)}
        return state, {"loss": loss, "finite": finite}

    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# Pictures as bytes, labels as int8, quantized weights by a straight-through estimate, int8 products.
@jax.custom_vjp
def rounded(x):
    return jnp.round(x)


rounded.defvjp(lambda x: (rounded(x), None), lambda _, g: (g,))


def bytes_in(ranks):
    params = mlp_params()

    def loss_of(params, extra, x, y):
        x = (x.astype(jnp.float32) - 127.5) / 64
        scale = jnp.abs(params[0]["w"]).max(0) / 127
        quantized = [{"w": rounded(params[0]["w"] / scale) * scale, "b": params[0]["b"]}, *params[1:]]
        logits = mlp_logits(quantized, x, jax.nn.relu6)
        exact = jax.lax.dot_general(jnp.clip(x * 8, -128, 127).astype(jnp.int8), jnp.ones((16, 2), jnp.int8),
                                    (((1,), (0,)), ((), ())), preferred_element_type=jnp.int32)
        return cross_entropy(logits, y.astype(jnp.int32)), extra + exact.sum()

    def draw(rng):
        y = rng.integers(0, 5, 16 * ranks)
        x = rng.integers(0, 160, (16 * ranks, 16)) + 19 * y[:, None]
        return x.astype(np.uint8), y.astype(np.int8)

    extra = jnp.int32(0)

    def step(state, x, y):
        (loss, total), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"], state["total"], x, y)
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params = jax.tree.map(lambda p, g: p - 0.05 * g, state["params"], grads)
        return {"params": params, "total": jax.lax.psum(total, "data") % 1000}, loss

    return data_parallel(ranks, {"params": params, "total": extra}, step, draw)


# Particles: sorting, prefix sums, top-k, argmax, medians, histograms, norms, odd einsums.
def particles(ranks):
    params = {"w": jnp.linspace(-1, 1, 12).reshape(3, 4), "v": jnp.linspace(0.1, 1, 4), "s": jnp.ones(())}

    def energy(params, extra, x):
        x = x * params["s"]
        order = jnp.argsort(x[..., 0], axis=1)
        x = jnp.take_along_axis(x, order[..., None], axis=1)
        gaps = jnp.diff(jnp.sort(jnp.linalg.norm(x, axis=-1), axis=1), axis=1)
        mass = jax.nn.softmax(jnp.cumsum(x @ params["w"], axis=1), axis=1)
        best, which = jax.lax.top_k(mass[..., 0], 3)
        far = jnp.argmax(jnp.abs(x).sum(-1), axis=1)
        at = jax.vmap(lambda row, i: jax.lax.dynamic_slice(row, (i, 0), (2, 3)))(x, far)
        tensor = jnp.einsum("bni,bnj,k,nk->bkji", x, x, params["v"], mass[0])
        mixed = jnp.einsum("bkji,bni->nkbj", tensor, x).std()
        counts, _ = jnp.histogram(jax.lax.stop_gradient(x[..., 1]), bins=8, range=(-3, 3))
        middle = jnp.median(x[..., 2], axis=1) + jnp.percentile(x[..., 1], 30.0, axis=1)
        loss = (jnp.logaddexp(gaps, 0.0).mean() + best.sum() + jnp.square(at).mean() + jnp.linalg.norm(tensor) + mixed
                + middle.mean() + jnp.prod(1 + 0.01 * mass[:, :4, 1]) + jnp.trace(tensor[0, 0]) + jax.nn.logsumexp(x)
                + jnp.where(x > 0, jnp.sqrt(jnp.where(x > 0, x, 1.0)), -x).mean() + jnp.cumprod(1 + 0.1 * gaps, 1).mean()
                + jax.lax.cummax(x, axis=1).mean() + jnp.interp(0.3, jnp.arange(4.0), params["v"]))
        return loss, extra + counts + which.sum()

    def step(state, x):
        (loss, counts), grads = jax.value_and_grad(energy, has_aux=True)(state["params"], state["counts"] * 0, x)
        loss, grads, counts = jax.lax.pmean(loss, "data"), jax.lax.pmean(grads, "data"), jax.lax.psum(counts, "data")
        params = jax.tree.map(lambda p, g: p - 0.01 * g, state["params"], grads)
        return {"params": params, "counts": counts}, {"loss": loss}

    state = {"params": params, "counts": jnp.zeros(8)}
    return data_parallel(ranks, state, step, lambda rng: (rng.normal(size=(2 * ranks, 9, 3)).astype(np.float32),))


# A linear recurrence by associative scan, lax.map over rows, reduced precision, clamped slices.
def recurrence(ranks):
    params = {"a": jnp.linspace(-1, 1, 6), "b": jnp.linspace(0.5, 1, 6), "c": jnp.ones((6, 3)) * 0.2}

    def loss_of(params, extra, x, y):
        decay = jax.nn.sigmoid(params["a"])[None, None] * jnp.ones_like(x)
        join = lambda p, q: (p[0] * q[0], q[0] * p[1] + q[1])
        _, h = jax.lax.associative_scan(join, (decay, x * params["b"]), axis=1)
        _, back = jax.lax.associative_scan(join, (decay, x), axis=1, reverse=True)
        h = jax.lax.reduce_precision(h + 0.1 * back, 8, 10)
        pooled = jax.lax.map(lambda row: jax.lax.dynamic_slice(row, (row.shape[0] - 2, 0), (4, 6)).mean(0), h)
        rolled = jnp.roll(h, 1, axis=1).at[:, 0].set(0.0)[:, ::2].mean(1)
        padded = jnp.pad(pooled, ((0, 0), (2, 1)), mode="reflect")[:, 1:7]
        return cross_entropy((pooled + rolled + padded) @ params["c"], y), extra

    return trained(ranks, params, loss_of, optax.sgd(0.1), labelled(8 * ranks, (11, 6), 3))


# Loops that end by their data: conjugate gradients differentiated implicitly, a line search by optax.
def solver(ranks):
    params = {"w": jnp.eye(6) + 0.1, "b": jnp.linspace(-1, 1, 6)}

    def loss_of(params, extra, x):
        matrix = params["w"] @ params["w"].T + jnp.eye(6)
        solve = lambda b: jax.scipy.sparse.linalg.cg(lambda v: matrix @ v, b, maxiter=30)[0]
        return jnp.mean((jax.vmap(solve)(x + params["b"]) - x) ** 2), extra

    return trained(ranks, params, loss_of, optax.sgd(0.1), lambda rng: (rng.normal(size=(4 * ranks, 6)).astype(np.float32),))


def lbfgs(ranks):
    params, tx = mlp_params(), optax.lbfgs(memory_size=3)
    state = {"params": params, "opt_state": tx.init(params)}

    def step(state, x, y):
        x, y = (jax.lax.all_gather(a, "data", tiled=True) for a in (x, y))  # no collective inside its loops
        value = lambda p: mlp_loss(p, None, x, y)[0]
        loss, grads = jax.value_and_grad(value)(state["params"])
        updates, opt = tx.update(grads, state["opt_state"], state["params"], value=loss, grad=grads, value_fn=value)
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt}, loss

    return data_parallel(ranks, state, step, labelled(16 * ranks, (16,), 5))


# Runge-Kutta through time with fori_loop (a scan when differentiated), and a chaotic while loop beside it.
def ode(ranks):
    params = {"w": jnp.eye(4) * 0.1, "b": jnp.zeros(4)}

    def loss_of(params, extra, x, y):
        slope = lambda h: jnp.tanh(h @ params["w"] + params["b"]) - 0.1 * h

        def runge(_, h):
            a = slope(h)
            b = slope(h + 0.05 * a)
            c = slope(h + 0.05 * b)
            return h + 0.1 / 6 * (a + 2 * b + 2 * c + slope(h + 0.1 * c))

        h = jax.lax.fori_loop(0, 8, runge, x)
        steps = jax.lax.while_loop(lambda s: jnp.logical_and(s[0] < 4.0, s[1] < 20),
                                   lambda s: (s[0] * 1.3 + 0.1, s[1] + 1), (jnp.abs(x[0, 0]), 0))[1]
        return jnp.mean((h - y) ** 2) + 0.0 * steps, extra

    draw = lambda rng: tuple(rng.normal(size=(2, 8 * ranks, 4)).astype(np.float32))
    return trained(ranks, params, loss_of, optax.adam(1e-2), draw)


# Policy gradients: an environment in a scan, sampled actions, generalised advantages backwards, clipped objective.
def policy(ranks):
    keys = jax.random.split(jax.random.PRNGKey(3), 2)
    params = {"pi": jax.random.normal(keys[0], (3, 4)) * 0.1, "v": jax.random.normal(keys[1], (3, 1)) * 0.1}
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-3))
    state = {"params": params, "opt_state": tx.init(params), "key": jax.random.PRNGKey(4)}

    def step(state, start):
        def act(carry, key):
            x = carry
            logits = x @ state["params"]["pi"]
            action = jax.random.categorical(key, logits)
            new = jnp.clip(x + 0.1 * (action[:, None] - 1.5) * jnp.asarray([1.0, -0.5, 0.2]), -2, 2)
            logp = jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]
            return new, (x, action, logp, -jnp.abs(new).sum(-1), (x @ state["params"]["v"])[:, 0])

        key, used = jax.random.split(state["key"])
        used = jax.random.fold_in(used, jax.lax.axis_index("data"))
        _, (x, action, logp, reward, value) = jax.lax.scan(act, start, jax.random.split(used, 6))

        def back(carry, item):
            advantage, following = carry
            r, v = item
            advantage = r + 0.99 * following - v + 0.95 * 0.99 * advantage
            return (advantage, v), advantage

        zero = jnp.zeros(start.shape[0])
        _, advantage = jax.lax.scan(back, (zero, zero), (reward, value), reverse=True)

        def loss_of(params):
            now = jnp.take_along_axis(jax.nn.log_softmax(x @ params["pi"]), action[..., None], -1)[..., 0]
            ratio = jnp.exp(now - logp)
            clipped = jnp.minimum(ratio * advantage, jnp.clip(ratio, 0.8, 1.2) * advantage)
            return -clipped.mean() + 0.5 * jnp.mean(((x @ params["v"])[..., 0] - value - advantage) ** 2)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
        updates, opt = tx.update(grads, state["opt_state"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt, "key": key}, {"loss": loss}

    return data_parallel(ranks, state, step, lambda rng: (rng.normal(size=(8 * ranks, 3)).astype(np.float32),))


# Two networks with an optimizer each, as two donated arguments; the target of one is copied now and then.
def two_players(ranks):
    mesh, tx = data_mesh(ranks), optax.adam(1e-3, b1=0.5)
    player = lambda seed: {"params": mlp_params(seed), "opt": tx.init(mlp_params(seed))}
    first, second = player(1), player(2) | {"target": mlp_params(2), "steps": jnp.uint32(0)}

    def step(maker, judge, x, y):
        made = lambda p: mlp_logits(p, x)
        score = lambda p, a: jax.nn.leaky_relu(a @ p[-1]["w"].T + 0.1, 0.2).mean(-1)
        real = jax.nn.one_hot(y, 5)
        losses = (lambda p: optax.sigmoid_binary_cross_entropy(score(judge["target"], made(p)), jnp.float32(1)).mean(),
                  lambda p: (jax.nn.softplus(-score(p, real)) + jax.nn.softplus(score(p, made(maker["params"])))).mean())
        new = []
        for state, loss_of in zip((maker, judge), losses):
            loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "data")
            updates, opt = tx.update(grads, state["opt"])
            new.append(state | {"params": optax.apply_updates(state["params"], updates), "opt": opt})
        steps = judge["steps"] + 1
        target = jax.lax.cond(steps % 4 == 0, lambda: new[1]["params"], lambda: judge["target"])
        return new[0], new[1] | {"target": target, "steps": steps}, loss

    mapped = shard_map(step, mesh, (P(), P(), P("data"), P("data")), (P(), P(), P()), check=False)
    return Step(jax.jit(mapped, donate_argnums=(0, 1)), (place(mesh, first), place(mesh, second)),
                stream(mesh, labelled(8 * ranks, (16,), 5)), donated=(0, 1))


# Distributions drawn by rejection, permutations, choices: while loops inside of jax.random.
def distributions(ranks):
    state = {"w": jnp.ones(5), "key": jax.random.key(1)}

    def step(state, x):
        key, used = jax.random.split(state["key"])
        used = jax.random.fold_in(used, jax.lax.axis_index("data"))
        k = jax.random.split(used, 12)
        drawn = jnp.stack([
            jax.random.gamma(k[0], 2.5, (5,)), jax.random.beta(k[1], 2.0, 3.0, (5,)), jax.random.laplace(k[2], (5,)),
            jax.random.dirichlet(k[3], jnp.ones(5)), jax.random.poisson(k[4], 3.0, (5,)).astype(jnp.float32),
            jax.random.permutation(k[5], 5).astype(jnp.float32), jax.random.choice(k[6], x[0], (5,), replace=False),
            jax.random.t(k[7], 4.0, (5,)), jax.random.randint(k[8], (5,), -3, 9).astype(jnp.float32),
            jax.random.bernoulli(k[9], 0.3, (5,)).astype(jnp.float32), jax.random.exponential(k[10], (5,)),
            jax.random.cauchy(k[11], (5,)) * 0.01])
        loss = jax.lax.pmean(jnp.mean(state["w"] * drawn * x[0, :5]), "data")
        grad = jax.grad(lambda w: jax.lax.pmean(jnp.mean(w * drawn), "data"))(state["w"])
        return {"w": state["w"] - 0.1 * jax.lax.pmean(grad, "data"), "key": key}, loss

    return data_parallel(ranks, state, step, lambda rng: (rng.normal(size=(ranks, 7)).astype(np.float32),))


# Special functions and their gradients.
def special(ranks):
    def loss_of(params, extra, x):
        a = jax.nn.softplus(params["a"]) + 0.5
        y = jax.nn.sigmoid(x) * 0.98 + 0.01
        values = (jax.scipy.special.gammaln(a) + jax.scipy.special.digamma(a) + jax.lax.erf_inv(2 * y - 1).mean()
                  + jax.scipy.special.betaln(a, 2.0) + jax.scipy.special.erfc(a).mean() + jax.scipy.special.ndtri(y).mean()
                  + jax.scipy.stats.norm.logcdf(params["b"]).sum() + jnp.sinc(a).mean() + jnp.arctan2(a, 2.0).mean()
                  + jax.scipy.special.i0e(a).mean() + jnp.hypot(a, 1.0).mean() + jnp.float_power(a, 1.5).mean()
                  + jnp.log2(a).mean() + jnp.exp2(-a).mean() + jnp.cbrt(a).mean() + jnp.arcsinh(a).mean()
                  + jax.scipy.special.xlogy(a, y.mean()) + jnp.arctanh(y).mean() + jnp.arccos(y).mean())
        return values.mean(), extra

    params = {"a": jnp.linspace(-1, 2, 5), "b": jnp.linspace(-2, 2, 3)}
    return trained(ranks, params, loss_of, optax.sgd(0.01), lambda rng: (rng.normal(size=(4 * ranks, 3)).astype(np.float32),))


# Linear algebra of jax.numpy, by XLA's own ops where it has them, by LAPACK's custom calls elsewhere.
def linear_algebra(ranks, kind):
    forms = {
        "cholesky": lambda m, x: jnp.sum(jnp.linalg.cholesky(m) * x[:4]),
        "solve_triangular": lambda m, x: jnp.sum(jax.scipy.linalg.solve_triangular(jnp.tril(m), x[:4], lower=True)),
        "cho_solve": lambda m, x: jnp.sum(jax.scipy.linalg.cho_solve(jax.scipy.linalg.cho_factor(m), x[:4]) ** 2),
        "solve": lambda m, x: jnp.sum(jnp.linalg.solve(m, x[:4]) ** 2),
        "inverse": lambda m, x: jnp.sum(jnp.linalg.inv(m) * x[:4]),
        "slogdet": lambda m, x: jnp.linalg.slogdet(m)[1],
        "qr": lambda m, x: jnp.sum(jnp.linalg.qr(m)[0] * x[:4]),
        "eigh": lambda m, x: jnp.sum(jnp.linalg.eigh(m + jnp.diag(jnp.arange(4.0)))[0] * x[0]),
        "svd": lambda m, x: jnp.sum(jnp.linalg.svd(m + jnp.diag(jnp.arange(4.0)) + jnp.tri(4), compute_uv=False) * x[0]),
        "expm": lambda m, x: jnp.sum(jax.scipy.linalg.expm(m * 0.1) * x[:4]),
        "power": lambda m, x: jnp.sum(jnp.linalg.matrix_power(m * 0.1, 3) * x[:4]),
        "fft": lambda m, x: jnp.abs(jnp.fft.rfft(m @ x[0])).sum(),
        "complex": lambda m, x: jnp.abs(jnp.sum(m * jnp.exp(1j * x[:4])))}

    def loss_of(params, extra, x):
        return forms[kind](params["w"] @ params["w"].T + 3 * jnp.eye(4), x), extra

    params = {"w": jnp.linspace(-1, 1, 16).reshape(4, 4) + 0.5 * jnp.eye(4)}
    return trained(ranks, params, loss_of, optax.sgd(0.01),
                   lambda rng: (rng.normal(size=(4 * ranks, 4)).astype(np.float32),))


# float64 where jax_enable_x64 is on (elsewhere the same in float32).
def double(ranks):
    params = jax.tree.map(lambda a: a.astype(jax.dtypes.canonicalize_dtype(np.float64)), mlp_params())
    draw = labelled(16 * ranks, (16,), 5)

    def wide(rng):
        x, y = draw(rng)
        return x.astype(np.float64), y.astype(np.int64)

    return trained(ranks, params, mlp_loss, optax.adamw(1e-3), wide)


# Weights that the step closes over, adapters on top of them; a table passed each step and never updated.
def adapters(ranks):
    frozen, keys = mlp_params(5), jax.random.split(jax.random.PRNGKey(6), 3)
    params = [{"down": jax.random.normal(k, (s[0], 2)) * 0.1, "up": jnp.zeros((2, s[1]))} for k, s in zip(keys, SHAPES)]

    def loss_of(params, extra, x, y):
        for i, (a, p) in enumerate(zip(params, frozen)):
            x = x @ (p["w"] + a["down"] @ a["up"]) + p["b"]
            x = jax.nn.hard_swish(x) if i < 2 else x
        return cross_entropy(x, y), extra

    return trained(ranks, params, loss_of, optax.adam(1e-2), labelled(16 * ranks, (16,), 5))


# Two views contrasted against all ranks' rows; gathered logits, a queue of old features that a dynamic update fills.
def contrast(ranks):
    params = mlp_params(7)
    state = {"params": params, "queue": jnp.zeros((32, 5)), "head": jnp.int32(0)}

    def step(state, x, unused):
        def loss_of(params):
            a, b = (mlp_logits(params, v) for v in (x, x * 0.9 + 0.1))
            a, b = (v / (jnp.linalg.norm(v, axis=-1, keepdims=True) + 1e-6) for v in (a, b))
            everyone = jax.lax.all_gather(b, "data", tiled=True)
            others = jnp.concatenate([everyone, jax.lax.stop_gradient(state["queue"])])
            logits = a @ others.T / 0.2
            mine = jnp.arange(a.shape[0]) + jax.lax.axis_index("data") * a.shape[0]
            return cross_entropy(logits, mine), everyone

        (loss, seen), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"])
        loss, grads = jax.lax.pmean((loss, grads), "data")
        params = jax.tree.map(lambda p, g: p - 0.1 * g, state["params"], grads)
        queue = jax.lax.dynamic_update_slice(state["queue"], seen[:8], (state["head"], 0))
        return {"params": params, "queue": queue, "head": (state["head"] + 8) % 32}, loss

    return data_parallel(ranks, state, step, labelled(8 * ranks, (16,), 5))


OPTIMIZERS = {
    "lion": lambda: optax.lion(1e-3), "adafactor": lambda: optax.adafactor(1e-2, min_dim_size_to_factor=8),
    "nadam": lambda: optax.nadamw(1e-3), "yogi": lambda: optax.yogi(1e-3), "radam": lambda: optax.radam(1e-3),
    "adabelief": lambda: optax.adabelief(1e-3), "sm3": lambda: optax.sm3(1e-2), "lars": lambda: optax.lars(1e-2),
    "adadelta": lambda: optax.adadelta(1.0), "rprop": lambda: optax.rprop(1e-3), "noise": lambda: optax.noisy_sgd(0.1),
    "fromage": lambda: optax.fromage(1e-2), "sign": lambda: optax.sign_sgd(1e-3),
    "muon": lambda: optax.contrib.muon(1e-2), "prodigy": lambda: optax.contrib.prodigy(1.0),
    "schedule_free": lambda: optax.contrib.schedule_free_adamw(1e-2, warmup_steps=3),
    "cocob": lambda: optax.contrib.cocob(), "dadapt": lambda: optax.contrib.dadapt_adamw(1.0),
    "agc": lambda: optax.chain(optax.adaptive_grad_clip(0.1), optax.sgd(optax.piecewise_constant_schedule(0.1, {5: 0.5}))),
    "per_layer": lambda: optax.multi_transform(
        {"w": optax.adam(1e-3), "b": optax.set_to_zero()}, lambda p: [{"w": "w", "b": "b"} for _ in p]),
    "finite": lambda: optax.apply_if_finite(optax.adam(1e-3), 3), "lookahead": lambda: optax.adamaxw(1e-3),
    "injected": lambda: optax.inject_hyperparams(optax.adam)(learning_rate=optax.linear_schedule(1e-3, 1e-4, 10))}

PROGRAMS = {f.__name__: f for f in (
    accumulate, half, bytes_in, particles, recurrence, solver, lbfgs, ode, policy, two_players, distributions, special,
    double, adapters, contrast)}
PROGRAMS |= {name: functools.partial(optimizer, make=make) for name, make in OPTIMIZERS.items()}
PROGRAMS |= {f"linalg_{kind}": functools.partial(linear_algebra, kind=kind) for kind in (
    "cholesky", "solve_triangular", "cho_solve", "solve", "inverse", "slogdet", "qr", "eigh", "svd", "expm", "power",
    "fft", "complex")}
