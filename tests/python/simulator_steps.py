"""Steps made of libraries that simulate, search, match and sample: brax, mujoco's MJX, gymnax, pgx, jax-md, jax-cfd,
mctx, rlax, ott, tinygp, dynamax, TensorFlow Probability, dm-pix, folx. One jit over the whole batch each, as in
solver_steps.py; `SIMULATORS[name](ranks)`. One whose library is not installed is left out."""

import functools
import importlib.util

import jax
import jax.numpy as jnp
import numpy as np
import optax
from modern_steps import normal
from solver_steps import fitted, jitted, lines
from steps import cross_entropy, labelled


def actor(params, observation):
    return jnp.tanh(jnp.tanh(observation @ params["w"]) @ params["o"])


# An actor moves through a differentiable simulation of rigid bodies, by whichever of brax's engines.
def body(ranks, backend, rows=2):
    from brax import envs

    env = envs.get_environment("inverted_pendulum", backend=backend)
    params = normal(11, w=(env.observation_size, 8), o=(8, env.action_size))

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)
        state = jax.vmap(env.reset)(jax.random.split(now, x.shape[0]))

        def move(state, _):
            state = jax.vmap(env.step)(state, actor(p, state.obs))
            return state, state.reward

        state, rewards = jax.lax.scan(move, state, None, 3)
        return jnp.mean(state.obs**2) - rewards.mean(), key

    return fitted(ranks, params, loss_of, lines(rows * ranks, 3), jax.random.PRNGKey(5))


_CART = """<mujoco><option timestep="0.02" iterations="1" ls_iterations="4" solver="CG"><flag eulerdamp="disable"/>
</option><worldbody><body pos="0 0 1"><joint name="slide" type="slide" axis="1 0 0" damping="0.1"/>
<geom type="box" size=".1 .1 .1" mass="1"/><body><joint name="hinge" type="hinge" axis="0 1 0"/>
<geom type="capsule" fromto="0 0 0 0 0 0.6" size="0.05" mass="0.1"/></body></body></worldbody>
<actuator><motor joint="slide" gear="10"/></actuator></mujoco>"""


# The same through MuJoCo's solver of constraints.
def cart(ranks, rows=2):
    import mujoco
    from mujoco import mjx

    model = mjx.put_model(mujoco.MjModel.from_xml_string(_CART))
    first = mjx.make_data(model)
    params = normal(10, w=(4, 8), o=(8, 1))

    def loss_of(p, extra, x, y):
        def move(data, _):
            data = data.replace(ctrl=actor(p, jnp.concatenate([data.qpos, data.qvel])))
            data = mjx.step(model, data)
            return data, jnp.sum(data.qpos**2)

        return jax.vmap(lambda q: jax.lax.scan(move, first.replace(qpos=0.1 * q), None, 3)[1].sum())(x).mean(), extra

    return fitted(ranks, params, loss_of, lines(rows * ranks, 2))


# PPO as purejaxrl has it: environments, advantages, epochs of shuffled minibatches, all in one step.
def proximal_policy(ranks, game, rows=4, time=6):
    import gymnax

    env, about = gymnax.make(game)
    params = normal(6, w=(int(np.prod(env.observation_space(about).shape)), 16), o=(16, env.num_actions), v=(16, 1))
    tx = optax.chain(optax.clip_by_global_norm(0.5), optax.adam(3e-4))

    def net(p, seen):
        hidden = jnp.tanh(seen.reshape(seen.shape[0], -1) @ p["w"])
        return hidden @ p["o"], (hidden @ p["v"])[:, 0]

    def log_probability(logits, action):
        return jnp.take_along_axis(jax.nn.log_softmax(logits), action[:, None], 1)[:, 0]

    def loss_of(p, seen, action, before, advantage, target):
        logits, value = net(p, seen)
        ratio = jnp.exp(log_probability(logits, action) - before)
        scaled = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        gain = jnp.minimum(ratio * scaled, jnp.clip(ratio, 0.8, 1.2) * scaled)
        return 0.5 * jnp.mean((value - target) ** 2) - gain.mean()

    def step(state, x, y):
        def act(carry, _):
            seen, env_state, key = carry
            key, choose, move = jax.random.split(key, 3)
            logits, value = net(state["params"], seen)
            action = jax.random.categorical(choose, logits)
            moved = jax.vmap(env.step, (0, 0, 0, None))(jax.random.split(move, len(action)), env_state, action, about)
            kept = (seen, action, log_probability(logits, action), value, moved[2].astype(jnp.float32), moved[3])
            return (moved[0], moved[1], key), kept

        carry, (seen, action, before, value, reward, done) = jax.lax.scan(
            act, (state["seen"], state["env"], state["key"]), None, time)
        last = net(state["params"], carry[0])[1]

        def advance(carry, now):
            advantage, value_after = carry
            value, reward, done = now
            error = reward + 0.99 * value_after * (1 - done) - value
            advantage = error + 0.99 * 0.95 * (1 - done) * advantage
            return (advantage, value), advantage

        advantage = jax.lax.scan(advance, (jnp.zeros_like(last), last), (value, reward, done.astype(jnp.float32)),
                                 reverse=True)[1]
        played = jax.tree.map(lambda each: each.reshape((-1,) + each.shape[2:]),
                              (seen, action, before, advantage, advantage + value))

        def epoch(carry, _):
            p, opt, key = carry
            key, now = jax.random.split(key)
            order = jax.random.permutation(now, played[1].shape[0])
            parts = jax.tree.map(lambda each: each[order].reshape((2, -1) + each.shape[1:]), played)

            def update(carry, part):
                loss, grads = jax.value_and_grad(loss_of)(carry[0], *part)
                updates, opt = tx.update(grads, carry[1], carry[0])
                return (optax.apply_updates(carry[0], updates), opt), loss

            (p, opt), losses = jax.lax.scan(update, (p, opt), parts)
            return (p, opt, key), losses.mean()

        (p, opt, key), losses = jax.lax.scan(epoch, (state["params"], state["opt_state"], carry[2]), None, 2)
        state = {"params": p, "opt_state": opt, "seen": carry[0], "env": carry[1], "key": key}
        return state, losses.mean() + 0 * x.sum()

    seen, env_state = jax.vmap(env.reset, (0, None))(jax.random.split(jax.random.PRNGKey(0), rows * ranks), about)
    first = {"params": params, "opt_state": tx.init(params), "seen": seen, "env": env_state}
    return jitted(ranks, first | {"key": jax.random.PRNGKey(7)}, step, lines(2 * ranks, 1))


# A policy that plays against itself, by the gradient of what it won.
def self_play(ranks, game, rows=4, moves=9):
    import pgx

    env = pgx.make(game)
    start = jax.vmap(env.init)(jax.random.split(jax.random.PRNGKey(0), rows * ranks))
    params = normal(7, w=(int(np.prod(start.observation.shape[1:])), 16), o=(16, start.legal_action_mask.shape[1]))
    tx = optax.adam(1e-2)

    def logits_of(p, seen, legal):
        logits = jnp.tanh(seen.reshape(seen.shape[0], -1).astype(jnp.float32) @ p["w"]) @ p["o"]
        return jnp.where(legal, logits, -1e9)

    def step(state, x, y):
        def act(carry, _):
            now, key = carry
            key, choose = jax.random.split(key)
            logits = logits_of(state["params"], now.observation, now.legal_action_mask)
            action = jax.random.categorical(choose, logits)
            after = jax.vmap(env.step)(now, action)
            won = after.rewards[jnp.arange(len(action)), now.current_player]
            return (after, key), (now.observation, now.legal_action_mask, action, won)

        first = jax.vmap(env.init)(jax.random.split(state["key"], rows * ranks))
        (_, key), (seen, legal, action, won) = jax.lax.scan(act, (first, state["key"]), None, moves)
        later = jnp.cumsum(won[::-1], 0)[::-1]

        def loss_of(p):
            logits = jax.vmap(functools.partial(logits_of, p))(seen, legal)
            return -(jnp.take_along_axis(jax.nn.log_softmax(logits), action[..., None], -1)[..., 0] * later).mean()

        loss, grads = jax.value_and_grad(loss_of)(state["params"])
        updates, opt = tx.update(grads, state["opt_state"])
        params = optax.apply_updates(state["params"], updates)
        return {"params": params, "opt_state": opt, "key": key}, loss + 0 * x.sum()

    return jitted(ranks, {"params": params, "opt_state": tx.init(params), "key": jax.random.PRNGKey(7)}, step,
                  lines(2 * ranks, 1))


# Policy and value learn what a tree search with a learnt model finds.
def tree_search(ranks, rows=4, width=6, actions=3):
    import mctx

    params = normal(2, policy=(width, actions), value=(width, 1), model=(width + actions, width),
                    reward=(width + actions, 1))

    def follow(p, key, action, now):
        both = jnp.concatenate([now, jax.nn.one_hot(action, actions)], -1)
        after = jnp.tanh(both @ p["model"])
        return mctx.RecurrentFnOutput(reward=(both @ p["reward"])[:, 0], discount=jnp.full(now.shape[0], 0.9),
                                      prior_logits=after @ p["policy"], value=(after @ p["value"])[:, 0]), after

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)
        fixed = jax.lax.stop_gradient(p)
        root = mctx.RootFnOutput(prior_logits=x @ fixed["policy"], value=(x @ fixed["value"])[:, 0], embedding=x)
        found = mctx.gumbel_muzero_policy(fixed, now, root, follow, num_simulations=8, max_depth=4)
        policy = optax.softmax_cross_entropy(x @ p["policy"], jax.lax.stop_gradient(found.action_weights)).mean()
        return policy + jnp.mean(((x @ p["value"])[:, 0] - y) ** 2), key

    return fitted(ranks, params, loss_of, lines(rows * ranks, width), jax.random.PRNGKey(1))


# Actor and critic learn from another policy's actions (V-trace).
def off_policy(ranks, rows=4, time=6, width=5, actions=3):
    import rlax

    def loss_of(p, extra, seen, action, reward, behaviour):
        def one(logits, value, action, reward, behaviour):
            ratio = rlax.categorical_importance_sampling_ratios(logits[:-1], behaviour[:-1], action[:-1])
            traced = rlax.vtrace_td_error_and_advantage(value[:-1], value[1:], reward[:-1], jnp.full(time - 1, 0.9),
                                                        ratio)
            even = jnp.ones(time - 1)
            policy = rlax.policy_gradient_loss(logits[:-1], action[:-1], traced.pg_advantage, even)
            return policy + 0.5 * jnp.sum(traced.errors**2) + 0.01 * rlax.entropy_loss(logits[:-1], even)

        return jax.vmap(one)(seen @ p["policy"], (seen @ p["value"])[..., 0], action, reward, behaviour).mean(), extra

    def draw(rng):
        count = rows * ranks
        real = lambda *shape: rng.normal(size=(count, time, *shape)).astype(np.float32)
        return real(width), rng.integers(0, actions, (count, time)).astype(np.int32), real(), real(actions)

    return fitted(ranks, normal(3, policy=(width, actions), value=(width, 1)), loss_of, draw)


# Points are moved onto others, matched by entropic optimal transport.
def matching(ranks, rows=8, width=3):
    from ott.geometry import pointcloud
    from ott.problems.linear import linear_problem
    from ott.solvers.linear import sinkhorn

    def loss_of(p, extra, x, y):
        clouds = pointcloud.PointCloud(x + jnp.tanh(x @ p["w0"]) @ p["w1"], y, epsilon=0.1)
        solve = sinkhorn.Sinkhorn(threshold=1e-3, max_iterations=200)
        return solve(linear_problem.LinearProblem(clouds)).reg_ot_cost, extra

    def draw(rng):
        return tuple((rng.normal(size=(rows * ranks, width)) + at).astype(np.float32) for at in (0, 1))

    return fitted(ranks, normal(1, w0=(width, 8), w1=(8, width)), loss_of, draw)


# Likelihood of a Gaussian process by a dense factor, and by one of a quasiseparable matrix.
def process(ranks, quasi, rows=12):
    import tinygp

    params = {"scale": jnp.float32(0.1), "size": jnp.float32(0.2), "noise": jnp.float32(-1.0)}

    def loss_of(p, extra, x, y):
        scale, size = jnp.exp(p["scale"]), jnp.exp(p["size"])
        kernel = (tinygp.kernels.quasisep.Matern32(scale=scale, sigma=size) if quasi
                  else size * tinygp.kernels.Matern52(scale))
        at = jnp.sort(x[:, 0]) if quasi else x
        return -tinygp.GaussianProcess(kernel, at, diag=jnp.exp(p["noise"])).log_probability(y), extra

    return fitted(ranks, params, loss_of, lines(rows * ranks, 2))


# Likelihood of hidden states: a Kalman filter, a hidden Markov model.
def hidden_states(ranks, kind, rows=2, time=8):
    from dynamax.hidden_markov_model import CategoricalHMM
    from dynamax.linear_gaussian_ssm import LinearGaussianSSM
    from dynamax.parameters import from_unconstrained, to_unconstrained

    model = CategoricalHMM(3, 1, 4) if kind == "markov" else LinearGaussianSSM(state_dim=2, emission_dim=3)
    first, about = model.initialize(jax.random.PRNGKey(0))
    leaves, tree = jax.tree.flatten(to_unconstrained(first, about))

    def loss_of(p, extra, x):
        params = from_unconstrained(jax.tree.unflatten(tree, p), about)
        return -jax.vmap(lambda seen: model.marginal_log_prob(params, seen))(x).mean(), extra

    def draw(rng):
        if kind == "markov":
            return (rng.integers(0, 4, (rows * ranks, time, 1)).astype(np.int32),)
        return (rng.normal(size=(rows * ranks, time, 3)).astype(np.float32),)

    return fitted(ranks, leaves, loss_of, draw, tx=optax.adam(1e-3))


# Molecular dynamics: a potential fitted to forces, and to where a thermostat takes the atoms.
def molecules(ranks, simulated, rows=2):
    from jax_md import energy, simulate, space

    between, shift = space.periodic(4.0)
    corner = np.stack(np.meshgrid(*[[0.5, 1.3]] * 3), -1).reshape(-1, 3)

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)
        if not simulated:
            forces = jax.vmap(jax.grad(energy.morse_pair(between, **p)))(x)
            return jnp.mean((forces - y) ** 2) * 1e-2, key
        init, apply = simulate.nvt_langevin(energy.soft_sphere_pair(between, **p), shift, dt=1e-2, kT=0.1)

        def one(at, key):
            return jax.lax.scan(lambda state, _: (apply(state), ()), init(key, at), None, 5)[0].position

        return jnp.mean((jax.vmap(one)(x, jax.random.split(now, x.shape[0])) - y) ** 2), key

    def draw(rng):
        shape = (rows * ranks, *corner.shape)
        return (corner + 0.1 * rng.normal(size=shape)).astype(np.float32), rng.normal(size=shape).astype(np.float32)

    return fitted(ranks, {"sigma": jnp.float32(1.0), "epsilon": jnp.float32(0.8)}, loss_of, draw, jax.random.PRNGKey(2))


# A learnt correction of two steps of Navier and Stokes's equations.
def fluid(ranks, rows=1, size=16):
    import jax_cfd.base as cfd

    grid = cfd.grids.Grid((size, size), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    border = cfd.boundaries.periodic_boundary_conditions(2)

    def loss_of(p, extra, x, y):
        solve = cfd.equations.semi_implicit_navier_stokes(density=1.0, viscosity=jnp.exp(p["viscosity"]), dt=0.01,
                                                          grid=grid)

        def one(u):
            flow = tuple(cfd.grids.GridVariable(cfd.grids.GridArray(u[..., d], face, grid), border)
                         for d, face in enumerate(grid.cell_faces))
            return jnp.stack([part.data for part in solve(solve(flow))], -1)

        learnt = jax.lax.conv_general_dilated(x, p["k"], (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return jnp.mean((jax.vmap(one)(x) + learnt - y) ** 2), extra

    def draw(rng):
        return tuple(rng.normal(size=(rows * ranks, size, size, 2)).astype(np.float32) for _ in range(2))

    return fitted(ranks, {"viscosity": jnp.float32(-4.0), "k": 0.01 * normal(8, k=(3, 3, 2, 2))["k"]}, loss_of, draw)


# A flow of couplings, a mixture, draws of a gamma distribution with their gradients.
def distributions(ranks, rows=6):
    from tensorflow_probability.substrates import jax as tfp

    tfb, tfd = tfp.bijectors, tfp.distributions

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)

        def shift_and_scale(z, count):
            both = jnp.tanh(z @ p["w0"][: z.shape[-1]]) @ p["w1"]
            return both[..., :count], jnp.clip(both[..., count : 2 * count], -2, 2)

        couple = tfb.Chain([tfb.RealNVP(2, shift_and_log_scale_fn=shift_and_scale), tfb.Permute([2, 3, 0, 1])])
        flow = tfd.TransformedDistribution(tfd.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4)), couple)
        mixture = tfd.MixtureSameFamily(tfd.Categorical(logits=p["at"]), tfd.StudentT(4.0, p["at"], 1.0))
        drawn = tfd.Gamma(jnp.exp(p["at"]), 2.0).sample(seed=now)
        return drawn.mean() - flow.log_prob(x).mean() - mixture.log_prob(y).mean(), key

    return fitted(ranks, normal(4, w0=(2, 16), w1=(16, 4), at=(3,)), loss_of, lines(rows * ranks, 4),
                  jax.random.PRNGKey(3))


# Hamiltonian Monte Carlo: three draws a step.
def monte_carlo(ranks, rows=8, width=4):
    from tensorflow_probability.substrates import jax as tfp

    def step(state, x, y):
        weights, key, accepted = state
        key, now = jax.random.split(key)
        target = lambda w: -0.5 * jnp.sum((x @ w - y) ** 2) - 0.5 * jnp.sum(w**2)
        kernel = tfp.mcmc.HamiltonianMonteCarlo(target, step_size=0.05, num_leapfrog_steps=3)
        drawn, taken = tfp.mcmc.sample_chain(3, current_state=weights, kernel=kernel, seed=now,
                                             trace_fn=lambda _, result: result.is_accepted)
        return (drawn[-1], key, accepted + taken.sum()), target(drawn[-1])

    return jitted(ranks, (jnp.zeros(width), jax.random.PRNGKey(0), jnp.int32(0)), step, lines(rows * ranks, width))


# Pictures are cropped, mirrored, coloured, blurred and turned at random before a convolution.
def augmented(ranks, rows=3):
    import dm_pix

    sample = labelled(rows * ranks, (16, 16, 3), 3)

    def loss_of(p, key, x, y):
        key, now = jax.random.split(key)

        def change(key, image):
            keys = jax.random.split(key, 5)
            image = dm_pix.random_flip_left_right(keys[1], dm_pix.random_crop(keys[0], image, (12, 12, 3)))
            image = dm_pix.random_hue(keys[3], dm_pix.random_brightness(keys[2], image, 0.2), 0.1)
            image = dm_pix.random_contrast(keys[4], image, 0.8, 1.2)
            return dm_pix.rotate(dm_pix.gaussian_blur(image, 1.0, 3.0), 0.1)

        x = jax.vmap(change)(jax.random.split(now, x.shape[0]), x)
        h = jax.lax.conv_general_dilated(x, p["k"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        return cross_entropy(jax.nn.relu(h).mean((1, 2)) @ p["out"], y), key

    def draw(rng):
        x, y = sample(rng)
        return (1 / (1 + np.exp(-x))).astype(np.float32), y

    return fitted(ranks, normal(5, k=(3, 3, 3, 4), out=(4, 3)), loss_of, draw, jax.random.PRNGKey(4))


# The Laplacian of a network, carried forward.
def laplacian(ranks, rows=3, width=4):
    import folx

    def loss_of(p, extra, x, y):
        wave = lambda r: (jnp.tanh(jnp.tanh(r @ p["w0"]) @ p["w1"]) @ p["w2"])[0]
        return jnp.mean((jax.vmap(folx.forward_laplacian(wave))(x).laplacian - y) ** 2), extra

    return fitted(ranks, normal(9, w0=(width, 12), w1=(12, 8), w2=(8, 1)), loss_of, lines(rows * ranks, width))


_STEPS = {
    "brax": {f"body_{backend}": functools.partial(body, backend=backend)
             for backend in ("spring", "generalized", "positional")},
    "mujoco.mjx": {"cart": cart},
    "gymnax": {f"proximal_policy_{game.split('-')[0].lower()}": functools.partial(proximal_policy, game=game)
               for game in ("CartPole-v1", "Acrobot-v1", "Breakout-MinAtar")},
    "pgx": {f"self_play_{game}": functools.partial(self_play, game=game) for game in ("tic_tac_toe", "connect_four")},
    "mctx": {"tree_search": tree_search},
    "rlax": {"off_policy": off_policy},
    "ott": {"matching": matching},
    "tinygp": {"process_dense": functools.partial(process, quasi=False),
               "process_quasi": functools.partial(process, quasi=True)},
    "dynamax": {f"hidden_states_{kind}": functools.partial(hidden_states, kind=kind) for kind in ("kalman", "markov")},
    "jax_md": {"molecules_forces": functools.partial(molecules, simulated=False),
               "molecules_thermostat": functools.partial(molecules, simulated=True)},
    "jax_cfd": {"fluid": fluid},
    "tensorflow_probability": {"distributions": distributions, "monte_carlo": monte_carlo},
    "dm_pix": {"augmented": augmented},
    "folx": {"laplacian": laplacian},
}
SIMULATORS = {name: make for library, steps in _STEPS.items()
              if importlib.util.find_spec(library.split(".", maxsplit=1)[0]) for name, make in steps.items()}
