#!/usr/bin/env python3
"""Every libFuzzer target in turn: fuzz_all.py BIN_DIR WORK_DIR [--round S] [--rounds N] [--merge]. By hand.

BIN_DIR is that of the preset `fuzz`. Each round runs each target for S seconds, beginning with what WORK_DIR/TARGET and
tests/fuzz/corpus hold; crashes, hangs and leaks lie in WORK_DIR/findings. After each run WORK_DIR/log.json is what
tests/fuzz/log.md is written from: executions and CPU seconds of each target, findings, commit. --merge then writes
tests/fuzz/found.tar.xz anew: of what the targets' corpora and WORK_DIR hold, few small files that reach as much. WORK_DIR
gets these at the start, so that none is lost.
It runs at the lowest priority: where sessions share a machine as groups (sched_autogroup), SCHED_IDLE alone would count
within its own session only, so that is made the least as well (started by setsid, it is no one else's).
"""

import argparse
import json
import os
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent
FOUND = ROOT / "found.tar.xz"
LIMITS = ["-timeout=300", "-rss_limit_mb=2048", "-print_final_stats=1", "-verbosity=0"]


def stand_back():
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    group = pathlib.Path("/proc/self/autogroup")
    if group.exists() and os.getsid(0) == os.getpid():
        group.write_text("19")


def cpu_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def fuzz(target, work, seconds):
    """(executions, CPU seconds, whether it found something) of one run."""
    name = target.name.removesuffix("_fuzzer")
    corpus, findings = work / name, work / "findings"
    corpus.mkdir(parents=True, exist_ok=True)
    findings.mkdir(exist_ok=True)
    before = cpu_seconds()
    done = subprocess.run([target, corpus, ROOT / "corpus" / name, f"-max_total_time={seconds}",
                           f"-artifact_prefix={findings}/{name}.", *LIMITS], capture_output=True, check=False)
    said = done.stderr.decode(errors="replace")
    counted = re.search(r"stat::number_of_executed_units: *(\d+)", said)
    if done.returncode != 0:
        (findings / f"{name}.log").write_text(said)
    return int(counted.group(1)) if counted else 0, cpu_seconds() - before, done.returncode != 0


def merge(target, work, most_bytes, merged):
    """Few files that reach what the target's corpus and WORK_DIR do, those of its corpus left out, to merged/NAME."""
    name = target.name.removesuffix("_fuzzer")
    kept, chosen = ROOT / "corpus" / name, merged / name
    with tempfile.TemporaryDirectory() as offered:
        for path in (work / name).iterdir():
            if path.stat().st_size <= most_bytes:
                shutil.copy(path, offered)
        shutil.copytree(kept, chosen)
        subprocess.run([target, "-set_cover_merge=1", chosen, offered, "-timeout=300", "-rss_limit_mb=2048"],
                       capture_output=True, check=False)
    for path in kept.iterdir():
        (chosen / path.name).unlink()


def pack(merged):
    """The same bytes for the same files, whenever and by whom they were found."""
    def plain(member):
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o644
        return member

    with tarfile.open(FOUND, "w:xz") as packed:
        for path in sorted(merged.glob("*/*")):
            packed.add(path, path.relative_to(merged).as_posix(), filter=plain)


def table(log):
    lines = ["| target | executions | CPU seconds | findings |", "|---|---|---|---|"]
    for name, row in sorted(log["targets"].items()):
        lines.append(f"| {name} | {row['executions']:,} | {row['cpu_s']:,.0f} | {row['findings']} |")
    whole = [sum(row[key] for row in log["targets"].values()) for key in ("executions", "cpu_s", "findings")]
    return "\n".join([*lines, f"| all | {whole[0]:,} | {whole[1]:,.0f} | {whole[2]} |"])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bin_dir", type=pathlib.Path)
    parser.add_argument("work_dir", type=pathlib.Path)
    parser.add_argument("--round", type=int, default=60, help="seconds for each target")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--merge", action="store_true")
    parser.add_argument("--most", type=int, default=4096, help="bytes of a file")
    options = parser.parse_args()
    stand_back()
    targets = sorted(path for path in options.bin_dir.glob("*_fuzzer") if os.access(path, os.X_OK))
    if FOUND.exists():
        with tarfile.open(FOUND) as packed:
            packed.extractall(options.work_dir, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    options.work_dir.mkdir(parents=True, exist_ok=True)
    path = options.work_dir / "log.json"
    log = json.loads(path.read_text()) if path.exists() else {"targets": {}}
    log["commit"] = subprocess.run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"], capture_output=True, text=True,
                                   check=False).stdout.strip()
    for _ in range(options.rounds):
        for target in targets:
            executions, seconds, found = fuzz(target, options.work_dir, options.round)
            row = log["targets"].setdefault(target.name.removesuffix("_fuzzer"),
                                            {"executions": 0, "cpu_s": 0, "findings": 0})
            row["executions"] += executions
            row["cpu_s"] += seconds
            row["findings"] += found
            path.write_text(json.dumps(log, indent=1))
            if found:
                print(f"FOUND {target.name}: {options.work_dir}/findings", flush=True)
    if options.merge:
        with tempfile.TemporaryDirectory() as folder:
            for target in targets:
                merge(target, options.work_dir, options.most, pathlib.Path(folder))
            pack(pathlib.Path(folder))
    print(table(log))
    return 0


if __name__ == "__main__":
    sys.exit(main())
