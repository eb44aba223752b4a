"""Kills or stops rank 1 in mid-run: every rank must end within seconds, with a
status that is not 0 and a message that names rank 1."""
import atexit
import os
import signal
import subprocess
import sys
import tempfile
import time

# 3 s of silence, a roll call, mpirun's own 2.5 s, a loaded machine; the default
# of --timeout is 30 s.
LIMIT_S = 20
START_LIMIT_S = 100  # Kernels are compiled, perhaps beside other tests.


def processes():
    """The pids of the run, with what each was started as."""
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as file:
                environment = file.read().split(b"\0")
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                command = file.read()
        except OSError:
            continue
        if MARK in environment:
            yield int(entry), environment, command


def rank_1_process():
    """The pid of the training process of rank 1, once it has started."""
    for pid, environment, command in processes():
        if (b"OMPI_COMM_WORLD_RANK=1" in environment
                and b"reprise-train" in command):
            return pid
    return None


def are_training(directory):
    """Whether both ranks have recorded steps. Before, they wait for a stopped
    one as for one that still compiles."""
    try:  # A shard's header is shorter.
        return all(os.stat(f"{directory}/rank.{rank}.shard").st_size > 2048
                   for rank in range(2))
    except OSError:
        return False


def end_all():
    """What a failure leaves would train for hours, or stay stopped."""
    for pid, _, _ in processes():
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


failure, mpirun, trainer, program, cache, *flags = sys.argv[1:]
mark = f"REPRISE_LOST_RANK_TEST={os.getpid()}"
MARK = mark.encode()
name, value = mark.split("=")
environment = {**os.environ, name: value, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
shards = tempfile.TemporaryDirectory()
atexit.register(end_all)
run = subprocess.Popen(
    [mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", "-x", name,
     trainer, program, "--cache", cache, "--steps", "1000000", "--timeout", "3",
     "--shard-directory", shards.name, *flags],
    env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
start = time.monotonic()
while not are_training(shards.name):
    assert run.poll() is None, run.communicate()[0]
    assert time.monotonic() - start < START_LIMIT_S, "the ranks never trained"
    time.sleep(0.1)
pid = rank_1_process()
assert pid is not None, "the ranks are gone"
start = time.monotonic()
os.kill(pid, signal.SIGKILL if failure == "killed" else signal.SIGSTOP)
try:
    output, _ = run.communicate(timeout=LIMIT_S)
except subprocess.TimeoutExpired:
    run.kill()
    sys.exit(f"still running {LIMIT_S} s after rank 1 was {failure}")
print(f"ended after {time.monotonic() - start:.1f} s with {run.returncode}:")
print(output)
assert run.returncode != 0
assert "rank 1" in output
