#!/usr/bin/env python3
"""What a collective of one kind and size costs among the ranks of one machine, in one build and another.

  collective_bench.py REPRISE [OTHER] [--ranks 2,4] [--kinds all-reduce,all-gather,…] [--sizes 128,8192,65536,1048576]
                      [--count 16] [--steps 60] [--rounds 5] [--warm-up-bytes 4]

REPRISE and OTHER are programs `reprise`. Each case is a step of --count such collectives, in a row, of so many bytes
a rank; the first collective of a step reduces --warm-up-bytes, as a loss does. Figures are microseconds a collective:
the median over rounds of the median step, divided by the count; the ratio is the median of the rounds', both builds
taken in turns. More ranks than cores measure the scheduler, too.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile


def collective(kind, name, operand, elements, ranks, group, channel):
    """Its line, and how many elements it gives."""
    among = f"channel_id={channel}, replica_groups={group}, use_global_device_ids=true"
    if kind == "all-reduce":
        return f"  {name} = f32[{elements}] all-reduce({operand}), {among}, to_apply=add", elements
    if kind == "reduce-scatter":
        part = elements // ranks
        return (f"  {name} = f32[{part}] reduce-scatter({operand}), {among}, dimensions={{0}}, to_apply=add", part)
    if kind == "all-gather":
        whole = elements * ranks
        return f"  {name} = f32[{whole}] all-gather({operand}), {among}, dimensions={{0}}", whole
    return f"  {name} = f32[{elements}] all-to-all({operand}), {among}, dimensions={{0}}", elements


def program(kind, ranks, elements, count, first_elements):
    group = "{{" + ",".join(map(str, range(ranks))) + "}}"
    lines = [f"  first = f32[{first_elements}] broadcast(scale), dimensions={{}}",
             collective("all-reduce", "warm", "first", first_elements, ranks, group, 1)[0],
             "  loss0 = f32[] reduce(warm, zero), dimensions={0}, to_apply=add"]
    for i in range(count):
        line, given = collective(kind, f"c{i}", f"x{i}", elements, ranks, group, i + 2)
        lines += [f"  s{i} = f32[{elements}] broadcast(loss{i}), dimensions={{}}",
                  f"  x{i} = f32[{elements}] add(p, s{i})", line,
                  f"  sum{i} = f32[] reduce(c{i}, zero), dimensions={{0}}, to_apply=add",
                  f"  loss{i + 1} = f32[] multiply(sum{i}, zero)"]
    return f"""HloModule collectives

add {{
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT sum = f32[] add(a, b)
}}

ENTRY step {{
  p = f32[{elements}] parameter(0)
  zero = f32[] constant(0)
  scale = f32[] constant(1)
""" + "\n".join(lines) + f"\n  ROOT out = (f32[]) tuple(loss{count})\n}}\n"


def median_step_ns(reprise, path, ranks, steps):
    done = subprocess.run([reprise, "train", str(path), "-n", str(ranks), "--made-up-data", "--steps", str(steps),
                           "--warmup", "5", "--allow-nan", "--format", "json"], capture_output=True, text=True,
                          check=False)
    if done.returncode != 0:
        sys.exit(f"collective_bench: {reprise}: {done.stderr}")
    return json.loads(done.stdout)["step_time_ns"]["median"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("other", nargs="?")
    parser.add_argument("--ranks", default="2,4")
    parser.add_argument("--kinds", default="all-reduce,all-gather,reduce-scatter,all-to-all")
    parser.add_argument("--sizes", default="128,8192,65536,1048576")
    parser.add_argument("--count", type=int, default=16)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--warm-up-bytes", type=int, default=4)
    flags = parser.parse_args()
    builds = [flags.reprise] + ([flags.other] if flags.other else [])
    ratio_title = "  ratio" if flags.other else ""
    print("kind            ranks    bytes  " + "  ".join(f"{'us':>9}" for _ in builds) + ratio_title)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "step.hlo"
        for kind in flags.kinds.split(","):
            for ranks in map(int, flags.ranks.split(",")):
                for size in map(int, flags.sizes.split(",")):
                    path.write_text(program(kind, ranks, size // 4, flags.count, max(1, flags.warm_up_bytes // 4)))
                    made = subprocess.run([flags.reprise, "hlo", path, "--manifest", "-o", path.with_suffix(".json"),
                                           "--force"], capture_output=True, text=True, check=False)
                    if made.returncode != 0:
                        sys.exit(f"collective_bench: {made.stderr}")
                    times = [[median_step_ns(build, path, ranks, flags.steps) / flags.count / 1e3 for build in builds]
                             for _ in range(flags.rounds)]
                    middles = [statistics.median(column) for column in zip(*times)]
                    ratio = statistics.median(row[0] / row[-1] for row in times)
                    print(f"{kind:15} {ranks:5} {size:8}  " + "  ".join(f"{each:9.1f}" for each in middles)
                          + (f"  {ratio:5.2f}" if flags.other else ""), flush=True)


if __name__ == "__main__":
    main()
