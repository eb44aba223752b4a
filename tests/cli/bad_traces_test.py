#!/usr/bin/env python3
"""Bombs, bottomless nesting and what is no trace, through `reprise import`: bounded memory and time, clear words, nothing half-written."""

import gzip
import io
import json
import lzma
import os
import subprocess
import sys
import tarfile
import unittest
import zipfile

from command_case import BIN, CommandCase

KERNEL = json.dumps({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 1, "dur": 2,
                     "args": {"device": 0, "stream": 7}}).encode()
INSPECTED = json.dumps({"header": {"id": "0x7", "rank": 2, "n_ranks": 8}, "coll_perf": {
    "coll": "AllReduce", "coll_sn": 1, "coll_msg_size_bytes": 64, "coll_exec_time_us": 5}}).encode()
TABLE = b"# nThread 1 nGpus 8\n#  size  count  type  redop  time  algbw  busbw  error\n"

# Beginnings of every text format, each within a string, a number, or between records.
BEGINNINGS = {
    "kineto record": b'{"traceEvents": [' + KERNEL + b", ",
    "kineto string": b'{"traceEvents": [' + KERNEL + b', {"ph": "X", "name": "',
    "kineto number": b'{"traceEvents": [' + KERNEL + b', {"ph": "X", "ts": 1',
    "kineto member": b'{"traceName": "',
    "kineto array": b"[" + KERNEL + b", ",
    "execution trace": b'{"schema": "1.0.1", "nodes": [{"id": 1, "name": "',
    "execution trace member": b'{"schema": "1.0.1", "nodes": [], "x": "',
    "chakra": b'{"version": "0.0.4"}\n{"id": "1", "name": "',
    "inspector": INSPECTED + b'\n{"header": {"id": "',
    "profiler": b'{"type": "ProfilerLifecycle", "func": "x"}\n{"recordType": "',
    "nccl-tests": TABLE + b"   8   2   ",
    "chakra bytes": b"\x07\x0a\x050.0.4" + b"\x80\x80\x80\x20",
    "hlo or xplane": b"\x0a\x80\x80\x80\x80\x08\x08\x01",
    "sqlite": b"SQLite format 3\0" + b"\x10\x00\x01\x01\x00\x40\x20\x20",
    "nothing": b"",
}

# A process starts with the peak of its parent, so a small one stands between.
MEASURE = """
import resource, subprocess, sys
code = subprocess.call(sys.argv[1:], stdout=subprocess.DEVNULL)
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(code, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024)
"""


class BadTraces(CommandCase):
    def run_import(self, *arguments):
        """Exit status, stderr, CPU seconds and peak memory in MiB."""
        self.trace.unlink(missing_ok=True)
        command = [BIN / "reprise", "import", *arguments, "-o", self.trace]
        done = subprocess.run([sys.executable, "-c", MEASURE, *map(str, command)], capture_output=True, text=True)
        code, seconds, mebibytes = done.stdout.split()
        return int(code), done.stderr, float(seconds), float(mebibytes)

    def bounded(self, *arguments, codes=(0, 3)):
        """Ends with an answer, in 256 MiB and a minute of CPU time."""
        code, errors, seconds, mebibytes = self.run_import(*arguments)
        self.assertIn(code, codes, errors)
        self.assertNotIn("bad_alloc", errors)
        self.assertLess(mebibytes, 256 * float(os.environ.get("REPRISE_MEMORY_FACTOR", 1)))
        self.assertLess(seconds, 60)
        self.assertEqual(self.trace.exists(), code == 0)
        self.assertEqual([p.name for p in self.path.iterdir() if ".tmp." in p.name], [])
        return code, errors

    def bomb(self, beginning, filler, mebibytes):
        member = gzip.compress(filler * (16 << 20), compresslevel=1)
        return gzip.compress(beginning) + member * (mebibytes // 16)

    def test_bombs_of_every_format(self):
        for name, beginning in BEGINNINGS.items():
            with self.subTest(name):
                filler = b" " if beginning.endswith(b", ") else b"1"
                path = self.write("bomb.gz", self.bomb(beginning, filler, 320))
                code, _ = self.bounded(path)
                if code == 0 and filler == b"1":
                    self.bounded(path, "--strict", codes=(3,))

    def test_a_bomb_within_archives(self):
        zeros = bytes(16 << 20)
        with zipfile.ZipFile(self.path / "b.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            for i in range(8):
                archive.writestr(f"{i}.json", b'{"traceEvents": [' + zeros)
            archive.writestr("rank0.json", b'{"traceEvents": [' + KERNEL + b"]}")
        self.bounded(self.path / "b.zip", codes=(0,))
        with tarfile.open(self.path / "b.tar.xz", "w:xz", preset=0) as archive:
            for i in range(8):
                member = tarfile.TarInfo(f"{i}.json")
                member.size = len(zeros)
                archive.addfile(member, io.BytesIO(zeros))
        self.bounded(self.path / "b.tar.xz", codes=(3,))
        self.bounded(self.write("b.xz", lzma.compress(BEGINNINGS["kineto string"] + zeros * 8, preset=0)), codes=(0,))

    def test_a_zip_with_far_too_many_members(self):
        with zipfile.ZipFile(self.path / "many.zip", "w") as archive:
            for i in range(20000):
                archive.writestr(f"{i}.json", b"{}")
            archive.writestr("rank0.json", b'{"traceEvents": [' + KERNEL + b"]}")
        _, errors = self.bounded(self.path / "many.zip", codes=(0,))
        self.assertIn("more", errors)
        self.assertLess(len(errors.splitlines()), 40)

    def test_bottomless_nesting_in_every_format(self):
        for name, beginning in BEGINNINGS.items():
            for opening in (b"[", b'{"a":', b'[{"a":['):
                with self.subTest(name, opening=opening):
                    text = beginning + (b'"' if beginning.endswith(b'"') else b"") + opening * 10 ** 6
                    self.bounded(self.write("deep.json", text))

    def test_lies_about_sizes(self):
        # A tar member of 8 EiB, a zip whose sizes are 2^32 - 1, a Chakra message of 4 GiB.
        member = tarfile.TarInfo("rank0.json")
        header = bytearray(member.tobuf(tarfile.GNU_FORMAT))
        header[124:136] = b"\x80\0\0\0" + b"\x7f" + b"\xff" * 7
        header[148:156] = b" " * 8
        header[148:156] = b"%06o\0 " % sum(header[:512])
        self.bounded(self.write("a.tar", bytes(header) + b'{"traceEvents": [' + KERNEL + b"]}"))
        stored = io.BytesIO()
        with zipfile.ZipFile(stored, "w") as archive:
            archive.writestr("rank0.json", b'{"traceEvents": [' + KERNEL + b"]}")
        lying = bytearray(stored.getvalue())
        for place in (18, 22):
            lying[place:place + 4] = b"\xff\xff\xff\xfe"
        directory = lying.rindex(b"PK\x01\x02")
        for place in (20, 24):
            lying[directory + place:directory + place + 4] = b"\xff\xff\xff\xfe"
        self.bounded(self.write("a.zip", bytes(lying)))
        self.bounded(self.write("a.et", b"\x07\x0a\x050.0.4\xff\xff\xff\xff\x0f"))

    def test_names_and_extensions_tell_nothing(self):
        trace = b'{"traceEvents": [' + KERNEL + b"]}"
        for name, content in (("a.sqlite", trace), ("b.et", trace), ("c", gzip.compress(trace)), ("d.zip", trace),
                              ("e.json.gz", trace), ("f.pb", INSPECTED), ("g.csv", TABLE +
                               b"   8   2   float   sum   31.6   0.0   0.0   4e-07   31.0   0.0   0.0   2e-07\n")):
            with self.subTest(name):
                self.bounded(self.write(name, content), codes=(0,))
        for name, content, words in (("a.json", b"\x89PNG\r\n\x1a\n" + bytes(64), "PNG"), ("b.json", b"", "empty file"),
                                     ("c.et", b"GIF89a" + bytes(64), ""), ("d.json.gz", b"<html></html>", "HTML"),
                                     ("e.sqlite", b"\x7fELF" + bytes(64), "ELF"),
                                     ("f.pt.trace.json", b"\x80\x02}q\0.", "pickle")):
            with self.subTest(name):
                _, errors = self.bounded(self.write(name, content), codes=(3,))
                self.assertIn(name, errors)
                self.assertIn(words, errors)
                self.assertEqual(len(errors.strip().splitlines()), 1)

    def test_ranks_that_clash_or_are_unknown(self):
        trace = b'{"traceEvents": [' + KERNEL + b"]}"
        a, b = self.write("x/a.json", trace), self.write("y/b.json", trace)
        _, errors = self.bounded(a, b, codes=(3,))
        self.assertIn("--rank", errors)
        a, b = self.write("x/one.log", INSPECTED), self.write("y/two.log", INSPECTED)
        _, errors = self.bounded(a, b, codes=(3,))
        for word in ("one.log", "two.log", "rank 2", "--rank"):
            self.assertIn(word, errors)
        self.bounded(a, b, "--rank", "two.log=5", codes=(0,))
        self.bounded(a, "--rank", "one.log=-1", codes=(2, 3))
        self.bounded(a, "--rank", "one.log=99999999999", codes=(2, 3))

    def test_strict_fails_on_any_loss_and_on_nothing_else(self):
        whole = b'{"traceEvents": [' + KERNEL + b"]}"
        self.bounded(self.write("whole.json", whole), "--strict", codes=(0,))
        self.bounded(self.write("odd.json", whole.replace(b'"k"', b'"a "b" c"')), "--strict", codes=(0,))
        bad = KERNEL.replace(b'"ts": 1', b'"ts": inf')
        for name, text in (("bad.json", whole[:-2] + b", " + bad + b"]}"), ("cut.json", whole[:-2] + b", " + KERNEL[:-9])):
            with self.subTest(name):
                path = self.write(name, text)
                _, errors = self.bounded(path, "--strict", codes=(3,))
                self.assertIn("--strict", errors)
                self.assertIn(name, errors)


if __name__ == "__main__":
    sys.exit(unittest.main(verbosity=2))
