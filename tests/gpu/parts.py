"""What is checked and measured on a GPU, part by part. Each part returns plain values; a Failure it raises is kept.

A goal is (name, value, goal in words, met or not); None for met when there is nothing to judge.
"""

import array
import json
import re
import shutil
import statistics

from machine import Failure, Skipped, interval

PROGRAMS = ["mlp.1", "gpt.1"]
STATE_LIMIT = 1e-3  # Of a tensor's norm: rounding of dots in another order, over a few steps.


def median_ns(result):
    return result["step_time_ns"]["median"]


def alternate(rounds, **run):
    """Medians of each configuration by round, taken in turn so that a drift meets all."""
    medians = {name: [] for name in run}
    for _ in range(rounds):
        for name, one in run.items():
            medians[name].append(median_ns(one()))
    return medians


def ratio(medians, over, under):
    return interval([a / b for a, b in zip(medians[over], medians[under])])


def state_sizes(machine, name):
    """Elements of each state tensor, in order, with its name."""
    text = machine.program(name).read_text()
    manifest = json.loads(machine.program(name).with_suffix(".json").read_text())
    shapes = {}
    for dimensions, number in re.findall(r"= \w+\[([\d,]*)\](?:\{[^}]*\})? parameter\((\d+)\)",
                                         text[text.index("\nENTRY "):]):
        count = 1
        for extent in filter(None, dimensions.split(",")):
            count *= int(extent)
        shapes[int(number)] = count
    return [(p["name"], shapes[p["index"]]) for p in manifest["parameters"] if p["role"] == "state"]


def worst_difference(machine, name, left, right):
    """The largest relative L2 difference of a state tensor, and its name."""
    a, b = array.array("f"), array.array("f")
    a.frombytes(left.read_bytes())
    b.frombytes(right.read_bytes())
    if len(a) != len(b):
        raise Failure(f"{name}: states of {len(a)} and {len(b)} elements")
    worst, start = (0.0, ""), 0
    for tensor, count in state_sizes(machine, name):
        x, y = a[start:start + count], b[start:start + count]
        start += count
        off = sum((p - q) * (p - q) for p, q in zip(x, y))
        size = sum(p * p for p in x)
        worst = max(worst, ((off / size) ** 0.5 if size > 0 else float(off > 0), tensor))
    return {"relative_error": worst[0], "tensor": worst[1]}


def correctness(machine, options):
    """JAX's losses and final states, and the CPU runtime's state after a few steps."""
    values, goals = {}, []
    for name in PROGRAMS[:1 if options.quick else None]:
        steps = 20 if not options.quick else 3
        verified = machine.train(name, steps, *(["--verify"] if steps == 20 else []))
        values[name] = {"loss": verified["loss"], "verification": verified.get("verification")}
        check = verified.get("verification")
        if check:
            goals.append((f"{name}: losses and state against JAX", check["worst_error"],
                          f"≤ {check['limit']:g}", check["passed"]))
        few = 3
        dumps = {}
        for device in (machine.device, "cpu"):
            dumps[device] = machine.directory / f"{name}.{device}.state"
            machine.train(name, few, "--dump-state", dumps[device], device=device)
        worst = worst_difference(machine, name, dumps["cpu"], dumps[machine.device])
        values[name]["against_cpu_runtime"] = worst
        goals.append((f"{name}: state against the CPU runtime, {few} steps",
                      worst["relative_error"], f"≤ {STATE_LIMIT:g}",
                      worst["relative_error"] <= STATE_LIMIT))
    return values, goals


def several_ranks(machine, options):
    """Ranks that share the GPU, their collectives through the host."""
    values, goals = {}, []
    names = [("mlp.2", 2)] if options.quick else [("mlp.2", 2), ("gpt.2", 2), ("mlp.4", 4),
                                                  ("gpt.4", 4)]
    for name, ranks in names:
        steps = 20 if ranks == 2 and not options.quick else 3
        verify = ["--verify"] if steps == 20 else []
        result = machine.train_ranks(name, ranks, steps, *verify)
        check = result.get("verification")
        falls = result["loss"][-1] < result["loss"][0]
        values[name] = {"loss": result["loss"], "verification": check,
                        "step_time_ns": median_ns(result)}
        goals.append((f"{name} on {ranks} ranks of one GPU",
                      check["worst_error"] if check else result["loss"][-1],
                      f"≤ {check['limit']:g} from JAX" if check else "loss falls",
                      check["passed"] if check else falls))
    return values, goals


def kernels(machine, options):
    """Every program's kernels against the interpreter, bit for bit."""
    if machine.device == "cpu":
        raise Skipped("needs a GPU")
    said = machine.run([machine.bin / "kernels_gpu_test"],
                       {"REPRISE_PROGRAMS": str(machine.programs), "REPRISE_REQUIRE_GPU": "1"})
    return {"output": said[-400:]}, [("kernels against the interpreter", 0, "same bits", True)]


def modes(machine):
    """How a step is launched: flags of the trainer by name."""
    return {"eager": []} if machine.device == "cpu" else {"eager": ["--no-graph"], "graph": []}


def races(machine, options):
    """Kernels under compute-sanitizer: memory, races in shared memory, barriers."""
    checker = shutil.which("compute-sanitizer")
    if machine.device == "cpu" or not checker:
        raise Skipped("needs a GPU and compute-sanitizer")
    every = "40" if options.quick else "8"
    values, goals = {}, []
    for tool in ("memcheck", "racecheck", "synccheck"):
        try:
            said = machine.run([checker, "--tool", tool, "--error-exitcode", "9",
                                machine.bin / "kernels_gpu_test"],
                               {"REPRISE_PROGRAMS": str(machine.programs),
                                "REPRISE_REQUIRE_GPU": "1", "REPRISE_EVERY_KERNEL": every})
            values[tool], clean = said[-300:], True
        except Failure as problem:
            values[tool], clean = str(problem), False
        goals.append((f"{tool} on every {every}th kernel", int(not clean), "clean", clean))
    return values, goals


def trace_of(machine, name, mode="eager", steps=20):
    """A trace of the trainer under the profiler, made once."""
    trace = machine.directory / f"{name}.{mode}.trace"
    if not trace.exists():
        machine.train(name, steps, *modes(machine)[mode], trace=trace)
    return trace


def replay_error(machine, options):
    """A trace of the trainer predicts a later run without the profiler."""
    values, goals = {}, []
    for name in PROGRAMS[:1 if options.quick else None]:
        for mode, flags in modes(machine).items():
            replay = machine.reprise("replay", trace_of(machine, name, mode))
            later = machine.train(name, 20, *flags)
            predicted = replay["step_time_ns"]["predicted"]
            error = predicted / median_ns(later) - 1
            values[f"{name} {mode}"] = {
                "predicted_ns": predicted, "later_ns": median_ns(later), "error": error,
                "sources": replay["sources"]}
            goals.append((f"{name}, {mode}: replay against a later run", error, "within 2 %",
                          abs(error) <= 0.02))
    return values, goals


PLANS = {"xla": ["--baseline", "xla"], "planned": ["--no-measure", "--time-limit", "5s"]}


def plan_of(machine, name, label):
    """A plan for the trace of the trainer, made once."""
    plan = machine.directory / f"{name}.{label}.json"
    if not plan.exists():
        machine.reprise("optimize", trace_of(machine, name), "-o", plan, *PLANS[label])
    return plan


def graph_and_fusion(machine, options):
    """Graph on and off; the program's ops one by one, XLA's fusion, our plan."""
    values, goals = {}, []
    for name in PROGRAMS[:1 if options.quick else None]:
        plans = {label: plan_of(machine, name, label) for label in PLANS}
        steps = options.steps
        eager = modes(machine)["eager"]
        runs = {"unfused": lambda: machine.train(name, steps),
                "unfused_eager": lambda: machine.train(name, steps, *eager),
                "xla_fusion": lambda: machine.train(name, steps, "--plan", plans["xla"]),
                "planned": lambda: machine.train(name, steps, "--plan", plans["planned"])}
        medians = alternate(options.rounds, **runs)
        values[name] = {"step_time_ns": {k: statistics.median(v) for k, v in medians.items()},
                        "graph": ratio(medians, "unfused_eager", "unfused"),
                        "planned_over_unfused": ratio(medians, "unfused", "planned"),
                        "planned_over_xla_fusion": ratio(medians, "xla_fusion", "planned")}
        gain = values[name]["planned_over_unfused"]["median"]
        goals.append((f"{name}: planned over unfused", gain, "≥ 1.2×", gain >= 1.2))
        goals.append((f"{name}: graph over eager", values[name]["graph"]["median"], "stated",
                      None))
    return values, goals


SCRIPTS = {
    "torch": ("torch_train.py", [],
              ["--cpu", "--width", "64", "--layers", "2", "--batch", "4", "--sequence", "32"]),
    "jax": ("jax_train.py", [], ["--width", "128", "--layers", "2", "--batch", "64"]),
}


def script_of(machine, which):
    name, full, small = SCRIPTS[which]
    return machine.script(name, "--steps", "20", *(small if machine.dry_run else full))


def scripts(machine, options):
    """Scripts of PyTorch and JAX: profiled, analyzed, replayed."""
    values, goals, problems = {}, [], []
    for which in SCRIPTS:
        try:
            trace = machine.directory / f"{which}.trace"
            said = json.loads(machine.profile(trace, script_of(machine, which)).splitlines()[-1])
            analysis = machine.reprise("analyze", trace)
            replay = machine.reprise("replay", trace)
            error = replay["error"]
            values[which] = {"script": said, "replay": replay["step_time_ns"], "error": error,
                             "sources": replay["sources"], "ranks": len(analysis["ranks"])}
            goals.append((f"{which} script: replay", error, "within 3 %",
                          error is not None and abs(error) <= 0.03))
        except (Failure, KeyError, ValueError, IndexError) as problem:
            problems.append(f"{which}: {problem}")
    if problems:
        values["problems"] = problems
        goals += [(problem.split(":")[0] + " script", None, "profiled and replayed", False)
                  for problem in problems]
    return values, goals


def overhead(machine, options):
    """Step time with the profiler over step time without, on steps of more than 10 ms."""
    values, goals = {}, []
    trace = machine.directory / "overhead.trace"

    def script(which, profiled):
        command = script_of(machine, which)
        said = machine.profile(trace, command) if profiled else machine.run(command)
        return json.loads(said.splitlines()[-1])

    def trainer(mode, profiled):
        return machine.train(PROGRAMS[0], options.steps, *modes(machine)[mode],
                             trace=trace if profiled else None)

    subjects = {f"{which} script": (script, which, options.script_rounds) for which in SCRIPTS}
    subjects.update({f"{PROGRAMS[0]}, {mode}": (trainer, mode, options.rounds)
                     for mode in modes(machine)})
    for subject, (run, which, rounds) in subjects.items():
        try:
            medians = alternate(rounds, profiled=lambda: run(which, True),
                                bare=lambda: run(which, False))
        except Failure as problem:
            values[subject] = str(problem)
            goals.append((f"profiler on {subject}", None, "measured", False))
            continue
        cost = ratio(medians, "profiled", "bare")
        step_ms = statistics.median(medians["bare"]) / 1e6
        values[subject] = {"ratio": cost, "step_ms": step_ms}
        goals.append((f"profiler on {subject}, step {step_ms:.1f} ms", cost["median"] - 1,
                      "≤ 1 % on steps over 10 ms",
                      cost["median"] <= 1.01 if step_ms > 10 else None))
    return values, goals


def against_xla(machine, options):
    """Step time of our trainer under its plan and of XLA on the same HLO text."""
    values, goals = {}, []
    steps = str(options.steps)
    for name in PROGRAMS[:1 if options.quick else None]:
        flags = ["--plan", plan_of(machine, name, "planned")]
        medians = alternate(
            options.script_rounds, ours=lambda: machine.train(name, options.steps, *flags),
            xla=lambda: json.loads(machine.run(machine.script(
                "jax_hlo.py", machine.program(name), "--steps", steps)).splitlines()[-1]))
        faster = ratio(medians, "xla", "ours")
        values[name] = {"xla_over_ours": faster,
                        "step_time_ns": {k: statistics.median(v) for k, v in medians.items()}}
        goals.append((f"{name}: XLA's step time over ours", faster["median"], "≥ 1",
                      faster["high"] >= 1))
    return values, goals


def doctor(machine, options):
    """What `reprise doctor` says of the machine."""
    found = machine.reprise("doctor", "--for", "view" if machine.dry_run else "profile",
                            accept=(0, 4))
    return found, []


PARTS = {"doctor": doctor, "kernels": kernels, "races": races, "correctness": correctness,
         "several_ranks": several_ranks, "replay_error": replay_error,
         "graph_and_fusion": graph_and_fusion, "scripts": scripts, "against_xla": against_xla,
         "overhead": overhead}
