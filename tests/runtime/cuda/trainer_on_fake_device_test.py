"""reprise-train --device cuda on the fake driver, NVRTC, cuBLASLt and NCCL: the
whole trainer, printed CUDA code included, ends with the state of the CPU's run,
whatever the order of the device's work, and gives everything back."""
import json
import os
import subprocess
import sys
import tempfile

mpirun, trainer, programs, cache, *libraries = sys.argv[1:]


def train(program, *flags, ranks=1, seconds=200, kept=cache, **environment):
    """Status, result and words of a run."""
    command = [trainer, f"{programs}/{program}.hlo", "--cache", kept,
               "--steps", "3", "--warmup", "1", *flags]
    if ranks > 1:
        command = [mpirun, "--oversubscribe", "--bind-to", "none",
                   "-n", str(ranks), *command]
    run = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds,
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries),
             "FAKE_CUDA_STRICT": "1", "OMP_NUM_THREADS": "1",
             "OMPI_ALLOW_RUN_AS_ROOT": "1",
             "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **environment})
    result = json.loads(run.stdout) if run.returncode == 0 else None
    return run.returncode, result, run.stderr


def reprise(*words, **environment):
    """Status, output and words of the command line."""
    run = subprocess.run(
        [os.path.join(os.path.dirname(trainer), "reprise"), *words],
        capture_output=True, text=True, timeout=200,
        env={**os.environ, "LD_LIBRARY_PATH": ":".join(libraries),
             "FAKE_CUDA_STRICT": "1", "OMP_NUM_THREADS": "1",
             "XDG_CACHE_HOME": os.path.dirname(cache), **environment})
    return run.returncode, run.stdout, run.stderr


def expect(found, wanted, what):
    assert found == wanted, f"{what}: {found}, not {wanted}"


def compare(program, expected, mode, *flags, ranks=1, kept=cache, **environment):
    """The run ends with the state `expected`; `mode` is what it must say."""
    what = f"{program} {' '.join(flags)} {environment}"
    status, result, words = train(program, "--device", "cuda", *flags,
                                  ranks=ranks, kept=kept, **environment)
    expect(status, 0, f"{what}: {words}")
    said = {key: result[key] for key in mode}
    expect(said, mode, what)
    expect(result["device"], "cuda", what)
    expect(result["device_name"], "Fake device 0", what)
    expect(result["driver_version"], "13.0", what)
    expect(len(result["device_step_time_ns"]["all"]), 2, what)
    assert min(result["device_step_time_ns"]["all"]) > 0, what
    expect(result["state_hash"], expected, what)
    print("ok", what)


def one_rank():
    _, host, _ = train("mlp.1")
    graph = {"steps_run_as": "graph", "collectives": "none", "math": "f32"}
    for seed in "12":
        compare("mlp.1", host["state_hash"], graph, FAKE_CUDA_SEED=seed)
    compare("mlp.1", host["state_hash"],
            {"steps_run_as": "eager", "math": "tf32"}, "--no-graph", "--math",
            "tf32")


def loops_and_routines():
    """What kernels alone do not run; a loop that ends by what it computes is in no graph."""
    _, host, _ = train("loops.1")
    for seed in "12":
        compare("loops.1", host["state_hash"], {"steps_run_as": "eager"}, FAKE_CUDA_SEED=seed)
    _, _, words = train("loops.1", "--device", "cuda")
    for said in ["no device code for sorted: the host runs it", "no CUDA graph"]:
        assert said in words, words


def two_ranks():
    _, host, _ = train("mlp.2", ranks=2)
    staged = {"steps_run_as": "eager", "collectives": "gloo"}
    compare("mlp.2", host["state_hash"], staged, ranks=2, FAKE_CUDA_SEED="1")
    two = {"FAKE_CUDA_DEVICES": "2"}
    compare("mlp.2", host["state_hash"],
            {"steps_run_as": "graph", "collectives": "nccl"}, ranks=2,
            FAKE_CUDA_SEED="2", **two)
    compare("mlp.2", host["state_hash"],
            {"steps_run_as": "eager", "collectives": "nccl"}, "--no-graph",
            ranks=2, FAKE_CUDA_SEED="3", **two)
    compare("mlp.2", host["state_hash"], staged, "--collectives", "gloo",
            ranks=2, **two)
    with tempfile.TemporaryDirectory() as choices:  # Timed, then found.
        for _ in range(2):
            compare("mlp.2", host["state_hash"],
                    {"steps_run_as": "graph", "collectives": "nccl"}, ranks=2,
                    kept=choices, FAKE_CUBLAS_COSTS="9000,5000,7000", **two)


def refusals():
    for environment, flags, code, word in [
            ({"LD_LIBRARY_PATH": ""}, [], 4, "no NVIDIA driver"),
            ({"FAKE_CUDA_DEVICES": "0"}, [], 4, "sees no device"),
            ({}, ["--interpret"], 3, "--device cpu only")]:
        status, _, words = train("mlp.1", "--device", "cuda", *flags,
                                 **environment)
        expect(status, code, words)
        assert word in words, words
        print("ok", words.strip())


def hangs():
    """A kernel or a call that never comes back ends the run by --timeout: the
    error is said, though all that would clean up would wait (for 100 s)."""
    for environment, flags, words in [
            ({"FAKE_CUDA_HANG": "2"}, ["--no-graph"],
             ["step 0: the device has not ended it after 1 s", "compute has come to '"]),
            ({"FAKE_CUDA_HANG": "40"}, [], ["the device has not ended it after 1 s", "'"]),
            ({"FAKE_CUDA_BLOCK": "cuLaunchKernel:3"}, [],
             ["rank 0, step 0: ", "has not come back from the NVIDIA driver"]),
            ({"FAKE_CUDA_BLOCK": "cuGraphLaunch:0"}, [],
             ["rank 0, step 1: the launch of its graph has not come back"])]:
        status, _, said = train("mlp.1", "--device", "cuda", "--timeout", "1",
                                *flags, seconds=60, **environment)
        expect(status, 4, said)
        for word in words:
            assert word in said, said
        print("ok", said.strip())


def traces():
    """reprise train --trace on a GPU is reprise profile."""
    program = f"{programs}/mlp.1.hlo"
    with tempfile.TemporaryDirectory() as directory:
        trace = f"{directory}/run.trace"
        status, output, words = reprise(
            "train", program, "--device", "cuda", "--steps", "3", "--trace",
            trace, "--no-graph", "--format", "json")
        expect(status, 0, words)
        expect(json.loads(output)["steps_run_as"], "eager", "train --trace")
        status, output, words = reprise("info", trace, "--format", "json")
        expect(status, 0, words)
        expect(json.loads(output)["ranks"][0]["device"], "cuda", output)
    status, _, words = reprise("train", program, "--device", "cuda",
                               LD_LIBRARY_PATH="")
    expect(status, 4, words)
    assert "NVIDIA driver" in words, words
    print("ok", words.strip())


one_rank()
loops_and_routines()
two_ranks()
refusals()
hangs()
if "REPRISE_INSTRUMENTED" not in os.environ:  # Then nothing can be preloaded.
    traces()
