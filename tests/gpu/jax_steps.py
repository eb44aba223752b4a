"""Steps of JAX on a GPU: exported there, trained by reprise on the same GPU, every tensor compared, both timed.

    python3 jax_steps.py PYTHON_DIRECTORIES REPRISE_BIN OUT [STEP…] [--steps N] [--device cuda|cpu] [--untimed]

PYTHON_DIRECTORIES (with colons) hold the reprise package and tests/python; REPRISE_BIN the program; without a
STEP it is all that tests/python has, larger ones last, and with --share I/N every N-th of them. One line of JSON says
{"steps"}, and one a step: {"step", "equal", "worst", "tensor", "moves", "loss", "jax_ms", "highest_ms", "ours_ms",
"tf32_ms", "none_ms"} or {"step", "refused"}. Ours runs under its plan, made of a trace of the step; none_ms is without one. JAX's dots of f32
are TF32 on a GPU by default, so it is compared at "highest" and timed at both: "highest" beside ours, the default
beside `--math tf32`. JAX waits for every step's result, as `reprise train` does. With --untimed nothing is timed, so
that several may run side by side: a step is compared op by op and under XLA's fusion, and {"step", "none", "plan"} is
said of it, each of these as "equal", "worst", "tensor" and "moves", or "refused".
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


SEARCHED = ["--no-measure", "--time-limit", "5s"]
BY_RULE = ["--baseline", "xla"]


def plan_of(binary, folder, device, how):
    """The plan of an exported step, made of a trace of it on this device."""
    trace, plan = f"{folder}/step.trace", f"{folder}/plan.json"
    train = ["train", "-n", 1, f"{folder}/step.hlo", "--device", device, "--steps", 18, "--warmup", 6]
    if device == "cuda":
        binary.run(["profile", "--force", "-o", trace, "--", binary.find(), *train])
    else:
        binary.run([*train, "--force", "--trace", trace])
    binary.run(["optimize", trace, *how, "--force", "-o", plan])
    return plan


def exported(jax, name, folder, steps):
    """The step, its dots at highest precision, exported into the folder."""
    import steps as kinds

    import reprise.jax as rj

    jax.clear_caches()
    jax.config.update("jax_default_matmul_precision", "highest")
    made = kinds.make(name, 1)
    rj.export(made.step, *kinds.arguments(made, 0), out=folder, data=made.batch, steps=steps)
    return made


def compared(folder, *flags):
    """Whether the trainer under these flags leaves what JAX does."""
    import reprise.jax as rj

    done = rj.verify(folder, steps=5, train_options=flags)
    return {"equal": bool(done), "worst": done.worst.error, "tensor": done.worst.name,
            "moves": getattr(done.own.get(done.worst.name), "median", None), "loss": done.loss}


def refusal(problem):
    return {"refused": f"{type(problem).__name__}: {problem}"[:600]}


def compare(jax, name, folder, steps, device):
    """Op by op and under fusion by rule, nothing timed. What runs in one way only says so."""
    from reprise import binary

    exported(jax, name, folder, steps)
    found = {"step": name}
    for way, flags in (("none", lambda: []), ("plan", lambda: ["--plan", plan_of(binary, folder, device, BY_RULE)])):
        try:
            found[way] = compared(folder, "--device", device, *flags())
        except Exception as problem:
            found[way] = refusal(problem)
    return found


def measure(jax, name, folder, steps, device):
    import steps as kinds

    from reprise import binary

    on_gpu = device == "cuda"
    made = exported(jax, name, folder, steps)
    plan = ["--plan", plan_of(binary, folder, device, SEARCHED)]
    found = {"step": name, **compared(folder, "--device", device, *plan)}
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


def by_size(known):
    """Names of all steps, those of the larger programs last; "explicit" sets the mesh of its process for good."""
    import larger_steps
    import real_steps
    import published_steps

    large = larger_steps.LARGER | real_steps.REAL | published_steps.PUBLISHED
    return [*(name for name in known if name not in large | {"explicit": None}), *large, "explicit"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("places")
    parser.add_argument("reprise")
    parser.add_argument("out")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--untimed", action="store_true")
    parser.add_argument("--share", default="0/1")
    options = parser.parse_args()
    sys.path[:0] = options.places.split(":")
    os.environ["REPRISE_BIN"] = options.reprise
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # Ours trains beside it.
    import jax

    jax.config.update("jax_platforms", options.device)
    import steps as kinds
    import train_cases

    kinds.STEPS |= train_cases.neighbours()
    place, workers = map(int, options.share.split("/"))
    names = (options.names or by_size(kinds.STEPS))[place::workers]
    print(json.dumps({"steps": names}), flush=True)
    for name in names:
        try:
            work = compare if options.untimed else measure
            found = work(jax, name, str(pathlib.Path(options.out) / name), options.steps, options.device)
        except Exception as problem:  # The others count all the same.
            found = {"step": name, **refusal(problem)}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
