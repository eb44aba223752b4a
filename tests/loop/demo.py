#!/usr/bin/env python3
"""The demo: the whole loop on the shipped programs with 2 ranks, one table, one timeline."""

import argparse
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import emulate  # noqa: E402
import loop  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--one-host", action="store_true", help="no emulated network")
    place.add_argument("--rate", default="1gbit", help="rate of each emulated host's link (1gbit)")
    parser.add_argument("--programs", default="mlp,gpt")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--time-limit", type=float, default=5)
    parser.add_argument("-o", "--output", default=str(loop.ROOT / "build/demo"))
    return parser.parse_args()


def run_program(program, options):
    trained = program.record(2 * options.steps, options.warmup)
    recorded = program.replay()
    program.optimize(options.time_limit)
    program.measure(options.steps, options.warmup, options.rounds)
    timeline = program.directory / "timeline.json"
    program.replay(plan=program.plans["plan"], chrome=timeline)
    program.note_spread(trained["step_time_ns"]["all"])
    accuracy = trained.get("accuracy")
    print(f"{program.name}: loss {trained['loss'][0]:.3f} -> {trained['loss'][-1]:.3f}"
          + (f", accuracy {100 * accuracy[-1]:.0f} %" if accuracy else "")
          + f"; the recorded run replays with {100 * recorded['error']:+.1f} % error, "
          f"{100 * recorded['sources']['unexplained']:.1f} % unexplained", file=sys.stderr)
    return timeline


def summary_lines(program):
    fusion = program.speedup("ddp+fusion", "ddp")
    communication = program.speedup("plan", "ddp+fusion")
    same = "bit-identical" if program.same_states() else "DIFFERENT"
    return (f"{program.name}: plan over ddp {program.speedup('plan', 'ddp'):.2f}x = fusion "
            f"{fusion:.2f}x (ddp to ddp+fusion), communication {communication:.2f}x "
            f"(ddp+fusion to plan); final state of all configurations {same}")


def main():
    options = arguments()
    if not options.one_host:
        emulate.reenter(sys.argv, options.rate)
    output = pathlib.Path(options.output)
    started = time.monotonic()
    say = lambda text: print(f"[{time.monotonic() - started:5.1f} s] {text}", file=sys.stderr)  # noqa: E731
    programs = [loop.Program(name, 2, output, say) for name in options.programs.split(",")]
    timelines = [run_program(program, options) for program in programs]

    rows = [program.row(name) for program in programs for name in loop.BASELINES + ["plan"]]
    print(f"\n2 ranks on {emulate.description()}; predictions from one recorded run of none")
    loop.print_table(rows)
    for program in programs:
        print(summary_lines(program))
        print(program.pace())
        for line in program.warnings():
            print(line)
    temporary = output / "summary.json.tmp"
    temporary.write_text(json.dumps({"rows": rows}, indent=1) + "\n")
    temporary.rename(output / "summary.json")
    print(f"\nwrote {output / 'summary.json'}; the loop took {time.monotonic() - started:.0f} s")
    print("timelines, measured beside predicted (open in https://ui.perfetto.dev or DevTools):")
    for timeline in timelines:
        print(f"  {timeline}")
    different = [program.name for program in programs if not program.same_states()]
    if different:
        raise loop.LoopError(f"{', '.join(different)}: configurations of one step ended in different states")


if __name__ == "__main__":
    try:
        main()
    except loop.LoopError as error:
        sys.exit(f"demo: {error}")
