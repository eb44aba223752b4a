#!/usr/bin/env python3
"""Writes one small training step in the dialects that JAX has; run by hand, with JAX 0.5.3 and 0.10.2.

  XLA_FLAGS=--xla_force_host_platform_device_count=2 python3 export_dialects.py OUT
"""

import pathlib
import re
import sys
import tempfile

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

try:
    from jax import shard_map
    UNCHECKED = {"check_vma": False}
except ImportError:
    from jax.experimental.shard_map import shard_map
    UNCHECKED = {"check_rep": False}

MESH = Mesh(np.array(jax.devices()[:2]), ("dp",))


@jax.jit
def layer(x, w, b):
    return jnp.tanh(x @ w + b)


def loss_of(params, x, y):
    return jnp.mean((layer(x, params["w"], params["b"]) @ params["v"] - y) ** 2)


def update(state, grads):
    count = state["opt"]["count"] + 1
    mu = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, state["opt"]["mu"], grads)
    nu = jax.tree.map(lambda m, g: 0.99 * m + 0.01 * g * g, state["opt"]["nu"], grads)
    scale = 0.01 / (1 - 0.9 ** count.astype(jnp.float32))
    params = jax.tree.map(lambda p, m, n: p - scale * m / (jnp.sqrt(n) + 1e-3), state["params"], mu, nu)
    return {"params": params, "opt": {"mu": mu, "nu": nu, "count": count}}


def manual_step(state, x, y):
    def on_rank(state, x, y):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
        grads = jax.tree.map(lambda g: jax.lax.pmean(g, "dp"), grads)
        return update(state, grads), jax.lax.pmean(loss, "dp")
    return shard_map(on_rank, mesh=MESH, in_specs=(P(), P("dp"), P("dp")), out_specs=(P(), P()),
                     **UNCHECKED)(state, x, y)


def automatic_step(state, x, y):
    loss, grads = jax.value_and_grad(loss_of)(state["params"], x, y)
    return update(state, grads), loss


def main(out):
    out = pathlib.Path(out)
    version = jax.__version__

    def write(name, text):
        # No path of this machine.
        (out / f"{name}.{version}.hlo").write_text(re.sub(r'"[^"\n]*/([^"/\n]*\.py)"', r'"\1"', text))

    params = {"w": jnp.ones((4, 3)), "b": jnp.zeros(3), "v": jnp.ones((3, 2))}
    zeros = jax.tree.map(jnp.zeros_like, params)
    state = {"params": params, "opt": {"mu": zeros, "nu": zeros, "count": jnp.zeros((), jnp.int32)}}
    x, y = jnp.ones((8, 4)), jnp.ones((8, 2))
    lowered = jax.jit(manual_step, donate_argnums=0).lower(state, x, y)
    write("manual_lowered", lowered.as_text("hlo"))
    with tempfile.TemporaryDirectory() as dump:
        write("manual_compiled", lowered.compile(compiler_options={
            "xla_dump_to": dump, "xla_dump_hlo_as_text": True,
            "xla_dump_hlo_pass_re": "spmd-partitioning"}).as_text())
        (path,) = pathlib.Path(dump).glob("*jit_manual_step*.after_spmd-partitioning.*.txt")
        write("manual_partitioned", path.read_text())
    whole, split = NamedSharding(MESH, P()), NamedSharding(MESH, P("dp"))
    lowered = jax.jit(automatic_step, donate_argnums=0, in_shardings=(whole, split, split),
                      out_shardings=(whole, whole)).lower(state, x, y)
    write("automatic_lowered", lowered.as_text("hlo"))
    write("automatic_compiled", lowered.compile().as_text())


if __name__ == "__main__":
    main(sys.argv[1])
