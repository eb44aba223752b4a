"""Steps of JAX on a GPU: exported there, trained by reprise on the same GPU, every tensor compared, both timed.

    python3 jax_steps.py PYTHON_DIRECTORIES REPRISE_BIN OUT STEP… [--steps N] [--device cuda|cpu]

PYTHON_DIRECTORIES (with colons) hold the reprise package and tests/python; REPRISE_BIN the program. One line of JSON a
step: {"step", "equal", "worst", "tensor", "moves", "loss", "jax_ms", "highest_ms", "ours_ms", "tf32_ms", "none_ms"} or
{"step", "refused"}. Ours runs under its plan, made of a trace of the step; none_ms is without one. JAX's dots of f32
are TF32 on a GPU by default, so it is compared at "highest" and timed at both: "highest" beside ours, the default
beside `--math tf32`. JAX waits for every step's result, as `reprise train` does.
"""

import argparse
import json
import os
import pathlib
import statistics
import sys
import time


def jax_step_ms(jax, made, steps):
    """Median over steps of JAX's own step with donated state."""
    count = len(made.donated)
    state = made.state if made.donated != (0,) else (made.state,)
    state = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, state)
    batches = [jax.block_until_ready(made.batch(t)) for t in range(4)]
    walls = []
    for at in range(steps + 5):
        before = time.perf_counter_ns()
        results = jax.block_until_ready(made.step(*state, *batches[at % 4]))
        walls.append(time.perf_counter_ns() - before)
        state = results[:count]
    return statistics.median(walls[5:]) / 1e6


def our_step_ms(binary, folder, steps, device, *flags):
    said = binary.run(["train", "-n", 1, f"{folder}/step.hlo", "--device", device, "--steps", steps + 5, "--warmup", 5,
                       "--format", "json", *flags])
    return json.loads(said)["step_time_ns"]["median"] / 1e6


def plan_of(binary, folder, device):
    """The plan of an exported step, searched from a trace of it on this device."""
    trace, plan = f"{folder}/step.trace", f"{folder}/plan.json"
    train = ["train", "-n", 1, f"{folder}/step.hlo", "--device", device, "--steps", 18, "--warmup", 6]
    if device == "cuda":
        binary.run(["profile", "--force", "-o", trace, "--", binary.find(), *train])
    else:
        binary.run([*train, "--force", "--trace", trace])
    binary.run(["optimize", trace, "--no-measure", "--time-limit", "5s", "--force", "-o", plan])
    return plan


def measure(name, out, steps, device):
    import jax
    import steps as kinds

    import reprise.jax as rj
    from reprise import binary

    on_gpu = device == "cuda"
    folder = str(pathlib.Path(out) / name)
    jax.clear_caches()
    jax.config.update("jax_default_matmul_precision", "highest")
    made = kinds.make(name, 1)
    rj.export(made.step, *kinds.arguments(made, 0), out=folder, data=made.batch, steps=steps)
    plan = ["--plan", plan_of(binary, folder, device)]
    done = rj.verify(folder, steps=5, train_options=["--device", device, *plan])
    found = {"step": name, "equal": bool(done), "worst": done.worst.error, "tensor": done.worst.name,
             "moves": done.own.get(done.worst.name), "loss": done.loss}
    found["highest_ms"] = jax_step_ms(jax, made, steps)
    found["ours_ms"] = our_step_ms(binary, folder, steps, device, *plan)
    found["none_ms"] = our_step_ms(binary, folder, steps, device)
    if on_gpu:
        jax.clear_caches()
        jax.config.update("jax_default_matmul_precision", None)
        made = kinds.make(name, 1)
        found["jax_ms"] = jax_step_ms(jax, made, steps)
        found["tf32_ms"] = our_step_ms(binary, folder, steps, device, *plan, "--math", "tf32")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places")
    parser.add_argument("reprise")
    parser.add_argument("out")
    parser.add_argument("names", nargs="+")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    sys.path[:0] = options.places.split(":")
    os.environ["REPRISE_BIN"] = options.reprise
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # Ours trains beside it.
    import jax

    jax.config.update("jax_platforms", options.device)
    import steps as kinds
    import train_cases

    kinds.STEPS |= train_cases.neighbours()
    for name in options.names:
        try:
            found = measure(name, options.out, options.steps, options.device)
        except Exception as problem:  # The others count all the same.
            found = {"step": name, "refused": f"{type(problem).__name__}: {problem}"[:600]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
