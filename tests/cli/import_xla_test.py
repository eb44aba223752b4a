#!/usr/bin/env python3
"""XLA's profiles and programs on the command line: `reprise import`, `info` and `hlo`."""

import json
import lzma
import sys
import unittest
import zipfile

from command_case import ROOT, CommandCase, reprise

CORPUS = ROOT / "tests/fuzz/corpus"
TRACES = ROOT.parent / "shared/traces"
BAD_INPUT = 3


class Xla(CommandCase):
    def imported(self, path):
        """The report's files by name, and what info says of the trace."""
        run = reprise("import", path, "-o", self.trace, "--force", "--format", "json")
        self.assertEqual(run.returncode, 0, run.stderr)
        info = reprise("info", self.trace, "--format", "json")
        self.assertEqual(info.returncode, 0, info.stderr)
        files = {f["path"].replace(":", "/").rsplit("/", 1)[-1]: f for f in json.loads(run.stdout)["files"]}
        return files, json.loads(info.stdout)

    def test_a_profile_keeps_its_programs(self):
        files, info = self.imported(CORPUS / "xplane/two_gpus.xplane.pb")
        self.assertEqual(files["two_gpus.xplane.pb"]["kind"], "xplane")
        self.assertEqual(files["two_gpus.xplane.pb"]["kernels"], 4)
        self.assertEqual(info["modules"], ["jit_step(3)"])
        self.assertEqual([rank["rank"] for rank in info["ranks"]], [0, 1])
        self.assertIn("1 HLO module: jit_step(3)\n", reprise("info", self.trace).stdout)

    def test_an_archive_of_nsys_jax_gives_programs_and_ranges(self):
        archive = self.path / "profile.zip"
        with zipfile.ZipFile(archive, "w") as out:
            program = (CORPUS / "hlo_proto/step.hlo.pb").read_bytes()
            out.writestr("dump/module_0000.jit_step.hlo.pb.xz", lzma.compress(program))
            out.writestr("report_nvtx_pushpop_trace.csv.xz",
                         lzma.compress((CORPUS / "nsys_jax_csv/ranges.csv").read_bytes()))
            out.writestr("nvtx_gpu_proj_trace/trace.parquet", b"PAR1" + bytes(64) + b"PAR1")
        files, info = self.imported(archive)
        self.assertEqual(info["modules"], ["module_0000.jit_step"])
        self.assertEqual(info["events"], 3)
        table = files["report_nvtx_pushpop_trace.csv.xz"]
        self.assertEqual(table["kind"], "nsys-jax-csv")
        self.assertIn("trace.parquet, which is not read", " ".join(table["missing"]))
        self.assertIn("Parquet", files["trace.parquet"]["refused"])

    def test_a_profile_that_went_through_text_is_refused(self):
        run = reprise("import", CORPUS / "xplane/mangled.xplane.pb", "-o", self.trace)
        self.assertEqual(run.returncode, BAD_INPUT)
        self.assertIn("UTF-8 text conversion", run.stderr)
        self.assertFalse(self.trace.exists())

    def test_hlo_reads_a_proto(self):
        run = reprise("hlo", CORPUS / "hlo_proto/step.hlo.pb", "--format", "json")
        self.assertEqual(run.returncode, 0, run.stderr)
        summary = json.loads(run.stdout)
        self.assertEqual(summary["module"], "jit_step")
        # Four computations: 3 + 7 + 4 + 12 instructions.
        self.assertEqual(summary["computations"], 4)
        self.assertEqual(summary["instructions"], 26)
        self.assertEqual(summary["collectives"][0]["groups"], "1 x 2")

    @unittest.skipUnless(TRACES.exists(), "no recorded traces beside the checkout")
    def test_recorded_profiles_keep_their_programs(self):
        for pattern, modules in (("nsys_jax/*/*.zip", 26), ("xplane/jax08_gemm_mi300/*.pb", 16),
                                 ("xplane/jax_mi300_legacy/*.pb", 8),
                                 ("xplane/tf_gpu_multi_worker_v100/*.pb", 0)):
            path = next(TRACES.glob(pattern))
            with self.subTest(path=path.name):
                self.assertEqual(len(self.imported(path)[1]["modules"]), modules)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
