#!/usr/bin/env python3
"""Small programs of several ranks with what JAX computes for them: make_collective_cases.py OUT (collective_cases.jsonl
beside this file).

Run by hand with JAX 0.10 on CPU; collective_cases_test reads the file. One line a case: its name, the number of ranks,
the HLO (as lowered, or compiled where the name says so), and for each rank inputs and outputs as base64 of their bytes.
Deterministic for a version of JAX.
"""
import json
import os
import re
import sys

os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from make_cases import encode, name_of, strip

jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_x64", True)

TYPES = [jnp.float32, jnp.bfloat16, jnp.float16, jnp.float64, jnp.int8, jnp.int16, jnp.int32, jnp.int64, jnp.uint8,
         jnp.uint16, jnp.uint32, jnp.uint64]
CASES = {}


def values(dtype, *shape, seed=0):
    rng = np.random.default_rng([seed, *shape])
    if dtype == jnp.bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if jnp.issubdtype(dtype, jnp.floating):
        return np.asarray(jnp.asarray(rng.normal(size=shape)).astype(dtype))
    return rng.integers(0, 9, shape).astype(jnp.dtype(dtype))


def case(name, ranks, function, *inputs, compiled=False, flat=False):
    """`inputs` have the ranks as first axis; `function` sees one rank's part, on a mesh "x" if `flat` or of 2 ranks,
    else "d" by "m"."""
    assert name not in CASES, name
    CASES[name] = (ranks, function, inputs, compiled, flat or ranks == 2)


def reductions():
    for dtype in TYPES:
        x = values(dtype, 4, 5, 3)
        case(f"reduce.{name_of(dtype)}", 4,
             lambda x: (lax.psum(x, "d"), lax.pmax(x, "m"), lax.pmin(x, ("d", "m")), lax.psum(x, ("m", "d"))), x)
        y = values(dtype, 4, 8, 2)
        case(f"scatter.{name_of(dtype)}", 4, lambda y: (
            lax.psum_scatter(y, "m", scatter_dimension=0, tiled=True),
            lax.psum_scatter(y, "d", scatter_dimension=1, tiled=True),
            lax.psum_scatter(y.T, ("d", "m"), scatter_dimension=1, tiled=True)), y)
    case("reduce.two", 2, lambda x: (lax.psum(x, "x"), lax.pmean(x * 2, "x"), lax.pmax(x, "x")),
         values(jnp.float32, 2, 40))
    case("reduce.several", 4, lambda x, y: lax.psum((x, y, x[0] * 2), "d"),
         values(jnp.float32, 4, 3), values(jnp.float32, 4, 2, 2))
    case("reduce.some", 4, lambda x: lax.psum(x, "x", axis_index_groups=[[0, 3], [1, 2]]), values(jnp.float32, 4, 6),
         flat=True)
    case("reduce.compiled", 4, lambda x: (lax.psum(x, "d"), lax.psum_scatter(x, "m", scatter_dimension=1, tiled=True)),
         values(jnp.float32, 4, 4, 6), compiled=True)


def movement():
    for dtype in [*TYPES, jnp.bool_]:
        x = values(dtype, 4, 2, 3)
        case(f"gather.{name_of(dtype)}", 4, lambda x: (
            lax.all_gather(x, "d", axis=0, tiled=True), lax.all_gather(x, "m", axis=1, tiled=True),
            lax.all_gather(x, ("d", "m"), axis=1), lax.all_gather(x, "d", axis=2)), x)
        y = values(dtype, 4, 4, 6)
        case(f"exchange.{name_of(dtype)}", 4, lambda y: (
            lax.all_to_all(y, "d", 0, 0, tiled=True), lax.all_to_all(y, "m", 1, 1, tiled=True),
            lax.all_to_all(y, "m", 0, 1, tiled=True), lax.all_to_all(y, ("d", "m"), 0, 1, tiled=True),
            lax.all_to_all(y.reshape(2, 2, 6), "d", 1, 2)), y)
        case(f"permute.{name_of(dtype)}", 4, lambda x: (
            lax.ppermute(x, "d", [(0, 1), (1, 0)]), lax.ppermute(x, "m", [(1, 0)]),
            lax.ppermute(x, ("d", "m"), [(0, 2), (2, 3), (3, 1)]), lax.pshuffle(x, "m", [1, 0])), x)
    x = values(jnp.float32, 4, 4, 6)
    for compiled in (False, True):
        form = ".compiled" if compiled else ""
        case(f"movement.mixed{form}", 4, lambda x: (
            lax.all_gather(lax.all_to_all(x, "m", 1, 1, tiled=True), "d", axis=1, tiled=True),
            lax.all_to_all(x, ("d", "m"), 0, 1, tiled=True), lax.ppermute(x, "m", [(0, 1)])), x, compiled=compiled)
    case("gather.some", 4, lambda x: lax.all_gather(x, "x", axis_index_groups=[[0, 2], [1, 3]]),
         values(jnp.float32, 4, 6), flat=True)
    case("exchange.two", 2, lambda x: lax.all_to_all(x, "x", 1, 0, tiled=True), values(jnp.float32, 2, 3, 8))
    case("ids", 4, lambda x: (x + lax.axis_index("d"), x * lax.axis_index("m")), values(jnp.int32, 4, 3))


def gradients():
    w = values(jnp.float32, 4, 6, 6)
    def loss(x, w):
        h = lax.all_to_all(x @ w, "m", 1, 0, tiled=True)
        h = lax.ppermute(jnp.tanh(h), "d", [(0, 1), (1, 0)])
        h = lax.all_gather(h, "m", axis=1, tiled=True)
        return (lax.psum_scatter(h * h, "d", scatter_dimension=0, tiled=True)).sum()
    case("gradient", 4, lambda x, w: jax.grad(loss, argnums=(0, 1))(x, w), values(jnp.float32, 4, 4, 6), w)
    case("gradient.compiled", 4, lambda x, w: jax.grad(loss, argnums=(0, 1))(x, w), values(jnp.float32, 4, 4, 6), w,
         compiled=True)


def loops():
    x = values(jnp.float32, 4, 3, 4)

    def pipeline(x):
        def body(carry, t):
            carry = lax.ppermute(jnp.sin(carry) + t, "x", [(0, 1), (1, 2), (2, 3)])
            return carry, lax.psum(carry, "x")
        return lax.scan(body, x, jnp.arange(5, dtype=jnp.float32))

    case("scan", 4, pipeline, x, flat=True)
    case("scan.compiled", 4, pipeline, x, compiled=True, flat=True)
    case("scan.gradient", 4, lambda x: jax.grad(lambda x: pipeline(x)[1].sum())(x), x, flat=True)
    case("scan.groups", 4, lambda x: lax.fori_loop(
        0, 3, lambda i, c: lax.all_to_all(c + lax.psum(c, "d"), "m", 0, 0, tiled=True), x), values(jnp.float32, 4, 4, 2))
    case("scan.gathers", 2, lambda x: lax.fori_loop(
        0, 4, lambda i, c: lax.psum_scatter(lax.all_gather(c, "x", axis=1, tiled=True), "x", scatter_dimension=1,
                                            tiled=True) * 0.5, x), values(jnp.float32, 2, 3, 4))
    # How often is known only when it runs: until the sum over all ranks, taken in the condition, is large.
    case("while", 4, lambda x: lax.while_loop(lambda c: lax.psum(c.sum(), "x") < 500.0,
                                              lambda c: c * 1.5 + lax.pmax(c, "x"), jnp.abs(x)), x, flat=True)
    case("scan.nested", 2, lambda x: lax.fori_loop(0, 2, lambda i, c: lax.fori_loop(
        0, 3, lambda j, d: lax.ppermute(d * 1.1, "x", [(0, 1), (1, 0)]), c) + lax.psum(c, "x"), x),
         values(jnp.float32, 2, 5))
    for which in (0, 1):
        case(f"cond.{which}", 4, lambda x, which=which: lax.cond(
            lax.psum(x[0, 0] * 0 + which, "x") > 0, lambda x: lax.psum(x, "x"),
            lambda x: lax.ppermute(x, "x", [(0, 3), (3, 0)]), x), x, flat=True)


def run(ranks, function, inputs, compiled, flat):
    devices = np.array(jax.devices()[:ranks])
    mesh = Mesh(devices, ("x",)) if flat else Mesh(devices.reshape(2, 2), ("d", "m"))
    spec = P(mesh.axis_names)

    def body(*parts):
        results = function(*(p[0] for p in parts))
        return jax.tree.map(lambda r: r[None], results)

    step = jax.jit(jax.shard_map(body, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False))
    placed = [jax.device_put(x, NamedSharding(mesh, spec)) for x in inputs]
    lowered = step.lower(*placed)
    text = lowered.as_text("hlo")
    if compiled:  # Tables of the source stand between its header and its code.
        table = r"\n(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:\d+ .*\n)*"
        text = re.sub(table, "\n", lowered.compile().as_text())
    outputs = [np.asarray(o) for o in jax.tree.leaves(step(*placed))]
    by_rank = lambda arrays: [[encode(a[rank]) for a in arrays] for rank in range(ranks)]
    return {"ranks": ranks, "hlo": strip(text), "inputs": by_rank(inputs), "outputs": by_rank(outputs)}


def main():
    for group in (reductions, movement, gradients, loops):
        group()
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        for name, one in CASES.items():
            try:
                record = {"name": name, **run(*one)}
            except Exception as error:
                raise RuntimeError(f"case {name}") from error
            out.write(json.dumps(record, separators=(",", ":")) + "\n")
    print(f"{len(CASES)} cases")


if __name__ == "__main__":
    main()
