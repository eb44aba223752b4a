#!/usr/bin/env python3
"""What one rank's training step costs in JAX and in `reprise train`, program by program.

  jax_step_bench.py REPRISE_BIN [STEP…] [--python PYTHON] [--pairs 20] [--seconds 0.5] [--cores 0]
                    [--optimize "WORDS"] [--keep DIR] [--no-plan]

REPRISE_BIN is the folder of reprise and reprise-train, PYTHON (or the first of $REPRISE_JAX_PYTHON) an interpreter
with JAX, flax and optax. Each STEP (of tests/python's files; without any, STEPS below; LARGER, REAL and OPS for all of
larger_steps.py, real_steps.py with published_steps.py, and op_steps.py) goes through the door (reprise.jax.export), is recorded and optimized
(`reprise optimize WORDS`), then JAX, the identity plan (`none`) and the plan run in turns, as many steps each as take
about --seconds, on the cores given (taskset, `0` or `0,1`): both use all of them. JAX runs its compiled step with
donated state and waits for every step's result, as `train` does. Times are medians over steps; a ratio is the median over pairs of adjacent runs,
with its 95 % bootstrap interval; their geometric mean over all steps has one, too, drawn from the pairs of each. CPU
time is that of a whole run less that of its start, over its steps: on a machine that others use it is the figure that
can be trusted. Arena: bytes of the plan's schedule beside XLA's memory_analysis() (arguments + outputs + temporaries
- aliased). Compile: kernels of the plan with an empty cache, and again, beside XLA's compile.
"""

import argparse
import json
import math
import os
import pathlib
import random
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STEPS = ["mlp", "decoder", "resnet", "lstm", "dropout", "fsdp", "auto", "vit", "unet", "dlrm", "seq2seq",
         "gpt_scan", "state_space", "blocked_attention", "graph_attention", "mixed"]
LARGER = ["big_mlp", "big_mlp_bf16", "big_vit", "big_resnet", "big_resnet_bf16", "big_convnext", "big_unet",
          "big_video", "big_gpt", "big_gpt_bf16", "big_lstm", "big_gru", "big_dlrm", "big_moe", "big_states", "big_sort"]
REAL = ["resnet50", "gpt2", "bert", "llama", "diffusion_unet", "vit_b16", "convnext_t", "efficientnet_b0", "t5_small",
        "moe_lm", "mamba"]
OPS = ["op_" + name for name in (
    "fourier_operator long_convolution eigenvalues solve qr inverse_root singular_values orthogonal gaussian_process "
    "shampoo random_numbers gammas categories angles "
    "special_functions quantized half_precision bilinear tensor_train vocabulary long_attention relative_attention "
    "graph_sums graph_attention_sums gathers grid_sampling dilated depthwise grouped recurrent_images resized "
    "pixel_shuffle pools pools_first norms reductions running largest nearest sums_back encodings distances state_scan "
    "transport label_paths equations "
    "many_weights folds value_heads short_scans half_images").split()]
SLOW_MS = 100.0  # A step as long as this one is warm after a few, and few of them last --seconds.


def serve(name, folder):
    """In JAX's interpreter: exports, then runs as many steps as each line of input says."""
    import jax

    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", 1)
    import steps
    import train_cases

    import reprise.jax as rj

    steps.STEPS |= train_cases.neighbours()
    made = steps.make(name, 1)
    arguments = steps.arguments(made, 0)
    rj.export(made.step, *arguments, out=folder, data=made.batch, steps=20)
    start = time.perf_counter()
    lowered = made.step.lower(*arguments)
    middle = time.perf_counter()
    memory = lowered.compile().memory_analysis()
    compile_s = time.perf_counter() - middle
    bytes_used = (memory.argument_size_in_bytes + memory.output_size_in_bytes + memory.temp_size_in_bytes
                  - memory.alias_size_in_bytes)
    count = len(made.donated)
    state = made.state if made.donated != (0,) else (made.state,)
    # JAX donates no buffer twice, as of averaged weights that start as the weights.
    state = jax.tree.map(lambda leaf: leaf.copy() if isinstance(leaf, jax.Array) else leaf, state)
    batches = [jax.block_until_ready(made.batch(t)) for t in range(20)]
    print(json.dumps({"jax": jax.__version__, "compile_s": compile_s, "lower_s": middle - start,
                      "bytes": bytes_used}), flush=True)
    at = 0
    for line in sys.stdin:
        walls, cpu = [], time.process_time()
        for _ in range(int(line)):
            before = time.perf_counter_ns()
            results = jax.block_until_ready(made.step(*state, *batches[at % 20]))
            walls.append(time.perf_counter_ns() - before)
            state, at = results[:count], at + 1
        print(json.dumps({"wall_ms": statistics.median(walls) / 1e6,
                          "cpu_ms": (time.process_time() - cpu) * 1e3 / len(walls)}), flush=True)


class Jax:
    """The process that runs serve()."""

    def __init__(self, python, name, folder, cores, reprise_bin):
        environment = dict(os.environ, PYTHONPATH=f"{ROOT}/cli/python:{ROOT}/tests/python", REPRISE_BIN=reprise_bin)
        self.process = subprocess.Popen(
            ["taskset", "-c", cores, python, __file__, "--serve", name, folder], env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.about = self._answer()

    def _answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        sys.exit(f"jax_step_bench: {' '.join(self.process.args)} ended with {self.process.wait()}")

    def run(self, steps):
        print(steps, file=self.process.stdin, flush=True)
        return self._answer()


class Ours:
    """`reprise train` of one folder under one plan."""

    def __init__(self, reprise, folder, cores, plan):
        self.words = ["taskset", "-c", cores, reprise, "train", "-n", "1", f"{folder}/step.hlo", "--format", "json"]
        self.words += ["--plan", plan] if plan else []
        self.start_cpu = 0.0
        self.step_ms = self.train(3)[0]["step_time_ns"]["median"] / 1e6
        self.start_cpu = min(self.train(3)[1] for _ in range(3))

    def train(self, steps, environment=None):
        """(result, CPU seconds of the command and all that it started)."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run([*self.words, "--steps", str(steps)], capture_output=True, text=True, check=False,
                              env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            sys.exit(f"jax_step_bench: {' '.join(self.words)}: {done.stderr}")
        return json.loads(done.stdout), after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    def run(self, steps):
        result, cpu = self.train(steps)
        return {"wall_ms": result["step_time_ns"]["median"] / 1e6,
                "cpu_ms": max(cpu - self.start_cpu, 0.0) * 1e3 / (steps - 3)}


def interval(ratios):
    """Median and its 95 % bootstrap interval."""
    return mean_interval([ratios])


def mean_interval(programs):
    """Geometric mean of the programs' medians, [program][pair], and its 95 % bootstrap interval."""
    draw = random.Random(0)

    def mean(chosen):
        return math.exp(statistics.mean(math.log(max(statistics.median(ratios), 1e-9)) for ratios in chosen))

    means = sorted(mean([draw.choices(ratios, k=len(ratios)) for ratios in programs]) for _ in range(2000))
    return mean(programs), means[49], means[1949]


def optimized(reprise, folder, words, steps):
    """A plan of the step's own recording, of so many steps."""
    plan, trace = f"{folder}/plan.json", f"{folder}/run.trace"
    for arguments in (["train", "-n", "1", f"{folder}/step.hlo", "--steps", str(steps), "--trace", trace, "--force"],
                      ["optimize", trace, "-o", plan, "--force", *shlex.split(words)]):
        done = subprocess.run([reprise, *arguments], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"jax_step_bench: reprise {' '.join(arguments)}: {done.stderr}")
    return plan


def measure(runners, seconds, pairs):
    """[runner: {wall_ms: […], cpu_ms: […]}], the runners taken in turns."""
    counts = {}
    for name, runner in runners.items():
        step_ms = runner.run(5)["wall_ms"]
        if step_ms < SLOW_MS:
            runner.run(50)
            step_ms = runner.run(50)["wall_ms"]
        counts[name] = max(20 if step_ms < SLOW_MS else 5, math.ceil(seconds * 1e3 / max(step_ms, 1e-3)))
    taken = {name: {"wall_ms": [], "cpu_ms": []} for name in runners}
    for _ in range(pairs):
        for name, runner in runners.items():
            for kind, value in runner.run(counts[name]).items():
                taken[name][kind].append(value)
    return taken


def compile_times(ours):
    """(seconds with an empty cache, seconds again, arena bytes)."""
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(os.environ, XDG_CACHE_HOME=cache)
        first, again = ours.train(3, environment)[0], ours.train(3, environment)[0]
    return float(first["compile_seconds"]), float(again["compile_seconds"]), int(first["arena_bytes"])


def one(flags, name, folder):
    reprise = f"{flags.bin}/reprise"
    theirs = Jax(flags.python, name, folder, flags.cores, flags.bin)
    runners = {"jax": theirs, "none": Ours(reprise, folder, flags.cores, "")}
    if flags.plan:
        recorded = min(200, max(5, math.ceil(1e4 / runners["none"].step_ms)))
        runners["plan"] = Ours(reprise, folder, flags.cores, optimized(reprise, folder, flags.optimize, recorded))
    last = list(runners)[-1]
    compared = [(runner, "jax") for runner in runners if runner != "jax"] + ([("plan", "none")] if flags.plan else [])
    taken = measure(runners, flags.seconds, flags.pairs)
    theirs.process.stdin.close()
    theirs.process.wait()
    ratios = {}
    for kind in ("wall_ms", "cpu_ms"):
        middles = [f"{runner} {statistics.median(values[kind]):8.4f}" for runner, values in taken.items()]
        said = []
        for ours, other in compared:
            found = [a / max(b, 1e-9) for a, b in zip(taken[ours][kind], taken[other][kind])]
            ratios[kind, f"{ours}/{other}"] = found
            said.append(f"{ours}/{other} {{:.3f}} [{{:.3f}}, {{:.3f}}]".format(*interval(found)))
        print(f"{name:8} {kind[:-3]:4} ms  {'  '.join(middles)}  {'  '.join(said)}")
    cold, warm, arena = compile_times(runners[last])
    print(f"{name:8} arena {arena} bytes, XLA {theirs.about['bytes']}: {arena / theirs.about['bytes']:.2f}; compile "
          f"{cold:.2f} s, again {warm * 1e3:.0f} ms, XLA {theirs.about['compile_s']:.2f} s", flush=True)
    return ratios


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(*sys.argv[2:])
    parser = argparse.ArgumentParser()
    parser.add_argument("bin")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--python", default=os.environ.get("REPRISE_JAX_PYTHON", sys.executable).split(":")[0])
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--cores", default="0")
    parser.add_argument("--optimize", default="")
    parser.add_argument("--keep", default="")
    parser.add_argument("--no-plan", dest="plan", action="store_false")
    flags = parser.parse_args()
    found = {}
    with tempfile.TemporaryDirectory() as temporary:
        for name in {"LARGER": LARGER, "REAL": REAL, "OPS": OPS}.get(" ".join(flags.names), flags.names or STEPS):
            found[name] = one(flags, name, f"{flags.keep or temporary}/{name}")
    for kind, which in next(iter(found.values())):
        ratios = {name: of[kind, which] for name, of in found.items()}
        worst = max(ratios, key=lambda name: statistics.median(ratios[name]))
        print("{}, {}: geometric mean of {} {:.3f} [{:.3f}, {:.3f}], at most {:.3f} ({})".format(
            which, kind[:-3], len(ratios), *mean_interval(list(ratios.values())), statistics.median(ratios[worst]),
            worst))
    return 0


if __name__ == "__main__":
    sys.exit(main())
