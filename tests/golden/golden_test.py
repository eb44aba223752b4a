#!/usr/bin/env python3
"""Runs tests/golden/CASE/cmd and compares what comes out with CASE/expected: golden_test.py [--update] [CASE …].

Each line of cmd is one shell command, run in one new folder a case, with `reprise` on its PATH, the shipped inputs as
$CORPUS, $SAMPLES, $PROGRAMS and $TRACES, and the case's own folder as $CASE. The transcript has the command, its
standard output, its standard error with "! " before each line, and its exit status where that is not 0. Paths of the
checkout and of the folder, times and rates of the machine are replaced. --update writes what came out: read the
difference before it is committed. REPRISE_BIN names the programs' folder.
"""
import argparse
import concurrent.futures
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent
ROOT = GOLDEN.parent.parent
BIN = pathlib.Path(os.environ.get("REPRISE_BIN", ROOT / "build/release/bin")).resolve()
# Printed paths are cut from the left ("…gates/tests/x"), so folders are entered by short relative links.
LINKS = {"CORPUS": ROOT / "tests/fuzz/corpus", "SAMPLES": ROOT / "data/samples", "PROGRAMS": ROOT / "data/programs",
         "TRACES": GOLDEN / "traces"}
REPLACED = (
    (re.compile(r"\bin [0-9.]+ (?:ns|us|µs|ms|s)(?=[),. ]|$)", re.M), "in TIME"),
    (re.compile(r'"(seconds|evaluations_per_s)": ?[0-9.eE+-]+'), r'"\1": TIME'),
    (re.compile(r"/tmp/reprise-input-\w+"), "INPUT"),
)


def transcript(case):
    lines = [line for line in (case / "cmd").read_text().splitlines() if line.strip() and not line.startswith("#")]
    out = []
    with tempfile.TemporaryDirectory(prefix="golden.") as folder:
        environment = dict(os.environ, PATH=f"{BIN}:{os.environ['PATH']}", NO_COLOR="1", LC_ALL="C.UTF-8", COLUMNS="80",
                           CASE="case", **{name: name.lower() for name in LINKS})
        for name, target in {**LINKS, "CASE": case}.items():
            pathlib.Path(folder, name.lower()).symlink_to(target)
        for line in lines:
            done = subprocess.run(["sh", "-uc", line], cwd=folder, env=environment, capture_output=True, timeout=200)
            out.append(f"$ {line}\n")
            out.append(ended(done.stdout.decode(errors="replace")))
            errors = ended(done.stderr.decode(errors="replace"))
            out.append("".join(f"! {error}\n" for error in errors.splitlines()))
            if done.returncode != 0:
                out.append(f"exit {done.returncode}\n")
        text = "".join(out).replace(os.path.realpath(folder), "FOLDER").replace(folder, "FOLDER")
    text = text.replace(str(ROOT), "ROOT")
    for pattern, replacement in REPLACED:
        text = pattern.sub(replacement, text)
    return text


def ended(text):
    return text if not text or text.endswith("\n") else text + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true")
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    cases = sorted(path.parent for path in GOLDEN.glob("*/cmd"))
    chosen = [case for case in cases if not options.cases or case.name in options.cases]
    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for case, text in zip(chosen, pool.map(transcript, chosen)):
            expected = case / "expected"
            before = expected.read_text() if expected.exists() else ""
            if text != before and options.update:
                expected.write_text(text)
                print(f"updated {case.name}")
            elif text != before:
                failed += 1
                lines = [each.splitlines(keepends=True) for each in (before, text)]
                sys.stdout.writelines(difflib.unified_diff(*lines, f"{case.name}/expected", f"{case.name} now", n=2))
    print(f"{len(chosen) - failed} of {len(chosen)} cases as expected")
    return 1 if failed or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
