"""A training script that knows nothing of Reprise: a transformer in PyTorch on made-up tokens.

    python3 torch_train.py [--steps N] [--width N] [--layers N] [--operators] [--device cuda|cpu]
        [--profiler FILE] [--kill-at STEP] [--loaders WORKERS] [--launches KERNELS [--host-work N]]

Steps are NVTX ranges "step N", as torch.cuda.nvtx makes them; with --operators PyTorch names each of its operators by
NVTX too, as torch.autograd.profiler.emit_nvtx does. --profiler records steps 10 to 12 by torch.profiler, --kill-at kills
the script in mid-step, --loaders brings batches from forked workers, --launches makes a step so many small kernels,
each after --host-work numbers summed up in Python.
Prints step times, each from its start until the device is done, as JSON. --device cpu is there to try this script, and what records it, on a machine without a GPU.
"""

import argparse
import contextlib
import itertools
import json
import os
import signal
import statistics
import time

import torch


class Block(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.first, self.second = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attention = torch.nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(),
                                       torch.nn.Linear(4 * width, width))

    def forward(self, x):
        y = self.first(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.second(x))


def make_model(options):
    return torch.nn.Sequential(torch.nn.Embedding(options.vocabulary, options.width),
                               *[Block(options.width, 8) for _ in range(options.layers)],
                               torch.nn.Linear(options.width, options.vocabulary))


@contextlib.contextmanager
def named(text):
    """An NVTX range, where this build of PyTorch has NVTX: those for CPUs alone have none."""
    if not hasattr(torch._C, "_nvtx"):
        yield
        return
    torch.cuda.nvtx.range_push(text)
    yield
    torch.cuda.nvtx.range_pop()


@contextlib.contextmanager
def named_operators(device):
    """emit_nvtx, which asks for a GPU; without one, what it does besides."""
    if device.type == "cuda":
        with torch.autograd.profiler.emit_nvtx(record_shapes=True):
            yield
        return
    from torch.autograd.profiler import (ProfilerConfig, ProfilerState, _disable_profiler,
                                         _enable_profiler)
    _enable_profiler(ProfilerConfig(ProfilerState.NVTX, True, False, False, False, False,
                                    torch._C._profiler._ExperimentalConfig()), set())
    yield
    _disable_profiler()


def launches(options, device):
    """A step of small kernels: launches, and what the host does between them, are all that takes time."""
    x = torch.zeros(256, device=device)

    def step(_):
        for _ in range(options.launches):
            sum(range(options.host_work))
            x.add_(1)
        return x.mean()
    return step


def transformer(options, device):
    model = make_model(options).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

    def step(tokens):
        optimizer.zero_grad(set_to_none=True)
        logits = model(tokens[:, :-1])
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        return loss
    return step


def batches(options, device):
    """One batch for ever, or as many as there are steps, made by forked workers."""
    tokens = torch.randint(options.vocabulary, (options.batch, options.sequence + 1))
    count = options.warmup + options.steps
    if not options.loaders:
        return itertools.repeat(tokens.to(device), count)
    rows = tokens.repeat(count, 1)
    loader = torch.utils.data.DataLoader(rows, options.batch, num_workers=options.loaders,
                                         multiprocessing_context="fork")
    return (batch.to(device) for batch in loader)


@contextlib.contextmanager
def own_profiler(options, step):
    """torch.profiler over steps 10 to 12, started and ended by the script."""
    if not options.profiler or step not in (10, 12):
        yield
        return
    if step == 10:
        options.running = torch.profiler.profile()
        options.running.start()
    yield
    if step == 12:
        options.running.stop()
        options.running.export_chrome_trace(options.profiler)


def train(options, device):
    torch.manual_seed(0)
    on_gpu = device.type == "cuda"
    run_step = (launches if options.launches else transformer)(options, device)
    times, losses = [], []
    for step, tokens in enumerate(batches(options, device)):
        start = time.perf_counter_ns()
        with named(f"step {step}"), own_profiler(options, step):
            loss = run_step(tokens)
            if step == options.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
            if on_gpu:
                torch.cuda.synchronize()
        if step >= options.warmup:
            times.append(time.perf_counter_ns() - start)
            losses.append(loss.item())
    return times, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--sequence", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=8192)
    parser.add_argument("--operators", action="store_true")
    parser.add_argument("--profiler", metavar="FILE")
    parser.add_argument("--kill-at", type=int, metavar="STEP")
    parser.add_argument("--loaders", type=int, default=0, metavar="WORKERS")
    parser.add_argument("--launches", type=int, default=0, metavar="KERNELS")
    parser.add_argument("--host-work", type=int, default=0, metavar="N")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    device = torch.device(options.device)
    with named_operators(device) if options.operators else contextlib.nullcontext():
        times, losses = train(options, device)
    print(json.dumps({"schema": "reprise.gpu.script/1", "framework": f"torch {torch.__version__}",
                      "device": device.type, "loss": losses,
                      "step_time_ns": {"median": statistics.median(times), "all": times}}))


if __name__ == "__main__":
    main()
