#!/usr/bin/env python3
"""`reprise doctor`: what it says of NVIDIA's libraries, of which fakes lie in LD_LIBRARY_PATH, and of other tools."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from command_case import is_sanitized

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()
FAKE = pathlib.Path(os.environ.get("FAKE_NVIDIA", BIN.parent / "lib/libfake_nvidia.so"))
LIBRARIES = ["libcuda.so.1", "libnvrtc.so.13", "libcublasLt.so.13", "libcudnn.so.9", "libcupti.so.13", "libnccl.so.2"]
COMPETING = ("CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN", "LD_PRELOAD")


def installed(name):
    """Whether the loader finds the library anyway."""
    return subprocess.run([sys.executable, "-c", f"import ctypes; ctypes.CDLL({name!r})"],
                          capture_output=True).returncode == 0


class Doctor(unittest.TestCase):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.directory.name)

    def tearDown(self):
        self.directory.cleanup()

    def offer(self, *names):
        for name in names:
            shutil.copy(FAKE, self.path / name)  # The loader takes links for one library.

    def run_doctor(self, *arguments, program=(BIN / "reprise",), **variables):
        environment = {name: value for name, value in os.environ.items()
                       if name not in COMPETING and not name.startswith(("KINETO_", "NSYS_"))}
        environment |= {"LD_LIBRARY_PATH": str(self.path), "CUDA_HOME": str(self.path / "none"), **variables}
        return subprocess.run([*program, "doctor", *arguments], capture_output=True, text=True,
                              env=environment, timeout=60)

    def checks(self, *arguments, **variables):
        done = self.run_doctor(*arguments, "--format", "json", **variables)
        self.assertIn(done.returncode, (0, 4), done.stderr)
        answer = json.loads(done.stdout)
        self.assertEqual(answer["schema"], "reprise.doctor/1")
        for check in answer["checks"]:
            self.assertTrue(check["found"], check)
            self.assertEqual(check["fix"] == "", check["ok"], check)
        return {check["name"]: check for check in answer["checks"]}


class WithoutADriver(Doctor):
    @unittest.skipIf(installed("libcuda.so.1"), "there is a driver")
    def test_it_fails_only_when_asked_for_what_needs_one(self):
        self.assertEqual(self.run_doctor().returncode, 0)
        self.assertEqual(self.run_doctor("--for", "profile").returncode, 4)
        self.assertEqual(self.run_doctor("--for", "train", "--device", "cuda").returncode, 4)
        alone = self.run_doctor("--for", "train")
        self.assertNotIn("NVIDIA driver", [line.split("  ")[0] for line in alone.stdout.splitlines()
                                           if "FAIL" in line])

    def test_every_lack_has_its_fix(self):
        checks = self.checks()
        for name, library, word in zip(
                ("NVIDIA driver", "NVRTC", "cuBLASLt", "cuDNN", "CUPTI", "NCCL"), LIBRARIES,
                ("install the NVIDIA driver", "nvrtc", "cublas", "libcudnn9", "cuda-cupti", "libnccl2")):
            if installed(library):
                continue
            self.assertFalse(checks[name]["ok"])
            self.assertIn(word, checks[name]["fix"])
        self.assertFalse(checks["cuDNN"]["needed"])  # Convolutions do without.
        self.assertFalse(checks["NCCL"]["needed"])  # One GPU does without.

    def test_a_driver_that_does_not_start_is_none(self):
        self.offer(*LIBRARIES)
        driver = self.checks(FAKE_CU_INIT="999")["NVIDIA driver"]
        self.assertFalse(driver["ok"])
        self.assertIn("cuInit failed with 999", driver["found"])
        hidden = self.checks(FAKE_CU_INIT="100")["NVIDIA driver"]
        self.assertIn("CUDA_VISIBLE_DEVICES", hidden["fix"])


class WithADriver(Doctor):
    def setUp(self):
        super().setUp()
        self.offer(*LIBRARIES)

    def test_versions_and_paths_are_said(self):
        checks = self.checks()
        self.assertEqual(checks["NVIDIA driver"]["found"], "CUDA 13.0, 2 devices")
        self.assertEqual(checks["NVRTC"]["found"], f"13.0 ({self.path}/libnvrtc.so.13)")
        self.assertEqual(checks["cuBLASLt"]["found"], f"13.1.0 ({self.path}/libcublasLt.so.13)")
        self.assertEqual(checks["cuDNN"]["found"], f"9.19.0 ({self.path}/libcudnn.so.9)")
        self.assertEqual(checks["CUPTI"]["found"], f"version 130001 ({self.path}/libcupti.so.13)")
        self.assertEqual(checks["NCCL"]["found"], f"2.28.9 ({self.path}/libnccl.so.2), plugin table 5")
        for name in ("NVIDIA driver", "NVRTC", "cuBLASLt", "cuDNN", "CUPTI", "NCCL"):
            self.assertTrue(checks[name]["ok"])

    def test_a_toolkit_newer_than_the_driver_does_not_run(self):
        checks = self.checks(FAKE_CU_VERSION="12080")
        self.assertTrue(checks["NVIDIA driver"]["ok"])
        for name in ("NVRTC", "cuBLASLt", "cuDNN", "CUPTI"):
            self.assertFalse(checks[name]["ok"])
            self.assertIn("newer than the driver's CUDA 12.8", checks[name]["found"])
            self.assertIn("update the driver", checks[name]["fix"])
        self.assertTrue(self.checks(FAKE_CU_VERSION="12080", FAKE_CUPTI_VERSION="26")["CUPTI"]["ok"])
        self.assertFalse(self.checks(FAKE_CU_VERSION="11080", FAKE_CUPTI_VERSION="26")["CUPTI"]["ok"])
        older = self.checks(FAKE_NVRTC_MAJOR="12")["NVRTC"]
        self.assertTrue(older["ok"])

    def test_cupti_must_record(self):
        self.assertTrue(self.checks()["CUPTI"]["ok"])
        held = self.checks("--for", "profile", FAKE_CUPTI_SUBSCRIBE="39")["CUPTI"]
        self.assertFalse(held["ok"])
        self.assertIn(", held by nsys", held["found"])
        self.assertIn("CUDA_INJECTION64_PATH", held["fix"])
        for name in ("FAKE_CUPTI_SUBSCRIBE", "FAKE_CUPTI_ENABLE"):
            private = self.checks(**{name: "35"})["CUPTI"]
            self.assertFalse(private["ok"])
            self.assertIn("does not record: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", private["found"])
            self.assertIn("NVreg_RestrictProfilingToAdminUsers=0", private["fix"])
        self.assertIn("update the driver", self.checks(FAKE_CUPTI_ENABLE="14")["CUPTI"]["fix"])

    def test_cupti_is_not_put_to_work_without_a_driver(self):
        for status in ("100", "999"):
            # Not even asked for its version: that of CUDA 13.2 crashes there.
            checks = self.checks(FAKE_CU_INIT=status, FAKE_CUPTI_SUBSCRIBE="999", FAKE_CUPTI_CRASHES="1")
            self.assertTrue(checks["CUPTI"]["ok"])
            self.assertIn("not asked for", checks["CUPTI"]["found"])

    def test_what_keeps_a_driver_from_starting_has_its_fix(self):
        for status, word in (("34", "stub"), ("802", "fabricmanager"), ("803", "reboot"), ("804", "cuda-compat"),
                             ("46", "another process"), ("999", "nvidia-smi")):
            with self.subTest(status):
                driver = self.checks(FAKE_CU_INIT=status)["NVIDIA driver"]
                self.assertFalse(driver["ok"])
                self.assertIn(word, driver["fix"])

    def test_no_device_is_a_lack(self):
        driver = self.checks(FAKE_CU_DEVICES="0")["NVIDIA driver"]
        self.assertFalse(driver["ok"])
        self.assertIn("CUDA_VISIBLE_DEVICES", driver["fix"])

    def test_old_cupti_and_old_nccl(self):
        # 18 is what the libraries of CUDA 11.8, 12.0 and 12.1 say, the first whose records are known.
        self.assertFalse(self.checks(FAKE_CUPTI_VERSION="17")["CUPTI"]["ok"])
        self.assertTrue(self.checks(FAKE_CUPTI_VERSION="18")["CUPTI"]["ok"])
        self.assertTrue(self.checks(FAKE_CUPTI_VERSION="26")["CUPTI"]["ok"])
        self.assertIn("plugin table 4", self.checks(FAKE_NCCL_VERSION="22703")["NCCL"]["found"])
        old = self.checks(FAKE_NCCL_VERSION="22105")["NCCL"]
        self.assertFalse(old["ok"])
        self.assertIn("--nccl-preload", old["fix"])

    @unittest.skipIf(any(map(installed, LIBRARIES[1:])), "the loader finds CUDA's libraries by itself")
    def test_the_toolkit_s_directory_is_looked_into(self):
        for name in LIBRARIES[1:]:
            (self.path / name).unlink()
        home = self.path / "cuda"
        (home / "lib64").mkdir(parents=True)
        (home / "extras/CUPTI/lib64").mkdir(parents=True)
        (home / "lib64/libnvrtc.so.13").symlink_to(FAKE)
        (home / "extras/CUPTI/lib64/libcupti.so.13").symlink_to(FAKE)
        checks = self.checks(CUDA_HOME=str(home))
        self.assertTrue(checks["NVRTC"]["ok"])
        self.assertTrue(checks["CUPTI"]["ok"])
        self.assertFalse(checks["cuBLASLt"]["ok"])


class Table(Doctor):
    def test_fixes_and_what_each_job_needs_stand_below(self):
        said = self.run_doctor(FAKE_CUPTI_VERSION="17").stdout
        table, advice = said.split("\n\n")
        self.assertEqual(table.splitlines()[0].split(), ["check", "for", "state", "found"])
        checks = self.checks(FAKE_CUPTI_VERSION="17")
        for name, check in checks.items():
            self.assertEqual(f"fix {name}: {check['fix']}" in advice, not check["ok"], name)
        self.assertRegex(advice, "(?m)^profile: (ready|needs .+)$")
        self.assertRegex(advice, "(?m)^train --device cuda: (ready|needs .+)$")
        for line in advice.splitlines():
            self.assertRegex(line, "^(fix .+: .+|[a-z -]+: (ready|needs .+))$")

    def test_programs_get_a_column_of_fixes(self):
        rows = self.run_doctor("--format", "csv").stdout.splitlines()
        self.assertEqual(rows[0], "check,for,state,found,fix")
        self.assertEqual(len(rows), 1 + len(self.checks()))


class Tracing(Doctor):
    def test_variables_of_other_tools_are_named_but_no_failure(self):
        check = self.checks(CUDA_INJECTION64_PATH="/opt/x/libToolsInjection64.so",
                            KINETO_USE_DAEMON="1")["competing tools"]
        self.assertFalse(check["ok"])
        self.assertFalse(check["needed"])
        self.assertIn("CUDA_INJECTION64_PATH=/opt/x/libToolsInjection64.so", check["found"])
        self.assertIn("KINETO_USE_DAEMON=1", check["found"])
        self.assertIn("unset", check["fix"])
        shown = self.run_doctor(KINETO_USE_DAEMON="1").stdout
        line = next(line for line in shown.splitlines() if line.startswith("competing tools"))
        self.assertIn("warning", line)  # Nothing is missing.

    def test_our_own_and_harmless_variables_compete_with_nobody(self):
        # AddressSanitizer starts only where its library is the first that is loaded.
        preload = {} if is_sanitized() else {"LD_PRELOAD": "libm.so.6"}
        check = self.checks(CUDA_INJECTION64_PATH="/x/libreprise_inject.so", **preload)["competing tools"]
        self.assertTrue(check["ok"], check)

    def test_a_tool_that_runs_it_is_a_failure(self):
        tool = self.path / "nsys"  # A process of that name.
        shutil.copy("/bin/sh", tool)
        done = self.run_doctor("--for", "profile", "--format", "json",
                               program=(tool, "-c", '"$0" "$@"; exit $?', BIN / "reprise"))
        self.assertEqual(done.returncode, 4, done.stderr)
        check = {c["name"]: c for c in json.loads(done.stdout)["checks"]}["competing tools"]
        self.assertIn("running under nsys", check["found"])
        self.assertTrue(check["needed"])

    def test_the_device_must_be_there(self):
        check = self.checks()["permission to trace"]
        if not os.path.exists("/dev/nvidiactl"):
            self.assertIn("no /dev/nvidiactl", check["found"])

    def test_our_libraries_lie_beside_the_program(self):
        checks = self.checks()
        for name in ("libreprise_inject.so", "libnccl-profiler-reprise.so"):
            path = BIN.parent / "lib" / name
            self.assertEqual(checks[name]["ok"], path.exists())
        moved = self.path / "bin/reprise"
        moved.parent.mkdir()
        shutil.copy(BIN / "reprise", moved)
        done = self.run_doctor("--for", "profile", program=(moved,))
        self.assertEqual(done.returncode, 4)
        self.assertIn(f"{self.path}/lib/libreprise_inject.so not found", done.stdout)


class Train(Doctor):
    def test_training_on_a_gpu_without_a_driver_says_so(self):
        done = subprocess.run([BIN / "reprise", "train", "--device", "cuda", "--steps", "3",
                               ROOT / "data/programs/mlp.1.hlo"], capture_output=True, text=True, timeout=120,
                              env=dict(os.environ, LD_LIBRARY_PATH=str(self.path)))
        if done.returncode == 0:
            self.skipTest("there is a GPU")
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertRegex(done.stderr, "libcuda|cuda|CUDA")


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
