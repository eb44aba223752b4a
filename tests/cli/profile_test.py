#!/usr/bin/env python3
"""`reprise profile`: the command runs as it would alone, and what its processes recorded is one trace."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import unittest

from command_case import BIN, ROOT, CommandCase, reprise

PROGRAM = ROOT / "data/programs/mlp.{}.hlo"

# NVTX as a program has it: the tables of its headers, filled by the library that the environment names.
NVTX = """
import ctypes, os, signal, sys
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_size_t, c_uint, c_uint32, c_void_p

slots, entries = (c_void_p * 16)(), (c_void_p * 16)()
for i in range(16):
    entries[i] = ctypes.addressof(slots) + 8 * i

@CFUNCTYPE(c_int, c_uint32, POINTER(c_void_p), POINTER(c_uint))
def module_table(module, table, size):
    if module != 1:
        return 0
    table[0], size[0] = ctypes.addressof(entries), 16
    return 1

class Callbacks(ctypes.Structure):
    _fields_ = [("size", c_size_t), ("table", type(module_table))]

callbacks = Callbacks(16, module_table)

@CFUNCTYPE(c_void_p, c_uint32)
def export_table(id):
    return ctypes.addressof(callbacks) if id == 1 else None

library = ctypes.CDLL(os.environ["NVTX_INJECTION64_PATH"])
assert library.InitializeInjectionNvtx2(export_table) == 1
push, pop = CFUNCTYPE(c_int, c_char_p)(slots[9]), CFUNCTYPE(c_int)(slots[11])
"""

# Marks steps through what the preloaded library exports.
MARKS = """
import ctypes, os, signal, time
own = ctypes.CDLL(None)
own.reprise_mark_step.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
for step in range(4):
    start = time.monotonic_ns()
    own.reprise_mark_step(step, step == 0, start, time.monotonic_ns())
own.reprise_flush()
"""


class Profile(CommandCase):
    def profile(self, *command, flags=(), **options):
        return reprise("profile", "-o", self.trace, *flags, "--", *command, **options)

    def info(self, trace=None):
        done = reprise("info", trace or self.trace, "--format", "json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def answers(self, *arguments):
        done = reprise(*arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def left_behind(self):
        return sorted(entry.name for entry in self.path.iterdir() if entry != self.trace)


class Command(Profile):
    def test_its_exit_status_is_passed_through(self):
        for status in (0, 1, 7, 255):
            done = self.profile("sh", "-c", f"exit {status}", flags=["--force"])
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertTrue(self.trace.exists())
        self.assertEqual(self.left_behind(), [])

    def test_a_signal_that_ends_it_is_128_and_more(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGSEGV):
            done = self.profile("sh", "-c", f"kill -{int(number)} $$", flags=["--force"])
            self.assertEqual(done.returncode, 128 + number, done.stderr)

    def test_its_streams_are_its_own(self):
        done = self.profile("sh", "-c", "cat; echo late >&2", input="hello\n")
        self.assertEqual(done.stdout, "hello\n")
        self.assertIn("late\n", done.stderr)

    def test_what_is_not_there_is_127_and_what_cannot_be_run_126(self):
        done = self.profile("no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-program: no such command", done.stderr)
        self.assertEqual(self.profile(self.path / "nothing").returncode, 127)
        script = self.path / "script"
        script.write_text("#!/bin/sh\n")
        done = self.profile(script)
        self.assertEqual(done.returncode, 126)
        self.assertIn("permission denied", done.stderr)
        self.assertEqual(self.profile(self.path).returncode, 126)
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        done = self.profile(script)
        self.assertEqual(done.returncode, 126)
        self.assertIn("interpreter", done.stderr)
        self.assertFalse(self.trace.exists())

    def test_a_script_without_a_first_line_is_a_shell_s(self):
        script = self.path / "script"
        script.write_text("echo $0 $2; exit 3\n")
        script.chmod(0o755)
        done = self.profile(script, "a", "b")
        self.assertEqual((done.returncode, done.stdout), (3, f"{script} b\n"), done.stderr)
        environment = {"PATH": f"{self.path}:{os.environ['PATH']}"}
        done = self.profile("script", "a", "b", flags=["--force"], env=environment)
        self.assertEqual((done.returncode, done.stdout), (3, f"{script} b\n"), done.stderr)

    def test_signals_reach_it(self):
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM,
                       signal.SIGINT):
            with self.subTest(number):
                command = ("import signal, sys, time\n"
                           f"signal.signal({int(number)}, lambda *_: sys.exit(40 + {int(number)}))\n"
                           "print('ready', flush=True)\nwhile True:\n    time.sleep(0.02)")
                child = subprocess.Popen([BIN / "reprise", "profile", "-o", self.trace, "--force", "--",
                                          sys.executable, "-c", command], stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, start_new_session=True)
                self.assertEqual(child.stdout.readline(), b"ready\n")
                child.send_signal(number)
                self.assertEqual(child.wait(60), 40 + number)
                child.stdout.close()

    def test_it_finds_signals_as_they_were(self):
        command = ["grep", "-E", "Sig(Blk|Ign)", "/proc/self/status"]
        own = 3 << 31  # 32 and 33: the C library's, which its posix_spawn ignores until they are used.

        def signals(text):
            return {name: int(mask, 16) & ~own for name, mask in (line.split() for line in text.splitlines())}

        for ignored in ([], [signal.SIGHUP, signal.SIGINT]):
            def ignore():
                for number in ignored:
                    signal.signal(number, signal.SIG_IGN)
            alone = subprocess.run(command, capture_output=True, text=True, preexec_fn=ignore).stdout
            done = self.profile(*command, flags=["--force"], preexec_fn=ignore)
            self.assertEqual(signals(done.stdout), signals(alone))

    def test_flags_of_the_command_are_the_command_s(self):
        done = self.profile("echo", "-o", "--force", "--steps", "--", "-x")
        self.assertEqual(done.stdout, "-o --force --steps -- -x\n", done.stderr)

    def test_its_flags_are_its_own_without_the_two_dashes_too(self):
        for flags in (["-o", self.trace, "--force"], ["--force", f"--output={self.trace}"]):
            done = reprise("profile", *flags, "echo", "-n", "--steps", "7", "--help", "-o", "x")
            self.assertEqual((done.returncode, done.stdout), (0, "--steps 7 --help -o x"), done.stderr)
        done = reprise("profile", "-o", self.trace, "--force", "--no-such-flag", "true")
        self.assertEqual(done.returncode, 2)

    def test_it_is_no_verb_of_ours(self):
        done = self.profile("info", "--help")
        self.assertEqual(done.returncode, 127, done.stderr)

    def test_closed_and_full_streams_lose_nothing(self):
        script = self.path / "script.py"
        script.write_text("import os, sys\nfound = []\nfor number in range(3):\n    try:\n        os.fstat(number)\n"
                          "        found.append(number)\n    except OSError:\n        pass\n"
                          "open(sys.argv[1], 'w').write(str(found))\nsys.exit(5)\n")
        command = f"{BIN}/reprise profile --force -o {self.trace} -- {sys.executable} {script} {self.path}/open "
        for streams, left in (("2>&-", [0, 1]), ("0<&- 1>&- 2>&-", []), ("2>/dev/full", [0, 1, 2])):
            with self.subTest(streams):
                self.trace.unlink(missing_ok=True)
                done = subprocess.run(["sh", "-c", command + streams], stdin=subprocess.DEVNULL,
                                      stdout=subprocess.DEVNULL, timeout=60)
                self.assertEqual(done.returncode, 5)
                self.info()
                self.assertEqual((self.path / "open").read_text(), str(left))

    def test_a_failure_of_its_own_goes_before_one_of_ours(self):
        done = self.profile("sh", "-c", f"rm -rf {self.trace}.shards.*; exit 5")
        self.assertEqual(done.returncode, 5, done.stderr)


class Refusals(Profile):
    def test_an_existing_trace_stays_and_nothing_runs(self):
        self.trace.write_text("mine")
        done = self.profile("touch", self.path / "ran")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("--force", done.stderr)
        self.assertEqual(self.trace.read_text(), "mine")
        self.assertFalse((self.path / "ran").exists())

    def test_steps_that_are_none_are_usage(self):
        for steps in ("3", "7:3", ":", "a:b", "3:3", "-1:4"):
            done = self.profile("touch", self.path / "ran", flags=[f"--steps={steps}"])
            self.assertEqual(done.returncode, 2, (steps, done.stderr))
        self.assertFalse((self.path / "ran").exists())

    def test_a_command_is_needed(self):
        self.assertEqual(reprise("profile", "-o", self.trace).returncode, 2)

    def test_shards_need_a_directory_of_their_own(self):
        (self.path / "full").mkdir()
        (self.path / "full/file").write_text("mine")
        done = self.profile("true", flags=["--keep-shards", self.path / "full"])
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("not empty", done.stderr)

    def test_a_place_that_takes_no_trace_is_refused_before_the_command_runs(self):
        places = {self.path / "no/t.trace": "there is no directory", "-": "is a file",
                  self.path: "is a directory"}
        if os.geteuid() != 0:
            places["/t.trace"] = "cannot write in /"
        for place, why in places.items():
            done = reprise("profile", "--force", "-o", place, "--", "touch", self.path / "ran")
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(why, done.stderr)
        self.assertEqual(self.left_behind(), [])

    def test_a_full_disk_is_told(self):
        small = self.path / "small"
        small.mkdir()
        mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "reprise-test", small]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
            self.skipTest("cannot mount a small disk")
        try:
            (small / "fill").write_bytes(bytes(56 << 10))
            done = reprise("profile", "-o", small / "t.trace", "--", "sh", "-c", "exit 6")
            self.assertEqual(done.returncode, 6, done.stderr)
            self.assertIn("is full", done.stderr)
            self.assertNotIn("statically linked", done.stderr)
            with contextlib.suppress(OSError):
                (small / "more").write_bytes(bytes(8 << 10))
            done = reprise("profile", "-o", small / "u.trace", "--", "true")
            self.assertIn("is full", done.stderr)
            self.assertNotIn("statically linked", done.stderr)
        finally:
            subprocess.run(["umount", "--lazy", small], check=True)


class Strangers(Profile):
    def test_a_process_that_recorded_nothing_has_its_life(self):
        done = self.profile(sys.executable, "-c", "pass")
        self.assertEqual(done.returncode, 0, done.stderr)
        info = self.info()
        self.assertEqual(len(info["ranks"]), 1)
        self.assertEqual(info["ranks"][0]["events"]["annotation"], 1)
        self.assertIn("rank 0 command", info["environment"])

    def test_ranges_and_steps_of_nvtx(self):
        script = self.path / "script.py"
        script.write_text(NVTX + "for step in range(3):\n"
                                 "    push(b'step %d' % step)\n    push(b'forward')\n    pop()\n    pop()\n")
        done = self.profile(sys.executable, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        rank = self.info()["ranks"][0]
        self.assertEqual(rank["events"]["annotation"], 6)
        self.assertEqual(rank["steps"], 3)
        rows = self.answers("export", self.trace, "--as", "csv", "-o", "-")
        self.assertEqual(rows.count("forward"), 3)

    def test_a_killed_process_keeps_what_was_flushed(self):
        script = self.path / "script.py"
        script.write_text(MARKS + "os.kill(os.getpid(), signal.SIGKILL)\n")
        done = self.profile(sys.executable, script)
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertIn("without closing its shard", done.stderr)
        rank = self.info()["ranks"][0]
        self.assertEqual((rank["steps"], rank["warmup_steps"]), (3, 1))

    def test_a_killed_child_is_told_and_the_rest_kept(self):
        script = self.path / "script.py"
        script.write_text(MARKS + "import subprocess, sys\n"
                          "subprocess.run([sys.executable, '-c', 'import os; os.kill(os.getpid(), 9)'])\n")
        done = self.profile(sys.executable, script)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("without closing its shard", done.stderr)
        self.assertEqual(self.info()["ranks"][0]["steps"], 3)

    def test_an_image_that_exec_replaced_was_not_killed(self):
        done = self.profile("sh", "-c", f"exec {sys.executable} -c pass")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("without closing its shard", done.stderr)

    def test_what_still_runs_is_told(self):
        script = self.path / "script.py"
        script.write_text("import os, sys, time\nopen(sys.argv[1], 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
        command = f"{sys.executable} {script} $0 > /dev/null 2>&1 & until [ -s $0 ]; do sleep 0.05; done"
        done = self.profile("sh", "-c", command, self.path / "number")
        number = int((self.path / "number").read_text())
        os.kill(number, signal.SIGKILL)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn(f"({number}) still runs: what comes from here on is lost", done.stderr)

    def test_a_statically_linked_program_is_told_as_such(self):
        program = self.path / "program"
        source = self.path / "program.c"
        source.write_text("int main(void) { return 9; }\n")
        if not shutil.which("gcc") or subprocess.run(["gcc", "-static", source, "-o", program],
                                                     capture_output=True).returncode:
            self.skipTest("no static C library")
        done = self.profile(program)
        self.assertEqual(done.returncode, 9)
        self.assertIn("statically linked", done.stderr)
        self.assertFalse(self.trace.exists())
        self.assertEqual(self.left_behind(), ["program", "program.c"])

    def test_where_nothing_can_be_analysed_it_says_so(self):
        done = self.profile("true")
        self.assertIn("1 events, none on a GPU)", done.stderr)
        self.assertIn("only when they ran is known", done.stderr)
        for verb in ("analyze", "replay"):
            done = reprise(verb, self.trace)
            self.assertEqual(done.returncode, 3)
            self.assertRegex(done.stderr, "nothing to analyse|no device or host work")
        self.answers("export", self.trace, "--as", "chrome", "-o", self.path / "t.json")

    def test_ranks_of_a_launcher_are_ranks(self):
        script = self.path / "script.py"
        script.write_text(MARKS)
        command = "for r in 0 1; do RANK=$r WORLD_SIZE=2 LOCAL_RANK=$r " \
                  f"{sys.executable} {script} & done; wait"
        done = self.profile("sh", "-c", command)
        self.assertEqual(done.returncode, 0, done.stderr)
        info = self.info()
        self.assertEqual([rank["rank"] for rank in info["ranks"]], [0, 1])
        self.assertEqual([rank["steps"] for rank in info["ranks"]], [3, 3])
        self.assertIn("a launcher or a shell", done.stderr)

    def test_a_window_of_steps(self):
        script = self.path / "script.py"
        script.write_text(MARKS)
        done = self.profile(sys.executable, script, flags=["--steps", "1:3"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.info()["ranks"][0]["steps"], 2)

    def test_kept_shards_can_be_gathered_by_hand(self):
        script = self.path / "script.py"
        script.write_text(MARKS)
        done = self.profile(sys.executable, script, flags=["--keep-shards", self.path / "shards"])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("shards kept in", done.stderr)
        self.answers("import", self.path / "shards", "-o", self.path / "again.trace")
        again = self.info(self.path / "again.trace")
        self.assertEqual(again["ranks"], self.info()["ranks"])

    def test_other_tools_give_way_and_are_told(self):
        done = self.profile("true", env={"NVTX_INJECTION64_PATH": "/opt/other.so"})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("NVTX_INJECTION64_PATH=/opt/other.so gives way", done.stderr)


@unittest.skipUnless("FAKE_CUDA_PROGRAM" in os.environ, "no fake CUPTI in this build")
class Device(Profile):
    """A program over a fake CUPTI (tests/profiler/inject); it ends with 7."""

    def play(self, scenario, *flags, **variables):
        environment = {"FAKE_CUPTI_PATH": os.environ.get("FAKE_CUPTI", ""), **variables}
        return self.profile(os.environ["FAKE_CUDA_PROGRAM"], scenario, flags=flags, env=environment)

    def test_all_that_cupti_records_is_in_the_trace(self):
        done = self.play("records")
        self.assertEqual(done.returncode, 7, done.stderr)
        rank = self.info()["ranks"][0]
        # Of each of 4 x 500 rounds: 4 kernels, 2 copies, 1 memset, 8 calls, 2 waits, 1 overhead; and one kernel.
        expected = {"compute": 8001, "copy": 4000, "memset": 2000, "runtime": 16000, "synchronization": 4000,
                    "overhead": 2000}
        self.assertEqual({kind: count for kind, count in rank["events"].items() if count}, expected)
        for loss in ("11 dropped: not recorded: cupti dropped", "2000 dropped: not recorded: incomplete",
                     "2000 dropped: not recorded: no timestamp"):
            self.assertIn(loss, done.stderr)
        self.assertEqual(self.left_behind(), [])
        self.answers("analyze", self.trace)
        self.answers("replay", self.trace)

    def test_a_window_of_steps(self):
        self.assertEqual(self.play("steps", "--steps", "2:4").returncode, 7)
        rank = self.info()["ranks"][0]
        self.assertEqual((rank["events"]["compute"], rank["steps"], rank["warmup_steps"]), (2, 1, 1))

    def test_a_killed_process_keeps_its_kernels(self):
        done = self.play("killed")
        self.assertEqual(done.returncode, 137, done.stderr)
        self.assertEqual(self.info()["ranks"][0]["events"]["compute"], 100)

    def test_what_holds_cupti_is_told(self):
        done = self.play("records", FAKE_CUPTI_REFUSE="39")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stderr, "cupti: version 130001, .*: held by ")


class Trainer(Profile):
    def train(self, ranks, *flags, trainer=()):
        launcher = [] if ranks == 1 else ["mpirun", "--oversubscribe", "-n", str(ranks)]
        return self.profile(*launcher, BIN / "reprise-train", str(PROGRAM).format(ranks), "--steps", "6",
                            "--warmup", "2", "--result", self.path / "result.json", *trainer, flags=flags)

    def test_one_rank_is_a_trace_as_train_writes_it(self):
        done = self.train(1)
        self.assertEqual(done.returncode, 0, done.stderr)
        info = self.info()
        self.assertNotEqual(info["program"], "none")
        self.assertTrue(info["planned"])
        self.assertEqual(info["ranks"][0]["steps"], 4)
        self.assertGreater(info["ranks"][0]["events"]["compute"], 0)
        self.answers("analyze", self.trace)
        json.loads(self.answers("replay", self.trace, "--format", "json"))
        self.assertEqual(self.left_behind(), ["result.json"])

    def test_ranks_of_mpirun(self):
        done = self.train(2)
        self.assertEqual(done.returncode, 0, done.stderr)
        info = self.info()
        self.assertEqual([rank["rank"] for rank in info["ranks"]], [0, 1])
        self.assertGreater(info["ranks"][1]["events"]["collective"], 0)
        self.answers("analyze", self.trace)
        self.answers("replay", self.trace)

    def test_a_window_of_its_steps(self):
        done = self.train(1, "--steps", "3:5")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.info()["ranks"][0]["steps"], 2)

    def test_kept_shards_can_be_gathered_by_hand(self):
        done = self.train(1, "--keep-shards", self.path / "shards")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.answers("import", self.path / "shards", "-o", self.path / "again.trace")
        again = self.info(self.path / "again.trace")
        self.assertEqual(again["program"], self.info()["program"])
        self.assertEqual(again["ranks"], self.info()["ranks"])

    def test_a_failing_run_keeps_its_status(self):
        done = self.profile(BIN / "reprise-train", self.path / "no.hlo")
        self.assertEqual(done.returncode, 3, done.stderr)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
