#!/usr/bin/env python3
"""`analyze` and `replay` say the same of a trace: one critical path of the same step, one breakdown of the whole run;
of a run derived by hand, of the committed samples, and of the collection of real traces beside the checkout."""

import json
import os
import pathlib
import sys
import unittest

from command_case import ROOT, CommandCase, reprise

TRACES = pathlib.Path(os.environ.get("REPRISE_TRACES", ROOT.parent / "shared/traces"))
PARTS = ("compute_ns", "communication_ns", "exposed_ns", "memory_ns")
# Real traces up to this size, so that the suite stays short; the larger ones are of the same tools.
LARGEST = 2_000_000


def path_of(entries, name):
    """Times from the path's start: a program's replay starts at 0, `analyze` where the step was recorded."""
    start = entries[0]["start_ns"] if entries else 0
    return [(entry["kind"], entry[name], entry["rank"], entry["start_ns"] - start, entry["duration_ns"])
            for entry in entries]


class Agree(CommandCase):
    def answer(self, *arguments):
        """None where the verb has no answer."""
        done = reprise(*arguments, "--format", "json")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def imported(self, source):
        trace = self.path / "agree.trace"
        done = reprise("import", source, "-o", trace, "--force")
        return trace if done.returncode == 0 else None

    def agreed_path(self, trace, program=False):
        """The path that both say, with its time by kind; None where one of them has none."""
        analysis = self.answer("analyze", trace)
        if not analysis or not analysis["critical_path"]:
            return None
        summary = analysis["critical_path_summary"]
        chosen = () if program or summary["step"] is None else ("--step", summary["step"])
        replay = self.answer("replay", trace, *chosen)
        self.assertIsNotNone(replay, trace)
        path = path_of(analysis["critical_path"], "name")
        self.assertEqual(path, path_of(replay["critical_path"], "unit"), trace)
        self.assertEqual({f"{kind}_ns": time for kind, time in summary["by_kind_ns"].items()},
                         replay["critical_path_by_kind"], trace)
        return path

    def agreed_breakdown(self, trace):
        """Of each rank over the whole run, on its own clock; None where one of them has none."""
        analysis, replay = self.answer("analyze", trace), self.answer("replay", trace)
        if not analysis or not replay:
            return None
        replayed = {rank["rank"]: rank for rank in replay["ranks"]}
        drift = {clock["rank"]: abs(clock["drift_ppm"]) * 1e-6 for clock in analysis["clocks"]}
        for rank in analysis["ranks"]:
            works = rank["launches"]["device_work"]
            for part in PARTS:
                # A replay is on rank 0's clock; a nanosecond of rounding an event.
                apart = drift.get(rank["rank"], 0)
                self.assertAlmostEqual(rank[part], replayed[rank["rank"]][part], msg=f"{trace} {part}",
                                       delta=rank[part] * apart * 1.1 + works if apart else 0)
        return [tuple(rank[part] for part in PARTS) for rank in analysis["ranks"]]

    def test_of_a_run_derived_by_hand(self):
        """The host launches a copy, a kernel and an all-reduce on one stream, 2 us apart; each begins when the one
        before it ends, the first 20 us after its launch; the host waits for the last, and works on for 30 us."""
        def event(category, name, thread, start, duration, correlation=None, **arguments):
            if correlation is not None:
                arguments["correlation"] = correlation
            device = category in ("kernel", "gpu_memcpy")
            return {"ph": "X", "cat": category, "name": name, "pid": 0 if device else 7, "tid": thread,
                    "ts": 1000 + start, "dur": duration, "args": arguments}

        stream = {"device": 0, "stream": 7}
        events = [event("cuda_runtime", "cudaMemcpyAsync", 7, 0, 2, 1),
                  event("cuda_runtime", "cudaLaunchKernel", 7, 2, 2, 2),
                  event("cuda_runtime", "cudaLaunchKernel", 7, 4, 2, 3),
                  event("cuda_runtime", "cudaDeviceSynchronize", 7, 6, 154),
                  event("cpu_op", "aten::loss", 7, 160, 30),
                  event("gpu_memcpy", "Memcpy HtoD", 7, 20, 40, 1, **stream),
                  event("kernel", "gemm", 7, 60, 60, 2, **stream),
                  event("kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 7, 120, 40, 3, **stream)]
        source = self.write("run.json", json.dumps({"schemaVersion": 1, "traceEvents": events}))
        trace = self.imported(source)
        us = 1000
        self.assertEqual(self.agreed_path(trace), [
            ("launch", "Memcpy HtoD", 0, 0, 20 * us),
            ("copy", "Memcpy HtoD", 0, 20 * us, 40 * us),
            ("kernel", "gemm", 0, 60 * us, 60 * us),
            ("collective", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 0, 120 * us, 40 * us),
            ("host", "aten::loss", 0, 160 * us, 30 * us)])
        self.assertEqual(self.agreed_breakdown(trace), [(60 * us, 40 * us, 40 * us, 40 * us)])

    def test_of_what_was_trained_here(self):
        """Units are kernels and collectives in both, as the events are that recorded them."""
        for trace in sorted((ROOT / "tests/golden/traces").glob("*.trace")):
            path = self.agreed_path(trace, program=True)
            kinds = {name: kind for kind, name, *_ in path}
            self.assertEqual(kinds["dot.111"], "kernel")
            self.assertEqual(kinds["all-reduce.135"], "collective")
            self.assertLessEqual(set(kinds.values()), {"kernel", "collective", "dispatch", "feed", "overhead"})

    def test_of_samples(self):
        trace = self.imported(ROOT / "data/samples/kineto")
        self.assertIsNotNone(self.agreed_path(trace))
        self.assertEqual(len(self.agreed_breakdown(trace)), 2)

    @unittest.skipUnless(TRACES.is_dir(), f"no collection of real traces at {TRACES}")
    def test_of_real_traces(self):
        paths = breakdowns = 0
        for source in sorted(TRACES.rglob("*")):
            if not source.is_file() or source.stat().st_size > LARGEST:
                continue
            trace = self.imported(source)
            if trace is None:
                continue
            with self.subTest(source=source):
                paths += self.agreed_path(trace) is not None
                breakdowns += self.agreed_breakdown(trace) is not None
        self.assertGreater(paths, 10)
        self.assertGreater(breakdowns, 10)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=0))
