#!/usr/bin/env python3
"""Faults of every rank at every moment: fault_matrix.py [--ranks 2,4] [--faults kill,stop,...] [--quick]. By hand.

A cell is a run of `reprise train` with one fault. It ends within the time limit and a little, names the rank, exits as
documented, and leaves no process, folder or shared memory and no trace that is half written. A rank that is only slow
(stopped for less than the limit), a link that is cut for less, and a jump of the clock of the day end with the same bits
as an undisturbed run. A disk that is full from the n-th write of a process on is said. Network cells need root
(tests/netns), those of the clock libfaketime; they are left out without. --writes N samples at most N writes a process.
REPRISE_BIN names the programs' folder. Prints a line a cell and what failed.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/cli"))
from command_case import BIN, MPI, descendants, end_all, state_and_parent, wait_until  # noqa: E402

LIMIT_S, MARGIN_S, STEPS = 4, 8, 30
MOMENTS = ("launch", "first step", "mid-step", "writing the trace", "end")
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")


class Tools:
    """What is preloaded, and the files that steer it, away from the folders that runs must leave clean."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults.tools."))
        self.library = self.folder / "faulty_writes.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, ROOT / "tests/faulty_writes.c", "-ldl"],
                       check=True)
        self.marker, self.clock = self.folder / "paused", self.folder / "clock"
        self.counts = {}

    def writes(self, ranks, process):
        """How many writes a process of an undisturbed run makes, counted once: `reprise`, or a rank's number."""
        if (ranks, process) not in self.counts:
            log = self.folder / "count"
            log.unlink(missing_ok=True)
            run = Run(ranks, tools=self, **self.of(process), FAULT_COUNT=str(log))
            status, errors, _, _ = run.finish()
            run.close()
            assert status == 0, errors
            self.counts[ranks, process] = log.stat().st_size if log.exists() else 0
        return self.counts[ranks, process]

    @staticmethod
    def of(process):
        if process == "reprise":
            return {"FAULT_PROCESS": "reprise"}
        return {"FAULT_PROCESS": "reprise-train", "FAULT_RANK": str(process)}

    def pause(self, ranks, process):
        """In the last write of a rank, or in the middle of the launcher's."""
        self.marker.unlink(missing_ok=True)
        writes = self.writes(ranks, process)
        number = writes // 2 if process == "reprise" else writes - 1
        return {**self.of(process), "FAULT_PAUSE": f"{number}:{self.marker}"}

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


class Run:
    """One training, in a folder of its own."""

    def __init__(self, ranks, prefix=(), tools=None, **environment):
        self.tools = tools
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="faults."))
        self.temporary = self.folder / "tmp"
        self.temporary.mkdir()
        self.trace = self.folder / "out.trace"
        words = ["train", "-n", ranks, ROOT / f"data/programs/mlp.{ranks}.hlo", "--steps", STEPS, "--timeout", LIMIT_S,
                 "--trace", self.trace, "--format", "json"]
        if tools:
            environment = {"LD_PRELOAD": str(tools.library), "FAULT_FOLDER": str(self.folder), **environment}
        self.shared = set(pathlib.Path("/dev/shm").iterdir())
        self.process = subprocess.Popen([*prefix, BIN / "reprise", *map(str, words)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True,
                                        env=dict(os.environ, **MPI, TMPDIR=str(self.temporary), **environment))
        self.seen = set()

    def rank(self, number):
        """The process of a rank, None before it has begun."""
        for pid in descendants(self.process.pid):
            self.seen.add(pid)
            try:
                words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                environment = pathlib.Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0].endswith(b"reprise-train") and f"OMPI_COMM_WORLD_RANK={number}".encode() in environment:
                return pid
        return None

    def shard_bytes(self, number):
        sizes = [path.stat().st_size for path in self.temporary.glob(f"reprise.*/rank.{number}.shard")]
        return sizes[0] if sizes else 0

    def has_come_to(self, moment, rank):
        if self.process.poll() is not None:
            return True
        if moment == "launch":
            return self.rank(rank) is not None
        if moment == "first step":
            return self.shard_bytes(rank) > 0
        if moment == "mid-step":
            return self.shard_bytes(rank) > 20_000
        if moment == "writing the trace":
            return self.tools.marker.exists()
        return bool(list(self.temporary.glob("reprise.*/result.json")))

    def await_moment(self, moment, rank):
        end = time.monotonic() + 60
        while not self.has_come_to(moment, rank) and time.monotonic() < end:
            time.sleep(0.005)
        return self.rank(rank)

    def finish(self):
        """(status, what it said, seconds that took)."""
        start = time.monotonic()
        try:
            out, errors = self.process.communicate(timeout=LIMIT_S + MARGIN_S + 30)
        except subprocess.TimeoutExpired:
            end_all(self.process)
            return None, "", time.monotonic() - start, ""
        return self.process.returncode, errors, time.monotonic() - start, out

    def leftovers(self):
        left = []
        if not wait_until(lambda: not any(state_and_parent(pid) for pid in self.seen), 5):
            left.append("processes")
        if not wait_until(lambda: not list(self.temporary.iterdir()), 5):
            left.append("temporary files")
        left += [str(path) for path in set(pathlib.Path("/dev/shm").iterdir()) - self.shared if "vader" in path.name]
        left += [path.name for path in self.folder.iterdir() if path.name not in ("tmp", "out.trace")]
        return left

    def close(self):
        end_all(self.process)
        shutil.rmtree(self.folder, ignore_errors=True)


def state_of(out):
    try:
        return json.loads(out)["state_hash"]
    except (ValueError, KeyError):
        return None


def strike(run, fault, pid):
    if pid is None:
        return
    if run.tools:
        threading.Timer(0.1, run.tools.marker.unlink, [True]).start()  # What still lives goes on.
    try:
        os.kill(pid, signal.SIGKILL if fault == "kill" else signal.SIGSTOP)
    except ProcessLookupError:
        return
    if fault == "slow":
        def go_on():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        threading.Timer(LIMIT_S / 3, go_on).start()


def judge(run, fault, rank, state):
    """What is wrong after the fault of a rank; and how it ended."""
    status, errors, seconds, out = run.finish()
    wrong = []
    if seconds > LIMIT_S + MARGIN_S and fault not in ("slow", "cut and restored"):
        wrong.append(f"took {seconds:.1f} s")
    if status == 0:  # Slow, or struck when all was done.
        if state_of(out) != state:
            wrong.append("other bits")
        if not run.trace.exists():
            wrong.append("no trace")
    else:
        if fault in ("slow", "cut and restored"):
            wrong.append(f"status {status}: {errors[-300:]}")
        if fault in ("kill", "stop", "cut") and f"rank {rank}" not in errors:
            wrong.append(f"rank {rank} is not named: {errors[-300:]}")
        if status not in (1, 3, 4, 137):
            wrong.append(f"status {status}")
        if run.trace.exists():
            wrong.append("a trace of a run that failed")
    return wrong + run.leftovers(), f"status {status} after {seconds:.1f} s"


def run_to(ranks, moment, process, tools):
    if moment != "writing the trace":
        return Run(ranks)
    return Run(ranks, tools=tools, **tools.pause(ranks, process))


def rank_cell(ranks, fault, rank, moment, state, tools):
    run = run_to(ranks, moment, rank, tools)
    try:
        strike(run, fault, run.await_moment(moment, rank))
        return judge(run, fault, rank, state)
    finally:
        run.close()


def launcher_cell(ranks, moment, tools):
    run = run_to(ranks, moment, "reprise", tools)
    try:
        run.await_moment(moment, 0)
        run.process.kill()
        run.process.communicate()
        tools.marker.unlink(missing_ok=True)
        left = run.leftovers() + (["a trace"] if run.trace.exists() and moment != "end" else [])
        return left, "killed"
    finally:
        run.close()


def full_cell(ranks, process, number, state, tools):
    """The disk is full from a write on: said, or it was of no matter."""
    run = Run(ranks, tools=tools, **tools.of(process), FAULT_FULL=str(number))
    try:
        status, errors, seconds, out = run.finish()
        wrong = []
        if status == 0 and (state_of(out) != state or not run.trace.exists()):
            wrong.append("other bits" if run.trace.exists() else "no trace")
        if status != 0 and "No space left" not in errors and "disk is full" not in errors:
            wrong.append(f"the disk is not named: {errors[-300:]}")
        if status not in (0, 3, 4):
            wrong.append(f"status {status}")
        if status != 0 and run.trace.exists():
            wrong.append("a trace of a run that failed")
        return wrong + run.leftovers(), f"status {status} after {seconds:.1f} s"
    finally:
        run.close()


def clock_cell(ranks, jump, state, tools):
    """The clock of the day jumps in the middle of the run; that of durations does not."""
    tools.clock.write_text("+0")
    run = Run(ranks, LD_PRELOAD=str(FAKETIME), DONT_FAKE_MONOTONIC="1", FAKETIME_DONT_FAKE_MONOTONIC="1",
              FAKETIME_NO_CACHE="1", FAKETIME_DISABLE_SHM="1", FAKETIME_TIMESTAMP_FILE=str(tools.clock))
    try:
        wait_until(lambda: run.has_come_to("mid-step", 0), 60)
        (tools.folder / "clock.new").write_text(jump)
        (tools.folder / "clock.new").rename(tools.clock)
        wrong, how = judge(run, "slow", 0, state)  # It must end as if nothing had happened.
        return wrong, how
    finally:
        run.close()


def network_cell(ranks, seconds, state):
    """The link of rank 1's host is cut in the middle of the run, for good or for a while."""
    run = Run(ranks, [ROOT / "tests/netns/run.sh", "-n", str(ranks)])
    try:
        wait_until(lambda: run.has_come_to("mid-step", 1), 60)
        run.rank(1)
        subprocess.run(["ip", "link", "set", "rpv1", "down"], check=False)
        if seconds:
            time.sleep(seconds)
            subprocess.run(["ip", "link", "set", "rpv1", "up"], check=False)
        return judge(run, "cut and restored" if seconds else "cut", 1, state)
    finally:
        run.close()


def disk_cells(ranks, most, state, tools):
    for process in ("reprise", *range(ranks)):
        writes = tools.writes(ranks, process)
        for number in sorted({writes * i // min(most, writes) for i in range(min(most, writes))} | {max(writes - 1, 0)}):
            who = process if process == "reprise" else f"rank {process}"
            yield (f"{ranks} ranks, disk full from write {number} of {writes} of {who} on",
                   lambda p=process, n=number: full_cell(ranks, p, n, state, tools))


def cells(options, states, tools):
    """(name, function) of every cell that this machine can run."""
    moments = MOMENTS[::2] if options.quick else MOMENTS
    has_hosts = "network" in options.faults and subprocess.run(
        [ROOT / "tests/netns/hosts.sh", "check"], capture_output=True, check=False).returncode == 0
    for ranks in options.ranks:
        state = states[ranks]
        for fault in [each for each in options.faults if each in ("kill", "stop", "slow")]:
            for moment in moments:
                for rank in range(ranks)[:1 if options.quick else None]:
                    yield (f"{ranks} ranks, {fault} rank {rank} at {moment}",
                           lambda r=ranks, f=fault, n=rank, m=moment, s=state: rank_cell(r, f, n, m, s, tools))
        if "launcher" in options.faults:
            for moment in moments:
                yield (f"{ranks} ranks, launcher killed at {moment}",
                       lambda r=ranks, m=moment: launcher_cell(r, m, tools))
        if "clock" in options.faults and FAKETIME.exists():
            for jump in ("+3600", "-3600"):
                yield (f"{ranks} ranks, the clock jumps by {jump} s",
                       lambda r=ranks, j=jump, s=state: clock_cell(r, j, s, tools))
        if "disk" in options.faults:
            yield from disk_cells(ranks, options.writes, state, tools)
        if has_hosts:
            yield f"{ranks} ranks, network cut for good", lambda r=ranks, s=state: network_cell(r, 0, s)
            yield f"{ranks} ranks, network cut for 1.3 s", lambda r=ranks, s=state: network_cell(r, 1.3, s)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=lambda text: [int(each) for each in text.split(",")], default=[2, 4])
    parser.add_argument("--faults", type=lambda text: text.split(","), default=["kill", "stop", "slow", "launcher", "clock", "disk", "network"])
    parser.add_argument("--writes", type=int, default=12)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    states = {}
    for ranks in sorted({2, *options.ranks}):
        run = Run(ranks)
        status, errors, _, out = run.finish()
        run.close()
        assert status == 0, errors
        states[ranks] = state_of(out)
    failed = count = 0
    tools = Tools()
    for name, cell in cells(options, states, tools):
        wrong, how = cell()
        count += 1
        failed += bool(wrong)
        print(f"{'FAILED' if wrong else 'ok':6} {name}: {how}{''.join('; ' + each for each in wrong)}", flush=True)
    tools.close()
    print(f"{count} cells, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
