"""What sharded steps take of memory beside XLA's program of the same step, with the JAX of this interpreter."""

import json
import os
import subprocess
import unittest

import door_cases  # Sets the number of devices.
import jax
import jax.numpy as jnp
import steps
from jax.sharding import PartitionSpec as P

import reprise.jax as rj

LAYERS, WIDTH, ROWS, MOST = 10, 256, 64, 1.1


def fully_sharded(rematerialises):
    """A chain of layers, each weight a shard on both ranks and gathered where it is read; (step, weights, x, y)."""
    mesh = steps.data_mesh(2)

    def layer(h, shard):
        return jnp.tanh(h @ jax.lax.all_gather(shard, "data", tiled=True))

    run = jax.checkpoint(layer) if rematerialises else layer

    def step(shards, x, y):
        def loss(shards):
            h = x
            for shard in shards:
                h = run(h, shard)
            return jnp.mean((h - y) ** 2)

        value, gradients = jax.value_and_grad(loss)(shards)
        return [w - 0.1 * g for w, g in zip(shards, gradients)], jax.lax.pmean(value, "data")

    sharded = steps.shard_map(step, mesh, (P("data"), P("data"), P("data")), (P("data"), P()), check=False)
    keys = jax.random.split(jax.random.PRNGKey(0), LAYERS + 1)
    weights = [jax.random.normal(key, (WIDTH, WIDTH)) * WIDTH**-0.5 for key in keys[1:]]
    x = jax.random.normal(keys[0], (2 * ROWS, WIDTH))
    return jax.jit(sharded, donate_argnums=0), weights, x, x[::-1]


class Memory(door_cases.Folder):
    def test_gathered_weights_take_no_more_than_xla_gives_them(self):
        for rematerialises in (False, True):
            with self.subTest(rematerialises=rematerialises):
                step, *arguments = fully_sharded(rematerialises)
                theirs = step.lower(*arguments).compile().memory_analysis()
                xla = (theirs.argument_size_in_bytes + theirs.output_size_in_bytes + theirs.temp_size_in_bytes
                       - theirs.alias_size_in_bytes)
                out = self.out.with_name(f"run{rematerialises}")
                rj.export(step, *arguments, out=out, data=[arguments[1:]])
                done = subprocess.run(
                    [os.path.join(os.environ["REPRISE_BIN"], "reprise"), "train", "-n", "2", str(out / "step.hlo"),
                     "--steps", "1", "--warmup", "0", "--format", "json"], capture_output=True, text=True)
                self.assertEqual(done.returncode, 0, done.stderr)
                ours = int(json.loads(done.stdout)["arena_bytes"])
                self.assertLessEqual(ours, MOST * xla, f"{ours} bytes, XLA {xla}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
