"""Which result is the next value of which argument where several have one structure, by the JAX of this interpreter."""

import unittest

import door_cases  # Sets the number of devices.
import jax
import jax.numpy as jnp
import numpy as np
import optax
import steps
from jax.sharding import PartitionSpec as P

import reprise.jax as rj

TX = optax.adam(1e-2)


def parameters(seed):
    rng = np.random.RandomState(seed)
    return {"w": jnp.asarray(rng.randn(6, 3), jnp.float32), "b": jnp.zeros(3)}


def batch(t=0):
    rng = np.random.RandomState(100 + t)
    return rng.randn(8, 6).astype(np.float32), rng.randint(0, 3, 8).astype(np.int32)


def loss_of(p, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(x @ p["w"] + p["b"], y).mean()


def updated(p, moments, x, y):
    loss, gradient = jax.value_and_grad(loss_of)(p, x, y)
    updates, moments = TX.update(gradient, moments, p)
    return optax.apply_updates(p, updates), moments, loss


def shifted(p, x):
    """A batch that depends on a frozen copy of the parameters."""
    return x + jnp.tanh(x @ p["w"] + p["b"]).sum(-1, keepdims=True)


def averages(old, new):
    return jax.tree.map(lambda a, b: 0.9 * a + 0.1 * b, old, new)


class Pairing(door_cases.Folder):
    loss = None

    def next_values(self, step, *args, **options):
        """({argument: result that its first leaf becomes, or None}, notes) of state."""
        done = rj.export(jax.jit(step, **options), *args, *batch(), out=self.out, data=batch, steps=3, loss=self.loss)
        leaves = [leaf for leaf in self.json("jax.json")["leaves"] if leaf["role"] == "state"]
        return {leaf["argument"]: leaf["result"] for leaf in reversed(leaves)}, done.notes

    def test_parameters_that_stay_do_not_become_an_optimizers_moments(self):
        p, frozen = parameters(0), parameters(1)

        def last(p, moments, frozen, x, y):
            return updated(p, moments, shifted(frozen, x), y)

        expected = {"p": 0, "frozen": None, "moments": 2}
        middle = lambda p, frozen, moments, x, y: last(p, moments, frozen, x, y)
        first = lambda frozen, p, moments, x, y: last(p, moments, frozen, x, y)
        for step, args in ((last, (p, TX.init(p), frozen)), (middle, (p, frozen, TX.init(p))),
                           (first, (frozen, p, TX.init(p)))):
            self.assertEqual(self.next_values(step, *args), (expected, []))
            self.assertTrue(rj.verify(self.out, steps=3))
        donated = self.next_values(middle, p, frozen, TX.init(p), donate_argnums=(0, 2))
        self.assertEqual(donated, (expected, []))
        self.assertFalse(p["w"].is_deleted())

    def test_a_momentum_that_is_all_of_an_optimizers_state_is_its_own(self):
        tx = optax.sgd(0.1, 0.9)

        def step(p, frozen, momentum, x, y):
            gradient = jax.grad(loss_of)(p, shifted(frozen, x), y)
            updates, momentum = tx.update(gradient, momentum)
            return optax.apply_updates(p, updates), momentum, {"loss": loss_of(p, x, y)}

        p = parameters(0)
        found, _ = self.next_values(step, p, parameters(1), tx.init(p))
        self.assertEqual(found, {"p": 0, "frozen": None, "momentum": 2})

    def test_results_in_another_order_than_the_arguments_follow_these(self):
        def average_first(p, average, x, y):
            p = jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_of)(p, x, y))
            return (averages(average, p), p), loss_of(p, x, y)

        def grouped(actor, critic, actor_moments, critic_moments, target, x, y):
            actor, actor_moments, loss = updated(actor, actor_moments, x, y)
            critic, critic_moments, _ = updated(critic, critic_moments, 2 * x, y)
            return (actor, actor_moments), (critic, critic_moments), averages(target, critic), loss

        def gradients_first(p, moments, x, y):
            gradient = jax.grad(loss_of)(p, x, y)
            p, moments, loss = updated(p, moments, x, y)
            return loss, gradient, p, moments

        p = parameters(0)
        self.assertEqual(self.next_values(average_first, p, p), ({"p": 2, "average": 0}, []))
        found, _ = self.next_values(grouped, p, parameters(1), TX.init(p), TX.init(p), parameters(2))
        self.assertEqual(found, {"actor": 0, "critic": 7, "actor_moments": 2, "critic_moments": 9, "target": 14})
        self.assertEqual(self.next_values(gradients_first, p, TX.init(p)), ({"p": 3, "moments": 5}, []))

    def test_results_on_two_devices_follow_their_arguments(self):
        mesh = steps.data_mesh(2)

        def average_first(p, average, key, x, y):
            key, used = jax.random.split(key)
            split = steps.NamedSharding(mesh, P("data"))
            x = jax.lax.with_sharding_constraint(x + jax.random.normal(used, x.shape), split)
            p, loss = jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_of)(p, x, y)), loss_of(p, x, y)
            return averages(average, p), p, key, loss

        state = steps.place(mesh, (parameters(0), parameters(1), jax.random.key(0)))
        found, _ = self.next_values(average_first, *state, donate_argnums=(0, 1, 2))
        self.assertEqual(found, {"p": 2, "average": 0, "key": 4})
        self.assertFalse(state[2].is_deleted())
        self.assertTrue(rj.verify(self.out, steps=3))

    def test_what_follows_no_argument_is_next_by_its_place_and_noted_or_not_by_its_name(self):
        def previous(p, last, x, y):
            gradient = jax.grad(loss_of)(p, x, y)
            return jax.tree.map(lambda a, b, c: a - 0.1 * (2 * b - c), p, gradient, last), gradient, loss_of(p, x, y)

        def measured(p, frozen, x, y):
            gradient = jax.grad(loss_of)(p, shifted(frozen, x), y)
            return jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient), {"loss": loss_of(p, x, y), "gradient": gradient}

        p = parameters(0)
        found, notes = self.next_values(previous, p, jax.tree.map(jnp.zeros_like, p))
        self.assertEqual(found, {"p": 0, "last": 2})
        self.assertEqual(notes, ["result 1 is taken for the next value of last, as it has its structure, though it does "
                                 "not follow it: where it is none, name the batches, batch=, and last among them"])
        self.assertEqual(self.next_values(measured, p, parameters(1)), ({"p": 0, "frozen": None}, []))

    def test_a_copy_that_is_made_every_few_steps_is_the_next_value_of_its_argument(self):
        def step(p, target, count, x, y):
            p = jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss_of)(p, shifted(target, x), y))
            target = jax.lax.cond(count % 4 == 0, lambda: p, lambda: target)
            return p, target, count + 1, loss_of(p, x, y)

        p = parameters(0)
        self.assertEqual(self.next_values(step, p, p, jnp.int32(0)), ({"p": 0, "target": 2, "count": 4}, []))

    def test_a_rate_does_not_become_the_loss(self):
        def rated(p, moments, rate, x, y):
            q, moments, loss = updated(p, moments, x, y)
            accuracy = ((x @ p["w"]).argmax(-1) == y).mean()
            return jax.tree.map(lambda a, b: a + rate * (b - a), p, q), moments, loss, accuracy

        def weighted(p, weight, x, y):
            loss = lambda p: loss_of(p, x, y) + weight * 5 * (p["w"] ** 2).sum()
            return jax.tree.map(lambda a, b: a - 0.1 * b, p, jax.grad(loss)(p)), loss(p), loss_of(p, x, y)

        def counted(p, count, x, y):
            p = jax.tree.map(lambda a, b: a - 0.1 / (count + 1) * b, p, jax.grad(loss_of)(p, x, y))
            return p, ((x @ p["w"]).argmax(-1) == y).sum(), loss_of(p, x, y)

        p = parameters(0)
        self.loss = "2"
        for options in ({}, {"donate_argnums": (0, 1)}):
            args = jax.tree.map(jnp.copy, (p, TX.init(p)))
            found, notes = self.next_values(rated, *args, 0.5, **options)
            self.assertEqual((found, notes), ({"p": 0, "moments": 2}, []))
        self.assertEqual(self.next_values(counted, p, jnp.int32(3))[0], {"p": 0})
        found, notes = self.next_values(weighted, p, 0.5)
        self.assertEqual(found, {"p": 0})
        self.assertIn("weight is taken for no state: result 1 depends on it and does not follow it; where that is its "
                      "next value, return it by that name, in a dict", notes)
        self.loss = "1"
        self.assertEqual(self.next_values(weighted, p, 0.5), ({"p": 0}, []))

    def test_a_number_that_follows_itself_is_state(self):
        def step(p, count, scale, average, x, y):
            loss, gradient = jax.value_and_grad(loss_of)(p, x, y)
            p = jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)
            return p, count + 1, jnp.where(jnp.isfinite(loss), scale, scale / 2), 0.9 * average + 0.1 * loss, loss

        found, notes = self.next_values(step, parameters(0), jnp.int32(0), jnp.float32(1024), 0.0)
        self.assertEqual((found, notes), ({"p": 0, "count": 2, "scale": 3, "average": 4}, []))

    def test_a_count_is_state_though_others_are_donated_and_it_is_not(self):
        def step(p, place, rate, x, y):
            loss, gradient = jax.value_and_grad(loss_of)(p, x, y)
            return jax.tree.map(lambda a, b: a - rate * b, p, gradient), (place + 3) % 7, loss, 2 * loss

        self.loss = "2"
        found, notes = self.next_values(step, parameters(0), 0, 0.1, donate_argnums=0)
        self.assertEqual((found, notes), ({"p": 0, "place": 2}, []))
        self.assertEqual(self.json("step.json")["outputs"][2]["role"], "state")

    def test_arrays_of_one_shape_go_to_what_follows_them(self):
        def step(w, average, x, y):
            w = w - 0.1 * jax.grad(lambda w: loss_of({"w": w, "b": jnp.zeros(3)}, x, y))(w)
            return 0.9 * average + 0.1 * w, w, loss_of({"w": w, "b": jnp.zeros(3)}, x, y)

        def drawn_back(frozen, w, x, y):
            loss = lambda w: loss_of({"w": w, "b": jnp.zeros(3)}, x, y) + ((w - frozen) ** 2).sum()
            return w - 0.1 * jax.grad(loss)(w), loss(w)

        first, second = parameters(0)["w"], parameters(1)["w"]
        self.assertEqual(self.next_values(step, first, second)[0], {"w": 1, "average": 0})
        self.assertEqual(self.next_values(drawn_back, first, second)[0], {"frozen": None, "w": 0})

    def test_an_array_that_is_next_by_its_place_alone_is_noted_where_it_follows_nothing(self):
        def step(p, hidden, x, y):
            after = jnp.tanh(x @ p["w"] + hidden)
            return jax.tree.map(lambda a: 0.9 * a, p), after, after.sum() + loss_of(p, x, y)

        found, notes = self.next_values(step, parameters(0), jnp.ones((8, 3)))
        self.assertEqual(found, {"p": 0, "hidden": 2})
        self.assertIn("result 1 is taken for the next value of hidden, as it has its structure, though it does not follow "
                      "it: where it is none, name the batches, batch=, and hidden among them", notes)

    def test_a_step_may_return_one_array_alone(self):
        def step(w, rate, x, y):
            return w - rate * jax.grad(lambda w: loss_of({"w": w, "b": jnp.zeros(3)}, x, y))(w)

        self.assertEqual(self.next_values(step, parameters(0)["w"], jnp.float32(0.1))[0], {"w": 0})

        def loss(rate, weight, x, y):
            return rate * weight * loss_of(parameters(0), x, y)

        self.assertEqual(self.next_values(loss, jnp.float32(0.1), jnp.float32(2))[0], {})

    def test_data_may_give_the_arguments_between_state_and_what_stays(self):
        def step(p, x, y, frozen):
            gradient = jax.grad(loss_of)(p, shifted(frozen, x), y)
            return jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient), loss_of(p, x, y)

        for data in (batch, tuple(np.stack(column) for column in zip(batch(0), batch(1), batch(2)))):
            done = rj.export(jax.jit(step), parameters(0), *batch(), parameters(1), data=data, out=self.out, steps=3)
            roles = [(name, role) for name, role, _ in done.arguments]
            self.assertEqual(roles, [("p", "state"), ("x", "batch"), ("y", "batch"),
                                     ("frozen", "state that no result updates")])

    def test_state_of_one_structure_is_loaded_by_name_or_all_at_once(self):
        def step(p, ema, frozen, x, y):
            gradient = jax.grad(loss_of)(p, shifted(frozen, x), y)
            p = jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)
            return p, averages(ema, p), loss_of(p, x, y)

        first = parameters(0), parameters(1), parameters(2)
        rj.export(jax.jit(step), *first, *batch(), out=self.out, steps=3, data=batch)
        rj.verify(self.out, steps=3)
        p, ema, frozen = rj.load_state(self.out, like=first)
        np.testing.assert_array_equal(frozen["w"], first[2]["w"])
        self.assertGreater(float(jnp.abs(p["w"] - ema["w"]).max()), 0.1)
        for name, value in (("p", p), ("ema", ema), ("frozen", frozen)):
            alone = rj.load_state(self.out, like={name: first[0]})[name]
            np.testing.assert_array_equal(alone["w"], value["w"])
        with self.assertRaisesRegex(rj.RepriseError, "names that p and ema and frozen have.*like={'p': …}"):
            rj.load_state(self.out, like=first[0])


if __name__ == "__main__":
    unittest.main()
