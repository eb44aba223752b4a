"""Jobs that are hard on a profiler: one that profiles itself, one that is killed, one that forks.

Each part returns plain values and goals, as in parts.py.
"""

import json
import shutil

from limits import held
from machine import Failure, OutOfTime, Skipped
from parts import PROGRAMS, script_of, unmeasured

STEPS = 25  # Of torch_train.py as script_of starts it: 5 to warm up, 20.


def kernels_of(machine, trace):
    return machine.reprise("info", trace)["ranks"][0]["events"].get("compute", 0)


def profiled_by_itself(machine):
    """torch.profiler over steps 10 to 12: these are its own, the others ours."""
    plain, mixed = machine.directory / "plain.trace", machine.directory / "mixed.trace"
    own = machine.directory / "own.json"
    machine.profile(plain, script_of(machine, "torch"))
    machine.profile(mixed, script_of(machine, "torch", "--profiler", own))
    environment = machine.reprise("info", mixed)["environment"]
    notes = {key: said for key, said in environment.items() if "cupti" in key}
    theirs = sum(event.get("cat") == "kernel" for event in json.loads(own.read_text())["traceEvents"])
    whole, ours = kernels_of(machine, plain), kernels_of(machine, mixed)
    outside = whole * (STEPS - 3) / STEPS
    return ({"kernels": {"without": whole, "ours": ours, "theirs": theirs}, "notes": notes},
            [held("kernels in torch.profiler's own trace, of 3 steps", theirs, "some"),
             held("kernels in ours, of the other steps", ours / outside if outside else 0, "own kernels")])


def killed(machine):
    """Killed at the end of step 15, when the queue is not empty: at most 100 ms and a buffer are lost."""
    trace = machine.directory / "killed.trace"
    plain = kernels_of(machine, machine.directory / "plain.trace")
    command = script_of(machine, "torch", "--kill-at", "15")
    machine.run([machine.bin / "reprise", "profile", "--force", "-o", trace, "--", *command], accept=(137, -9))
    kept, done = kernels_of(machine, trace), plain * 16 / STEPS
    return ({"kernels": {"kept": kept, "done": done}},
            [held("killed worker: kernels kept of those that ran", kept / done if done else 0, "kept kernels")])


def data_loaders(machine):
    """Four forked workers feed the steps: they end as ever, and the rank is one rank."""
    trace = machine.directory / "loaders.trace"
    said = json.loads(machine.profile(trace, script_of(machine, "torch", "--loaders", "4")).splitlines()[-1])
    ranks, kernels = machine.reprise("info", trace)["ranks"], kernels_of(machine, trace)
    return ({"ranks": len(ranks), "kernels": kernels, "loss": said["loss"][-1]},
            [held("forked data loaders: ranks in the trace", len(ranks), "one"),
             held("forked data loaders: kernels", kernels, "some")])


def hard_jobs(machine, options):
    """Jobs that profile themselves, are killed, or fork."""
    machine.needs("torch")
    values, goals = {}, []
    subjects = {"torch.profiler inside": lambda: profiled_by_itself(machine), "killed worker": lambda: killed(machine),
                "data loaders": lambda: data_loaders(machine)}
    for subject, measure in subjects.items():
        try:
            values[subject], found = measure()
            goals += found
        except OutOfTime as reason:
            values[subject] = str(reason)
            goals.append(unmeasured(subject, "in time", reason))
        except (Failure, KeyError, ValueError, IndexError, OSError) as problem:
            values[subject] = f"{type(problem).__name__}: {problem}"
            goals.append(held(subject, None, "done"))
    return values, goals


def trainer_races(machine, options):
    """The trainer, its driver calls, library calls and kernels, under compute-sanitizer."""
    checker = shutil.which("compute-sanitizer")
    if machine.device == "cpu" or not checker:
        raise Skipped("needs a GPU and compute-sanitizer")
    values, goals = {}, []
    for tool in ("memcheck", "racecheck"):
        name = f"{tool} on the trainer"
        try:
            said = machine.run([checker, "--tool", tool, "--error-exitcode", "9",
                                *machine.train_command(PROGRAMS[0], 2, "--no-graph")],
                               limit=machine.remaining() / (2 - len(values)))
            values[tool], clean = said[-300:], True
        except OutOfTime as problem:
            values[tool] = str(problem)
            goals.append(unmeasured(name, "clean", problem))
            continue
        except Failure as problem:
            values[tool], clean = str(problem), False
        goals.append(held(name, int(not clean), "clean"))
    return values, goals


PARTS = {"hard_jobs": hard_jobs, "trainer_races": trainer_races}
