#!/usr/bin/env python3
"""`reprise export --as horovod`, run by real Horovod: two processes on this machine, its timeline read by `import`."""

import csv
import io
import json
import os
import pathlib
import re
import subprocess
import unittest

from export_plans import GRADIENTS, PlanCase
from foreign_python import skip_without

HOROVOD = skip_without("horovod.torch", "REPRISE_HOROVOD_PYTHON")
WORKER = pathlib.Path(__file__).resolve().parent / "export_horovod_worker.py"
STEPS = 3


class Horovod(PlanCase):
    def run_processes(self, directory=""):
        """What rank 0 told, and its timeline as a trace."""
        timeline = self.path / "timeline.json"
        environment = dict(os.environ, HOROVOD_TIMELINE=str(timeline), OMP_NUM_THREADS="1")
        if directory:
            told = subprocess.run(["sh", "-c", f". {directory}/environment.sh; env"], capture_output=True, text=True,
                                  check=True).stdout
            environment |= dict(line.split("=", 1) for line in told.splitlines() if line.startswith("HOROVOD_"))
        done = subprocess.run([HOROVOD, "-m", "horovod.runner.launch", "-np", "2", HOROVOD, WORKER, directory],
                              capture_output=True, text=True, timeout=280, env=environment)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        trace = self.path / "timeline.trace"
        self.reprise("import", timeline, "-o", trace, "--force")
        # MPI puts a tag before each piece of output, where lines end or not.
        return json.JSONDecoder().raw_decode(done.stdout.split("told ", 1)[1])[0], trace

    def reductions(self, trace):
        """Names of the tensors of each, in order: those that ran as one begin before the first of them ends. The first
        is a collective, the others are ranges."""
        rows = csv.DictReader(io.StringIO(self.reprise("export", trace, "--as", "csv", "-o", "-").stdout))
        found, end = [], -1
        for row in sorted((row for row in rows if re.fullmatch("(?!NEGOTIATE)[A-Z]+_ALLREDUCE", row["name"])),
                          key=lambda row: int(row["start_ns"])):
            if int(row["start_ns"]) >= end:
                found.append([])
                end = int(row["end_ns"])
            end = min(end, int(row["end_ns"]))
            found[-1].append(row["stream"])
        return [sorted(each) for each in found]

    def test_one_reduction_a_planned_group_with_the_same_result(self):
        out = self.path / "out"
        self.reprise("export", self.plan, "--as", "horovod", "-o", out)
        grouped, trace = self.run_processes(str(out))
        planned, at = [], 0
        for count in self.BUCKETS:
            planned.append([f"grouped_allreduce.{GRADIENTS[at][0]}_{place + 1}of{count}" for place in range(count)])
            at += count
        # What runs last may be missing: Horovod ends before its timeline is written.
        made = self.reductions(trace)[:len(planned) * (STEPS - 1)]
        for step in range(STEPS - 1):
            self.assertCountEqual(made[step * len(planned):(step + 1) * len(planned)], planned)
        plain, _ = self.run_processes()
        for one, other in zip(grouped["state"], plain["state"], strict=True):
            self.assertAlmostEqual(one, other, places=5)


if __name__ == "__main__":
    unittest.main()
