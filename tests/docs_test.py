#!/usr/bin/env python3
"""Runs every command of docs/answers.md, in its order, in a copy of the folders that they name; holds its rows to be as
many as the questions that were collected, and each to a command or to the words that say why there is none.

A command is a line indented by four spaces, or what stands between backticks and begins with "reprise" and names a
trace or a plan. Lower-case words between backticks beside it are what it prints: one of the row's commands has them.
Environment: REPRISE_BIN.
"""
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FACTS = ROOT.parent / "shared/facts"
# Of anchors.md and anchors2.md, section 4.
QUESTIONS = [37, 15]
FILES = re.compile(r"\.trace|\.json")
VERB = re.compile(r"(reprise|analyze|export|import|optimize|replay)\b")


def commands(text):
    for line in text.splitlines():
        if line.startswith("    reprise"):
            yield line.strip()
        else:
            yield from (code for code in re.findall(r"`(reprise [^`]*)`", line) if FILES.search(code))


def rows_without_an_answer(text):
    """Complaints about the rows of both tables."""
    tables = [[line for line in part.splitlines() if line.startswith("| ")][1:]
              for part in text.split("\n\n") if part.startswith("| asked in")]
    if [len(rows) for rows in tables] != QUESTIONS:
        yield f"rows of the tables: {[len(rows) for rows in tables]}, expected {QUESTIONS}"
    for row in (row for rows in tables for row in rows):
        said = any(words in row.lower() for words in ("not answered", "no sample here"))
        if not said and not list(commands(row)):
            yield f"neither a command nor a reason: {row}"
    for table, notes in zip(tables, ("anchors.md", "anchors2.md")):
        if (FACTS / notes).exists():
            section = (FACTS / notes).read_text().split("\n## 4")[1].split("\n## 5")[0]
            asked = re.findall(r"^\| \d+ \|.*$", section, re.MULTILINE)
            named = set(re.findall(r"#(\d+)", " ".join(table)))
            for number in sorted(set(re.findall(r"#(\d+)", " ".join(asked))) - named, key=int):
                yield f"{notes}: thread #{number} is in no row"


def names_not_printed(row, printed):
    """What a row says that its commands print and none of them does; `printed`: by command."""
    told = [printed[command] for command in commands(row)]
    answer = row.split(" | ")[-1]
    for name in re.findall(r"`([a-z][a-z_ ]*)`", re.sub(r"`reprise [^`]*`", "", answer)):
        if told and not VERB.match(name) and not any(name in text for text in told):
            yield f"no command of the row prints '{name}': {row}"


def main():
    environment = dict(os.environ, OMP_NUM_THREADS="1",
                       PATH=f"{pathlib.Path(os.environ['REPRISE_BIN']).resolve()}:{os.environ['PATH']}")
    failed, count, printed = 0, 0, {}
    for complaint in rows_without_an_answer((ROOT / "docs/answers.md").read_text()):
        failed += 1
        print(complaint)
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "data").symlink_to(ROOT / "data")
        for command in commands((ROOT / "docs/answers.md").read_text()):
            done = subprocess.run(shlex.split(command), cwd=folder, env=environment, capture_output=True, text=True)
            said_no = command.startswith("reprise verify") and done.returncode == 1  # One run a side, as it says.
            count += 1
            printed[command] = done.stdout + done.stderr
            if done.returncode != 0 and not said_no:
                failed += 1
                print(f"{command}: exit {done.returncode}\n{done.stderr}")
    for row in (ROOT / "docs/answers.md").read_text().splitlines():
        for complaint in names_not_printed(row, printed):
            failed += 1
            print(complaint)
    print(f"{count} commands, {failed} failed")
    return 1 if failed or count < 15 else 0


if __name__ == "__main__":
    sys.exit(main())
