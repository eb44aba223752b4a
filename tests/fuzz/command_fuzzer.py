#!/usr/bin/env python3
"""Whole commands on mutants of their inputs: command_fuzzer.py [--runs N] [--seed S] [--verbs a,b] [--keep FOLDER].

A run fails when it ends by a signal, with a status that no verb documents, with an internal error or a sanitizer's
words, after more than its time, or leaves anything but its output behind. Prints how many runs each verb got, how many
of their inputs it took, how many programs reached lowering and how many trainings started. REPRISE_BIN names the
programs' folder. Run r of a seed is the same on every machine; --only r runs it alone, --keep keeps inputs that fail.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile

import mutants

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()
CORPUS = ROOT / "tests/fuzz/corpus"
VERBS = ("import", "analyze", "replay", "diff", "info", "hlo", "optimize", "export", "train", "verify", "report")
TRACE_TARGETS = ("csv", "chrome", "pge", "pgle", "nccl-tuner", "chakra")
PLAN_TARGETS = ("ddp", "inductor", "fx-buckets", "fsdp2", "deepspeed", "megatron", "horovod", "dpro", "xla")
DOCUMENTED = {0, 1, 2, 3, 4}
# Of the code, as opposed to the text, of a program: what comes after parsing names no line.
PARSE_ERROR = re.compile(r"\.hlo:\d+")
BROKEN = re.compile(r"internal error|check failed|Sanitizer|runtime error:|terminate called|Signal: ")
LIMIT_S = 60


def small(text):
    """The shipped MLP with layers of 16 and batches of 8, which are interpreted in no time."""
    return text.replace("1024", "16").replace("512", "8")


class Inputs:
    """What mutants are made of, made once."""

    def __init__(self, folder):
        self.folder = folder
        self.program = small((ROOT / "data/programs/mlp.1.hlo").read_text())
        manifest = json.loads((ROOT / "data/programs/mlp.1.json").read_text())
        manifest["program"] = "p.hlo"
        manifest.pop("reference", None)
        self.manifest = json.dumps(manifest)
        self.data = (ROOT / "data/programs/digits.bin").read_bytes()
        self.programs = [self.program] + [path.read_text(errors="replace") for path in sorted((CORPUS / "hlo").iterdir())]
        self.imports = [path for kind in sorted(CORPUS.iterdir()) if kind.name not in ("hlo", "schedule", "trace", "archive")
                        for path in sorted(kind.iterdir()) if path.is_file() and path.stat().st_size < 200_000]
        self.write_program(folder, self.program, self.manifest)
        trace = folder / "run.trace"
        self.states = {}
        for name in ("state.npz", "state.safetensors"):
            trace.unlink(missing_ok=True)
            self.run("train", folder / "p.hlo", "--interpret", "--steps", "3", "--warmup", "1", "--trace", trace,
                     "--dump-state", folder / name)
            self.states[name] = (folder / name).read_bytes()
        self.trace = trace.read_bytes()
        imported = folder / "imported.trace"
        self.run("import", ROOT / "data/samples/kineto", "-o", imported)
        self.imported = imported.read_bytes()
        golden = ROOT / "tests/golden/traces/run.trace"  # Two ranks, buckets, costs.
        self.recorded = golden.read_bytes()
        self.plans = []
        for name in ("none", "xla", "ddp+fusion", "horovod"):
            plan = folder / f"{name}.json"
            self.run("optimize", trace, "--baseline", name, "-o", plan)
            self.plans.append(plan.read_text())
        ddp = folder / "ddp.json"
        self.run("optimize", imported, "--only", "buckets", "-o", ddp)
        self.ddp_plan = ddp.read_text()
        self.costs = json.dumps({"schema": "reprise.costs/1", "measurements": [
            {"machine": "", "key": "dot:f32:8:16:64", "unit": "dot.1", "context": "solo", "median_ns": 1000, "spread_ns": 10,
             "samples": 5}]})

    @staticmethod
    def run(*words):
        done = subprocess.run([BIN / "reprise", *map(str, words)], capture_output=True, text=True, env=environment())
        assert done.returncode == 0, (words, done.stderr)

    def write_program(self, folder, program, manifest):
        (folder / "p.hlo").write_text(program, errors="replace")
        (folder / "p.json").write_text(manifest, errors="replace")
        (folder / "digits.bin").write_bytes(self.data)


def environment(temporary=None):
    extra = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    if temporary:
        extra["TMPDIR"] = str(temporary)
    return dict(os.environ, **extra)


def train_command(draw, inputs, folder):
    program, manifest, options = inputs.program, inputs.manifest, []
    what = draw.random()
    if what < 0.4:
        program = mutants.any_program(draw, program)
    elif what < 0.55:
        manifest = mutants.any_json(draw, manifest)
    elif what < 0.75:
        name = draw.choice(sorted(inputs.states))
        content = bytearray(mutants.any_bytes(draw, inputs.states[name]))
        if draw.random() < 0.5:  # Values alone.
            content = bytearray(inputs.states[name])
            content[-draw.randrange(8, 400)] ^= 0xff
        (folder / name).write_bytes(content)
        options = ["--state", name]
    else:
        plan = draw.choice(inputs.plans)
        plan = mutants.any_json(draw, plan) if draw.random() < 0.9 else plan
        (folder / "plan.json").write_text(plan, errors="replace")
        options = ["--plan", "plan.json"]
    inputs.write_program(folder, program, manifest)
    return ["train", "p.hlo", "--interpret", "--steps", "2", "--warmup", "1", "--timeout", "20", *options] + \
        draw.choice(([], ["--trace", "out"]))


def hlo_command(draw, inputs, folder):
    program = mutants.any_program(draw, draw.choice(inputs.programs))
    if draw.random() < 0.3:  # A folder of dumps.
        dump = folder / "dump"
        dump.mkdir()
        (dump / "module_0001.jit_step.before_optimizations.txt").write_text(inputs.program)
        (dump / "module_0001.jit_step.cpu_after_optimizations.txt").write_text(program, errors="replace")
        return ["hlo", "dump"] + draw.choice(([], ["--table"]))
    (folder / "m.hlo").write_text(program, errors="replace")
    return ["hlo", "m.hlo"] + draw.choice(([], ["--table"], ["--manifest"], ["--format", "json"]))


def import_command(draw, inputs, folder):
    source = draw.choice(inputs.imports)
    content = source.read_bytes()
    if content[:1] in (b"{", b"[") and draw.random() < 0.6:
        content = mutants.any_json(draw, content.decode(errors="replace")).encode(errors="replace")
    else:
        content = mutants.any_bytes(draw, content)
    (folder / source.name).write_bytes(content)
    return ["import", source.name, "-o", "out"] + draw.choice(([], ["--strict"]))


def write_trace(draw, inputs, folder):
    """A mutant of some trace as a.trace; returns what it was."""
    source = draw.choice((inputs.trace, inputs.imported, inputs.recorded))
    (folder / "a.trace").write_bytes(mutants.any_trace(draw, source))
    return source


def write_plan(draw, inputs, folder, plans):
    (folder / "plan.json").write_text(mutants.any_json(draw, draw.choice(plans)), errors="replace")


def diff_command(draw, inputs, folder):
    (folder / "b.trace").write_bytes(write_trace(draw, inputs, folder))
    return ["diff", *draw.sample(("a.trace", "b.trace"), 2), "--by", draw.choice(("op", "kind", "collective", "phase"))]


def export_command(draw, inputs, folder):
    if draw.random() < 0.6:
        write_plan(draw, inputs, folder, [*inputs.plans, inputs.ddp_plan, inputs.ddp_plan])
        return ["export", "plan.json", "--as", draw.choice(PLAN_TARGETS), "-o", "out"]
    write_trace(draw, inputs, folder)
    return ["export", "a.trace", "--as", draw.choice(TRACE_TARGETS), "-o", "out"]


def optimize_command(draw, inputs, folder):
    source = write_trace(draw, inputs, folder)
    words = ["optimize", "a.trace", "-o", "out", "--no-measure", "--evaluations", "3"]
    if draw.random() >= 0.3:
        return words
    (folder / "a.trace").write_bytes(source)
    (folder / "costs.json").write_text(mutants.any_json(draw, inputs.costs), errors="replace")
    return words + ["--costs", "costs.json"]


def replay_command(draw, inputs, folder):
    is_program = write_trace(draw, inputs, folder) != inputs.imported
    if is_program and draw.random() < 0.3:
        (folder / "a.trace").write_bytes(inputs.trace)
        write_plan(draw, inputs, folder, inputs.plans)
        words = ["--plan", "plan.json"]
    else:
        words = draw.choice(([], ["--what-if", "bandwidth=2x"], ["--what-if", "op:.*=0.5x"], ["--what-if", "overlap=ideal"],
                             ["--what-if", "straggler=none"]))
    return ["replay", "a.trace", *words] + draw.choice(([], ["--format", "json"], ["--format", "csv"]))


def analyze_command(draw, inputs, folder):
    write_trace(draw, inputs, folder)
    return ["analyze", "a.trace"] + draw.choice(([], ["--format", "json"], ["--format", "csv"]))


def info_command(draw, inputs, folder):
    write_trace(draw, inputs, folder)
    return ["info", "a.trace"]


def verify_command(draw, inputs, folder):
    """Runs of each side: lists of step times, one a mutant, or traces."""
    words = ["verify"]
    if draw.random() < 0.2:
        write_trace(draw, inputs, folder)
        (folder / "b.trace").write_bytes(draw.choice((inputs.trace, inputs.imported, inputs.recorded)))
        if draw.random() < 0.5:
            write_plan(draw, inputs, folder, [*inputs.plans, inputs.ddp_plan])
            words.append("plan.json")
        words += ["--before", *draw.choice((["a.trace"], ["a.trace", "b.trace"])), "--after", "b.trace"]
    else:
        for side in ("before", "after"):
            words.append(f"--{side}")
            for run in range(draw.randrange(1, 4)):
                pace = draw.choice(("", " 3.1 ms"))
                lines = [f"{draw.gauss(12, 0.3):.3f} ms{pace}" for _ in range(draw.randrange(1, 40))]
                text = json.dumps([float(line.split()[0]) for line in lines]) if draw.random() < 0.3 else "\n".join(lines)
                content = text.encode()
                (folder / f"{side}{run}.txt").write_bytes(mutants.any_bytes(draw, content) if draw.random() < 0.5 else content)
                words.append(f"{side}{run}.txt")
    return words + draw.choice(([], ["--alternating"], ["--format", "json"], ["--fail-above", "0.02"], ["--require-faster"]))


def report_command(draw, inputs, folder):
    what = draw.random()
    if what < 0.3:
        write_plan(draw, inputs, folder, [*inputs.plans, inputs.ddp_plan])
        return ["report", "plan.json", "-o", "out"]
    source = write_trace(draw, inputs, folder)
    if what < 0.5:
        (folder / "b.trace").write_bytes(source)
        return ["report", "a.trace", "b.trace", "-o", "out"]
    return ["report", "a.trace", "-o", "out"]


def command(verb, draw, inputs, folder):
    """Writes the inputs of one run into `folder`; returns its words."""
    return globals()[f"{verb}_command"](draw, inputs, folder)


def faults(done, folder, inputs_there):
    """What is wrong with a run that has ended."""
    found = []
    if done.returncode not in DOCUMENTED:
        found.append(f"status {done.returncode}")
    said = BROKEN.search(done.stderr + done.stdout)
    if said:
        found.append(said[0])
    left = {path.name for path in folder.iterdir()} - inputs_there - {"out", "tmp"}
    left |= {path.name for path in (folder / "tmp").iterdir()}
    if left:
        found.append(f"left {sorted(left)}")
    if (folder / "out").exists() and done.returncode not in (0, 1):
        found.append("an output of a run that failed")
    return found


def one_run(number, verb, options, inputs):
    draw = random.Random(f"{options.seed}:{number}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fuzz."))
    try:
        words = command(verb, draw, inputs, folder)
        there = {path.name for path in folder.iterdir()}
        (folder / "tmp").mkdir()
        try:
            done = subprocess.run([BIN / "reprise", *words], cwd=folder, capture_output=True, timeout=LIMIT_S,
                                  text=True, errors="replace", env=environment(folder / "tmp"))
            wrong = faults(done, folder, there)
        except subprocess.TimeoutExpired:
            done, wrong = None, [f"more than {LIMIT_S} s"]
        if wrong and options.keep:
            shutil.copytree(folder, pathlib.Path(options.keep, f"{number}.{verb}"), dirs_exist_ok=True,
                            ignore=shutil.ignore_patterns("tmp"))  # Open MPI keeps pipes there.
        taken = done is not None and done.returncode in (0, 1)
        lowered = verb == "train" and done is not None and not PARSE_ERROR.search(done.stderr.split("\n")[0])
        launched = verb == "train" and done is not None and (taken or "reprise-train" in done.stderr)
        report = [f"run {number}: {' '.join(words)}: {'; '.join(wrong)}"] if wrong else []
        if wrong and done is not None:
            report += ["    " + line for line in done.stderr.splitlines()[:12]]
        return verb, taken, lowered, launched, report
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=900)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--verbs", default=",".join(VERBS))
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    verbs = options.verbs.split(",")
    counts = collections.Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        inputs = Inputs(pathlib.Path(folder))
        numbers = range(options.runs) if options.only is None else [options.only]
        for verb, taken, lowered, launched, report in pool.map(
                lambda number: one_run(number, verbs[number % len(verbs)], options, inputs), numbers):
            counts[verb, "runs"] += 1
            counts[verb, "taken"] += taken
            counts[verb, "past parsing"] += lowered
            counts[verb, "launched"] += launched
            wrong += bool(report)
            for line in report:
                print(line, flush=True)
    for verb in verbs:
        row = {what: counts[verb, what] for what in ("runs", "taken", "past parsing", "launched") if counts[verb, what]}
        print(f"{verb}: " + ", ".join(f"{number} {what}" for what, number in row.items()))
    print(f"{sum(counts[verb, 'runs'] for verb in verbs)} runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
