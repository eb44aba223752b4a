"""Steps made of libraries that solve, sample and fit: numpyro, diffrax, optimistix, lineax, jaxopt, blackjax, flowjax,
e3nn, Keras. As their documentation shows them: one jit over the whole batch, which JAX itself splits among ranks.
As steps.py; `SOLVERS[name](ranks)`. One whose library is not installed is left out."""

import functools
import importlib.util
import os

import jax
import jax.numpy as jnp
import numpy as np
import optax
from modern_steps import normal
from steps import Step, cross_entropy, data_mesh, labelled, place, stream


def jitted(ranks, state, step, draw):
    mesh = data_mesh(ranks)
    return Step(jax.jit(step, donate_argnums=0), place(mesh, state), stream(mesh, draw))


def fitted(ranks, params, loss_of, draw, extra=None, tx=optax.adam(1e-2)):
    """Gradients of loss_of(params, extra, *batch) -> (loss, extra) through an optax transformation."""

    def step(state, *batch):
        (loss, new), grads = jax.value_and_grad(loss_of, has_aux=True)(state["params"], state["extra"], *batch)
        updates, opt = tx.update(grads, state["opt_state"], state["params"])
        return {"params": optax.apply_updates(state["params"], updates), "opt_state": opt, "extra": new}, {"loss": loss}

    return jitted(ranks, {"params": params, "opt_state": tx.init(params), "extra": extra}, step, draw)


def lines(rows, width):
    """Inputs and noisy linear functions of them."""
    slope = np.random.default_rng(5).normal(size=width).astype(np.float32)

    def draw(rng):
        x = rng.normal(size=(rows, width)).astype(np.float32)
        return x, (x @ slope + 0.1 * rng.normal(size=rows)).astype(np.float32)

    return draw


# Stochastic variational inference by a guide that numpyro makes; keys and the optimizer's counter in its state.
def variational(ranks, guide, rows=16, width=5):
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import SVI, Trace_ELBO, autoguide

    def model(x, y=None):
        weights = numpyro.sample("weights", dist.Normal(0, 1).expand([width]).to_event(1))
        offset, noise = numpyro.sample("offset", dist.StudentT(3.0)), numpyro.sample("noise", dist.HalfNormal(1.0))
        with numpyro.plate("data", x.shape[0]):
            numpyro.sample("y", dist.Normal(x @ weights + offset, noise), obs=y)

    inference = SVI(model, getattr(autoguide, guide)(model), numpyro.optim.Adam(1e-2), Trace_ELBO(num_particles=2))
    draw = lines(rows * ranks, width)
    state = inference.init(jax.random.PRNGKey(0), *draw(np.random.default_rng(0)))
    return jitted(ranks, state, lambda state, x, y: inference.update(state, x, y), draw)


# A neural differential equation with adaptive steps and dense output, by whichever adjoint; its checks call Python.
def neural_ode(ranks, adjoint, solver="Tsit5", rows=4, width=4):
    import diffrax

    params = normal(1, w0=(width, 12), w1=(12, width), out=(width, 3))
    field = diffrax.ODETerm(lambda t, h, p: jnp.tanh(h @ p["w0"] + t) @ p["w1"])

    def loss_of(p, extra, x, y):
        solve = lambda h: diffrax.diffeqsolve(
            field, getattr(diffrax, solver)(), 0.0, 1.0, 0.1, h, args=p, adjoint=getattr(diffrax, adjoint)(),
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-5),
            saveat=diffrax.SaveAt(ts=jnp.linspace(0, 1, 4)), max_steps=64).ys[-1]
        return cross_entropy(jax.vmap(solve)(x) @ p["out"], y), extra

    return fitted(ranks, params, loss_of, labelled(rows * ranks, (width,), 3))


# A stochastic one: Brownian motion by a tree of keys.
def neural_sde(ranks, rows=4):
    import diffrax

    params = normal(1, w0=(3, 8), w1=(8, 3), noise=(3, 3))

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)

        def solve(h, key):
            path = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=(3,), key=key)
            drift = diffrax.ODETerm(lambda t, h, a: jnp.tanh(h @ p["w0"]) @ p["w1"])
            terms = diffrax.MultiTerm(drift, diffrax.ControlTerm(lambda t, h, a: 0.1 * p["noise"], path))
            return diffrax.diffeqsolve(terms, diffrax.Heun(), 0.0, 1.0, 0.1, h).ys[-1]

        return cross_entropy(jax.vmap(solve)(x, jax.random.split(now, x.shape[0])), y), key

    return fitted(ranks, params, loss_of, labelled(rows * ranks, (3,), 3), jax.random.PRNGKey(3))


# A layer that is a fixed point, with the gradient of the implicit function.
def implicit_layer(ranks, rows=4, width=4):
    import optimistix

    params = normal(2, w=(width, width), u=(width, width), out=(width, 3))
    layer = lambda z, args: jnp.tanh(0.2 * z @ args[0]["w"] + args[1] @ args[0]["u"])

    def loss_of(p, extra, x, y):
        solver = optimistix.FixedPointIteration(rtol=1e-5, atol=1e-5)
        z = optimistix.fixed_point(layer, solver, jnp.zeros_like(x), args=(p, x)).value
        return cross_entropy(z @ p["out"], y), extra

    return fitted(ranks, params, loss_of, labelled(rows * ranks, (width,), 3))


def linear_layer(ranks, solver, rows=4, width=5):
    import lineax

    params = normal(2, a=(width, width), out=(width, 3))

    def loss_of(p, extra, x, y):
        matrix = p["a"] @ p["a"].T + jnp.eye(width)
        operator = lineax.MatrixLinearOperator(matrix, lineax.positive_semidefinite_tag)
        by = {"CG": lambda: lineax.CG(1e-5, 1e-5), "GMRES": lambda: lineax.GMRES(1e-5, 1e-5)}
        by = by.get(solver, getattr(lineax, solver))()
        return cross_entropy(jax.vmap(lambda b: lineax.linear_solve(operator, b, by).value)(x) @ p["out"], y), extra

    return fitted(ranks, params, loss_of, labelled(rows * ranks, (width,), 3))


# What minimizes by itself: one of its updates is the step.
def minimizer(ranks, solver, rows=16, width=5):
    import jaxopt

    loss_of = lambda w, x, y: jnp.mean(jnp.log(jnp.cosh(x @ w - y))) + 1e-3 * jnp.sum(w ** 2)
    by, draw, first = getattr(jaxopt, solver)(loss_of), lines(rows * ranks, width), jnp.full(width, 0.2)
    x, y = draw(np.random.default_rng(0))

    def step(state, x, y):
        state = by.update(*state, x=x, y=y)
        return tuple(state), loss_of(state[0], x, y)

    return jitted(ranks, (first, by.init_state(first, x=x, y=y)), step, draw)


# A transition of Hamiltonian Monte Carlo that doubles its path until it turns.
def sampler(ranks, rows=16, width=4):
    import blackjax

    def step(state, x, y):
        key, position = state
        log_density = lambda p: (-0.5 * jnp.sum((x @ p["w"] - y) ** 2) * jnp.exp(-2 * p["s"]) - x.shape[0] * p["s"]
                                 - 0.5 * jnp.sum(p["w"] ** 2))
        key, now = jax.random.split(key)
        nuts = blackjax.nuts(log_density, step_size=1e-2, inverse_mass_matrix=jnp.ones(width + 1), max_num_doublings=4)
        new, _ = nuts.step(now, nuts.init(position))
        return (key, new.position), -log_density(new.position)

    first = (jax.random.PRNGKey(1), {"w": jnp.zeros(width), "s": jnp.zeros(())})
    return jitted(ranks, first, step, lines(rows * ranks, width))


# Splines that are monotone, their knots by a network.
def spline_flow(ranks, rows=6, width=3):
    import equinox as eqx
    import paramax
    from flowjax.bijections import RationalQuadraticSpline
    from flowjax.distributions import Normal
    from flowjax.flows import coupling_flow

    flow = coupling_flow(jax.random.PRNGKey(0), base_dist=Normal(jnp.zeros(width)), nn_width=8, flow_layers=2,
                         transformer=RationalQuadraticSpline(knots=4, interval=3))
    fixed = lambda leaf: isinstance(leaf, paramax.NonTrainable)
    params, static = eqx.partition(flow, eqx.is_inexact_array, is_leaf=fixed)
    loss_of = lambda p, extra, x: (-paramax.unwrap(eqx.combine(p, static)).log_prob(x).mean(), extra)
    return fitted(ranks, params, loss_of, lambda rng: (rng.normal(size=(rows * ranks, width)).astype(np.float32),))


# Points whose features turn with them: spherical harmonics, tensor products of irreducible representations.
def turning_points(ranks, rows=3, points=5):
    import e3nn_jax as e3nn
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, position):
            apart = position[:, None] - position[None]
            angles = e3nn.spherical_harmonics("0e+1o+2e", e3nn.IrrepsArray("1o", apart + 1e-3), True)
            radii = e3nn.bessel(jnp.sqrt((apart ** 2).sum(-1) + 1e-3), 4, 3.0)
            weight = nn.Dense(1)(nn.silu(nn.Dense(8)(radii)))
            x = e3nn.tensor_product(e3nn.flax.Linear("4x0e+4x1o+2x2e")(angles), angles, filter_ir_out=["0e", "1o"])
            x = e3nn.sum(e3nn.gate(e3nn.flax.Linear("8x0e+4x0e+4x1o")(x)) * weight, axis=1)
            return e3nn.flax.Linear("3x0e")(x).array.mean(0)

    net = Net()
    params = net.init(jax.random.PRNGKey(0), jnp.ones((points, 3)))
    loss_of = lambda p, extra, x, y: (cross_entropy(jax.vmap(lambda q: net.apply(p, q))(x), y), extra)
    return fitted(ranks, params, loss_of, labelled(rows * ranks, (points, 3), 3))


# A model of Keras 3 and its optimizer, both without state of their own.
def keras_model(ranks, kind, rows=4):
    os.environ["KERAS_BACKEND"] = "jax"
    import keras

    keras.utils.set_random_seed(0)
    of = keras.layers
    shape = {"pictures": (8, 8, 3), "sequences": (6, 5)}[kind]
    layers = {"pictures": lambda: [of.Conv2D(8, 3, padding="same"), of.BatchNormalization(), of.ReLU(),
                                   of.MaxPooling2D(), of.SeparableConv2D(8, 3), of.GlobalAveragePooling2D(),
                                   of.Dropout(0.2)],
              "sequences": lambda: [of.Bidirectional(of.LSTM(6, return_sequences=True)), of.GRU(5)]}
    model = keras.Sequential([keras.Input(shape), *layers[kind](), of.Dense(3)])
    optimizer = keras.optimizers.AdamW(1e-3)
    optimizer.build(model.trainable_variables)
    measure = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    state = tuple([variable.value for variable in each] for each in
                  (model.trainable_variables, model.non_trainable_variables, optimizer.variables))

    def step(state, x, y):
        trained, others, slots = state

        def loss_of(trained):
            logits, new = model.stateless_call(trained, others, x, training=True)
            return measure(y, logits), new

        (loss, others), grads = jax.value_and_grad(loss_of, has_aux=True)(trained)
        trained, slots = optimizer.stateless_apply(slots, grads, trained)
        return (trained, others, slots), loss

    return jitted(ranks, state, step, labelled(rows * ranks, shape, 3))


_ADJOINTS = ["RecursiveCheckpointAdjoint", "DirectAdjoint", "BacksolveAdjoint"]
_STEPS = {
    "numpyro": {f"variational_{guide}": functools.partial(variational, guide=guide)
                for guide in ("AutoNormal", "AutoMultivariateNormal", "AutoIAFNormal")},
    "diffrax": {"neural_sde": neural_sde, "neural_ode_stiff": functools.partial(
        neural_ode, adjoint=_ADJOINTS[0], solver="Kvaerno3"), **{
        f"neural_ode_{adjoint}": functools.partial(neural_ode, adjoint=adjoint) for adjoint in _ADJOINTS}},
    "optimistix": {"implicit_layer": implicit_layer},
    "lineax": {f"linear_layer_{solver}": functools.partial(linear_layer, solver=solver)
               for solver in ("LU", "QR", "SVD", "Cholesky", "CG", "GMRES")},
    "jaxopt": {f"minimizer_{solver}": functools.partial(minimizer, solver=solver)
               for solver in ("LBFGS", "BFGS", "NonlinearCG", "ArmijoSGD")},
    "blackjax": {"sampler": sampler},
    "flowjax": {"spline_flow": spline_flow},
    "e3nn_jax": {"turning_points": turning_points},
    "keras": {f"keras_{kind}": functools.partial(keras_model, kind=kind) for kind in ("pictures", "sequences")},
}
SOLVERS = {name: make for library, steps in _STEPS.items() if importlib.util.find_spec(library)
           for name, make in steps.items()}
