"""What is checked and measured on a GPU, part by part. Each part returns plain values; a Failure it raises is kept.

A goal is (name, value, goal in words, met or not); None for met when there is nothing to judge.
"""

import array
import json
import os
import shutil
import statistics
import time

from limits import LIMITS, held
from machine import HERE, Failure, OutOfTime, Skipped, collect, interval

PROGRAMS = ["mlp.1", "gpt.1"]
UNCHECKED_BY_JAX = ["loops.1"]  # Loops, a branch, what the host runs.


def median_ns(result):
    return result["step_time_ns"]["median"]


def alternate(machine, rounds, subjects, **run):
    """Medians of each configuration by round, taken in turn so that a drift meets all. Fewer rounds
    where the part's time is short: `subjects`, this one and those to come, share what is left."""
    medians = {name: [] for name in run}
    begin, share = time.monotonic(), machine.remaining() / subjects
    for done in range(rounds):
        passed = time.monotonic() - begin
        if done and passed + passed / done > share:
            break
        for name, one in run.items():
            medians[name].append(median_ns(one()))
    return medians


def ratio(medians, over, under):
    return interval([a / b for a, b in zip(medians[over], medians[under])])


def unmeasured(name, goal, reason):
    """The line of something that could not be tried here."""
    return name, str(reason), goal, None


def read_state(path):
    """The tensors of a safetensors file of f32, by name."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    tensors = {}
    for name, entry in json.loads(data[8:end]).items():
        if name != "__metadata__":
            begin, stop = entry["data_offsets"]
            tensors[name] = array.array("f", data[end + begin:end + stop])
    return tensors


def worst_difference(name, left, right):
    """The largest relative L2 difference of a state tensor, and its name."""
    a, b = read_state(left), read_state(right)
    if {k: len(v) for k, v in a.items()} != {k: len(v) for k, v in b.items()}:
        raise Failure(f"{name}: states of other tensors")
    worst = (0.0, "")
    for tensor, x in a.items():
        off = sum((p - q) * (p - q) for p, q in zip(x, b[tensor]))
        size = sum(p * p for p in x)
        worst = max(worst, ((off / size) ** 0.5 if size > 0 else float(off > 0), tensor))
    return {"relative_error": worst[0], "tensor": worst[1]}


def correctness(machine, options):
    """JAX's losses and final states, and the CPU runtime's state after a few steps."""
    values, goals = {}, []
    for name in PROGRAMS[:1 if options.quick else None] + UNCHECKED_BY_JAX:
        steps = 3 if options.quick or name in UNCHECKED_BY_JAX else 20
        verified = machine.train(name, steps, *(["--verify"] if steps == 20 else []))
        values[name] = {"loss": verified["loss"], "verification": verified.get("verification")}
        check = verified.get("verification")
        if check:
            goals.append(held(f"{name}: losses and state against JAX", check["worst_error"], "jax", check))
        few = 3
        dumps = {}
        for device in (machine.device, "cpu"):
            dumps[device] = machine.directory / f"{name}.{device}.safetensors"
            machine.train(name, few, "--dump-state", dumps[device], device=device)
        worst = worst_difference(name, dumps["cpu"], dumps[machine.device])
        values[name]["against_cpu_runtime"] = worst
        goals.append(held(f"{name}: state against the CPU runtime, {few} steps", worst["relative_error"], "state"))
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
        values[name] = {"loss": result["loss"], "verification": check,
                        "step_time_ns": median_ns(result)}
        line = f"{name} on {ranks} ranks of one GPU"
        if check:
            goals.append(held(line, check["worst_error"], "jax", check))
            continue
        on_cpu = machine.train_ranks(name, ranks, steps, device="cpu")["loss"]
        worst = max(abs(a / b - 1) for a, b in zip(result["loss"], on_cpu))
        goals.append(held(f"{line}: losses against the CPU runtime", worst, "state"))
    return values, goals


def kernels(machine, options):
    """Every program's kernels against the interpreter, bit for bit."""
    if machine.device == "cpu":
        raise Skipped("needs a GPU")
    said = machine.run([machine.bin / "kernels_gpu_test"],
                       {"REPRISE_PROGRAMS": str(machine.programs), "REPRISE_REQUIRE_GPU": "1"})
    return {"output": said[-400:]}, [held("kernels against the interpreter", 0, "same bits")]


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
                                "REPRISE_REQUIRE_GPU": "1", "REPRISE_EVERY_KERNEL": every},
                               limit=machine.remaining() / (3 - len(values)))
            values[tool], clean = said[-300:], True
        except OutOfTime as problem:
            values[tool] = str(problem)
            goals.append(unmeasured(f"{tool} on every {every}th kernel", "clean", problem))
            continue
        except Failure as problem:
            values[tool], clean = str(problem), False
        goals.append(held(f"{tool} on every {every}th kernel", int(not clean), "clean"))
    return values, goals


def trace_of(machine, name, mode="eager", steps=20):
    """A trace of the trainer under the profiler, made once."""
    trace = machine.directory / f"{name}.{mode}.{steps}.trace"
    if not trace.exists():
        machine.train(name, steps, *modes(machine)[mode], trace=trace)
    return trace


def replay_error(machine, options):
    """A trace of the trainer predicts later runs without the profiler: their median, their spread beside it. A third of
    the steps warms up, until the device's clock is what it stays."""
    values, goals = {}, []
    steps, runs = (3, 1) if options.quick else (150, 3)
    for name in PROGRAMS[:1 if options.quick else None]:
        for mode, flags in modes(machine).items():
            replay = machine.reprise("replay", trace_of(machine, name, mode, steps))
            later = sorted(median_ns(machine.train(name, steps, *flags)) for _ in range(runs))
            predicted = replay["step_time_ns"]["predicted"]
            error = predicted / statistics.median(later) - 1
            values[f"{name} {mode}"] = {
                "predicted_ns": predicted, "recorded_ns": replay["step_time_ns"]["measured"],
                "tracing_ns": replay["recorded"]["tracing_ns"], "later_ns": later,
                "spread": later[-1] / later[0] - 1, "error": error, "sources": replay["sources"]}
            goals.append(held(f"{name}, {mode}: replay against a later run", error, "replay"))
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
    names = PROGRAMS[:1 if options.quick else None]
    for place, name in enumerate(names):
        plans = {label: plan_of(machine, name, label) for label in PLANS}
        steps = options.steps
        eager = modes(machine)["eager"]
        runs = {"unfused": lambda: machine.train(name, steps),
                "unfused_eager": lambda: machine.train(name, steps, *eager),
                "xla_fusion": lambda: machine.train(name, steps, "--plan", plans["xla"]),
                "planned": lambda: machine.train(name, steps, "--plan", plans["planned"])}
        medians = alternate(machine, options.rounds, len(names) - place, **runs)
        values[name] = {"step_time_ns": {k: statistics.median(v) for k, v in medians.items()},
                        "graph": ratio(medians, "unfused_eager", "unfused"),
                        "planned_over_unfused": ratio(medians, "unfused", "planned"),
                        "planned_over_xla_fusion": ratio(medians, "xla_fusion", "planned")}
        gain = values[name]["planned_over_unfused"]["median"]
        goals.append(held(f"{name}: planned over unfused", gain, "fusion"))
        goals.append((f"{name}: graph over eager", values[name]["graph"]["median"], "stated",
                      None))
    return values, goals


TINY = {"torch": ["--width", "64", "--layers", "2", "--batch", "4", "--sequence", "32",
                  "--vocabulary", "256"],
        "jax": ["--width", "128", "--layers", "2", "--batch", "64"]}


def script_of(machine, framework, *flags):
    tiny = TINY[framework] if machine.dry_run else []
    return machine.script(f"{framework}_train.py", "--steps", "20", "--device", machine.device,
                          *tiny, *flags)


def recorded_script(machine, framework, *flags):
    """A script's trace, what the script said of itself, and what is in the trace."""
    trace = machine.directory / f"{framework}.trace"
    said = json.loads(machine.profile(trace, script_of(machine, framework, *flags)).splitlines()[-1])
    rank = machine.reprise("info", trace)["ranks"][0]
    if rank["steps"] + rank["warmup_steps"] < 20:
        raise Failure(f"{framework}: {rank['steps']} of its steps are in the trace")
    return trace, said, rank["events"]


def replayed_script(machine, framework):
    """Profiled, analyzed and replayed, as its users would."""
    # Operators are all there is to replay without a GPU; on one they would slow the script down.
    on_cpu = machine.device == "cpu"
    flags = ["--operators"] if on_cpu and framework == "torch" else []
    trace, said, events = recorded_script(machine, framework, *flags)
    value = {"script": said, "events": events}
    name = f"{framework} script: replay against its recorded steps"
    if on_cpu and framework == "jax":
        return value, unmeasured(name, "replayed", "JAX on a CPU leaves steps alone to record")
    analysis, replay = machine.reprise("analyze", trace), machine.reprise("replay", trace)
    error = replay["error"]
    value.update(replay=replay["step_time_ns"], error=error, sources=replay["sources"],
                 ranks=len(analysis["ranks"]))
    return value, held(name, error, "script replay")


def named_operators(machine):
    """PyTorch's names of its operators, by NVTX."""
    _, _, events = recorded_script(machine, "torch", "--operators")
    return {"events": events}, held("torch script: operators named by NVTX", events["host-op"], "some")


def scripts(machine, options):
    """Scripts of PyTorch and JAX: profiled, analyzed, replayed."""
    values, goals = {}, []
    subjects = {"torch": ("torch", lambda: replayed_script(machine, "torch")),
                "torch operators": ("torch", lambda: named_operators(machine)),
                "jax": ("jax", lambda: replayed_script(machine, "jax"))}
    for subject, (framework, measure) in subjects.items():
        try:
            machine.needs(framework)
            values[subject], goal = measure()
            goals.append(goal)
        except (Skipped, OutOfTime) as reason:
            values[subject] = str(reason)
            goals.append(unmeasured(f"{subject} script", "profiled and replayed", reason))
        except (Failure, KeyError, ValueError, IndexError) as problem:
            values[subject] = f"{type(problem).__name__}: {problem}"
            goals.append(held(f"{subject} script", None, "done"))
    return values, goals


# The goal is one of 10,000 launches a second. Launches back to back are over 100,000, and each costs CUPTI 1.0 to
# 1.8 us, 0.6 of them where nothing but a subscriber is there (94ed3c1, H100): stated.
PACED = "200 launches of PyTorch's a step, about 10,000 a second"
BARE = "2,000 launches of PyTorch's a step, back to back"
OVERHEAD_GOAL = LIMITS["overhead"].words(None)


def overhead(machine, options):
    """Step time with the profiler over step time without, on steps of more than 10 ms."""
    values, goals = {}, []
    trace = machine.directory / "overhead.trace"

    def script(framework, profiled):
        machine.needs(framework)
        command = script_of(machine, framework)
        said = machine.profile(trace, command) if profiled else machine.run(command)
        return json.loads(said.splitlines()[-1])

    def trainer(mode, profiled):
        return machine.train(PROGRAMS[0], options.steps, *modes(machine)[mode],
                             trace=trace if profiled else None)

    def launches(flags, profiled):
        machine.needs("torch")
        command = script_of(machine, "torch", *flags)
        said = machine.profile(trace, command) if profiled else machine.run(command)
        return json.loads(said.splitlines()[-1])

    subjects = {f"{which} script": (script, which, options.script_rounds) for which in TINY}
    subjects[PACED] = (launches, ("--launches", "200", "--host-work", "6000"), options.script_rounds)
    subjects[BARE] = (launches, ("--launches", "2000"), options.script_rounds)
    subjects.update({f"{PROGRAMS[0]}, {mode}": (trainer, mode, options.rounds)
                     for mode in modes(machine)})
    for place, (subject, (run, which, rounds)) in enumerate(subjects.items()):
        name = f"profiler on {subject}"
        try:
            medians = alternate(machine, rounds, len(subjects) - place,
                                profiled=lambda: run(which, True), bare=lambda: run(which, False))
        except (Skipped, OutOfTime) as reason:
            values[subject] = str(reason)
            goals.append(unmeasured(name, OVERHEAD_GOAL, reason))
            continue
        except Failure as problem:
            values[subject] = str(problem)
            goals.append(held(name, None, "overhead"))
            continue
        cost = ratio(medians, "profiled", "bare")
        step_ms = statistics.median(medians["bare"]) / 1e6
        values[subject] = {"ratio": cost, "step_ms": step_ms, "rounds": len(medians["bare"])}
        line = held(f"{name}, step {step_ms:.1f} ms", cost["median"] - 1, "overhead")
        goals.append(line if step_ms > 10 and subject != BARE else (*line[:3], None))
    if not any(isinstance(value, dict) and value["step_ms"] > 10 for value in values.values()):
        goals.append(unmeasured("profiler on steps over 10 ms", OVERHEAD_GOAL,
                                "not measured: nothing here has such steps"))
    return values, goals


def where_time_goes(machine, trace):
    """The shares of a recorded step and its longest kernels, in words: the reason of a lost race."""
    analysis = machine.reprise("analyze", trace)
    rank = analysis["ranks"][0]
    shares = [f"{share / rank['window_ns']:.0%} {what[:-3]}"
              for what, share in rank["exclusive"].items() if share > 0]
    whole = sum(kernel["total_ns"] for kernel in analysis["kernels"])
    longest = sorted(analysis["kernels"], key=lambda kernel: -kernel["total_ns"])[:3]
    return (", ".join(shares) + "; of its kernels " +
            ", ".join(f"{k['name']} {k['total_ns'] / whole:.0%}" for k in longest))


def against_xla(machine, options):
    """Step time of our trainer under its plan and of XLA on the same HLO text, its dots of f32 in TF32 as JAX has them,
    and ours as they are."""
    machine.needs("jax")
    values, goals = {}, []
    steps = str(options.steps)
    names = PROGRAMS[:1 if options.quick else None]
    math = [] if machine.device == "cpu" else ["--math", "tf32"]
    for place, name in enumerate(names):
        flags = ["--plan", plan_of(machine, name, "planned")]
        medians = alternate(
            machine, options.script_rounds, len(names) - place,
            ours=lambda: machine.train(name, options.steps, *flags, *math),
            ours_f32=lambda: machine.train(name, options.steps, *flags),
            xla=lambda: json.loads(machine.run(machine.script(
                "jax_hlo.py", machine.program(name), "--steps", steps, "--device",
                machine.device)).splitlines()[-1]))
        faster = ratio(medians, "xla", "ours")
        values[name] = {"xla_over_ours": faster, "xla_over_ours_in_f32": ratio(medians, "xla", "ours_f32"),
                        "step_time_ns": {k: statistics.median(v) for k, v in medians.items()}}
        goal = "≥ 1 on half of the programs"
        if faster["high"] < 1:
            trace = machine.directory / f"{name}.against_xla.trace"
            machine.train(name, 20, *flags, *math, trace=trace)
            values[name]["reason"] = where_time_goes(machine, trace)
            goal += f", here slower: {values[name]['reason']}"
        goals.append((f"{name}: XLA's step time over ours", faster["median"], goal, None))
    won = sum(values[name]["xla_over_ours"]["high"] >= 1 for name in names)
    goals.append(held("programs as fast as XLA's or faster", won, "xla", len(names)))
    return values, goals


JAX_STEPS = ["mlp", "resnet", "lstm", "dropout", "vit", "gpt_scan", "big_mlp", "big_gpt", "big_vit", "big_resnet",
             "big_mlp_bf16", "big_lstm", "big_dlrm"]


def start_jax_steps(machine, names, *flags):
    """The script that exports JAX's steps and trains them."""
    machine.needs("jax")
    root = next((place for place in (HERE.parent.parent, machine.bin.parent)
                 if (place / "tests/python/steps.py").exists()), None)
    if root is None:
        raise Skipped("not measured: no tests/python beside the binaries")
    return machine.start(machine.script("jax_steps.py", f"{root}/cli/python:{root}/tests/python", machine.wrapped(),
                                        machine.directory / "jax_steps", *names, "--device", machine.device, *flags))


def jax_kinds(machine, options):
    """Steps of JAX of all kinds that the tests have, exported on this GPU and trained on it, compared with JAX alone."""
    names = options.jax_kinds.split(",") if options.jax_kinds else ["mlp", "lstm"] if options.quick else []
    workers = max(1, min(len(names) or 100, (os.cpu_count() or 2) * 3 // 4))
    started = [start_jax_steps(machine, names, "--untimed", "--share", f"{place}/{workers}") for place in range(workers)]
    asked, found = [], {}
    for worker in started:
        first, *lines = [json.loads(line) for line in collect(worker, machine.remaining())]
        asked += first["steps"]
        found |= {line.pop("step"): line for line in lines}
    goals = []
    for way, words in (("none", "op by op"), ("plan", "under XLA's fusion")):
        tried = {name: each[way] for name, each in found.items() if "equal" in each.get(way, {})}
        unequal = sorted(name for name, each in tried.items() if not each["equal"])
        named = f" ({', '.join(unequal)})" if unequal else ""
        goals.append(held(f"JAX's steps {words}: others than JAX's, of {len(tried)}{named}", len(unequal), "equal"))
    refused = sorted(name for name, each in found.items()
                     if any("refused" in place for place in (each, each.get("none", {}), each.get("plan", {}))))
    goals.append(("JAX's steps that did not run in both ways or could not be exported here", len(refused),
                  ", ".join(refused), None))
    late = sorted(set(asked) - set(found))
    if late:
        goals.append(unmeasured(f"JAX's steps, {len(late)} more", "equal to JAX", "not measured: no time left"))
    return found, goals


def jax_steps(machine, options):
    """Steps of JAX exported on this GPU and trained on it, compared with JAX and timed beside it."""
    names = options.jax_steps.split(",") if options.jax_steps else JAX_STEPS[:2 if options.quick else None]
    lines = collect(start_jax_steps(machine, names), machine.remaining())[1:]
    values, goals = {}, []
    for line in lines:
        found = json.loads(line)
        name = found.pop("step")
        values[name] = found
        goals.append(held(f"{name}: JAX's step on this GPU", int(not found.get("equal")), "equal"))
        if found.get("tf32_ms"):
            goals.append((f"{name}: JAX's step time over ours", found["jax_ms"] / found["tf32_ms"],
                          f"stated; at highest precision {found['highest_ms'] / found['ours_ms']:.2f}, "
                          f"there without a plan {found['highest_ms'] / found['none_ms']:.2f}", None))
    for name in names[len(values):]:
        goals.append(unmeasured(f"{name}: JAX's step on this GPU", "equal to JAX", "not measured: no time left"))
    return values, goals


def doctor(machine, options):
    """What `reprise doctor` says of the machine."""
    found = machine.reprise("doctor", "--for", "view" if machine.dry_run else "profile",
                            accept=(0, 4))
    return found, []


PARTS = {"doctor": doctor, "kernels": kernels, "races": races, "correctness": correctness,
         "several_ranks": several_ranks, "replay_error": replay_error,
         "graph_and_fusion": graph_and_fusion, "scripts": scripts, "against_xla": against_xla,
         "jax_kinds": jax_kinds, "jax_steps": jax_steps, "overhead": overhead}
