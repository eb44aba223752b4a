"""Kills or stops rank 1 in mid-run: every rank must end within seconds, with a
status that is not 0 and a message that names rank 1."""
import os
import signal
import subprocess
import sys
import time

LIMIT_S = 12  # 3 s of silence, a roll call, mpirun's own 2.5 s, a loaded machine.


def rank_1_process():
    """The pid of the training process of rank 1, once it has started."""
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
        if (b"OMPI_COMM_WORLD_RANK=1" in environment
                and MARK in environment and b"reprise-train" in command):
            return int(entry)
    return None


failure, mpirun, trainer, program, cache, *flags = sys.argv[1:]
mark = f"REPRISE_LOST_RANK_TEST={os.getpid()}"
MARK = mark.encode()
name, value = mark.split("=")
environment = {**os.environ, name: value, "OMPI_ALLOW_RUN_AS_ROOT": "1",
               "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
run = subprocess.Popen(
    [mpirun, "--oversubscribe", "--bind-to", "none", "-n", "2", "-x", name,
     trainer, program, "--cache", cache, "--steps", "1000000", "--timeout", "3",
     *flags],
    env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
pid = None
for _ in range(100):
    pid = rank_1_process()
    if pid is not None:
        break
    time.sleep(0.1)
assert pid is not None, "rank 1 never started"
time.sleep(5)  # Compiled, connected and training by now.
assert run.poll() is None, run.communicate()[0]
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
