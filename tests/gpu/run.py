"""Everything that only a GPU can show: correctness, profiles, replay error, fusion, graphs, overhead, XLA.

    tests/gpu/run.sh [--root DIR] [--output DIR] [--only PART,…] [--rounds N] [--dry-run] [--quick]

Writes results.json and summary.md; parts that an earlier run on this machine wrote there stay, so that --only may
spread the work over several runs: each part ends within --part-seconds, with fewer rounds where it must. Parts that
time nothing run first, side by side, each in a process of its own. A part that
fails is recorded and the rest goes on; the exit status is then 1, as when a goal is missed. What a machine cannot show
("not measured: no torch") is neither. With --dry-run everything runs on the CPU (with --device cuda: on what stands in
for a GPU), to try the parts, and nothing is judged.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import machine as machines  # noqa: E402
import job_parts  # noqa: E402
import parts  # noqa: E402

PARTS = {**parts.PARTS, **job_parts.PARTS}
UNTIMED = ("doctor", "kernels", "races", "correctness", "several_ranks", "trainer_races", "hard_jobs", "jax_kinds")

HERE = pathlib.Path(__file__).resolve().parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--root", type=pathlib.Path, help="a bundle or a build directory")
    parser.add_argument("--output", type=pathlib.Path, help="default: $OUT, or results/ here")
    parser.add_argument("--only", help="parts, with commas: " + ", ".join(PARTS))
    parser.add_argument("--rounds", type=int, default=20, help="pairs of a comparison")
    parser.add_argument("--script-rounds", type=int, default=6,
                        help="the same where a Python script starts anew each time")
    parser.add_argument("--steps", type=int, default=50, help="steps of a timed run")
    parser.add_argument("--part-seconds", type=int, default=540, help="time of one part")
    parser.add_argument("--dry-run", action="store_true", help="on the CPU, nothing judged")
    parser.add_argument("--device", choices=["cpu", "cuda"], help="of a dry run")
    parser.add_argument("--jax-steps", help="names of the steps of that part, with commas")
    parser.add_argument("--jax-kinds", help="names of the steps that are compared alone, with commas")
    parser.add_argument("--quick", action="store_true", help="the small program, few steps")
    options = parser.parse_args()
    chosen = options.only.split(",") if options.only else list(PARTS)
    for name in chosen:
        if name not in PARTS:
            parser.error(f"no part {name}; there are {', '.join(PARTS)}")
    if options.quick:
        options.rounds, options.steps = min(options.rounds, 2), min(options.steps, 3)
        options.script_rounds = min(options.script_rounds, 2)
    return options, chosen


def run_part(name, machine, options):
    """One part's record; never raises."""
    start = time.monotonic()
    machine.start_part(options.part_seconds)
    record = {"part": name, "purpose": PARTS[name].__doc__}
    try:
        record["values"], goals = PARTS[name](machine, options)
        record["goals"] = [dict(zip(("name", "value", "goal", "met"), goal)) for goal in goals]
    except machines.Skipped as reason:
        record["skipped"] = str(reason)
    except machines.Failure as problem:
        record["failure"] = str(problem)
    except Exception:  # A mistake of a part must not cost the others.
        record["failure"] = traceback.format_exc(limit=4)
    record["seconds"] = round(time.monotonic() - start, 1)
    return record


def run_side_by_side(names, options):
    """Records of parts, each by a run of this script that does nothing else."""
    words = [sys.executable, __file__]
    for flag in ("root", "rounds", "script_rounds", "steps", "part_seconds", "device", "jax_kinds"):
        if getattr(options, flag) is not None:
            words += [f"--{flag.replace('_', '-')}", str(getattr(options, flag))]
    words += [flag for flag, given in (("--dry-run", options.dry_run), ("--quick", options.quick)) if given]
    with tempfile.TemporaryDirectory() as place:
        started = [subprocess.Popen([*words, "--only", name, "--output", f"{place}/{name}"],
                                    stdout=subprocess.DEVNULL) for name in names]
        for process in started:
            process.wait()
        return [json.loads(pathlib.Path(f"{place}/{name}/results.json").read_text())["parts"][0] for name in names]


def earlier_parts(path, known, chosen):
    """What an earlier run on the same machine and commit found of the parts not run now."""
    try:
        before = json.loads(path.read_text())
        same = all(before["facts"].get(key) == known.get(key)
                   for key in ("gpu", "driver", "commit", "dry_run"))
        return [record for record in before["parts"] if same and record["part"] not in chosen]
    except (OSError, ValueError, KeyError):
        return []


def verdict(goal, dry_run):
    if dry_run or goal["met"] is None:
        return "not judged"
    return "met" if goal["met"] else "MISSED"


def summary(results):
    known = results["facts"]
    lines = [f"# {known.get('gpu') or 'No GPU'}, driver {known.get('driver') or 'none'}", "",
             f"{known['date']}, commit {known.get('commit')}, {known['cores']} cores, torch "
             f"{known['torch']}, jax {known['jax']}", ""]
    if known["dry_run"]:
        lines += ["A dry run: no figure here says anything about a GPU.", ""]
    lines += ["| part | what | value | goal | |", "|---|---|---|---|---|"]
    for record in results["parts"]:
        for goal in record.get("goals", []):
            value = goal["value"]
            text = f"{value:.4g}" if isinstance(value, (int, float)) else str(value)
            lines.append(f"| {record['part']} | {goal['name']} | {text} | {goal['goal']} | "
                         f"{verdict(goal, known['dry_run'])} |")
        if "failure" in record:
            first = record["failure"].strip().splitlines()
            lines.append(f"| {record['part']} | failed: {first[0][:160]} | | | FAILED |")
        if "skipped" in record:
            lines.append(f"| {record['part']} | {record['skipped']} | | | skipped |")
    return "\n".join(lines) + "\n"


def main():
    options, chosen = arguments()
    root = options.root or HERE.parent.parent / "build/release"
    bundled = root / "programs"
    machine = machines.Machine(
        root.resolve(), bundled if bundled.is_dir() else HERE.parent.parent / "data/programs",
        options.dry_run, options.device)
    output = options.output or pathlib.Path(os.environ.get("OUT") or HERE / "results")
    output.mkdir(parents=True, exist_ok=True)
    known = machines.facts(machine)
    results = {"schema": "reprise.gpu/1", "facts": known,
               "parts": earlier_parts(output / "results.json", known, chosen)}

    def keep(records):
        """After each part: a run that is cut short leaves what it found. Paths begin at the bundle."""
        results["parts"] += json.loads(json.dumps(records).replace(str(root.resolve()), "BUNDLE"))
        (output / "results.json").write_text(json.dumps(results, indent=1) + "\n")
        (output / "summary.md").write_text(summary(results))

    untimed = [name for name in chosen if name in UNTIMED]
    if len(untimed) > 1:
        print(f"{', '.join(untimed)} …", file=sys.stderr, flush=True)
        keep(run_side_by_side(untimed, options))
        chosen = [name for name in chosen if name not in untimed]
    for name in chosen:
        print(f"{name} …", file=sys.stderr, flush=True)
        keep([run_part(name, machine, options)])
    print(summary(results))
    failed = any("failure" in record for record in results["parts"])
    missed = any(goal["met"] is False for record in results["parts"]
                 for goal in record.get("goals", []))
    return 1 if failed or (missed and not options.dry_run) else 0


if __name__ == "__main__":
    sys.exit(main())
