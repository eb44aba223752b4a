"""A made-up data-parallel job on GPUs, of several steps, as Kineto would record it: its rules say what a cause costs.

A step of a rank: its host loads data, does what else it does, launches kernels; after each eight an all-reduce begins on a
stream of its own once the last rank has come; the last kernel waits for all of them, the host for that kernel. Times are
microseconds. `late(rank, step)` and `load(rank, step)` are host times at a step's start.
"""

import json

KERNEL, LAUNCH, TRANSFER, RANKS = 300, 8, 900, 4
LOADER = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


class Rank:
    def __init__(self, number):
        self.number, self.events, self.correlation = number, [], 0
        self.host = self.compute = self.communication = 0.0

    def event(self, name, kind, start, length, thread, **arguments):
        pid = 0 if kind == "kernel" else 100 + self.number
        self.events.append({"ph": "X", "cat": kind, "name": name, "pid": pid, "tid": thread, "ts": start, "dur": length,
                            "args": arguments})

    def busy(self, name, kind, length):
        if length:
            self.event(name, kind, self.host, length, 1)
            self.host += length

    def launch(self):
        """The correlation of a launch, and when its work may begin."""
        self.correlation += 1
        self.event("cudaLaunchKernel", "cuda_runtime", self.host, 5, 1, correlation=self.correlation)
        self.host += LAUNCH
        return self.correlation, self.host + 2

    def kernel(self, name, length, after=0):
        correlation, ready = self.launch()
        start = max(ready, self.compute, after)
        self.event(name, "kernel", start, length, 7, correlation=correlation, stream=7, device=self.number)
        self.compute = start + length


def all_reduce(ranks, sequence):
    group = {"Collective name": "allreduce", "dtype": "Float", "In msg nelems": 4000000, "Out msg nelems": 4000000,
             "Group size": len(ranks), "Process Group Name": "0",
             "Process Group Ranks": str([rank.number for rank in ranks]), "Seq": sequence}
    entered = []
    for rank in ranks:
        correlation, ready = rank.launch()
        entered.append((rank, correlation, max(ready, rank.communication, rank.compute)))
    end = max(start for _, _, start in entered) + TRANSFER
    for rank, correlation, start in entered:
        rank.event(REDUCE, "kernel", start, end - start, 20, correlation=correlation, stream=20, device=rank.number, **group)
        rank.communication = end


def job(steps=10, late=lambda rank, step: 0, load=lambda rank, step: 0):
    """The ranks, and how long each step took."""
    ranks, times, sequence = [Rank(number) for number in range(RANKS)], [], 0
    for step in range(steps):
        begin = [rank.host for rank in ranks]
        for rank in ranks:
            rank.busy(LOADER, "user_annotation", load(rank.number, step))
            rank.busy("aten::tokenize", "cpu_op", late(rank.number, step))
        for at in range(48):
            for rank in ranks:
                rank.kernel("gemm", KERNEL)
            if at % 8 == 7:
                all_reduce(ranks, sequence)
                sequence += 1
        for rank in ranks:
            rank.kernel("adam", 500, after=rank.communication)
            rank.correlation += 1
            rank.event("cudaDeviceSynchronize", "cuda_runtime", rank.host, rank.compute + 3 - rank.host, 1,
                       correlation=rank.correlation)
            rank.host = rank.compute + 20
        for rank, start in zip(ranks, begin, strict=True):
            rank.event(f"ProfilerStep#{step + 1}", "user_annotation", start, rank.host - start - 1, 1)
        times.append(max(rank.host for rank in ranks) - max(begin))
    return ranks, times


def write(folder, ranks):
    """A file a rank; their paths."""
    paths = []
    for rank in ranks:
        paths.append(folder / f"rank{rank.number}.json")
        paths[-1].write_text(json.dumps({
            "schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": rank.number, "world_size": RANKS},
            "deviceProperties": [{"id": rank.number, "name": "NVIDIA H100"}], "traceEvents": rank.events}))
    return paths
