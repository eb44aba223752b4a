#!/usr/bin/env python3
"""What `reprise import`, `analyze` and `replay` cost as ranks are added: CPU time and peak memory.

  rank_scale_bench.py REPRISE [--trace FILE] [--ranks 8,64] [--launches 2000] [--keep DIR]

The ranks are made from one trace, a Kineto file of one rank (without --trace, one that is generated here): each gets
it under its own rank, and collectives join them all. CPU time is user and system time of the process; memory is its
largest resident set, the part of the trace file that it maps included.
"""

import argparse
import gzip
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile

from analyze_bench import complete, traces_of, training

RANK = "@rank@"


def template(trace, ranks):
    """The trace of any of `ranks` ranks, as text with RANK where its number goes."""
    trace = trace if isinstance(trace, dict) else {"traceEvents": trace}
    events = []
    for event in complete(trace):
        arguments = dict(event.get("args", {}))
        if "Group size" in arguments:
            arguments["Group size"] = ranks
        if "Process Group Ranks" in arguments:
            arguments["Process Group Ranks"] = str(list(range(ranks)))
        events.append({**event, "args": arguments} if arguments else event)
    whole = {**trace, "traceEvents": events,
             "distributedInfo": {**trace.get("distributedInfo", {}), "rank": RANK, "world_size": ranks}}
    return json.dumps(whole), len(events)


def measured(command):
    """CPU seconds and peak bytes of a command."""
    with subprocess.Popen([str(word) for word in command], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE) as process:
        errors = process.stderr.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {errors.decode(errors='replace')}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024


def write_ranks(options, ranks, source):
    """Writes the ranks' files; returns how many events each has."""
    trace = traces_of(options.trace)[0] if options.trace else training(options.launches)
    text, events = template(trace, ranks)
    for rank in range(ranks):
        data = text.replace(f'"{RANK}"', str(rank)).encode()
        (source / f"rank{rank}.json.gz").write_bytes(gzip.compress(data, 1))
    return events


def bench(options, ranks, directory):
    source = directory / "ranks"
    source.mkdir()
    # In another process: a child's peak begins with its parent's memory.
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        events = pool.apply(write_ranks, (options, ranks, source))
    run = directory / "run.trace"
    for verb, command in {"import": ["import", source, "-o", run], "analyze": ["analyze", run],
                          "replay": ["replay", run]}.items():
        seconds, peak = measured([options.reprise, *command])
        print(f"{ranks:6} {verb:8} {seconds:8.2f} s {peak / 1e6:8.0f} MB {peak / (ranks * events):7.0f} bytes an event",
              flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reprise")
    parser.add_argument("--trace", help="a Kineto trace of one rank")
    parser.add_argument("--ranks", default="8,64")
    parser.add_argument("--launches", type=int, default=2000, help="of the generated trace, three events each")
    parser.add_argument("--keep", type=pathlib.Path, help="leave the traces here")
    options = parser.parse_args()
    for ranks in (int(number) for number in options.ranks.split(",")):
        if options.keep:
            directory = options.keep / str(ranks)
            directory.mkdir(parents=True)
            bench(options, ranks, directory)
            continue
        with tempfile.TemporaryDirectory() as temporary:
            bench(options, ranks, pathlib.Path(temporary))


if __name__ == "__main__":
    main()
