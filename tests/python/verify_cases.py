"""What verify takes for rounding, and what it does not, with the JAX of this interpreter."""

import dataclasses
import os
import unittest
import unittest.mock

import door_cases  # Sets the number of devices.
import jax
import jax.numpy as jnp
import numpy as np
import optax
import steps

import reprise.jax as rj
from reprise import compare, tensors
from reprise.jax import verifying


def bias_under_norm():
    """(step, state, batch) with a bias whose exact gradient is zero, under Adam and behind dropout."""
    def step(state, x):
        key, used = jax.random.split(state["key"])

        def loss(p):
            h = x @ p["w"] + p["bias"]
            h = (h - h.mean(0)) * jax.lax.rsqrt(h.var(0) + 1e-5)  # The same with any bias.
            return (jnp.where(jax.random.bernoulli(used, 0.8, h.shape), jnp.tanh(h), 0) ** 3 @ p["v"]).mean()

        value, gradient = jax.value_and_grad(loss)(state["p"])
        updates, adam = optax.adam(1e-2).update(gradient, state["adam"])
        return {"p": optax.apply_updates(state["p"], updates), "adam": adam, "key": key}, value

    rng = np.random.RandomState(2)
    p = {"w": rng.randn(8, 4), "bias": np.full(4, 3), "v": rng.randn(4, 2)}
    p = {name: array.astype(np.float32) for name, array in p.items()}
    state = {"p": p, "adam": optax.adam(1e-2).init(p), "key": jax.random.key(0)}
    return jax.jit(step), state, rng.randn(64, 8).astype(np.float32)


class Rounding(door_cases.Folder):
    def test_what_rounding_alone_moves_is_measured_where_a_gradient_is_zero(self):
        step = steps.make("lstm", 2)
        rj.export(step.step, *steps.arguments(step, 0), out=self.out, data=step.batch, steps=2)
        final, _ = verifying.run_jax(self.out, 2)
        own = verifying.own_moves(self.out, 2, final, tensors.load(self.out / "state.safetensors"))
        self.assertEqual(set(own), set(final))
        self.assertTrue(all(0 <= move.median <= move.most < 1e-3 for move in own.values()), own)
        name = max(own, key=own.get)
        self.assertGreater(own[name].median, 0)
        off = [compare.Difference(n, "f32", 1.5e-4 if n == name else 0.0, 1.0) for n in final]
        verified = verifying.Verified(2, 1e-4, off, (0.0, 0.0), "", own)
        self.assertFalse(verified)
        self.assertIn("JAX itself moves", str(verified))
        self.assertTrue(dataclasses.replace(verified, own=own | {name: verifying.OwnMove(1e-4, 1e-4)}))
        self.assertFalse(dataclasses.replace(verified, own=own | {name: verifying.OwnMove(1e-5, 1.1e-4)}))
        once = dataclasses.replace(verified, own=own | {name: verifying.OwnMove(1e-5, 1.3e-4)})
        self.assertTrue(once)
        self.assertIn("JAX itself moves 1.0e-05, once 1.3e-04", str(once))

    def test_the_order_of_rows_counts_as_rounding_where_it_means_nothing(self):
        x = np.random.RandomState(0).randn(2, 64, 8).astype(np.float32)
        initial = {"state": np.ones((1, 8), np.float32)}

        def moves(loss):
            @jax.jit
            def step(state, x):
                value, gradient = jax.value_and_grad(loss)(state, x)
                return state - 0.1 * gradient, value

            out = self.out / loss.__name__
            rj.export(step, initial["state"][0], x[0], out=out, data=lambda t: (x[t],), steps=2)
            name = next(iter(tensors.load(out / "state.safetensors")))
            final, losses = verifying.run_jax(out, 2)
            nothing = lambda *_: lambda arrays: arrays
            with unittest.mock.patch.multiple(verifying, _nudged=nothing, _unfused=lambda run: run):
                return verifying.own_moves(out, 2, final, {name: initial["state"]}, losses=losses)[name].median

        def mean(state, x):
            return jax.numpy.mean((x @ state).astype(jax.numpy.bfloat16).astype(jax.numpy.float32) ** 2)

        def placed(state, x):
            return jax.numpy.mean(jax.numpy.arange(64.0) * (x @ state) ** 2)

        self.assertGreater(moves(mean), 0)
        self.assertEqual(moves(placed), 0)

    def test_float64_is_asked_of_state_that_holds_numbers_of_python(self):
        x = np.random.RandomState(0).randn(64).astype(np.float32)
        step = jax.jit(lambda state, x: ({"w": state["w"] - x.mean(), "t": state["t"] + 1}, x.sum()))
        rj.export(step, {"w": jnp.ones(3), "t": 0}, x, out=self.out)
        described = verifying.states.description(self.out)
        initial = tensors.load(self.out / "state.safetensors", {e["name"]: e["type"] for e in described["leaves"]})
        final, losses = verifying.run_jax(self.out, 2)
        self.assertIn("state.w", verifying.distances_from_exact(self.out, 2, final, final, initial, losses=losses))
        # What a step rounds to 16 bits itself, it rounds in float64, too: that says nothing of who is nearer.
        step = jax.jit(lambda state, x: ({"w": state["w"] - x.astype(jnp.bfloat16).mean(), "t": state["t"] + 1}, x.sum()))
        rj.export(step, {"w": jnp.ones(3), "t": 0}, x, out=self.out)
        self.assertEqual(verifying.distances_from_exact(self.out, 2, final, final, initial, losses=losses), {})

    def test_float64_tells_whose_rounding_is_nearer(self):
        x = np.random.RandomState(0).randn(2, 4096).astype(np.float32) + 100
        numpy = jax.numpy

        def distances(loss, change=lambda final: final):
            @jax.jit
            def step(state, x):
                value, gradient = jax.value_and_grad(loss)(state, x)
                return state - 0.1 * gradient, value

            out = self.out / loss.__name__
            rj.export(step, np.float32(1), x[0], out=out, data=lambda t: (x[t],), steps=2)
            final, losses = verifying.run_jax(out, 2)
            initial = tensors.load(out / "state.safetensors")
            found = verifying.distances_from_exact(out, 2, change(final), final, initial, losses=losses)
            return next(iter(found.values()), None)

        def variance(state, x):  # of which a f32 has few digits
            return state * (numpy.mean(x * x) - numpy.mean(x) ** 2)

        def noisy(state, x):  # with the random bits of f32
            return state * numpy.mean(x * jax.random.uniform(jax.random.PRNGKey(0), x.shape))

        def strict(state, x):
            assert x.dtype == numpy.float32
            return state * numpy.mean(x)

        exact = lambda final: {name: np.float32(1 - 0.1 * sum(row.astype(np.float64).var() for row in x))
                               for name in final}
        theirs, ours = distances(variance, exact)
        self.assertGreater(theirs, 1e-5)
        self.assertLess(ours, theirs / 10)
        for known in (noisy, strict):
            self.assertLess(max(distances(known)), 1e-6)
        off = [compare.Difference("w", "f32", 3e-3, 1.0)]
        verified = verifying.Verified(2, 1e-4, off, (0.0, 0.0), "", exact={"w": (2e-3, 1e-3)})
        self.assertTrue(verified)
        self.assertIn("from the step in float64 JAX is 2.0e-03 off, Reprise 1.0e-03", str(verified))
        self.assertFalse(dataclasses.replace(verified, exact={"w": (1e-3, 2.1e-3)}))

    def test_a_gradient_that_is_zero_is_no_error_and_hides_none(self):
        step, state, x = bias_under_norm()
        rj.export(step, state, x, out=self.out)
        initial = tensors.load(self.out / "state.safetensors")
        theirs, losses = verifying.run_jax(self.out, 2)
        initial = {name: initial[name] for name in theirs}

        def judged(**factors):
            """Tensors in which ours is told as wrong where their changes are so many times JAX's."""
            ours = {name: initial[name] + np.float32(factors.get(name.split(".")[-1], 1)) * (array - initial[name])
                    if array.dtype == np.float32 else array for name, array in theirs.items()}
            found = compare.differences(ours, theirs, initial)
            exact = verifying.distances_from_exact(self.out, 2, ours, theirs, initial, losses=losses)
            verified = verifying.Verified(2, 1e-4, found, (0.0, 0.0), "", exact=exact)
            return {d.name.split(".", 1)[1] for d in found if not verified.is_equal(d)}

        self.assertEqual(judged(bias=0.1) | judged(bias=3), set())  # The exact change is none.
        self.assertEqual(judged(bias=30), {"p.bias", "adam.0.mu.bias", "adam.0.nu.bias"})
        self.assertEqual(judged(w=1.001), {"p.w", "adam.0.mu.w", "adam.0.nu.w"})
        self.assertIn("p.v", judged(v=0.5, bias=0.1))

    def test_what_no_step_changes_does_not_move(self):
        @jax.jit
        def step(state, x):
            return {"frozen": state["frozen"], "w": state["w"] - 0.1 * x.mean(0) * state["frozen"]}, x.mean()

        x = np.random.RandomState(0).randn(6, 3).astype(np.float32)
        rj.export(step, {"frozen": jnp.full(3, 1.5), "w": jnp.ones(3)}, x, out=self.out)
        final, losses = verifying.run_jax(self.out, 2)
        initial = tensors.load(self.out / "state.safetensors")
        moved = verifying.own_moves(self.out, 2, final, initial, losses=losses)
        self.assertEqual(moved["state.frozen"].most, 0)
        self.assertLess(moved["state.w"].most, 1e-5)
        off = compare.differences(final | {"state.frozen": final["state.frozen"] + 1}, final, initial)
        self.assertFalse(verifying.Verified(2, 1e-4, off, (0.0, 0.0), "", moved))

    def test_a_batch_that_is_rounded_to_16_bits_first_moves_in_those(self):
        @jax.jit
        def step(state, x, y):
            short = jax.checkpoint(lambda x: x.T.astype(jnp.bfloat16))(x)
            made = {"x": short.astype(jnp.float32), "y": y * y.astype(jnp.bfloat16), "t": state["t"] + 1}
            return made, short.sum().astype(jnp.float32)

        x, y = np.random.RandomState(0).randn(2, 32, 8).astype(np.float32)
        state = {"x": jnp.zeros((8, 32)), "y": jnp.zeros((32, 8)), "t": jnp.zeros(())}
        rj.export(step, state, x, y, out=self.out, batch=["x", "y"])
        closed = verifying.exporting.exported_steps[os.path.realpath(self.out)].closed
        self.assertEqual(verifying.equations.read_narrowed(closed), {3: jnp.bfloat16})  # x, behind state.t, x and y
        final, _ = verifying.run_jax(self.out, 1)
        moved = verifying.own_moves(self.out, 1, final, tensors.load(self.out / "state.safetensors"))
        self.assertGreater(moved["state.x"].median, 1e-5)
        self.assertLess(moved["state.y"].most, 1e-5)

    def test_batches_that_are_fewer_than_were_exported_are_refused(self):
        step = jax.jit(lambda state, x: (state + x.mean(), x.sum()))
        x = np.ones((3, 2), np.float32)
        rj.export(step, jnp.ones(3), x, out=self.out, data=lambda t: (x,), steps=3)
        path = self.out / "batches.safetensors"
        tensors.save(path, {name: array[:2] for name, array in tensors.load(path).items()})
        with self.assertRaisesRegex(rj.RepriseError, "batches.safetensors: x holds 2 of the 3 batches"):
            rj.verify(self.out, steps=3)

    def test_a_loss_that_is_not_finite_names_the_option_that_goes_on(self):
        step = jax.jit(lambda state, x: (state + x.mean(), jnp.log(-state.sum())))
        rj.export(step, jnp.ones(3), np.ones(2, np.float32), out=self.out)
        with self.assertRaisesRegex(rj.RepriseError, r'train_options=\["--allow-nan"\]'):
            rj.verify(self.out, steps=2)

    @unittest.skipIf(jax.__version_info__ < (0, 7), "this JAX compiles nothing without fusion")
    def test_fusion_counts_as_rounding(self):
        step, state, x = bias_under_norm()
        rj.export(step, state, x, out=self.out)
        theirs, _ = verifying.run_jax(self.out, 2)
        with unittest.mock.patch.object(verifying, "_nudged", lambda *_: verifying._same):
            moved = verifying.own_moves(self.out, 2, theirs, tensors.load(self.out / "state.safetensors"), seeds=1)
        self.assertGreater(moved["state.adam.0.mu.bias"].median, 0.1)
        self.assertLess(moved["state.adam.0.mu.w"].most, 1e-5)

    def test_loops_and_branches_compute_constants_as_this_xla_does(self):
        def step(state, ones):
            def rest(c):
                return (1 - c) + 1e-6  # 9.5e-7 where XLA makes it 1.000001 - c

            scanned = jax.lax.scan(lambda c, _: (c * 1.0, rest(c)), ones, None, length=4)[1]
            looped = jax.lax.while_loop(lambda c: c[0] < 3, lambda c: (c[0] + 1, rest(ones) + 0 * c[1]), (0, state[1]))[1]
            return (scanned, looped, jax.lax.cond(ones[0] > 0, rest, lambda c: c, ones)), ones.sum()

        zeros = jnp.zeros((4, 8)), jnp.zeros(8), jnp.zeros(8)
        rj.export(jax.jit(step), zeros, jnp.ones(8), out=self.out, data=lambda t: jnp.ones(8), steps=1)
        self.assertEqual(rj.verify(self.out, steps=1).worst.error, 0)

    def test_what_is_held_for_each_row_does_not_move_with_the_rows(self):
        @jax.jit
        def step(state, x):
            value = (x @ state["w"]).mean()
            return {"rows": 0.5 * state["rows"] + x, "w": state["w"] - 0.1 * x.mean(0)}, value

        x = np.random.RandomState(0).randn(2, 6, 3).astype(np.float32)
        rj.export(step, {"rows": jnp.zeros((6, 3)), "w": jnp.ones(3)}, x[0], out=self.out, data=lambda t: (x[t],), steps=2)
        final, losses = verifying.run_jax(self.out, 2)
        moved = verifying.own_moves(self.out, 2, final, tensors.load(self.out / "state.safetensors"), losses=losses)
        self.assertLess(max(move.most for move in moved.values()), 1e-5)


if __name__ == "__main__":
    unittest.main()
