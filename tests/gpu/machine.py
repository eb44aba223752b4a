"""The machine and our binaries on it: where they are, how they are started, what they answer.

Standard library only: the machine that runs this may have nothing but Python.
"""

import datetime
import json
import os
import pathlib
import platform
import random
import signal
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Failure(RuntimeError):
    """A part that could not be done, in words for the results file."""


class Skipped(Failure):
    """What this machine cannot try, and why."""


class OutOfTime(Failure):
    """A command that its part has no time left for."""


def libraries_of_nvidia():
    """Directories of a toolkit's and of Python wheels' libraries (NVRTC, cuBLASLt, CUPTI, NCCL)."""
    home = pathlib.Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    found = [home / "lib64", home / "extras/CUPTI/lib64"]
    for entry in sys.path:
        found += sorted(pathlib.Path(entry).glob("nvidia/*/lib")) if entry else []
    return [str(directory) for directory in found if directory.is_dir()]


def interval(values, samples=2000):
    """Median with its 95 % bootstrap interval (fixed seed)."""
    draw = random.Random(0)
    medians = sorted(statistics.median(draw.choices(values, k=len(values)))
                     for _ in range(samples))
    return {"median": statistics.median(values), "low": medians[samples // 40],
            "high": medians[-samples // 40 - 1], "values": values}


class Machine:
    """Starts our binaries: those of a bundle, or of a build directory."""

    def __init__(self, root, programs, dry_run, device=None):
        self.bin = root / "bin"
        self.programs = programs
        self.dry_run = dry_run
        self.device = device or ("cpu" if dry_run else "cuda")
        self.held = tempfile.TemporaryDirectory(prefix="reprise_gpu_")  # Removed with this process.
        self.directory = pathlib.Path(self.held.name)
        self.deadline = float("inf")
        self.frameworks = {}  # As facts() finds them.
        self.own_path = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = dict(os.environ)
        places = [self.own_path, self.unpack(root / "lib/bundled.tar.gz"), *libraries_of_nvidia()]
        self.environment["LD_LIBRARY_PATH"] = ":".join(place for place in places if place)

    def unpack(self, archive):
        """Directory of a bundle's libraries; "" for a build directory, which needs none."""
        if not archive.exists():
            return ""
        target = self.directory / "lib"
        with tarfile.open(archive) as packed:
            packed.extractall(target)
        return str(target)

    def start_part(self, seconds):
        self.deadline = time.monotonic() + seconds

    def remaining(self):
        """Seconds until the part has to be through."""
        return self.deadline - time.monotonic()

    def run(self, command, environment=None, accept=(0,), limit=600):
        """Output of a command; Failure with the end of what it said when its status is another."""
        started = self.start(command, environment)
        [(output, said)] = finish([started], min(limit, self.remaining()))
        if started.returncode not in accept:
            said = (said.strip() or output.strip())[-1500:]
            raise Failure(f"{' '.join(map(str, command))}: exit {started.returncode}\n{said}")
        return output

    def start(self, command, environment=None):
        try:
            return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, start_new_session=True,
                                    env={**self.environment, **(environment or {})})
        except OSError as problem:
            raise Failure(f"{command[0]}: {problem}") from problem

    def reprise(self, *arguments, accept=(0,)):
        return json.loads(self.run([self.bin / "reprise", *arguments, "--format", "json"],
                                   accept=accept))

    def program(self, name):
        return self.programs / f"{name}.hlo"

    def train_command(self, name, steps, *flags, device=None):
        return [self.bin / "reprise-train", self.program(name), "--device", device or self.device,
                "--steps", steps, "--warmup", max(min(3, steps - 1), steps // 3), *flags]

    def train(self, name, steps, *flags, device=None, trace=None):
        """Result of one rank alone, profiled into `trace` if given. A state that does not verify
        is a result too."""
        result = self.directory / "result.json"
        result.unlink(missing_ok=True)
        command = [*self.train_command(name, steps, *flags, device=device), "--result", result]
        if trace:
            self.profile(trace, command)
        else:
            self.run(command, accept=(0, 1))
        if not result.exists():
            raise Failure(f"{name}: no result of training")
        return json.loads(result.read_text())

    def train_ranks(self, name, ranks, steps, *flags, device=None):
        """Result of several ranks on this machine, which meet at a file."""
        meeting = self.directory / f"meeting.{name}.{random.getrandbits(32):x}"
        result = self.directory / "ranks.json"
        result.unlink(missing_ok=True)
        started = []
        for rank in range(ranks):
            where = {"RANK": str(rank), "WORLD_SIZE": str(ranks), "LOCAL_RANK": str(rank),
                     "REPRISE_RENDEZVOUS": str(meeting)}
            # One rank compiles kernels for all: the others wait for it no longer than this.
            command = self.train_command(name, steps, *flags, "--timeout", "200", "--result", result,
                                         device=device)
            started.append(self.start(command, where))
        said = [text for _, text in finish(started, self.remaining())]
        if any(process.returncode not in (0, 1) for process in started) or not result.exists():
            raise Failure(f"{name} on {ranks} ranks: "
                          + "; ".join(text.strip()[-300:] for text in said))
        return json.loads(result.read_text())

    def profile(self, trace, command, environment=None):
        """Runs a command under `reprise profile`; returns its output."""
        return self.run([self.bin / "reprise", "profile", "--force", "-o", trace, "--",
                         *command], environment)

    def wrapped(self):
        """`reprise` for scripts that must not see our own libraries."""
        program = self.directory / "wrapped" / "reprise"
        program.parent.mkdir(exist_ok=True)
        libraries = self.environment["LD_LIBRARY_PATH"]
        program.write_text(f'#!/bin/sh\nLD_LIBRARY_PATH="{libraries}" exec "{self.bin}/reprise" "$@"\n')
        program.chmod(0o755)
        return program

    def needs(self, framework):
        """Skipped where there is no such framework, or one that would run on the CPU instead."""
        found = self.frameworks.get(framework)
        if not found:
            raise Skipped(f"not measured: no {framework}")
        if found["device"] != "cuda" and self.device == "cuda":
            raise Skipped(f"not measured: {framework} {found['version']} sees no GPU")

    def script(self, name, *arguments):
        """A Python script as a command that does not see our own libraries."""
        return ["env", f"LD_LIBRARY_PATH={self.own_path}", sys.executable, HERE / name, *arguments]


def facts(machine):
    """What figures depend on: date, machine, GPU, driver, versions, commit."""
    known = {"date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
             "processor": platform.processor() or platform.machine(), "cores": os.cpu_count(),
             "python": platform.python_version(), "dry_run": machine.dry_run}
    commit = machine.bin.parent / "COMMIT"
    try:
        known["commit"] = (commit.read_text() if commit.exists() else machine.run(
            ["git", "-C", HERE, "describe", "--always", "--dirty"])).strip()
    except Failure as problem:
        known["commit"] = None
        known["no_commit"] = str(problem).splitlines()[0]
    known["gpu"] = known["driver"] = known["memory"] = None
    try:
        query = machine.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total",
                             "--format=csv,noheader"], limit=60)
        known["gpu"], known["driver"], known["memory"] = [
            field.strip() for field in query.splitlines()[0].split(",")]
    except (Failure, ValueError, IndexError) as problem:
        known["no_gpu"] = (str(problem).splitlines() or ["nvidia-smi said nothing"])[0]
    for framework in ("torch", "jax"):
        found = framework_of(machine, framework)
        machine.frameworks[framework] = found
        known[framework] = f"{found['version']} ({found['device']})" if found else None
    return known


def framework_of(machine, name):
    """Its version and device; None where it cannot be imported."""
    try:
        found = json.loads(machine.run(machine.script("versions.py", name),
                                       limit=120).splitlines()[-1])
        return {"version": str(found["version"]), "device": str(found["device"])}
    except (Failure, ValueError, KeyError, IndexError):
        return None


def finish(processes, seconds):
    """What each said, on stdout and on stderr. Those that do not end in time are ended, with all
    that they started: a pipe is open as long as one of these lives."""
    end = time.monotonic() + seconds
    try:
        return [process.communicate(timeout=max(1, end - time.monotonic()))
                for process in processes]
    except BaseException as problem:
        for process in processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.communicate()
        if not isinstance(problem, subprocess.TimeoutExpired):
            raise
        raise OutOfTime(f"{problem.cmd[0]}: no end after {seconds:.0f} s") from problem


def collect(process, seconds):
    """Lines of JSON that a process printed, all that came in the time it had."""
    try:
        output, said = process.communicate(timeout=max(1, seconds))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, said = process.communicate()
    lines = [line for line in output.splitlines() if line.startswith("{")]
    if not lines:
        raise Failure(f"{process.args[0]}: {said.strip()[-1500:] or 'said nothing'}")
    return lines
