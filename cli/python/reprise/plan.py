"""A plan (data/plan/format.md) as the buckets that a step in JAX can run. Standard library only."""

import collections
import dataclasses
import json
import os

from .errors import RepriseError


@dataclasses.dataclass
class Bucket:
    name: str
    members: list  # of (equation, operand), in the order of the buffer
    merged: dict = dataclasses.field(default_factory=dict)  # (equation, operand): the member that gives its value
    chunks: int = 1


@dataclasses.dataclass
class Buckets:
    """What of a plan is expressed, in the order of communication, and what is not."""

    buckets: list
    unexpressed: list  # of (what, why)


def load(plan):
    """A plan from a path or as the dictionary that it holds."""
    if not isinstance(plan, dict):
        try:
            with open(plan, encoding="utf-8") as file:
                plan = json.load(file)
        except (OSError, ValueError) as error:
            raise RepriseError(f"{os.fspath(plan)}: no plan: {error}") from error
    if plan.get("schema") != "reprise.plan/1":
        raise RepriseError(f"the plan's schema is {plan.get('schema')!r}, not 'reprise.plan/1': "
                           "give what `reprise optimize -o` wrote")
    if "gradients" in plan:
        raise RepriseError("this plan is of an imported trace and names no collective of a program: "
                           "optimize a recording of `reprise train` of the exported step")
    return plan


def is_complex(hlo_type):
    return hlo_type in ("c64", "c128")


def _known(entries):
    """{name in a plan: what it stands for}: a collective by its own name, each operand by `name:place`. Of complex
    operands plans name both halves, real ones first, as operands of their own."""
    by_collective = collections.defaultdict(list)
    for entry in entries:
        by_collective[entry["collective"].split(":")[0]].append(entry)
    known = dict(by_collective)
    for name, operands in by_collective.items():
        arrays = [entry for entry in operands for _ in range(2 if is_complex(entry["type"]) else 1)]
        known.update({f"{name}:{place}": [entry] for place, entry in enumerate(arrays)})
    return known


def _members(bucket, known, covered, unexpressed):
    """(the bucket's members, what is merged into them); one that stands in an earlier bucket stays there."""
    members, merged = [], {}
    for name in bucket["collectives"]:
        if name not in known:
            raise RepriseError(f"bucket {bucket['unit']} names {name}, which the exported program does not have: "
                               "the plan is of another program; export, record and optimize again")
        for entry in known[name]:
            member = (entry["equation"], entry.get("operand"))
            if entry["equation"] is None:
                unexpressed.append((f"{bucket['unit']}: {name}", "no equation of the step makes it"))
            elif member in covered:
                unexpressed.append((f"{bucket['unit']}: {name}", "its other half stands in an earlier bucket"))
            elif member not in members:
                members.append(member)
                merged.update({tuple(other): member for other in entry.get("merged", [])})
    return members, merged


def _place(order):
    """When a unit communicates: its place in the plan's order, chunks together at the first."""
    places = {}
    for place, unit in enumerate(order):
        places.setdefault(unit.split("#")[0], place)
    return places


def buckets(plan, mapping):
    """The plan's buckets over equations of the step. All-reduces in none are buckets of one, so that XLA merges none; so
    are all-gathers and reduce-scatters where the plan has buckets of their kind.

    Errors: RepriseError where the plan is not of the mapped program."""
    unexpressed, found, covered = [], [], set()
    known = _known(mapping["collectives"])
    order = plan.get("order") or []
    places = _place(order)
    position = {entry["collective"].split(":")[0]: i for i, entry in reversed(list(enumerate(mapping["collectives"])))}
    for bucket in plan.get("buckets") or []:
        members, merged = _members(bucket, known, covered, unexpressed)
        covered.update(members)
        last = max(position[name.split(":")[0]] for name in bucket["collectives"])
        if members:
            at = places.get(bucket["unit"], last if not order else len(order))
            found.append((at, last, Bucket(bucket["unit"], members, merged, bucket.get("chunks", 1))))
    for place, names in enumerate(plan.get("called") or []):
        members, merged = _members({"unit": f"called {place}", "collectives": names}, known, covered, unexpressed)
        covered.update(members)
        if members:
            last = max(position[name] for name in names)
            found.append((last if not order else len(order), last, Bucket(f"called {place}", members, merged)))
    kinds = {"all-reduce"} | {entry["kind"] for entry in mapping["collectives"]
                              if (entry["equation"], entry.get("operand")) in covered}
    for entry in mapping["collectives"]:
        member = (entry["equation"], entry.get("operand"))
        if entry["kind"] in kinds and entry["equation"] is not None and member not in covered:
            last = position[entry["collective"].split(":")[0]]
            at = places.get(entry["collective"].split(":")[0], last if not order else len(order))
            merged = {tuple(other): member for other in entry.get("merged", [])}
            found.append((at, last, Bucket(entry["collective"], [member], merged)))
    found.sort(key=lambda item: item[:2])
    if plan.get("fusion"):
        unexpressed.append((f"{len(plan['fusion'])} fused groups", "XLA fuses by itself"))
    if order:
        unexpressed.append(("the order of compute", "XLA schedules by itself; that of communication is kept"))
    return Buckets([bucket for _, _, bucket in found], unexpressed)
