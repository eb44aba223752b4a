"""export and load_state on two CPU devices, with the JAX of this interpreter."""

import functools
import inspect
import json
import pathlib
import tempfile
import unittest

import jax

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_num_cpu_devices", 2)

# pylint: disable=wrong-import-position
import jax.numpy as jnp
import numpy as np
import steps
from jax.experimental.compilation_cache import compilation_cache
from jax.sharding import PartitionSpec as P

import reprise.jax as rj
from reprise import hlo, tensors
from reprise.jax import dump, verifying


class Folder(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.out = pathlib.Path(directory.name) / "run"

    def json(self, name):
        return json.loads((self.out / name).read_text())


def parameters(manifest, role):
    return [p["name"] for p in manifest["parameters"] if p["role"] == role]


class Export(Folder):
    def export(self, step, *args, **options):
        return rj.export(step, *args, out=self.out, **options)

    def test_every_step_is_exported_with_state_that_its_parameters_fit(self):
        for name in steps.STEPS:
            with self.subTest(step=name):
                step = steps.make(name, 2)
                done = self.export(step.step, *steps.arguments(step, 0), data=step.batch, steps=3)
                self.assertEqual(done.ranks, 2)
                self.assertTrue(done.loss)
                self.check_files(step)

    def check_files(self, step):
        manifest, module = self.json("step.json"), hlo.parse((self.out / "step.hlo").read_text())
        state = tensors.load(self.out / "state.safetensors")
        batches = tensors.load(self.out / "batches.safetensors")
        self.assertEqual(len(manifest["parameters"]), len(module.parameters()))
        for parameter, (kind, shape) in zip(manifest["parameters"], module.parameters()):
            if parameter["role"] == "state":
                array = state[parameter["init"]["name"]]
                array = array[0] if parameter["init"].get("per_rank") else array
            else:
                array = batches[parameter["field"]]
                self.assertEqual(array.shape[:2], (3, 2))
                array = array[0, 0]
            self.assertEqual((tensors.hlo_type(array.dtype), list(array.shape)), (kind, shape), parameter)
        updated = {o["parameter"] for o in manifest["outputs"] if o["role"] == "state"}
        self.assertEqual(updated, {p["index"] for p in manifest["parameters"] if p["role"] == "state"})
        leaves = jax.tree_util.tree_leaves([steps.arguments(step, 0)[i] for i in step.donated])
        self.assertEqual(len(leaves), len(updated))

    def test_a_warm_compilation_cache_changes_nothing_and_stays_on(self):
        old = jax.config.jax_compilation_cache_dir
        with tempfile.TemporaryDirectory() as cache:
            jax.config.update("jax_compilation_cache_dir", cache)
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
            jax.config.update("jax_persistent_cache_min_entry_size_bytes", 0)
            try:
                step = jax.jit(lambda w, x: (w - x.mean(), (w * x).sum()), donate_argnums=0)
                args = (jnp.ones(4), jnp.ones(4))
                step.lower(*args).compile()
                self.assertTrue(any(pathlib.Path(cache).rglob("*")), "the cache is not warm")
                self.export(step, *args)
                self.export(step, *args)
                self.assertTrue(jax.config.jax_enable_compilation_cache)
                before = len(list(pathlib.Path(cache).rglob("*")))
                jax.jit(lambda x: x * 3).lower(jnp.ones(4)).compile()
                self.assertGreater(len(list(pathlib.Path(cache).rglob("*"))), before)
            finally:
                jax.config.update("jax_compilation_cache_dir", old)
                compilation_cache.reset_cache()

    def test_a_step_that_cannot_be_taken_says_what_to_do(self):
        state, x = jnp.ones(4), jnp.ones(4)
        step = jax.jit(lambda w, x: (w - x, w.sum()))

        def ordered(w, x):
            jax.debug.callback(lambda loss: None, w.sum(), ordered=True)
            return w - x, w.sum()

        def within(w):
            self.export(step, w, x)
            return w

        refused = self.assertRaisesRegex
        with refused(rj.RepriseError, "ordered=True.*leave the order out"):
            self.export(jax.jit(ordered), state, x)
        with refused(rj.RepriseError, "an argument is traced.*export outside"):
            jax.jit(within)(state)
        with refused(rj.RepriseError, "jax_disable_jit is set"), jax.disable_jit():
            self.export(step, state, x)
        with refused(rj.RepriseError, "steps=0: a training has one at least"):
            self.export(step, state, x, steps=0)
        self.export(step, state, x)
        with refused(rj.RepriseError, "steps=0: a training has one at least"):
            rj.verify(self.out, steps=0)
        with refused(rj.RepriseError, "is no folder, nor can one be made"):
            rj.export(step, state, x, out=self.out / "step.hlo")
        if hasattr(jax, "new_ref"):
            with refused(rj.RepriseError, "a reference that the step writes.*take and return"):
                self.export(jax.jit(lambda w, x: (w[...] * x).sum()), jax.new_ref(state), x)

    def test_the_arguments_stay_alive(self):
        state = jnp.ones(4)
        self.export(jax.jit(lambda w, x: (w - x, w.sum()), donate_argnums=0), state, jnp.ones(4))
        self.assertEqual(float(state.sum()), 4)

    def test_captured_arrays_and_unused_leaves_keep_parameters_in_place(self):
        table = jnp.arange(4000.0).reshape(40, 100)
        step = jax.jit(lambda s, x: ({"w": s["w"] + table[:4, :4].sum() * x, "z": jnp.zeros(3)}, x.sum()))
        self.export(step, {"w": jnp.ones(4), "z": jnp.ones(3)}, jnp.ones(4))
        manifest = self.json("step.json")
        names = [n for n in parameters(manifest, "state") if not n.startswith("captured.")]
        self.assertEqual(names, [n for n in ("s.w", "s.z") if n in names])
        self.assertIn("s.w", names)
        module = hlo.parse((self.out / "step.hlo").read_text())
        self.assertEqual(len(module.parameters()), len(manifest["parameters"]))

    def test_state_may_hold_none_beside_leaves_on_two_devices(self):
        mesh = steps.data_mesh(2)
        step = jax.jit(steps.shard_map(lambda s, x: ({"w": s["w"] - jax.lax.pmean(x.mean(), "data"), "none": None}, x.sum()),
                                       mesh, (P(), P("data")), (P(), P()), check=False), donate_argnums=0)
        args = (steps.place(mesh, {"w": jnp.ones(3), "none": None}), steps.place(mesh, jnp.ones(4), P("data")))
        done = self.export(step, *args)
        self.assertEqual(done.ranks, 2)
        self.assertEqual(parameters(self.json("step.json"), "state"), ["s.w"])
        self.assertEqual(tensors.load(self.out / "batches.safetensors")["x"].shape, (1, 2, 2))

    def test_a_result_order_other_than_the_arguments_is_paired_by_name_not_by_donation(self):
        step = jax.jit(lambda a, b, x: {"b": b + x, "a": a - x, "loss": x.sum()}, donate_argnums=(0, 1))
        self.export(step, jnp.ones(4), jnp.zeros(4), jnp.ones(4))
        outputs = self.json("step.json")["outputs"]
        self.assertEqual([(o["role"], o.get("parameter")) for o in outputs], [("state", 0), ("state", 1), ("loss", None)])
        swapped = jax.jit(lambda a, b, x: (dict(q=b["q"] + x), dict(p=a["p"] - x), x.sum()), donate_argnums=(0, 1))
        self.export(swapped, {"p": jnp.ones(4)}, {"q": jnp.ones(4)}, jnp.ones(4))
        outputs = self.json("step.json")["outputs"]
        self.assertEqual([o.get("parameter") for o in outputs], [1, 0, None])
        self.assertNotIn("input_output_alias", (self.out / "step.hlo").read_text().splitlines()[0])

    def test_batches_come_from_iterators_functions_and_arrays(self):
        step = jax.jit(lambda w, x, y: (w - x.mean() + y.sum(), w.sum()), donate_argnums=0)
        args = (jnp.ones(2), jnp.zeros((4, 2)), jnp.zeros(4, jnp.int32))
        xs, ys = np.random.default_rng(0).normal(size=(3, 4, 2)), np.arange(12).reshape(3, 4)
        stored = []
        for data in (zip(xs, ys), lambda t: (xs[t % 3], ys[t % 3]), (xs, ys), [(x, y) for x, y in zip(xs, ys)]):
            self.export(step, *args, data=data, steps=3)
            stored.append(tensors.load(self.out / "batches.safetensors"))
            self.assertEqual(self.json("step.json")["dataset"]["steps"], 3)
        for other in stored:
            np.testing.assert_array_equal(other["argument_1" if "argument_1" in other else "x"][:, 0],
                                          xs.astype(np.float32))
            self.assertEqual([a.tobytes() for a in other.values()], [a.tobytes() for a in stored[0].values()])

    def test_what_is_likely_not_meant_is_noted(self):
        def grows(state, x):
            return {"w": state["w"] - x.mean(), "seen": jnp.concatenate([state["seen"], x[:1]])}, x.sum()

        state, x = {"w": jnp.ones(2), "seen": jnp.zeros(3)}, jnp.ones(4)
        done = self.export(jax.jit(grows), state, x)
        self.assertTrue(any("state is taken for a batch, not for state: state.seen goes in as float32[3] and comes out, in "
                            "result 0.seen, as float32[4]" in note for note in done.notes), done.notes)
        part = jax.jit(lambda s, x: ({"w": s["p"]["w"] - x.mean(), "b": s["p"]["b"]}, x.sum()))
        whole = {"p": {"w": jnp.ones(2), "b": jnp.ones(3)}, "frozen": jnp.ones(3)}
        for data, role in ((None, "a batch, not for state"), ([x], "state that no result updates")):
            done = self.export(part, whole, x, data=data)
            self.assertIn(f"s is taken for {role}: result 0 has the leaves of s.p: return s whole, with these in it, or "
                          "give s.p as an argument of its own", done.notes)
        step = jax.jit(lambda w, x: (w - x.mean(), (w * x).sum()), donate_argnums=0)
        few = "data= gave 2 of 3 batches: training begins with the first again"
        self.assertIn(few, self.export(step, jnp.ones(4), x, data=iter([(x,), (x,)]), steps=3).notes)
        self.assertEqual(self.export(step, jnp.ones(4), x, data=iter([(x,), (x,), (x,)]), steps=3).notes, [])

    def test_gradients_in_the_place_of_the_next_state_are_noted(self):
        loss = lambda p, x, y: ((jnp.tanh(x @ p["w"] + p["b"]) - y) ** 2).mean()
        rng = np.random.RandomState(0)
        x, y = rng.randn(8, 4).astype(np.float32), rng.randn(8, 2).astype(np.float32)
        both = jax.value_and_grad(loss)
        mesh = steps.data_mesh(2)
        mean = lambda *args: jax.lax.pmean(both(*args), "data")
        split = steps.shard_map(mean, mesh, (P(), P("data"), P("data")), P(), check=False)

        def descends(p, x, y):
            value, gradient = both(p, x, y)
            return value, jax.tree.map(lambda a, b: a - 0.1 * b, p, gradient)

        for step, is_noted in ((both, True), (split, True), (descends, False)):
            p = {"w": jnp.asarray(rng.randn(4, 2), jnp.float32), "b": jnp.zeros(2)}
            done = self.export(jax.jit(step, donate_argnums=0), p, x, y, data=lambda t: (x, y))
            self.assertEqual(any("is the gradient of the loss" in note for note in done.notes), is_noted, done.notes)
            np.testing.assert_array_equal(np.asarray(p["b"]), np.zeros(2))

    def test_a_batch_may_be_one_tuple_or_keywords(self):
        xs, ys = np.random.default_rng(0).normal(size=(3, 4, 2)), np.arange(12).reshape(3, 4)
        x, y = jnp.zeros((4, 2)), jnp.zeros(4, jnp.int32)
        step = jax.jit(lambda w, batch: (w - batch[0].mean() + batch[1].sum(), w.sum()))
        for data in (zip(xs, ys), (xs, ys), [(x, y) for x, y in zip(xs, ys)], [((x, y),) for x, y in zip(xs, ys)],
                     [[x, y] for x, y in zip(xs, ys)]):
            self.export(step, jnp.ones(2), (x, y), data=data, steps=3)
            stored = tensors.load(self.out / "batches.safetensors")
            np.testing.assert_array_equal([v[:, 0] for v in stored.values()][0], xs.astype(np.float32))
        step = jax.jit(lambda w, *, x, y: (w - x.mean() + y.sum(), w.sum()))
        self.export(step, jnp.ones(2), x=x, y=y, data=[{"y": y, "x": x} for x, y in zip(xs, ys)], steps=3)
        stored = tensors.load(self.out / "batches.safetensors")
        np.testing.assert_array_equal(stored["y"][:, 0], ys)

    def test_data_tell_the_batches_where_a_result_looks_like_one(self):
        def step(w, x, y):
            return w - x.mean() + y.sum(), x * w, (x * w).sum()

        args = (jnp.ones(2), jnp.ones((4, 2)), jnp.zeros(4, jnp.int32))
        xs, ys = np.random.default_rng(0).normal(size=(3, 4, 2)), np.arange(12).reshape(3, 4)
        calls = []
        forms = ((xs, ys), lambda t: calls.append(t) or (xs[t], ys[t]), zip(xs, ys), [[x, y] for x, y in zip(xs, ys)])
        for data in forms:
            self.export(jax.jit(step), *args, data=data, steps=3)
            manifest = self.json("step.json")
            self.assertEqual((parameters(manifest, "state"), parameters(manifest, "batch")), (["w"], ["x", "y"]))
            stored = tensors.load(self.out / "batches.safetensors")
            np.testing.assert_array_equal(stored["x"][:, 0], xs.astype(np.float32))
        self.assertEqual(calls, [0, 1, 2])
        with self.assertRaisesRegex(rj.RepriseError, "data= gives batches, but"):
            self.export(jax.jit(lambda w: (w - 1, w.sum())), jnp.ones(2), data=[jnp.ones(3)])

    def test_keyword_arguments_and_named_batches(self):
        step = jax.jit(lambda w, *, x, frozen: (w - (x * frozen).mean(), w.sum()))
        self.export(step, jnp.ones(2), x=jnp.ones(2), frozen=jnp.ones(2), batch="x")
        manifest = self.json("step.json")
        self.assertEqual((parameters(manifest, "batch"), parameters(manifest, "state")), (["x"], ["w", "frozen"]))

    def test_static_arguments_are_part_of_the_program(self):
        def step(w, count, key, x, *, rate, mode="mean"):
            key, mine = jax.random.split(key)
            noise = jax.random.normal(mine, w.shape)
            return w - rate * getattr(x, mode)() + 1e-3 * count * noise, key, {"loss": w.sum()}

        step = jax.jit(step, static_argnums=1, static_argnames="mode", donate_argnums=0)
        for key in (jax.random.key(0), jax.random.PRNGKey(0)):
            args = (jnp.ones(2), 3, key, jnp.ones(2))
            self.export(step, *args, rate=0.5, mode="sum", data=lambda t: jnp.full(2, float(t)), steps=3)
            manifest = self.json("step.json")
            self.assertEqual(parameters(manifest, "state"), ["w", "key"])
            self.assertEqual(parameters(manifest, "batch"), ["x", "rate"])
            batches = tensors.load(self.out / "batches.safetensors")
            self.assertEqual(batches["rate"].ravel().tolist(), [0.5] * 3)
            again, _ = verifying.run_jax(self.out, 3)
            state = jnp.ones(2)
            for t in range(3):
                state, key, _ = step(state, 3, key, jnp.full(2, float(t)), rate=0.5, mode="sum")
            np.testing.assert_array_equal(again["w"], np.asarray(state))

    def test_a_step_may_be_a_method_that_its_class_jits(self):
        class Trainer:
            rate = 0.5

            @functools.partial(jax.jit, static_argnums=0)
            def step(self, w, x):
                return w - self.rate * x, x.sum()

        self.export(Trainer().step, jnp.ones(2), jnp.ones(2), data=lambda t: jnp.full(2, float(t)), steps=3)
        manifest = self.json("step.json")
        self.assertEqual((parameters(manifest, "state"), parameters(manifest, "batch")), (["w"], ["x"]))
        again, _ = verifying.run_jax(self.out, 3)
        np.testing.assert_array_equal(again["w"], np.float32([-0.5, -0.5]))
        partial = functools.partial(jax.jit(lambda rate, w, x: (w - rate * x, x.sum()), static_argnums=0), 0.5)
        self.export(partial, jnp.ones(2), jnp.ones(2))
        self.assertEqual(parameters(self.json("step.json"), "state"), ["w"])

    def test_a_step_may_be_an_object_whose_call_is_jitted(self):
        class Trainer:
            rate = 0.5

            @functools.partial(jax.jit, static_argnums=0)
            def __call__(self, w, x):
                return w - self.rate * x, x.sum()

        self.export(Trainer(), jnp.ones(2), jnp.ones(2), data=lambda t: jnp.full(2, float(t)), steps=3)
        again, _ = verifying.run_jax(self.out, 3)
        np.testing.assert_array_equal(again["w"], np.float32([-0.5, -0.5]))
        with self.assertRaisesRegex(rj.RepriseError, "is not jitted"):
            self.export(lambda w, x: (w - x, x.sum()), jnp.ones(2), jnp.ones(2))

    def test_a_step_may_hold_its_model_as_nnx_cached_partial_does(self):
        try:
            from flax import nnx
            import optax
            nnx.cached_partial
        except (ImportError, AttributeError) as lacking:
            self.skipTest(str(lacking))
        model = nnx.Linear(3, 2, rngs=nnx.Rngs(0))
        optimizer = nnx.Optimizer(model, optax.sgd(0.1), wrt=nnx.Param)
        takes_model = "model" in inspect.signature(nnx.Optimizer.update).parameters  # From flax 0.11 on.

        @nnx.jit
        def step(model, optimizer, x):
            loss, grads = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
            optimizer.update(*([model, grads] if takes_model else [grads]))
            return loss

        data = lambda t: jnp.full((4, 3), float(t + 1))
        self.export(nnx.cached_partial(step, model, optimizer), data(0), data=data, steps=3)
        again, losses = verifying.run_jax(self.out, 3)
        held = [float(step(model, optimizer, data(t))) for t in range(3)]
        np.testing.assert_allclose(losses, held, rtol=1e-6)

    def test_a_step_may_be_a_method_of_an_equinox_module(self):
        try:
            import equinox
        except ImportError as lacking:
            self.skipTest(str(lacking))

        class Net(equinox.Module):
            w: jax.Array

            @equinox.filter_jit
            def step(self, x):
                return equinox.tree_at(lambda net: net.w, self, self.w - x), x.sum()

        self.export(Net(jnp.ones(2)).step, jnp.ones(2), data=lambda t: jnp.full(2, float(t)), steps=3)
        again, _ = verifying.run_jax(self.out, 3)
        np.testing.assert_array_equal(next(iter(again.values())), np.float32([-2, -2]))

        class Called(equinox.Module):
            w: jax.Array

            @equinox.filter_jit
            def __call__(self, x):
                return equinox.tree_at(lambda net: net.w, self, self.w - x), x.sum()

        self.export(Called(jnp.ones(2)), jnp.ones(2), data=lambda t: jnp.full(2, float(t)), steps=3)
        again, _ = verifying.run_jax(self.out, 3)
        np.testing.assert_array_equal(next(iter(again.values())), np.float32([-2, -2]))

    def test_what_training_leaves_out_of_python_is_said(self):
        def step(w, x):
            jax.debug.print("sum {}", x.sum())
            return w - x, x.sum()

        exported = self.export(jax.jit(step), jnp.ones(2), jnp.ones(2))
        self.assertIn("calls Python", str(exported))
        self.assertNotIn("calls Python", str(self.export(jax.jit(lambda w, x: (w - x, x.sum())), jnp.ones(2), jnp.ones(2))))

    @unittest.skipUnless(hasattr(jax, "set_mesh"), "this JAX has no set_mesh")
    def test_a_mesh_that_the_user_has_set_is_no_matter(self):
        dump.combines_constants.cache_clear()
        dump.takes_reciprocals.cache_clear()
        dump.rounds_products_of_half.cache_clear()
        step = steps.make("mlp", 2)
        with jax.set_mesh(steps.data_mesh(2)):
            done = self.export(step.step, *steps.arguments(step, 0), data=step.batch, steps=2)
        self.assertEqual(done.ranks, 2)

    def test_state_that_comes_out_split_otherwise_goes_in_as_it_comes_out(self):
        mesh = jax.sharding.Mesh(np.array(jax.devices()[:2]), ("d",))
        split, same = (jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes)) for axes in (["d"], []))

        def step(count, w, x):
            return jax.lax.with_sharding_constraint(w - count * x, split), (w * x).sum()

        values = 2, jax.device_put(jnp.arange(8.0), same), jax.device_put(jnp.ones(8), same)
        free = jax.jit(step, static_argnums=0)
        self.export(free, *values)
        state = tensors.load(self.out / "state.safetensors")
        self.assertEqual(state["w"].tolist(), [[0, 1, 2, 3], [4, 5, 6, 7]])
        np.testing.assert_array_equal(verifying.run_jax(self.out, 3)[0]["w"], state["w"] - 6)
        again = verifying._step_of(self.out, free, values, {})
        self.assertEqual(again.in_shardings[0].shard_shape((8,)), (4,))
        with self.assertRaisesRegex(rj.RepriseError, "not those that were exported .* w differs"):
            verifying._step_of(self.out, free, (2, jnp.ones(6), jnp.ones(6)), {})
        fixed = jax.jit(step, static_argnums=0, in_shardings=(same, same))
        with self.assertRaisesRegex(rj.RepriseError, r"w goes in as \(8,\) .* comes out as \(4,\).*in_shardings="):
            self.export(fixed, *values)

    def test_state_that_comes_out_in_another_type_goes_in_as_it_comes_out(self):
        def step(state, x):
            mean = 0.5 * state["mean"] + x
            return {"mean": mean, "w": state["w"] - mean}, x.sum()

        state = {"mean": jnp.zeros(2, jnp.bfloat16), "w": jnp.ones(2)}
        self.export(jax.jit(step), state, jnp.float32([0.1, 0.3]))
        np.testing.assert_allclose(verifying.run_jax(self.out, 2)[0]["state.mean"], [0.15, 0.45], rtol=1e-6)
        again = verifying._step_of(self.out, jax.jit(step), (state, jnp.float32([0.1, 0.3])), {})
        self.assertEqual(str(again.leaves[0].dtype), "float32")
        self.assertEqual(str(rj.load_state(self.out, like=state)["mean"].dtype), "float32")
        with self.assertRaisesRegex(rj.RepriseError, "mean is float32.* in the file, float16"):
            rj.load_state(self.out, like={"mean": jnp.zeros(2, jnp.float16), "w": jnp.ones(2)})
        turning = jax.jit(lambda state, x: ({"m": state["m"].astype(
            jnp.float32 if state["m"].dtype == jnp.bfloat16 else jnp.bfloat16)}, x.sum()))
        with self.assertRaisesRegex(rj.RepriseError, "in every step"):
            self.export(turning, {"m": state["mean"]}, jnp.ones(2))

    def test_mistakes_say_what_to_do(self):
        deleted = jnp.ones(2)
        deleted.delete()
        good = jax.jit(lambda w, x: (w - x, w.sum()), donate_argnums=0)
        lowered, named = good.lower(jnp.ones(2), jnp.ones(2)), {"w": jnp.ones(2), "batch": jnp.ones(2)}
        cases = [
            ("not jitted", lambda w, x: w, (jnp.ones(2), jnp.ones(2)), {}),
            ("around a jitted one", functools.wraps(good)(lambda *args: good(*args)), (jnp.ones(2), jnp.ones(2)), {}),
            ("give what jax.jit returned", lowered, (jnp.ones(2), jnp.ones(2)), {}),
            ("give what jax.jit returned", lowered.compile(), (jnp.ones(2), jnp.ones(2)), {}),
            ("batch= is an option of export itself: give the step's", jax.jit(lambda w, batch: (w, batch)), (), named),
            ("batch= is an option of export itself: call", jax.jit(lambda *, w, batch: (w, batch)), (), named),
            ("is donated, but", jax.jit(lambda w, x: (w[:1], x.sum()), donate_argnums=0), (jnp.ones(2), jnp.ones(2)), {}),
            ("no argument of the step", good, (jnp.ones(2), jnp.ones(2)), {"batch": "y"}),
            ("name the loss", jax.jit(lambda w, x: (w - x, x.sum(), w.sum())), (jnp.ones(2), jnp.ones(2)), {}),
            ("gave no batch", good, (jnp.ones(2), jnp.ones(2)), {"data": []}),
            ("batch 0: x is", good, (jnp.ones(2), jnp.ones(2)), {"data": [jnp.ones(3)]}),
            ("the step takes .x. of", good, (jnp.ones(2), jnp.ones(2)), {"data": [{"z": jnp.ones(2)}]}),
            ("export before the first step", good, (deleted, jnp.ones(2)), {}),
            ("name the keys otherwise", jax.jit(lambda w, x: (w, x.sum())),
             ({"a.b": jnp.ones(2), "a": {"b": jnp.ones(2)}}, jnp.ones(2)), {}),
            ("needs its first value", good, (jax.ShapeDtypeStruct((2,), jnp.float32), jnp.ones(2)), {}),
        ]
        for message, step, args, options in cases:
            with self.subTest(message), self.assertRaisesRegex(rj.RepriseError, message):
                self.export(step, *args, **options)
        self.assertFalse(self.out.exists() and any(self.out.glob("*.json")))


if __name__ == "__main__":
    unittest.main()
