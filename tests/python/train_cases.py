"""Exports, trains and compares; with --apply each step's plan goes back to JAX, without it mlp's. See train_test.py.
Prints a line a step and rank count."""

import argparse
import importlib.metadata
import os
import subprocess
import sys
import tempfile

# Relative L2 of the change after 20 steps where it may be over 1e-4. In bfloat16, twice what JAX 0.10.2 itself moves
# its worst tensor when the rows of each rank's batch are permuted: median of 5 seeds, of the decoder 1.9e-2 on 1 rank,
# 1.7e-2 on 2, of gpt_scan 2.0e-2, 4.8e-2 and, on 4, 1.5e-2, of blocked_attention 5.6e-3, 6.4e-3 and 5.3e-3, of
# big_resnet_bf16, after 12 steps, 8.4e-2.
TOLERANCE = {"decoder": 3.4e-2, "gpt_scan": 3.0e-2, "blocked_attention": 1.0e-2, "big_resnet_bf16": 1.7e-1}
# Those of steps.py, then what showed most beside them; the rest of model_steps.py, program_steps.py, modern_steps.py,
# scheme_steps.py, recent_steps.py, current_steps.py, token_steps.py, spectral_steps.py, library_steps.py,
# further_steps.py, larger_steps.py, numeric_steps.py, function_steps.py, solver_steps.py,
# simulator_steps.py and newer_steps.py runs by name.
KINDS = ["mlp", "decoder", "resnet", "lstm", "dropout", "fsdp", "auto", "vit", "unet", "dlrm", "seq2seq", "vae_rbg",
         "accumulate", "policy", "linalg_cho_solve", "gpt_scan", "blocked_attention", "state_space", "many_rows",
         "nnx_jit", "selective_states", "operator_1d", "operator_2d", "recurrent_units", "complex_mlp",
         "eight_bit_floats", "four_bit_type", "block_scaled", "mapped_step", "explicit"]


# On one rank there is nothing to exchange.
AMONG_RANKS = ["moe", "tensor_parallel", "fsdp_inner", "pipeline", "compressed", "ring_attention", "auto_layers"]


# Explicit shardings came later than JAX 0.5.
SINCE = {"explicit": (0, 7)}


def version():
    return tuple(map(int, importlib.metadata.version("jax").split(".")[:2]))


def is_old():
    """JAX before 0.5, which has not all that the neighbours of steps.py call."""
    return version() < (0, 5)


def neighbours():
    """The steps of all files but steps.py."""
    import collective_steps
    import current_steps
    import function_steps
    import further_steps
    import larger_steps
    import library_steps
    import model_steps
    import modern_steps
    import newer_steps
    import numeric_steps
    import op_steps
    import program_steps
    import published_steps
    import real_steps
    import recent_steps
    import scheme_steps
    import simulator_steps
    import solver_steps
    import spectral_steps
    import token_steps

    found = collective_steps.STEPS | model_steps.MODELS | program_steps.PROGRAMS | modern_steps.MODERN
    found |= scheme_steps.SCHEMES | recent_steps.RECENT | current_steps.CURRENT | token_steps.TOKENS
    found |= spectral_steps.SPECTRAL | library_steps.LIBRARY | further_steps.FURTHER | larger_steps.LARGER
    found |= function_steps.FUNCTIONS | solver_steps.SOLVERS | simulator_steps.SIMULATORS | newer_steps.NEWER
    return found | numeric_steps.NUMERIC | real_steps.REAL | published_steps.PUBLISHED | op_steps.OPS


def one(name, ranks, steps_run, keep, is_applied):
    """In a process of its own: the number of devices is set once."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    if hasattr(jax.config, "jax_num_cpu_devices"):
        jax.config.update("jax_num_cpu_devices", ranks)
    else:
        os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={ranks}"
    import steps

    import reprise.jax as rj

    if not is_old():
        steps.STEPS |= neighbours()
    with tempfile.TemporaryDirectory() as temporary:
        out = f"{keep or temporary}/{name}.{ranks}"
        where = f"jax {jax.__version__} {name} {ranks} ranks"
        try:
            step = steps.make(name, ranks)
        except AttributeError as error:
            if "module 'optax" not in str(error):
                raise
            print(f"{where}: skipped: optax {importlib.metadata.version('optax')}: {error}")
            return 0
        rj.export(step.step, *steps.arguments(step, 0), out=out, data=step.batch, steps=steps_run)
        try:
            done = rj.verify(out, steps=steps_run, tolerance=TOLERANCE.get(name, 1e-4))
        except rj.RepriseError as error:
            reason = str(error).splitlines()[1]
            print(f"{where}: refused: {reason}")
            return 1
        print(f"{where}: {'equal' if done else 'NOT equal'}, {len(done.tensors)} tensors, worst {done.worst.name} "
              f"{done.worst.error:.1e}, loss {done.loss[0]:.6g} and {done.loss[1]:.6g}")
        if not done:
            print(done)
        is_applied = (is_applied or name == "mlp") and ranks == 2 and not is_old()
        is_planned = not is_applied or runs_planned(name, lambda: steps.make(name, ranks), ranks, out)
        return 0 if done and is_planned else 1


def runs_planned(name, make, ranks, out):
    """Whether the plan that `reprise optimize` finds for the step exported to `out`, which `make` makes anew, runs in
    JAX, bit for bit the same: from the first state, with two batches."""
    import jax
    import steps

    import reprise.jax as rj
    from reprise import binary
    from reprise.jax import trees

    # Some states hold an array twice, which JAX refuses to be given where it is donated.
    copied = jax.jit(lambda tree: jax.tree.map(jax.numpy.copy, tree))
    binary.run(["train", "-n", ranks, f"{out}/step.hlo", "--trace", f"{out}/run.trace", "--steps", 10])
    binary.run(["optimize", f"{out}/run.trace", "-o", f"{out}/plan.json", "--no-measure", "--time-limit", "2s"])
    results = []
    for use_plan in (False, True):
        step = make()
        function = rj.apply(f"{out}/plan.json", step.step) if use_plan else step.step
        if use_plan:
            counted = function.check(*steps.arguments(step, 0))
        bits = []
        for t in range(2):
            leaves = jax.tree_util.tree_leaves(function(*copied(steps.arguments(make(), t))))
            bits += [trees.to_numpy(leaf).tobytes() for leaf in leaves]
        results.append(bits)
    is_same = results[0] == results[1]
    print(f"{name} under its plan: {counted}; {'the same bits' if is_same else 'NOT the same bits'}")
    return bool(counted) and is_same


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", type=int, nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--keep", default="")
    parser.add_argument("--apply", action="store_true", help="run every step of two ranks under its plan in JAX")
    parser.add_argument("--one", action="store_true")
    flags = parser.parse_args()
    if flags.one:
        return one(flags.names[0], flags.ranks[0], flags.steps, flags.keep, flags.apply)
    names = flags.names or (KINDS[:7] if is_old() else [*KINDS, *AMONG_RANKS])
    names = [name for name in names if flags.names or SINCE.get(name, (0, 0)) <= version()]
    failed = 0
    for name in names:
        for ranks in flags.ranks or ([2, 4] if name in AMONG_RANKS else [1, 2]):
            words = [sys.executable, __file__, name, "--one", "--ranks", str(ranks), "--steps", str(flags.steps)]
            words += ["--keep", flags.keep, *(["--apply"] if flags.apply else [])]
            failed += subprocess.run(words, check=False).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
