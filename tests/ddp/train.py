#!/usr/bin/env python3
"""One rank of a small GPT under PyTorch DDP over Gloo: times its steps under several buckets.

All ranks run it with the same arguments but --rank. --runs is a JSON list of what to run in turn:
{"name": …, "bucket_mb": 4}; without "bucket_mb" DDP's default; {"plan": DIRECTORY} takes the
arguments from `reprise export --as ddp`; {"watch": DIRECTORY} leaves the default and holds it against
that; {"fsdp2": DIRECTORY} shards the model as `--as fsdp2` says, without prefetching where "prefetch" is false;
"profile": PATH records the steps as Kineto JSON, where
RANK stands for the rank. Rank 0 writes one line of JSON a run into --results: step times, barrier
to barrier, and the buckets that DDP settled on.
"""

import argparse
import gc
import importlib.util
import inspect
import json
import os
import pathlib
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

MIB = 1 << 20


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(),
                                  nn.Linear(4 * width, width))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attention(h, h, h, need_weights=False)[0]
        return x + self.feed(self.norm2(x))


class Gpt(nn.Module):
    def __init__(self, width, layers, words):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(Block(width, width // 64) for _ in range(layers))
        self.head = nn.Linear(width, words)

    def forward(self, x):
        x = self.embed(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--store", required=True, help="file where ranks meet; fresh every time")
    parser.add_argument("--runs", required=True)
    parser.add_argument("--results", required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--width", type=int, default=320)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--words", type=int, default=512)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--warmup", type=int, default=3)
    return parser.parse_args()


def exported(directory, target="ddp"):
    """The module that `reprise export --as TARGET` wrote."""
    path = pathlib.Path(directory) / f"reprise_{target}.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def bucket_arguments(run):
    dist._DEFAULT_FIRST_BUCKET_BYTES = MIB
    if "plan" in run:
        return exported(run["plan"]).kwargs()
    if "bucket_mb" not in run:
        return {}
    # Old versions keep a first bucket of 1 MiB beside any cap; say the cap for both.
    dist._DEFAULT_FIRST_BUCKET_BYTES = int(run["bucket_mb"] * MIB)
    return {"bucket_cap_mb": run["bucket_mb"]}


def distributed(model, run):
    """The model as its run has it: replicated, or sharded by FSDP2."""
    if "fsdp2" not in run:
        return DistributedDataParallel(model, gradient_as_bucket_view=True, **bucket_arguments(run))
    from torch.distributed.device_mesh import init_device_mesh
    return exported(run["fsdp2"], "fsdp2").apply(
        model, prefetch=run.get("prefetch", True), mesh=init_device_mesh("cpu", (dist.get_world_size(),)))


def checked(model, run):
    """What the run's own module says of its buckets, or None."""
    if "fsdp2" in run:
        return exported(run.get("watch") or run["fsdp2"], "fsdp2").check(model)
    directory = run.get("plan") or run.get("watch")
    return exported(directory).check(model) if directory else None


def train(run, options):
    torch.manual_seed(0)
    model = Gpt(options.width, options.layers, options.words)
    wrapped = distributed(model, run)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(1 + options.rank)
    shape = (options.batch, options.tokens)
    x, y = (torch.randint(0, options.words, shape) for _ in range(2))
    loss_of = nn.CrossEntropyLoss()

    def step():
        dist.barrier()
        out = wrapped(x)
        loss = loss_of(out.reshape(-1, options.words), y.reshape(-1))
        optimizer.zero_grad(set_to_none=False)
        loss.backward()
        optimizer.step()

    for _ in range(options.warmup):
        step()
    starts = []
    if "profile" in run:
        path = run["profile"].replace("RANK", str(options.rank))
        with torch.profiler.profile(
                activities=[torch.profiler.ProfilerActivity.CPU], record_shapes=True,
                schedule=torch.profiler.schedule(wait=0, warmup=1, active=options.steps),
                on_trace_ready=lambda p: p.export_chrome_trace(path)) as profiler:
            for _ in range(1 + options.steps):
                starts.append(time.perf_counter())
                step()
                profiler.step()
        del starts[0], starts[-1]  # The warm-up; what the profiler's end takes.
    else:
        for _ in range(options.steps):
            starts.append(time.perf_counter())
            step()
        dist.barrier()
        starts.append(time.perf_counter())
    told = {} if "fsdp2" in run else wrapped._get_ddp_logging_data()
    result = {"name": run["name"], "torch": torch.__version__,
              "step_s": [b - a for a, b in zip(starts, starts[1:])],
              "bucket_bytes": told.get("rebuilt_bucket_sizes") or told.get("bucket_sizes")}
    found = checked(wrapped, run)
    return result if found is None else {**result, "check": found}


def main():
    options = arguments()
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method="file://" + os.path.abspath(options.store),
                            rank=options.rank, world_size=options.ranks)
    results = open(options.results if options.rank == 0 else os.devnull, "w")
    for run in json.loads(pathlib.Path(options.runs).read_text()):
        print(json.dumps(train(run, options)), file=results, flush=True)
        gc.collect()  # The reducer and its hooks go with the wrapper.
        dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
