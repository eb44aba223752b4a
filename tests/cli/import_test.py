#!/usr/bin/env python3
"""`reprise import`: what it takes, what it refuses and with which words, and that no input breaks it."""

import gzip
import io
import json
import os
import resource
import signal
import subprocess
import sys
import tarfile
import threading
import time
import unittest
import zipfile

from command_case import BIN, ROOT, CommandCase, is_sanitized, reprise

TRACES = ROOT.parent / "shared/traces"


def kineto(rank=None, kernels=10, shift=0):
    """A small Kineto trace: one launch and one kernel of 20 us each 100 us, in one step."""
    events = [{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "pid": 7, "tid": 7,
               "ts": 1000 + shift, "dur": 100 * kernels}]
    for i in range(kernels):
        at = 1000 + shift + 100 * i
        events.append({"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 7, "tid": 7,
                       "ts": at, "dur": 5, "args": {"correlation": i + 1}})
        events.append({"ph": "X", "cat": "kernel", "name": f"gemm_{i % 3}", "pid": 0, "tid": 7, "ts": at + 10,
                       "dur": 20, "args": {"correlation": i + 1, "device": 0, "stream": 7}})
    trace = {"schemaVersion": 1, "traceEvents": events}
    if rank is not None:
        trace["distributedInfo"] = {"backend": "nccl", "rank": rank, "world_size": 8}
    return json.dumps(trace)


class Import(CommandCase):
    def imported(self, *arguments, **options):
        """Imports to self.trace, and returns the report."""
        done = reprise("import", *arguments, "-o", self.trace, "--force", "--format", "json", **options)
        self.assertEqual(done.returncode, 0, done.stderr)
        report = json.loads(done.stdout)
        self.assertEqual(report["schema"], "reprise.import/1")
        self.assertEqual(reprise("info", self.trace).returncode, 0)
        return report

    def refused(self, *arguments, words=(), codes=(3,), **options):
        done = reprise("import", *arguments, "-o", self.trace, **options)
        self.assertIn(done.returncode, codes, done.stderr + done.stdout)
        for word in words:
            self.assertIn(word, done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertFalse(self.trace.exists())
        self.assertEqual([p.name for p in self.path.iterdir() if ".tmp." in p.name], [])
        return done

    def test_help_names_the_kinds(self):
        text = reprise("import", "--help").stdout
        for kind in ("kineto", "nsys-sqlite"):
            self.assertIn(kind, text)

    def test_one_file(self):
        report = self.imported(self.write("a.json", kineto()))
        (file,) = report["files"]
        # 10 kernels, 10 launches and the annotation of the step.
        self.assertEqual((file["kind"], file["kernels"], file["steps"], file["ranks"], file["events"]),
                         ("kineto", 10, 1, [0], 21))
        self.assertGreater(report["seconds"], 0)

    def test_table_and_csv(self):
        path = self.write("a.json", kineto())
        done = reprise("import", path, "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("kineto", done.stdout)
        self.assertIn("wrote", done.stderr)
        rows = reprise("import", path, "-o", self.trace, "--force", "--format", "csv").stdout.splitlines()
        self.assertEqual(rows[0].split(",")[:4], ["file", "kind", "dialect", "ranks"])
        self.assertEqual(len(rows), 2)

    def test_existing_output_needs_force(self):
        path = self.write("a.json", kineto())
        self.imported(path)
        before = self.trace.read_bytes()
        done = reprise("import", path, "-o", self.trace)
        self.assertEqual(done.returncode, 3)
        self.assertIn("--force", done.stderr)
        self.assertEqual(before, self.trace.read_bytes())

    def test_ranks_of_a_directory(self):
        for rank in range(3):
            self.write(f"run/rank-{rank}.json", kineto())
        self.write("run/more/last.json.gz", gzip.compress(kineto(rank=7).encode()))
        report = self.imported(self.path / "run")
        self.assertEqual([file["ranks"] for file in report["files"]], [[0], [1], [2], [7]])

    def test_ranks_that_are_not_known_are_asked_for(self):
        first, second = self.write("a.json", kineto()), self.write("b.json", kineto())
        self.refused(first, second, words=["a.json", "--rank"])
        report = self.imported(first, second, "--rank", "a.json=1", "--rank", f"{second}=0")
        self.assertEqual([file["ranks"] for file in report["files"]], [[1], [0]])
        report = self.imported("--rank", "b.json=1", first, "--rank", "a.json=0", second)  # Each takes one word.
        self.assertEqual([file["ranks"] for file in report["files"]], [[0], [1]])
        self.trace.unlink()
        self.refused(first, second, "--rank", "a.json=x", words=["a.json=x", "FILE=N"])
        self.refused(first, second, "--rank", "c.json=0", words=["c.json"])

    def test_two_files_of_one_rank_are_named(self):
        self.refused(self.write("a.json", kineto(rank=2)), self.write("b.json", kineto(rank=2)),
                     words=["a.json", "b.json", "rank 2"])

    def test_refusals_say_what_was_seen(self):
        cases = [(b"", "empty file"), (b"\x7fELF" + bytes(100), "ELF binary"), (b"\0" * 5000, "zero bytes"),
                 (b'{"nodes": 1, "x": 2}', "JSON without traceEvents (it has nodes, x)"),
                 (b"\x89PNG\r\n", "PNG"), (b"once upon a time", "once upon a time")]
        for content, words in cases:
            with self.subTest(words):
                self.refused(self.write("input", content), words=["input", words])
        self.refused(self.path / "absent", words=["absent", "No such file"])
        self.refused(self.path, words=["input"])
        empty = self.path / "empty"
        empty.mkdir()
        self.refused(empty, words=["no file to import"])

    def test_a_trace_of_our_own_is_not_imported_again(self):
        self.imported(self.write("a.json", kineto()))
        own = self.trace.rename(self.path / "own.trace")
        self.refused(own, words=["trace of Reprise already"])

    def test_usage_errors_exit_2(self):
        path = self.write("a.json", kineto())
        for arguments in (["--kind", "tea"], ["--threads", "0"], ["--format", "xml"], ["--nope"]):
            self.refused(path, *arguments, codes=(2,))
        self.assertEqual(reprise("import", path).returncode, 2)
        self.assertEqual(reprise("import", "-o", self.trace).returncode, 2)

    def test_the_rest_is_imported_and_the_refused_told(self):
        self.write("run/rank0.json", kineto())
        self.write("run/readme.md", "hello")
        done = reprise("import", self.path / "run", "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("readme.md: no trace", done.stderr)
        self.trace.unlink()
        self.refused(self.path / "run", "--strict", words=["--strict", "readme.md"])

    def test_a_truncated_file_is_read_to_its_cut(self):
        whole = gzip.compress(kineto(kernels=20000).encode())
        path = self.write("cut.json.gz", whole[: len(whole) // 2])
        (file,) = self.imported(path)["files"]
        self.assertGreater(file["kernels"], 2000)
        self.assertLess(file["kernels"], 19000)
        self.assertGreater(sum(file["dropped"].values()), 0)
        self.trace.unlink()
        self.refused(path, "--strict", words=["cut.json.gz"])

    def test_a_record_without_times_takes_none_away(self):
        nodes = [{"name": name, "id": i, "rf_id": i, "parent": 1, "fw_parent": 0, "seq_id": -1, "scope": 0, "tid": 1,
                  "fw_tid": 0, "op_schema": "", "inputs": [], "input_shapes": [], "input_types": [], "outputs": [],
                  "output_shapes": [], "output_types": []}
                 for i, name in enumerate(("[pytorch|profiler|execution_graph|process]", "aten::add"), 1)]
        untimed = self.write("a.json", json.dumps({"schema": "1.0.1", "pid": 7, "time": "2023-07-12 11:11:11",
                                                   "start_ts": 1, "nodes": nodes, "finish_ts": 2}))
        timed = self.write("b.json", kineto())
        for inputs in ((untimed, timed), (timed, untimed)):
            report = self.imported(*inputs)
            self.assertEqual({file["kind"] for file in report["files"]}, {"kineto", "pytorch-et"})
            done = reprise("analyze", self.trace, "--format", "json")
            self.assertEqual(done.returncode, 0, done.stderr)
            # 10 kernels of 20 us.
            (rank,) = json.loads(done.stdout)["ranks"]
            self.assertEqual(rank["compute_ns"], 200_000)

    def test_the_report_tells_of_every_record(self):
        trace = json.loads(kineto())
        trace["traceEvents"] += [
            {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 1, "pid": 7, "tid": 7, "ts": 1005},
            {"ph": "M", "name": "process_name", "pid": 7, "args": {"name": "python"}},
            {"ph": "X", "cat": "kernel", "name": "late", "pid": 0, "tid": 7, "ts": 5, "dur": -2},
            {"ph": "X", "cat": "kernel", "name": "never", "pid": 0, "tid": 7, "ts": "N/A", "dur": 2}]
        path = self.write("a.json", json.dumps(trace))
        report = self.imported(path)
        self.assertEqual(list(report), ["schema", "files", "seconds"])
        (file,) = report["files"]
        self.assertEqual(list(file), ["path", "kind", "dialect", "bytes", "events", "kernels", "collectives", "steps",
                                      "ranks", "ignored", "dropped", "repaired", "missing"])
        self.assertEqual((file["path"], file["bytes"]), (str(path), path.stat().st_size))
        self.assertEqual(file["ignored"], {"flow arrow": 1, "metadata row": 1})
        self.assertEqual(file["dropped"], {"end before start": 1, "no usable time": 1})
        self.assertEqual(file["events"] + 2 + 2, len(trace["traceEvents"]))
        # What was dropped is said to people too, and fails strictly.
        done = reprise("import", path, "-o", self.trace, "--force")
        self.assertIn("1 dropped: end before start", done.stderr)
        self.trace.unlink()
        self.refused(path, "--strict", words=["--strict", "end before start"])

    def test_a_report_for_people_fits_a_screen(self):
        for rank in range(60):
            self.write(f"run/rank{rank}.json", kineto(rank=rank))
            self.write(f"run/note{rank}.txt", f"note {rank}")
        done = reprise("import", self.path / "run", "-o", self.trace)
        self.assertEqual(done.returncode, 0, done.stderr)
        lines = (done.stdout + done.stderr).splitlines()
        self.assertLessEqual(len(lines), 50)
        self.assertLessEqual(max(map(len, done.stdout.splitlines())), 132)
        self.assertIn("96 more", done.stdout)
        self.assertIn(" and 59 more: no traces, passed over", done.stderr)
        # A machine gets everything.
        report = self.imported(self.path / "run")
        self.assertEqual(len(report["files"]), 120)

    def test_archives(self):
        with tarfile.open(self.path / "run.tar.gz", "w:gz") as archive:
            for rank in range(3):
                content = kineto(rank=rank).encode()
                member = tarfile.TarInfo(f"run/t{rank}.json")
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        report = self.imported(self.path / "run.tar.gz")
        self.assertEqual([file["ranks"] for file in report["files"]], [[0], [1], [2]])
        self.assertTrue(report["files"][1]["path"].endswith("run.tar.gz:run/t1.json"))
        with zipfile.ZipFile(self.path / "run.zip", "w", zipfile.ZIP_DEFLATED) as archive:
            for rank in range(3):
                archive.writestr(f"t{rank}.json", kineto(rank=rank))
        report = self.imported(self.path / "run.zip")
        self.assertEqual([file["ranks"] for file in report["files"]], [[0], [1], [2]])

    def test_the_same_bytes_for_any_thread_count(self):
        for rank in range(6):
            self.write(f"run/rank{rank}.json", kineto(rank=rank, kernels=100 * (rank + 1), shift=rank))
        bytes_of = {}
        for threads in (1, 2, 6):
            report = self.imported(self.path / "run", "--threads", threads)
            report.pop("seconds")
            bytes_of[threads] = (self.trace.read_bytes(), json.dumps(report))
        self.assertEqual(bytes_of[1], bytes_of[2])
        self.assertEqual(bytes_of[1], bytes_of[6])

    @unittest.skipUnless((TRACES / "kineto/dlrm_v100_8ranks").is_dir(), "no third-party traces here")
    def test_a_tar_of_eight_real_ranks(self):
        archive = TRACES / "kineto/dlrm_v100_8ranks/dlrm_kineto.tar.gz"
        report = self.imported(archive)
        self.assertEqual(sorted(file["ranks"] for file in report["files"]), [[rank] for rank in range(8)])
        self.assertEqual([file["collectives"] for file in report["files"]], [8] * 8)
        one = self.trace.read_bytes()
        self.imported(archive, "--threads", 1)
        self.assertEqual(one, self.trace.read_bytes())

    def limited(self, megabytes):
        """Runs with little memory, so that a bomb that is held whole fails."""
        def limit():
            resource.setrlimit(resource.RLIMIT_AS, (megabytes << 20, megabytes << 20))
        return {} if is_sanitized() else {"preexec_fn": limit}

    def bomb(self, prefix, filler, mebibytes):
        """A gzip of `prefix` and so much filler, in members of 16 MiB."""
        member = gzip.compress(filler * (16 << 20), compresslevel=1)
        return gzip.compress(prefix) + member * (mebibytes // 16)

    def test_a_gzip_bomb_takes_no_memory(self):
        self.refused(self.write("zeros.gz", self.bomb(b"", b"\0", 1024)), words=["zero bytes"], **self.limited(2048))
        # Blanks within a trace: read to the end, a step at a time.
        path = self.write("blanks.gz", self.bomb(b'{"traceEvents": [' + json.dumps(
            {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2,
             "args": {"device": 0, "stream": 7}}).encode() + b", ", b" ", 768))
        done = reprise("import", path, "-o", self.trace, **self.limited(2048))
        self.assertIn(done.returncode, (0, 3), done.stderr)
        self.assertNotIn("bad_alloc", done.stderr)

    def test_a_zip_bomb_is_refused_member_by_member(self):
        with zipfile.ZipFile(self.path / "bomb.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for name in range(3):
                archive.writestr(f"zeros{name}", bytes(64 << 20))
            archive.writestr("rank0.json", kineto())
        report = self.imported(self.path / "bomb.zip", **self.limited(2048))
        self.assertEqual([file["kind"] for file in report["files"] if not file.get("refused")], ["kineto"])

    def test_deep_nesting_breaks_nothing(self):
        deep = 10 ** 6
        for name, content in (("array", "[" * deep), ("object", '{"a":' * deep),
                              ("args", '{"traceEvents": [{"ph": "X", "args": ' + '{"a":' * deep),
                              ("event", '{"traceEvents": [' + "[" * deep)):
            with self.subTest(name):
                done = reprise("import", self.write(f"{name}.json", content), "-o", self.trace, "--force")
                self.assertIn(done.returncode, (0, 3), done.stderr)
                self.assertNotIn("internal error", done.stderr)

    def test_a_full_disk_leaves_nothing_half_written(self):
        path = self.write("a.json", kineto(kernels=30000))
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
        self.refused(path, words=["out.trace"], preexec_fn=limit)
        self.assertEqual(sorted(p.name for p in self.path.iterdir()), ["a.json"])

    def test_an_output_directory_that_is_not_there(self):
        path = self.write("a.json", kineto())
        done = reprise("import", path, "-o", self.path / "no/such/t.trace")
        self.assertEqual(done.returncode, 3)
        self.assertIn("no/such", done.stderr)

    def test_an_interrupt_leaves_nothing_half_written(self):
        pipe = self.path / "pipe"
        os.mkfifo(pipe)
        run = subprocess.Popen([BIN / "reprise", "import", pipe, "-o", self.trace], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
        fed, interrupted = threading.Event(), threading.Event()

        def feed():
            with open(pipe, "wb", buffering=0) as sink:
                try:
                    sink.write(kineto(kernels=2000).encode()[:-2])  # More than the pipe holds: it has been read.
                    fed.set()
                    interrupted.wait(60)
                    for _ in range(4096):
                        sink.write(b" " * 4096)
                except BrokenPipeError:
                    pass
                finally:
                    fed.set()

        feeder = threading.Thread(target=feed, daemon=True)
        feeder.start()
        fed.wait(60)
        run.send_signal(signal.SIGINT)
        time.sleep(0.5)
        interrupted.set()
        _, errors = run.communicate(timeout=60)
        feeder.join(60)
        self.assertEqual(run.returncode, 130, errors)
        self.assertIn("interrupted", errors)
        self.assertEqual(sorted(p.name for p in self.path.iterdir()), ["pipe"])


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
