#!/usr/bin/env python3
"""Writes rank0.json and rank1.json beside it: a made-up trace of two GPUs, as PyTorch 2.8 would record it.

Two steps. In each: aten::mm on float32 with a transposed second operand (kernel of 100 and 120 us on rank 0, 110 and
130 on rank 1), aten::addmm with two kernels, an all-gather of 4096 to 8192 BFloat16 and an all-reduce of 1000 floats.
Rank 1 is late by 500 us in the first step and rank 0 by 300 in the second, and whoever comes first spins: the
transfers themselves are 40 and 50 us (all-gather) and 20 and 30 (all-reduce).
"""
import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent
LATE = {0: (0, 300), 1: (500, 0)}  # us, by rank and step
MM = {0: (100, 120), 1: (110, 130)}
ADDMM = ((30, 5), (30, 5))
TRANSFERS = ((40, 20), (50, 30))  # All-gather and all-reduce, by step.


def op(events, external, name, at, dims, strides, types, kernels, start):
    events.append({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": 1, "ts": at, "dur": 5.0,
                   "args": {"External id": external, "Input Dims": dims, "Input Strides": strides, "Input type": types}})
    for place, duration in enumerate(kernels):
        correlation = 10 * external + place
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1,
                       "ts": at + 1 + place, "dur": 0.5, "args": {"correlation": correlation, "External id": external}})
        events.append({"ph": "X", "cat": "kernel", "name": f"{name}_kernel{place}", "pid": 0, "tid": 7, "ts": start,
                       "dur": duration, "args": {"correlation": correlation, "External id": external, "device": 0,
                                                 "stream": 7}})
        start += duration
    return start


def collective(events, external, name, kernel, elements, dtype, at, start, end):
    told = {"Collective name": name, "In msg nelems": elements[0], "Out msg nelems": elements[1], "Group size": 2,
            "dtype": dtype, "Process Group Name": "0", "Process Group Description": "default_pg",
            "Process Group Ranks": "[0, 1]"}
    correlation = 10 * external
    events.append({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": at, "dur": 5.0,
                   "args": {"External id": external, **told}})
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1,
                   "dur": 0.5, "args": {"correlation": correlation, "External id": external}})
    events.append({"ph": "X", "cat": "kernel", "name": kernel, "pid": 0, "tid": 20, "ts": start, "dur": end - start,
                   "args": {"correlation": correlation, "External id": external, "device": 0, "stream": 20, **told}})


def trace(rank):
    events = []
    for step in range(2):
        base = 10000.0 * (step + 1)
        external = 100 * step + 1
        events.append({"ph": "X", "cat": "user_annotation", "name": f"ProfilerStep#{step}", "pid": 1, "tid": 1,
                       "ts": base, "dur": 9000.0, "args": {"External id": external}})
        at = op(events, external + 1, "aten::mm", base + 10, [[64, 32], [32, 16]], [[32, 1], [1, 32]],
                ["float", "float"], [MM[rank][step]], base + 20)
        at = op(events, external + 2, "aten::addmm", base + 30, [[16], [64, 32], [32, 16], [], []],
                [[1], [32, 1], [1, 32], [], []], ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"],
                ADDMM[step], at)
        ready = base + 1000
        gather, reduce = TRANSFERS[step]
        last = ready + max(LATE[r][step] for r in (0, 1))
        collective(events, external + 3, "_allgather_base", "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                   (4096, 8192), "BFloat16", base + 50, ready + LATE[rank][step], last + gather)
        after = base + 3000
        last = after + max(LATE[r][step] for r in (0, 1))
        collective(events, external + 4, "allreduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
                   (1000, 1000), "Float", base + 60, after + LATE[rank][step], last + reduce)
    return {"schemaVersion": 1, "host_name": "made-up", "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2, "pg_config": [
                {"pg_name": "0", "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [0, 1]}]},
            "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events}


if __name__ == "__main__":
    for rank in range(2):
        (HERE / f"rank{rank}.json").write_text(json.dumps(trace(rank), separators=(",", ":")) + "\n")
