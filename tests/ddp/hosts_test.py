#!/usr/bin/env python3
"""Real PyTorch on two emulated hosts under exported plans: both check themselves, and `reprise verify` sees them.

Run by tests/netns/run.sh. A step with DDP's default buckets is recorded; its plan is exported for DDP and FSDP2; default,
planned and sharded runs are recorded in turn, as are runs under a plan of other buckets or without its prefetching, which
must be caught. Figures are printed, not held: the machine is anybody's. Skipped (77) without REPRISE_TORCH_PYTHON.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "cli"))
import foreign_python  # noqa: E402

REPRISE = pathlib.Path(os.environ["REPRISE_BIN"]).resolve() / "reprise"
os.environ["REPRISE"] = str(REPRISE)
import accept  # noqa: E402

ROUNDS = 3


def reprise(*arguments, status=0):
    done = subprocess.run([REPRISE, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == status, f"{arguments}: exit {done.returncode}, not {status}\n{done.stderr}"
    return done.stdout


def recorded(folder, name, **what):
    return {"name": name, "profile": str(folder / f"{name}.RANK.json"), **what}


def trace_of(folder, name):
    trace = folder / f"{name}.trace"
    reprise("import", folder / f"{name}.0.json", folder / f"{name}.1.json", "-o", trace, "--force")
    return trace


def verified(plan, before, after, status):
    told = json.loads(reprise("verify", plan, "--before", *before, "--after", *after, "--alternating", "--format", "json",
                              status=status))
    print(json.dumps({"verdict": told["verdict"], "plan": told["plan"]}), flush=True)
    return told


def other_buckets(plan):
    """The same gradients in buckets that nothing makes of them by itself: the first alone, then all others."""
    names = [each["name"] for each in plan["gradients"]]
    # Nor does its single cap, which older versions of PyTorch get.
    return {**plan, "single_cap": {**plan["single_cap"], "bytes": 1}, "buckets": [{"unit": "b0", "collectives": names[:1]},
                                  {"unit": "b1", "collectives": names[1:]}]}


def main():
    python = foreign_python.skip_without("torch", "REPRISE_TORCH_PYTHON")
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        options = types.SimpleNamespace(python=python, steps=4, warmup=3, batch=2)
        accept.train(options, folder, [recorded(folder, "first")])
        plan, wrong = folder / "plan.json", folder / "wrong.json"
        reprise("optimize", trace_of(folder, "first"), "--only", "buckets", "-o", plan)
        wrong.write_text(json.dumps(other_buckets(json.loads(plan.read_text()))))
        for target, source, name in (("ddp", plan, "ddp"), ("fsdp2", plan, "fsdp2"), ("ddp", wrong, "wrong"),
                                     ("fsdp2", wrong, "wrong_fsdp2")):
            reprise("export", source, "--as", target, "-o", folder / name)
        runs = []
        for place in range(ROUNDS):
            runs += [recorded(folder, f"default{place}", watch=str(folder / "wrong")),
                     recorded(folder, f"planned{place}", plan=str(folder / "ddp"))]
            runs += [recorded(folder, f"sharded{place}", fsdp2=str(folder / "fsdp2"))]
        runs += [recorded(folder, "other_groups", fsdp2=str(folder / "wrong_fsdp2"), watch=str(folder / "fsdp2")),
                 recorded(folder, "no_prefetch", fsdp2=str(folder / "fsdp2"), prefetch=False)]
        told = {each["name"]: each for each in accept.train(options, folder, runs)}

        # Each run checks itself: the planned ones are, runs with default buckets are not what the wrong plan says.
        for place in range(ROUNDS):
            assert told[f"planned{place}"]["check"] is True, told[f"planned{place}"]
            assert told[f"default{place}"]["check"] is False, told[f"default{place}"]
            assert told[f"sharded{place}"]["check"] == "", told[f"sharded{place}"]
        assert "is not one that FSDP2 made" in told["other_groups"]["check"], told["other_groups"]

        before = [trace_of(folder, f"default{place}") for place in range(ROUNDS)]
        after = [trace_of(folder, f"planned{place}") for place in range(ROUNDS)]
        found = json.loads(subprocess.run(
            [REPRISE, "verify", plan, "--before", *before, "--after", *after, "--alternating", "--format", "json"],
            capture_output=True, text=True).stdout)
        assert found["plan"]["in_effect"] is True, found["plan"]
        print(json.dumps({"verdict": found["verdict"], "change": found.get("change")}))
        found = verified(wrong, before, after, 1)
        assert found["plan"]["in_effect"] is False, found["plan"]

        # FSDP2's groups and prefetching, as the traces of the sharded runs show them.
        sharded = [trace_of(folder, f"sharded{place}") for place in range(ROUNDS)]
        done = subprocess.run([REPRISE, "verify", plan, "--before", *before, "--after", *sharded, "--alternating",
                               "--format", "json"], capture_output=True, text=True)
        found = json.loads(done.stdout)
        print(json.dumps({"verdict": found["verdict"], "change": found.get("change"), "plan": found["plan"]}))
        assert found["plan"]["in_effect"] is True, found["plan"]
        for source, run, said in ((plan, "other_groups", "bucket"), (wrong, "sharded0", "bucket"),
                                  (plan, "no_prefetch", "is not prefetched in forward")):
            found = verified(source, before[:1], [trace_of(folder, run)], 1)
            assert found["plan"]["in_effect"] is False and said in found["plan"]["told"], found["plan"]
    print("hosts_test: ok")


if __name__ == "__main__":
    main()
