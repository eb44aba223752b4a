"""apply on two CPU devices, with the JAX of this interpreter."""

import unittest

import door_cases  # Sets the number of devices.
import jax
import jax.numpy as jnp
import numpy as np
import optax
import steps
import train_cases
from jax.sharding import PartitionSpec as P

import reprise.jax as rj
from reprise.jax import trees, verifying


def thirds(mapped, chunks=1):
    """A plan with the all-reduces, all-gathers and reduce-scatters of arrays in three buckets each; the scalar ones stay by
    themselves."""
    buckets = []
    for kind in ("all-gather", "all-reduce", "reduce-scatter"):
        names = [c["collective"] for c in mapped["collectives"] if c["kind"] == kind and c["shape"]]
        size = max(1, -(-len(names) // 3))
        buckets += [{"unit": f"{kind}-{i}", "collectives": names[i:i + size], "chunks": chunks if kind == "all-reduce" else 1}
                    for i in range(0, len(names), size)]
    return {"schema": "reprise.plan/1", "buckets": buckets}


def weights():
    return {f"w{i}": jnp.linspace(-1, 1, rows * columns).reshape(rows, columns)
            for i, (rows, columns) in enumerate(((3, 8), (8, 8), (8, 2)))}


def error(w, x):
    return ((jnp.tanh(jnp.tanh(x @ w["w0"]) @ w["w1"]) @ w["w2"]) ** 2).mean()


def descend(w, grads):
    return jax.tree.map(lambda w, g: w - g.astype(w.dtype) / 8, w, grads)


class Apply(door_cases.Folder):
    def planned(self, step, args, buckets):
        """The step under a plan of buckets {name: numbers of collectives of the program}, checked for its all-reduces and
        for its bits; the rest of the collectives stay by themselves."""
        rj.export(step, *args, out=self.out)
        names = [c["collective"] for c in self.json("map.json")["collectives"]]
        plan = {"schema": "reprise.plan/1", "buckets": [
            {"unit": bucket, "collectives": [names[i] for i in numbers]} for bucket, numbers in buckets.items()]}
        plan["order"] = list(buckets)
        planned = rj.apply(plan, step, exported=self.out)
        self.assertTrue(planned.check(*args), planned.check(*args))
        for ours, theirs in zip(jax.tree.leaves(planned(*args)), jax.tree.leaves(step(*args))):
            self.assertEqual(ours.dtype, theirs.dtype)
            self.assertEqual(np.asarray(ours).tobytes(), np.asarray(theirs).tobytes())
        return planned

    def run_steps(self, function, name):
        step = steps.make(name, 2)
        state = steps.arguments(step, 0)[:len(step.donated)]
        for t in range(3):
            results = function(*state, *step.batch(t))
            state = results[:len(step.donated)]
        return [trees.to_numpy(leaf) for leaf in jax.tree_util.tree_leaves(results)]

    def test_buckets_are_jaxs_collectives_and_state_is_bit_equal(self):
        for name, chunks in (("mlp", 1), ("decoder", 2), ("resnet", 1), ("lstm", 3), ("dropout", 1), ("fsdp", 1)):
            with self.subTest(step=name):
                step = steps.make(name, 2)
                args = steps.arguments(step, 0)
                rj.export(step.step, *args, out=self.out, data=step.batch, steps=2)
                planned = rj.apply(thirds(self.json("map.json"), chunks), step.step, exported=self.out)
                counted = planned.check(*args)
                self.assertTrue(counted, counted)
                for ours, theirs in zip(self.run_steps(planned, name), self.run_steps(step.step, name)):
                    self.assertEqual(ours.tobytes(), theirs.tobytes())

    def test_gathers_and_scatters_along_any_dimension_share_buckets(self):
        mesh = steps.data_mesh(2)

        def gathered(w):
            return (jax.lax.all_gather(w["a"], "data"), jax.lax.all_gather(w["b"], "data", axis=1, tiled=True),
                    jax.lax.all_gather(w["c"], "data", axis=2), jax.lax.all_gather(w["d"].astype(jnp.bfloat16), "data"))

        def scattered(a, b, c):
            return (jax.lax.psum_scatter(a, "data"), jax.lax.psum_scatter(b, "data", scatter_dimension=1, tiled=True),
                    jax.lax.psum_scatter(c, "data", scatter_dimension=2))

        def inner(w, x):
            a, b, c, d = gathered(w)
            mixed = jnp.sin(a.max() * x.max())
            ga, gb, gc = scattered(jnp.cos(a) * mixed, jnp.cos(b) * mixed, jnp.cos(c) * mixed)
            return {"a": w["a"] - ga, "b": w["b"] - gb, "c": w["c"] - gc, "d": w["d"] + d.sum().astype(jnp.float32)}

        w = {name: jnp.linspace(-1, 1, size).reshape(shape) for name, size, shape in
             (("a", 20, (4, 5)), ("b", 24, (4, 6)), ("c", 48, (4, 3, 4)), ("d", 8, (8,)))}
        specs = {"a": P("data"), "b": P(None, "data"), "c": P("data"), "d": P("data")}
        args = steps.place(mesh, w, P("data")) | {"b": steps.place(mesh, w["b"], P(None, "data"))}, steps.place(
            mesh, jnp.linspace(0, 1, 6), P("data"))
        for check in (True, False):
            with self.subTest(check=check):
                step = jax.jit(steps.shard_map(inner, mesh, (specs, P("data")), specs, check=check))
                rj.export(step, *args, out=self.out)
                kinds = [c["kind"] for c in self.json("map.json")["collectives"] if c["type"] == "f32"]
                listed = [i for i, c in enumerate(self.json("map.json")["collectives"]) if c["type"] == "f32"]
                planned = {kind: [i for i, k in zip(listed, kinds) if k == kind] for kind in ("all-gather", "reduce-scatter")}
                self.assertEqual([len(members) for members in planned.values()], [3, 3])
                counted = self.planned(step, args, {"b0": planned["all-gather"], "b1": planned["reduce-scatter"]}).check(*args)
                self.assertEqual(sorted(map(len, counted.found.values())), [1, 2])  # That of bfloat16 stays alone.

    def test_gathers_inside_scan_share_a_bucket_there(self):
        mesh = steps.data_mesh(2)

        def inner(w, x):
            def layer(h, w):
                full = [jax.lax.all_gather(part, "data", tiled=True) for part in w]
                return jnp.tanh(h @ full[0] + full[1]), None

            return jax.lax.scan(layer, x, w)[0]

        w = jnp.linspace(-1, 1, 3 * 64).reshape(3, 8, 8), jnp.linspace(0, 1, 24).reshape(3, 8)
        args = steps.place(mesh, w, P(None, "data")), steps.place(mesh, jnp.linspace(0, 1, 32).reshape(4, 8), P("data"))
        step = jax.jit(steps.shard_map(inner, mesh, (P(None, "data"), P("data")), P("data"), check=False))
        self.assertEqual(len(self.planned(step, args, {"b0": [0, 1]}).check(*args).found["all-gather"]), 1)
        # What runs as one in loops whatever the plan, JAX is told of by the plan, too.
        names = [c["collective"] for c in self.json("map.json")["collectives"]]
        told = rj.apply({"schema": "reprise.plan/1", "called": [names]}, step, exported=self.out)
        self.assertEqual(len(told.check(*args).found["all-gather"]), 1)
        self.assertTrue(told.check(*args), told.check(*args))

    def test_complex_numbers_share_buckets_with_real_ones_half_by_half(self):
        steps.STEPS |= train_cases.neighbours()
        step = steps.make("complex_mlp", 2)
        args = steps.arguments(step, 0)
        rj.export(step.step, *args, out=self.out, data=step.batch, steps=2)
        listed = [c["collective"] for c in self.json("map.json")["collectives"]]
        kinds = {c["collective"]: c["type"] for c in self.json("map.json")["collectives"]}
        halves = [f"{name}:{place}" for name in listed for place in range(2 if kinds[name] == "c64" else 1)]
        self.assertIn("c64", kinds.values())
        self.assertIn("f32", kinds.values())
        for chunks in (1, 3):
            plan = {"schema": "reprise.plan/1", "buckets": [{"unit": "b0", "collectives": halves, "chunks": chunks}]}
            planned = rj.apply(plan, step.step, exported=self.out)
            counted = planned.check(*args)
            self.assertTrue(counted, counted)
            self.assertEqual(len(counted.found["all-reduce"]), chunks)
            for ours, theirs in zip(self.run_steps(planned, "complex_mlp"), self.run_steps(step.step, "complex_mlp")):
                if train_cases.version() >= (0, 7):
                    self.assertEqual(ours.tobytes(), theirs.tobytes())
                # JAX 0.5.3 puts the halves together within the kernels that square them, which LLVM contracts otherwise.
                self.assertLessEqual(np.linalg.norm(ours - theirs), 1e-6 * np.linalg.norm(theirs))

    def test_of_a_linear_solve_only_what_runs_is_paired(self):
        mesh = steps.data_mesh(2)

        def inner(b, x):
            matvec = lambda v: jax.lax.pmean(x.T @ (x @ v), "data") + 4 * v
            solved, _ = jax.scipy.sparse.linalg.cg(matvec, jax.lax.psum(b * x.sum(), "data"), maxiter=5)
            return solved, jax.lax.psum(x.sum(0) * solved, "data")

        args = (jnp.linspace(0, 1, 3), jnp.linspace(0, 1, 8 * 3).reshape(8, 3))
        solve = jax.jit(steps.shard_map(inner, mesh, (P(), P("data")), (P(), P()), check=False))
        rj.export(solve, *args, out=self.out)
        planned = rj.apply({"schema": "reprise.plan/1"}, solve, exported=self.out)
        self.assertTrue(planned.check(*args), planned.check(*args))
        for ours, theirs in zip(planned(*args), solve(*args)):
            self.assertEqual(np.asarray(ours).tobytes(), np.asarray(theirs).tobytes())

    def test_collectives_inside_scan_and_jit_with_the_check_on_and_off(self):
        mesh = steps.data_mesh(2)

        def inner(w, x):
            def body(carry, row):
                a, b = jax.lax.psum((row * w, row + w), "data")
                return carry + a.sum() * b, a

            w, rows = jax.jit(lambda w, x: jax.lax.scan(body, w, x))(w, x)
            return w + jax.lax.psum(x.sum(), "data"), jax.lax.psum(rows.sum(), "data")

        for check in (False, hasattr(jax, "shard_map")):
            args = (jnp.linspace(0, 1, 3), jnp.linspace(0, 1, 4 * 2 * 3).reshape(4, 2, 3))
            inside = jax.jit(steps.shard_map(lambda w, x: inner(w, x[:, 0]), mesh, (P(), P(None, "data")), (P(), P()),
                                             check=check))
            rj.export(inside, *args, out=self.out)
            mapped = self.json("map.json")
            names = [c["collective"] for c in mapped["collectives"] if c["equation"] is not None and c["shape"]]
            plan = {"schema": "reprise.plan/1", "buckets": [{"unit": "b0", "collectives": names}]}
            planned = rj.apply(plan, inside, exported=self.out)
            (ours, sums), (theirs, expected) = planned(*args), inside(*args)
            self.assertEqual(np.asarray(ours).tobytes(), np.asarray(theirs).tobytes())
            # Summed inside another fusion: 8e-8 in jax 0.7.2.
            np.testing.assert_allclose(np.asarray(sums), np.asarray(expected), rtol=3e-7)
            self.assertTrue(planned.check(*args), planned.check(*args))

    def test_buckets_of_two_maps_stay_apart(self):
        mesh = steps.data_mesh(2)
        averaged = steps.shard_map(lambda w, x: jax.lax.pmean(error(w, x), "data"), mesh, (P(), P("data")), P(), check=False)

        def step(w, x):  # Of a gradient taken outside, the map of the loss and that of the gradients.
            loss, grads = jax.value_and_grad(averaged)(w, x)
            return descend(w, grads), loss + averaged(w, x * 2)

        args = (weights(), jnp.linspace(0, 1, 12).reshape(4, 3))
        self.planned(jax.jit(step), args, {})
        losses = [i for i, c in enumerate(self.json("map.json")["collectives"]) if not c["shape"] and c["reaches"]]
        self.assertEqual(len(losses), 2)
        planned = self.planned(jax.jit(step), args, {"b0": losses})
        self.assertIn("in different loops or maps", str(planned.report))

    def test_what_checkpoint_computes_again_waits_for_its_operands_only(self):
        def inner(w, x):
            block = jax.checkpoint(lambda x, w: jnp.tanh(jax.lax.psum(x, "data") @ w))
            error = lambda w: (block(block(x @ w["w0"], w["w1"]), w["w1"]) ** 2).mean()
            return descend(w, jax.lax.pmean(jax.grad(error)(w), "data"))

        step = jax.jit(steps.shard_map(inner, steps.data_mesh(2), (P(), P("data")), P(), check=False))
        self.planned(step, (weights(), jnp.linspace(0, 1, 12).reshape(4, 3)), {})
        found = [(c["equation"], c["operand"]) for c in self.json("map.json")["collectives"]]
        self.assertEqual(found, sorted(found))

    def test_floats_of_several_types_share_a_bucket_and_results_are_a_tuple(self):
        mesh = steps.data_mesh(2)

        def inner(w, x):
            loss, grads = jax.value_and_grad(error)(w, x)
            return descend(w, jax.lax.psum(grads, "data")), jax.lax.pmean(loss, "data")

        everywhere, split = (jax.sharding.NamedSharding(mesh, spec) for spec in (P(), P("data")))
        step = jax.jit(steps.shard_map(inner, mesh, (P(), P("data")), (P(), P()), check=False),
                       in_shardings=(everywhere, split), out_shardings=(everywhere, everywhere))
        w = weights()
        args = ({**w, "w1": w["w1"].astype(jnp.bfloat16)}, jnp.linspace(0, 1, 12).reshape(4, 3))
        self.planned(step, args, {"b0": range(3)})

    def test_leaves_of_one_mean_run_in_the_plans_order(self):
        def inner(w, x):
            first = jax.lax.psum(x.sum(), "data")
            return descend(w, jax.lax.pmean({"w0": w["w0"] * first, "w1": w["w1"] * x.sum(), "w2": w["w2"]}, "data"))

        step = jax.jit(steps.shard_map(inner, steps.data_mesh(2), (P(), P("data")), P(), check=False))
        args = (weights(), jnp.linspace(0, 1, 12).reshape(4, 3))
        rj.export(step, *args, out=self.out)
        place_of = {tuple(c["shape"]): i for i, c in enumerate(self.json("map.json")["collectives"])}
        late, early, one = place_of[3, 8], place_of[8, 8], place_of[()]
        self.planned(step, args, {"early": [early], "one": [one], "late": [late]})

    @unittest.skipUnless(train_cases.version() >= (0, 7), "older JAX re-enters maps unchecked")
    def test_what_is_the_same_along_an_axis_stays_so(self):
        mesh = steps.Mesh(np.array(jax.devices()[:2]).reshape(2, 1), ("data", "model"))

        def inner(w, x):
            halves = lambda w: jax.lax.psum(jnp.tanh(x @ w["w0"]) @ w["w1"], "model")
            grads = jax.grad(lambda w: jax.lax.pmean((halves(w) @ w["w2"]).var(), "data"))(w)
            return descend(w, grads)

        specs = {"w0": P(None, "model"), "w1": P("model", None), "w2": P()}
        step = jax.jit(steps.shard_map(inner, mesh, (specs, P("data")), specs))
        args = (weights(), jnp.linspace(0, 1, 12).reshape(4, 3))
        rj.export(step, *args, out=self.out)
        names = [c["collective"] for c in self.json("map.json")["collectives"] if c["reaches"]]
        planned = rj.apply({"schema": "reprise.plan/1", "buckets": [{"unit": "b0", "collectives": names}]}, step,
                           exported=self.out)
        for ours, theirs in zip(jax.tree.leaves(planned(*args)), jax.tree.leaves(step(*args))):
            self.assertEqual(np.asarray(ours).tobytes(), np.asarray(theirs).tobytes())
        self.assertIn("differ along different axes", str(planned.report))

    def test_a_step_of_pmap_and_one_with_a_static_argument(self):
        captured = jnp.linspace(1, 2, 3)

        def step(w, x, times, rate, cut=2.0):
            loss, grads = jax.value_and_grad(lambda w: ((jnp.tanh(x * captured @ w["a"]) @ w["b"]) ** 2).mean() * times)(w)
            grads = jax.lax.pmean(grads, "i")
            return jax.tree.map(lambda w, g: w - rate * jnp.clip(g, -cut, cut), w, grads), jax.lax.pmean(loss, "i")

        w = {"a": jnp.linspace(-1, 1, 12).reshape(3, 4), "b": jnp.linspace(0, 1, 8).reshape(4, 2)}
        x, rate = jnp.linspace(0, 1, 2 * 5 * 3).reshape(2, 5, 3), jnp.float32(0.1)
        sharded = lambda w, x, times, rate: steps.shard_map(
            lambda w, x, rate: step(w, x[0], times, rate), steps.Mesh(np.array(jax.devices()[:2]), "i"),
            (P(), P("i"), P()), (P(), P()), check=False)(w, x, rate)
        stacked = lambda axis: jax.tree.map(lambda leaf: jnp.stack([leaf, leaf], axis), w)
        pmap = lambda **options: jax.pmap(step, "i", static_broadcasted_argnums=2, **options)
        method = type("Trainer", (), {"step": jax.jit(
            lambda self, *args: sharded(*args), static_argnums=(0, 3), donate_argnums=1)})().step
        cases = [
            ("method", method, w, {}),
            ("jit", jax.jit(sharded, static_argnums=2, donate_argnums=0), w, {}),
            ("donated", pmap(in_axes=(0, 0, None, None), donate_argnums=0), stacked(0), {}),
            ("keywords", pmap(in_axes=(0, 0, None, None), donate_argnums=0), stacked(0), {"cut": jnp.full(2, 0.01)}),
            ("another axis", pmap(in_axes=(1, 0, None, None), out_axes=(1, None)), stacked(1), {}),
        ]
        for name, function, first, keywords in cases:
            with self.subTest(name):
                fresh = lambda first=first: jax.tree.map(jnp.array, first)
                exported = rj.export(function, fresh(), x, 2, rate, out=self.out, **keywords)
                self.assertEqual((exported.ranks, exported.loss), (2, "1"))
                planned = rj.apply(thirds(self.json("map.json"), 1), function, exported=self.out)
                self.assertTrue(planned.check(fresh(), x, 2, rate, **keywords))
                ours, theirs, losses = fresh(), fresh(), []
                for times in (2, 2, 2, 5):
                    ours, loss = planned(ours, x, times, rate, **keywords)
                    theirs, expected = function(theirs, x, times, rate, **keywords)
                    losses.append(np.mean(expected))
                    np.testing.assert_allclose(loss, expected, rtol=3e-7)  # Averaged inside another fusion.
                    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs)):
                        self.assertEqual(np.shape(one), np.shape(other))
                        self.assertEqual(np.asarray(one).tobytes(), np.asarray(other).tobytes())
                np.testing.assert_allclose(verifying.run_jax(self.out, 3)[1], losses[:3], rtol=1e-6)

    def test_steps_whose_collectives_partitioning_makes_are_refused(self):
        step = steps.make("auto", 2)
        args = steps.arguments(step, 0)
        rj.export(step.step, *args, out=self.out)
        with self.assertRaisesRegex(rj.RepriseError, "partitioning makes them"):
            rj.apply(thirds(self.json("map.json")), step.step, exported=self.out)(*args)

    def test_a_step_of_nnx_is_exported_and_its_modules_stay_as_they_are(self):
        from flax import nnx

        @nnx.jit
        def train(net, optimizer, x):
            loss, grads = nnx.value_and_grad(lambda net: (net(x) ** 2).mean())(net)
            optimizer.update(*((net, grads) if has_wrt else (grads,)))
            return loss

        net, has_wrt = nnx.Linear(3, 2, rngs=nnx.Rngs(0)), not hasattr(nnx.Optimizer, "model")
        optimizer = nnx.Optimizer(net, optax.adam(1e-2), wrt=nnx.Param)
        has_wrt = not hasattr(optimizer, "model")
        before = np.asarray(net.kernel[...])
        x = jnp.ones((4, 3))
        rj.export(train, net, optimizer, x, out=self.out)
        manifest = self.json("step.json")
        self.assertEqual(door_cases.parameters(manifest, "batch"), ["x"])
        self.assertTrue(any(name.endswith("kernel") for name in door_cases.parameters(manifest, "state")))
        final, losses = verifying.run_jax(self.out, 3)
        np.testing.assert_array_equal(np.asarray(net.kernel[...]), before)
        ours = [float(train(net, optimizer, x)) for _ in range(3)]
        np.testing.assert_allclose(losses, ours, rtol=1e-6)
        kernel = next(a for name, a in final.items() if name.endswith("kernel") and a.shape == before.shape)
        np.testing.assert_allclose(kernel, np.asarray(net.kernel[...]), rtol=1e-6)
        with self.assertRaisesRegex(rj.RepriseError, "nnx.split"):
            rj.apply({"schema": "reprise.plan/1"}, train, exported=self.out)(net, optimizer, x)

    def test_another_step_than_the_exported_one_is_refused(self):
        step, other = steps.make("lstm", 2), steps.make("mlp", 2)
        rj.export(step.step, *steps.arguments(step, 0), out=self.out)
        with self.assertRaisesRegex(rj.RepriseError, "collective 0 of the step is"):
            rj.apply(thirds(self.json("map.json")), other.step, exported=self.out)(*steps.arguments(other, 0))
        with self.assertRaisesRegex(rj.RepriseError, "map.json"):
            rj.apply({"schema": "reprise.plan/1"}, step.step)


if __name__ == "__main__":
    unittest.main()
