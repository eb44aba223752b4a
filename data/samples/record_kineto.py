#!/usr/bin/env python3
"""Recorded kineto/rank0.json.gz and rank1.json.gz: three steps of PyTorch DDP (Gloo) on two CPU processes.

Rank 1 has eight times the batch, so it is late. Needs torch; run by hand: record_kineto.py
"""

import gzip
import json
import os
import pathlib
import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.profiler import profile, schedule

FOLDER = pathlib.Path(__file__).resolve().parent / "kineto"


def work(rank, store):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    torch.manual_seed(0)
    layers = [layer for _ in range(4) for layer in (nn.Linear(512, 512), nn.GELU())]
    model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers, nn.Linear(512, 10)), bucket_cap_mb=2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch = 64 * (1 + 7 * rank)
    images, labels = torch.randn(batch, 512), torch.randint(0, 10, (batch,))

    def save(profiler):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "trace.json")
            profiler.export_chrome_trace(path)
            trace = json.loads(pathlib.Path(path).read_text())
        del trace["traceName"]  # A path of this machine.
        data = json.dumps(trace, separators=(",", ":")).encode()
        (FOLDER / f"rank{rank}.json.gz").write_bytes(gzip.compress(data, 9, mtime=0))

    with profile(schedule=schedule(wait=1, warmup=2, active=3), record_shapes=True,
                 on_trace_ready=save) as profiler:
        for _ in range(6):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            profiler.step()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(work, args=(os.path.join(folder, "store"),), nprocs=2)
