#!/usr/bin/env python3
"""Debian packages made of a build and unpacked: the tool runs from there, with its manual, completions and sample.

install_test.py BUILD. Skipped (77) where there is no cpack or dpkg-deb.
"""
import gzip
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = None
ROOT = pathlib.Path(__file__).resolve().parent.parent
CONSUMER_CMAKE = """cmake_minimum_required(VERSION 3.25)
project(consumer LANGUAGES CXX)
find_package(reprise ${WANTED} REQUIRED)
add_executable(tool main.cc)
target_link_libraries(tool PRIVATE reprise::replay_analysis)
add_executable(everything main.cc)
target_link_libraries(everything PRIVATE reprise::reprise)
"""
CONSUMER = r"""#include <cstdio>

#include "replay/analysis/analysis.h"
#include "replay/clocks/aligned_trace.h"

int main(int, char** words) {
  const auto trace = reprise::AlignedTrace::read(words[1]);
  if (!trace) return 1;
  const auto analysis = reprise::analyze(*trace, {});
  if (!analysis) return 1;
  std::printf("%zu %zu\n", analysis->ranks.size(), trace->trace().events.size());
}
"""


def run(*command, **options):
    return subprocess.run([str(word) for word in command], check=True, text=True, capture_output=True,
                          **options).stdout


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", cls.path / "made")
        cls.made = {re.match(r"[a-z-]+", path.name)[0]: path for path in (cls.path / "made").glob("*.deb")}
        cls.root = cls.path / "root"
        for package in cls.made.values():
            run("dpkg-deb", "-x", package, cls.root)
        cls.reprise = cls.root / "usr/bin/reprise"

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def test_there_are_three_and_they_say_what_they_need(self):
        self.assertEqual(set(self.made), {"reprise", "reprise-train", "libreprise-dev"})
        self.assertIn("libglpk-dev", run("dpkg-deb", "-f", self.made["libreprise-dev"], "Depends"))
        needs = run("dpkg-deb", "-f", self.made["reprise"], "Depends")
        for library in ("libc6", "libglpk40", "libsqlite3-0"):
            self.assertIn(library, needs)
        trainer = run("dpkg-deb", "-f", self.made["reprise-train"], "Depends")
        for program in ("g++", "openmpi-bin"):
            self.assertIn(program, trainer)

    def test_the_sample_is_analysed(self):
        trace = self.path / "sample.trace"
        run(self.reprise, "import", self.root / "usr/share/reprise/samples/kineto", "-o", trace)
        self.assertIn("rank 1 is late", run(self.reprise, "analyze", trace))

    def test_a_command_is_profiled_with_the_installed_library(self):
        trace = self.path / "true.trace"
        run(self.reprise, "profile", "-o", trace, "--", "/bin/true")
        self.assertIn(" 1 events", run(self.reprise, "info", trace))  # That it ran: it uses no CUDA.

    def test_the_trainer_is_beside_it_with_its_programs(self):
        self.assertIn("--plan", run(self.root / "usr/bin/reprise-train", "--help"))
        self.assertTrue((self.root / "usr/share/reprise/programs/mlp.2.hlo").exists())

    def test_a_program_of_somebody_else_finds_and_links_the_libraries(self):
        """Of the package alone: nothing of this checkout is named by what it installs."""
        source, build = self.path / "consumer", self.path / "consumer-build"
        source.mkdir()
        (source / "CMakeLists.txt").write_text(CONSUMER_CMAKE)
        (source / "main.cc").write_text(CONSUMER)
        config = next(self.root.glob("usr/lib/**/reprise-config.cmake")).parent
        for text in config.glob("*.cmake"):
            self.assertNotIn(str(ROOT), text.read_text(), text)
        run("cmake", "-S", source, "-B", build, f"-Dreprise_DIR={config}", "-DCMAKE_BUILD_TYPE=Release")
        run("cmake", "--build", build)
        trace = self.path / "consumed.trace"
        run(self.reprise, "import", self.root / "usr/share/reprise/samples/kineto", "-o", trace)
        info = json.loads(run(self.reprise, "info", trace, "--format", "json"))
        self.assertEqual(run(build / "tool", trace).split(), ["2", str(info["events"])])
        wrong = subprocess.run(["cmake", "-S", source, "-B", self.path / "newer", f"-Dreprise_DIR={config}",
                                "-DWANTED=7.0"], capture_output=True, text=True, check=False)
        self.assertNotEqual(wrong.returncode, 0)
        self.assertIn("7.0", wrong.stderr)

    def test_every_verb_has_a_manual_page(self):
        verbs = re.findall(r"^  (\w+)", run(self.reprise, "--help").split("Subcommands:")[1], re.MULTILINE)
        self.assertGreater(len(verbs), 10)
        for verb in verbs:
            page = self.root / f"usr/share/man/man1/reprise-{verb}.1.gz"
            text = gzip.decompress(page.read_bytes()).decode()
            flags = re.findall(r"--[a-z][a-z-]*", run(self.reprise, verb, "--help").split("Options:")[1])
            for flag in flags:
                self.assertIn(flag.replace("-", "\\-"), text, verb)
            if shutil.which("man"):
                warned = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page], text=True,
                                        capture_output=True, check=True).stderr
                self.assertEqual(warned, "", verb)

    def completed(self, *words):
        script = self.root / "usr/share/bash-completion/completions/reprise"
        line = " ".join(f"'{word}'" for word in words)
        return run("bash", "-c", f"source {script}; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _reprise; "
                                 "printf '%s\\n' \"${COMPREPLY[@]}\"").split()

    def test_bash_completes_verbs_flags_words_and_files(self):
        self.assertEqual(self.completed("reprise", "an"), ["analyze"])
        self.assertEqual(self.completed("reprise", "analyze", "--chr"), ["--chrome"])
        self.assertEqual(self.completed("reprise", "analyze", "--format", "t"), ["table"])
        self.assertEqual(self.completed("reprise", "export", "--as", "pg"), ["pge", "pgle"])
        self.assertEqual(self.completed("reprise", "analyze", f"{self.root}/us"), [f"{self.root}/usr"])

    def test_the_other_shells_take_theirs(self):
        for shell, name in (("zsh", "zsh/vendor-completions/_reprise"), ("fish", "fish/vendor_completions.d/reprise.fish")):
            path = self.root / "usr/share" / name
            self.assertIn("analyze", path.read_text())
            if shutil.which(shell):
                run(shell, "-n", path)
        if shutil.which("fish"):
            for words, expected in (("export --as pg", ["pge", "pgle"]), ("import --kind nsys-s", ["nsys-sqlite"]),
                                    ("train --device c", ["cpu", "cuda"]), ("analyze --format j", ["json"])):
                told = run("fish", "--no-config", "-c", f"source {path}; complete -C 'reprise {words}'")
                self.assertEqual([line.split("\t")[0] for line in told.splitlines()], expected)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if not shutil.which("cpack") or not shutil.which("dpkg-deb"):
        print("skipped: needs cpack and dpkg-deb")
        sys.exit(77)
    os.environ.pop("DESTDIR", None)
    unittest.main(verbosity=2)
