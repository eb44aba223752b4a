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
VERBS = ("import", "analyze", "replay", "diff", "info", "hlo", "optimize", "export", "train")
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
        self.run("train", folder / "p.hlo", "--interpret", "--steps", "3", "--warmup", "1", "--trace", trace)
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
    program, manifest, plan = inputs.program, inputs.manifest, None
    what = draw.random()
    if what < 0.4:
        program = mutants.any_program(draw, program)
    elif what < 0.65:
        manifest = mutants.any_json(draw, manifest)
    else:
        plan = draw.choice(inputs.plans)
        plan = mutants.any_json(draw, plan) if draw.random() < 0.9 else plan
    inputs.write_program(folder, program, manifest)
    words = ["train", "p.hlo", "--interpret", "--steps", "2", "--warmup", "1", "--timeout", "20"]
    if plan:
        (folder / "plan.json").write_text(plan, errors="replace")
        words += ["--plan", "plan.json"]
    return words + draw.choice(([], ["--trace", "out"]))


def command(verb, draw, inputs, folder):
    """Writes the inputs of one run into `folder`; returns its words."""
    if verb == "train":
        return train_command(draw, inputs, folder)
    if verb == "hlo":
        (folder / "m.hlo").write_text(mutants.any_program(draw, draw.choice(inputs.programs)), errors="replace")
        return ["hlo", "m.hlo"] + draw.choice(([], ["--table"], ["--manifest"], ["--format", "json"]))
    if verb == "import":
        source = draw.choice(inputs.imports)
        content = source.read_bytes()
        is_json = content[:1] in (b"{", b"[") and draw.random() < 0.6
        content = mutants.any_json(draw, content.decode(errors="replace")).encode(errors="replace") if is_json else \
            mutants.any_bytes(draw, content)
        (folder / source.name).write_bytes(content)
        return ["import", source.name, "-o", "out"] + draw.choice(([], ["--strict"]))
    source = draw.choice((inputs.trace, inputs.imported, inputs.recorded))
    is_program = source != inputs.imported
    (folder / "a.trace").write_bytes(mutants.any_trace(draw, source))
    if verb == "diff":
        (folder / "b.trace").write_bytes(source)
        return ["diff", *draw.sample(("a.trace", "b.trace"), 2), "--by", draw.choice(("op", "kind", "collective", "phase"))]
    if verb == "export":
        if draw.random() < 0.3:
            (folder / "plan.json").write_text(mutants.any_json(draw, inputs.ddp_plan), errors="replace")
            return ["export", "plan.json", "--as", "ddp", "-o", "out"]
        return ["export", "a.trace", "--as", draw.choice(("csv", "chrome")), "-o", "out"]
    if verb == "optimize":
        if draw.random() < 0.3:
            (folder / "a.trace").write_bytes(source)
            (folder / "costs.json").write_text(mutants.any_json(draw, inputs.costs), errors="replace")
            return ["optimize", "a.trace", "-o", "out", "--no-measure", "--evaluations", "3", "--costs", "costs.json"]
        return ["optimize", "a.trace", "-o", "out", "--no-measure", "--evaluations", "3"]
    words = [verb, "a.trace"]
    if verb == "replay" and is_program and draw.random() < 0.3:
        (folder / "a.trace").write_bytes(inputs.trace)
        (folder / "plan.json").write_text(mutants.any_json(draw, draw.choice(inputs.plans)), errors="replace")
        words += ["--plan", "plan.json"]
    elif verb == "replay":
        words += draw.choice(([], ["--what-if", "bandwidth=2x"], ["--what-if", "op:.*=0.5x"], ["--what-if", "overlap=ideal"],
                              ["--what-if", "straggler=none"]))
    return words + (draw.choice(([], ["--format", "json"], ["--format", "csv"])) if verb != "info" else [])


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
            shutil.copytree(folder, pathlib.Path(options.keep, f"{number}.{verb}"), dirs_exist_ok=True)
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
