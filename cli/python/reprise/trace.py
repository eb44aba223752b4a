"""Traces in Python: events as columns, pandas or Arrow, and what `reprise analyze` says of them, shown by notebooks.

    events = reprise.read_trace("run.trace")            # a pandas.DataFrame where pandas is, else a dict of lists
    events = reprise.read_trace("run.trace", "arrow")   # a pyarrow.Table
    reprise.analyze("run.trace")                        # the last line of a cell shows verdict, findings and ranks
"""

import csv
import html
import importlib.util
import io
import json
import os
import subprocess
import sys
import tempfile

from . import binary
from .errors import RepriseError

_TEXT = ("host", "stream", "kind", "name", "attributes")
_FORMS = ("columns", "pandas", "arrow")


def _columns(path):
    """{column: [value of each event]}: text as str, all others as int; times in ns of each rank's own clock."""
    words = [binary.find(), "export", os.fspath(path), "--as", "csv", "-o", "-"]
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said) as child:
        csv.field_size_limit(sys.maxsize)
        rows = csv.reader(io.TextIOWrapper(child.stdout, encoding="utf-8", errors="replace", newline=""))
        names = next(rows, [])
        columns = {name: [] for name in names}
        appends = [(columns[name].append, str if name in _TEXT else int) for name in names]
        for row in rows:
            for (append, kind), value in zip(appends, row):
                append(kind(value))
        if child.wait() != 0:
            said.seek(0)
            message = said.read().decode(errors="replace").strip()
            raise RepriseError(f"reprise export failed with {child.returncode}:\n{message}")
    return columns


def read_trace(path, form=None):
    """The events of a trace file, one row each. `form`: "columns" (a dict of lists), "pandas" or "arrow"; by default
    pandas where it is installed. Errors: RepriseError with the tool's message; ImportError where `form` is not here."""
    if form is None:
        form = "pandas" if importlib.util.find_spec("pandas") else "columns"
    if form not in _FORMS:
        raise RepriseError(f"read_trace: form is {form!r}, not one of {', '.join(_FORMS)}")
    columns = _columns(path)
    if form == "pandas":
        import pandas
        return pandas.DataFrame(columns)
    if form == "arrow":
        import pyarrow
        return pyarrow.table({name: pyarrow.array(values, pyarrow.string() if name in _TEXT else pyarrow.int64())
                              for name, values in columns.items()})
    return columns


def _time(time_ns):
    for unit, size in (("s", 1e9), ("ms", 1e6), ("us", 1e3)):
        if abs(time_ns) >= size:
            return f"{time_ns / size:.3g} {unit}"
    return f"{time_ns:.0f} ns"


def _table(head, rows):
    """HTML of a table; every cell is escaped: names in traces are strangers'."""
    cells = "".join(f"<th>{html.escape(str(each))}</th>" for each in head)
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(str(each))}</td>" for each in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{lines}</tbody></table>"


class Analysis(dict):
    """reprise.analyze/1 as a dict, which notebooks show as tables."""

    def _repr_html_(self):
        findings = self.get("findings", [])
        found = _table(("recoverable a step", "finding", "do"),
                       [(f"{_time(each['gain_ns'])} ({each['gain_share']:.0%})", each["what"],
                         "; ".join(filter(None, (each.get("action"), each.get("command"))))) for each in findings])
        ranks = []
        for each in self.get("ranks", []):
            window = each["window_ns"] or 1
            exclusive = each["exclusive"]
            ranks.append((each["rank"], _time(each["window_ns"]),
                          *(f"{exclusive[name + '_ns'] / window:.1%}" for name in ("compute", "exposed", "memory", "idle"))))
        return (f"<div><p><b>{len(findings)} findings</b>, by what a replay without each gains</p>"
                + (found if findings else "")
                + _table(("rank", "window", "compute", "exposed", "memory", "idle"), ranks) + "</div>")


def analyze(path, *flags):
    """What `reprise analyze PATH FLAGS…` says, as an Analysis. Errors: RepriseError with its message."""
    return Analysis(json.loads(binary.run(["analyze", os.fspath(path), *flags, "--format", "json"])))
