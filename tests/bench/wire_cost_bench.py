#!/usr/bin/env python3
"""What a byte of an all-reduce costs a core: wire_cost_bench.py [--steps 40] [--pairs 5]. By hand; needs root.

Two ranks on emulated hosts (tests/netns) train a step that is one all-reduce of 16 MiB and a multiplication; then
one of them alone, without communication. The difference of their CPU time, by bytes, is TCP and addition:
costmodel/calibration.cc assumes the median for links that no run has overlapped with compute. REPRISE_BIN names the
programs' folder.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HOSTS = ROOT / "tests/netns/run.sh"
ELEMENTS = 4 << 20
PROGRAM = f"""HloModule wire, input_output_alias={{ {{0}}: (0, {{}}, may-alias) }}
sum {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{
  w = f32[{ELEMENTS}] parameter(0)
  all = f32[{ELEMENTS}] all-reduce(w), replica_groups={{{{0,1}}}}, to_apply=sum
  half = f32[] constant(0.5)
  halves = f32[{ELEMENTS}] broadcast(half), dimensions={{}}
  next = f32[{ELEMENTS}] multiply(all, halves)
  ROOT out = (f32[{ELEMENTS}]) tuple(next)
}}
"""


def write_program(folder):
    path = folder / "wire.hlo"
    path.write_text(PROGRAM)
    state = {"index": 0, "name": "w", "role": "state", "init": {"kind": "uniform", "seed": 1, "scale": 1}}
    path.with_suffix(".json").write_text(json.dumps({
        "schema": "reprise.manifest/1", "name": "wire", "program": path.name, "ranks": 2, "parameters": [state],
        "outputs": [{"index": 0, "role": "state", "parameter": 0}]}))
    return path


def cpu_s(folder, program, steps, ranks):
    """CPU seconds of rank 0, each rank on a host of its own."""
    words = [pathlib.Path(os.environ["REPRISE_BIN"]).resolve() / "reprise-train", program, "--steps", steps,
             "--warmup", 0, "--result", folder / "result.json", *(["--solo"] if ranks == 1 else [])]
    runs = []
    for rank in range(ranks):
        variables = dict(os.environ, RANK=str(rank), WORLD_SIZE=str(ranks), REPRISE_RENDEZVOUS=str(folder / "meet"))
        runs.append(subprocess.Popen(["ip", "netns", "exec", f"reprise-host{rank}", *map(str, words)], env=variables))
    for run in reversed(runs):
        _, status, used = os.wait4(run.pid, 0)
        assert status == 0, f"reprise-train: {status}"
    return used.ru_utime + used.ru_stime


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=5)
    options = parser.parse_args()
    if "REPRISE_INTERFACE" not in os.environ:
        os.execv(HOSTS, [HOSTS, "-r", "none", sys.executable, *sys.argv])
    costs = []
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        program = write_program(folder)
        for _ in range(options.pairs):
            # Twice as long less as long: without the start.
            both, alone = (cpu_s(folder, program, 2 * options.steps, ranks) - cpu_s(folder, program, options.steps, ranks)
                           for ranks in (2, 1))
            costs.append((both - alone) / options.steps / ELEMENTS / 4)
            print(f"{costs[-1] * 1e9:.3f} ns a byte", flush=True)
    print(f"median {statistics.median(costs) * 1e9:.3f} ns a byte")
    return 0


if __name__ == "__main__":
    sys.exit(main())
