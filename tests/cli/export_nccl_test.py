#!/usr/bin/env python3
"""`reprise export --as nccl-tuner`: choices by the replayed step, in rows that NCCL's example tuner plugin reads.

Where REPRISE_NCCL_SOURCE names a checkout of NVIDIA/nccl (2.27 or newer), its plugin itself is compiled and asked.
"""

import json
import os
import pathlib
import shutil
import subprocess
import unittest

from command_case import CommandCase

PLUGIN = pathlib.Path(os.environ.get("REPRISE_NCCL_SOURCE", "/nowhere")) / "plugins/tuner/example"
# Prints the cheapest cell of the table and the channels for "KIND BYTES RANKS" triples: kinds as ncclFunc_t.
ASK = """
#include "plugin.c"
#include <stdarg.h>
static void told(ncclDebugLogLevel level, unsigned long flags, const char* file, int line, const char* format, ...) {
  va_list list; va_start(list, format);
  if (strstr(format, "Loaded %d")) { vprintf(format, list); putchar('\\n'); }
  va_end(list);
}
int main(int count, char** words) {
  for (int at = 1; at + 2 < count; at += 3) {
    void* context = 0;
    float table[NCCL_NUM_ALGORITHMS][NCCL_NUM_PROTOCOLS];
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; ++a)
      for (int p = 0; p < NCCL_NUM_PROTOCOLS; ++p) table[a][p] = 1;
    int channels = 0;
    if (pluginInit(&context, 0, atoi(words[at + 2]), 1, told, 0, 0) != ncclSuccess) return 1;
    if (pluginGetCollInfo(context, (ncclFunc_t)atoi(words[at]), strtoull(words[at + 1], 0, 10), 1, (float**)table,
                          NCCL_NUM_ALGORITHMS, NCCL_NUM_PROTOCOLS, 0, &channels) != ncclSuccess) return 1;
    const char* algorithm = "-"; const char* protocol = "-";
    for (int a = 0; a < NCCL_NUM_ALGORITHMS; ++a)
      for (int p = 0; p < NCCL_NUM_PROTOCOLS; ++p)
        if (table[a][p] == 0) { algorithm = algorithmToString(a); protocol = protocolToString(p); }
    printf("%s %s %d\\n", algorithm, protocol, channels);
  }
  return 0;
}
"""
MIB = 1 << 20
ALL_REDUCE = 4  # ncclFuncAllReduce of nccl/common.h


def kernel(events, number, name, at, start, duration, stream, told=None):
    """A launch at `at` us and its device work."""
    if told:
        events.append({"ph": "X", "cat": "cpu_op", "name": "record_param_comms", "pid": 1, "tid": 1, "ts": at,
                       "dur": 3, "args": {"External id": number, **told}})
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": at + 1,
                   "dur": 1, "args": {"correlation": number, "External id": number}})
    events.append({"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": stream, "ts": start, "dur": duration,
                   "args": {"correlation": number, "External id": number, "device": 0, "stream": stream,
                            **(told or {})}})


def all_reduce(elements):
    return {"Collective name": "allreduce", "In msg nelems": elements, "Out msg nelems": elements, "Group size": 2,
            "dtype": "Float", "Process Group Name": "0", "Process Group Ranks": "[0, 1]"}


def recording(rank, choice):
    """A matrix product of 5 ms that hides an all-reduce of 1 MiB (1 ms), then one of 16 MiB (2 ms) behind it."""
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#0", "pid": 1, "tid": 1, "ts": 1000, "dur": 7035,
               "args": {}}]
    kernel(events, 1, "gemm", 1010, 1020, 5000, 7)
    nccl = f"ncclDevKernel_AllReduce_Sum_f32_{choice}(ncclDevKernelArgsStorage<4096ul>)"
    kernel(events, 2, nccl, 1020, 1030, 1000, 20, all_reduce(MIB // 4))
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 1030,
                   "dur": 4991, "args": {"correlation": 3}})
    kernel(events, 4, nccl, 6025, 6030, 2000, 20, all_reduce(16 * MIB // 4))
    events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaDeviceSynchronize", "pid": 1, "tid": 1, "ts": 6029,
                   "dur": 2002, "args": {"correlation": 5}})
    return {"schemaVersion": 1, "host_name": "made-up", "deviceProperties": [{"id": 0, "name": "H100"}],
            "distributedInfo": {"backend": "nccl", "rank": rank, "world_size": 2},
            "baseTimeNanoseconds": 1700000000000000000, "traceEvents": events}


def nccl_tests(rows):
    """A log of all_reduce_perf on two ranks: {bytes: us}."""
    lines = ["# nThread 1 nGpus 2 minBytes 1 maxBytes 1 step: 2(factor) warmup iters: 5 iters: 20",
             "# Collective test starting: all_reduce_perf", "# Using devices",
             "#  Rank  0 Group  0 Pid 1 on host device  0 [0x00] H100",
             "#  Rank  1 Group  0 Pid 1 on host device  1 [0x00] H100",
             "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong"]
    for size, us in rows.items():
        gigabytes = size / us / 1e3
        lines.append(f"{size:12} {size // 4:12} float sum -1 {us:8.2f} {gigabytes:7.2f} {gigabytes:7.2f} 0 "
                     f"{us:8.2f} {gigabytes:7.2f} {gigabytes:7.2f} 0")
    return "\n".join(lines) + "\n"


class NcclTuner(CommandCase):
    def points(self, name, rows):
        log = self.write(f"{name}.log", nccl_tests(rows))
        self.reprise("import", log, "-o", self.path / f"{name}.trace")
        return self.path / f"{name}.trace"

    def exported(self, choice="RING_LL", points=(), status=0):
        self.trace.unlink(missing_ok=True)
        for rank in (0, 1):
            self.write(f"rank{rank}.json", json.dumps(recording(rank, choice)))
        self.reprise("import", self.path / "rank0.json", self.path / "rank1.json", "-o", self.trace)
        out = self.path / "tuner.csv"
        done = self.reprise("export", self.trace, "--as", "nccl-tuner", "-o", out, "--force",
                            *[word for each in points for word in ("--points", each)], status=status)
        return out if status == 0 else done.stderr

    def rows(self, out):
        lines = out.read_text().splitlines()
        self.assertLess(max(map(len, lines)), 256)
        rows = [line.split(",") for line in lines if line and not line.startswith("#")]
        for row in rows:  # pluginInit of plugins/tuner/example/plugin.c: fields, words.
            self.assertEqual(len(row), 10)
            self.assertIn(row[0], ("broadcast", "reduce", "allgather", "reducescatter", "allreduce"))
            self.assertIn(row[3], ("tree", "ring", "collnet_direct", "collnet_chain", "nvls", "nvls_tree", "pat"))
            self.assertIn(row[4], ("ll", "ll128", "simple"))
            self.assertLessEqual(int(row[1]), int(row[2]))
        return rows

    def test_only_what_the_step_waits_for_is_made_faster(self):
        # Ring/LL as recorded; by ring/simple the large one takes half of it, the small and hidden one a tenth.
        recorded = self.points("ll", {MIB: 1000, 16 * MIB: 2000})
        other = self.points("simple", {MIB: 100, 16 * MIB: 1000})
        out = self.exported(points=[f"ring/ll={recorded}", f"ring/simple={other}"])
        middle = 4 * MIB  # Between 1 and 16 MiB by logarithm.
        self.assertEqual(self.rows(out), [
            ["allreduce", str(MIB), str(middle), "ring", "ll", "-1", "1", "2", "-1", "-1"],
            ["allreduce", str(middle + 1), str(16 * MIB), "ring", "simple", "-1", "1", "2", "-1", "-1"]])
        text = out.read_text()
        self.assertRegex(text, r"replays in [\d.]+ ms, 1\d %")  # 1 of 7 ms.
        self.assertIn("pluginGetCollInfo", text.replace("\n#   ", " "))

    def test_a_hidden_collective_gets_the_fewest_channels(self):
        many = self.points("many", {MIB: 1000, 16 * MIB: 2000})
        few = self.points("few", {MIB: 2000, 16 * MIB: 4000})
        out = self.exported(points=[f"ring/simple/16={many}", f"ring/simple/2={few}"], choice="RING_SIMPLE")
        rows = self.rows(out)
        self.assertEqual([row[5] for row in rows][-1:], ["-1"])  # The large one stays as it was.

    def test_without_points_of_others_the_recorded_choice_stays(self):
        rows = self.rows(self.exported(choice="TREE_LL128"))
        self.assertEqual([row[3:5] for row in rows], [["tree", "ll128"]])

    def test_points_that_are_none_are_refused(self):
        self.assertIn("no measured collective", self.exported(points=[f"ring/ll={self.trace}"], status=3))
        self.assertIn("ALGORITHM/PROTOCOL", self.exported(points=["bus/ll=x"], status=3))
        self.assertIn("=TRACE is missing", self.exported(points=["ring/ll"], status=3))

    def test_unnamed_kernels_and_no_points_give_nothing_to_choose_from(self):
        self.assertIn("--points", self.exported(choice="Generic", status=3))

    @unittest.skipUnless((PLUGIN / "plugin.c").exists() and shutil.which("cc"),
                         "REPRISE_NCCL_SOURCE names no checkout of NCCL with its example tuner")
    def test_nccls_own_plugin_applies_the_rows(self):
        recorded = self.points("ll", {MIB: 1000, 16 * MIB: 2000})
        other = self.points("simple", {MIB: 100, 16 * MIB: 1000})
        out = self.exported(points=[f"ring/ll={recorded}", f"nvls_tree/simple/8={other}"])
        source, program = self.write("ask.c", ASK), self.path / "ask"
        subprocess.run(["cc", "-w", f"-I{PLUGIN}", f"-I{PLUGIN}/nccl", source, "-o", program], check=True)
        asked = [(ALL_REDUCE, MIB, 2), (ALL_REDUCE, 16 * MIB, 2), (ALL_REDUCE, 16 * MIB, 4), (ALL_REDUCE, 64 * MIB, 2)]
        done = subprocess.run([program, *[str(word) for each in asked for word in each]], check=True, text=True,
                              capture_output=True, env=dict(os.environ, NCCL_TUNER_CONFIG_FILE=str(out)))
        told = [line for line in done.stdout.splitlines() if "Loaded" not in line]
        self.assertIn("Loaded 2 tuning configurations", done.stdout)
        # What no row matches, and what a row leaves open, is one channel with this plugin, as the head says.
        self.assertEqual(told, ["ring ll 1", "nvls_tree simple 8", "- - 1", "- - 1"])


if __name__ == "__main__":
    unittest.main()
