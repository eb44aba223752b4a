"""Which equation of the step each collective of the program came from. Standard library only.

XLA renumbers and reorders, and metadata rarely tells one leaf of a tree-wide mean from the next. What survives is where
a value goes: the results that it reaches element by element (hlo.reached_results) are the same in the program and in the
step; and what it waits for: the collectives before it, of the same loop or of none. Pairs agree in kind, type and element
count. They are made from the first collectives to those that wait for them; among those of one depth the most alike are
paired first, and then by order."""

import collections

from . import hlo

# What each kind of equation becomes.
KINDS = {
    "psum": "all-reduce", "psum2": "all-reduce", "psum_invariant": "all-reduce", "pmax": "all-reduce",
    "pmin": "all-reduce", "all_gather": "all-gather", "all_gather_invariant": "all-gather",
    "reduce_scatter": "reduce-scatter", "psum_scatter": "reduce-scatter", "all_to_all": "all-to-all",
    "ppermute": "collective-permute",
}


def operands_of(module):
    """What an all-reduce of several operands does is one entry each: dictionaries to pair with equations. The arrays of
    an all-to-all are the slices that one operand is cut into."""
    reached = hlo.reached_results(module)
    before = hlo.collectives_before(module)
    found = []
    for instruction in module.collectives():
        arrays = instruction.arrays
        kind = instruction.opcode.removesuffix("-start")
        parts = arrays if kind == "all-reduce" else arrays[-1:]
        slices = len(arrays) if instruction.opcode == "all-to-all" else 1
        for index, (element, dimensions) in enumerate(parts):
            name = instruction.name if len(parts) == 1 else f"{instruction.name}:{index}"
            results = reached[instruction.name] if len(parts) == 1 else _of_part(module, instruction, index, reached)
            found.append({"collective": name, "instruction": instruction.name, "before": before[instruction.name],
                          "kind": kind, "computation": instruction.computation, "type": element,
                          "shape": dimensions, "count": hlo.count(dimensions) * slices, "results": set(results),
                          "entry": instruction.computation == module.entry,
                          "op_name": instruction.attribute("op_name")})
    return found


def _of_part(module, instruction, index, reached):
    for user in module.instructions[instruction.computation]:
        if user.opcode == "get-tuple-element" and user.operands == [instruction.name]:
            if f"index={index}," in user.text + ",":
                return reached[user.name]
    return set()


def _likeness(collective, equation):
    """Between 0 and 2: shared results, then the name stack in the metadata."""
    ours, theirs = collective["results"], equation["results"]
    union = ours | theirs
    shared = len(ours & theirs) / len(union) if union else 0.5 * (collective["entry"] == equation["entry"])
    scopes = [s for s in equation["scope"].split("/") if s]
    words = collective["op_name"]
    named = sum(s in words for s in scopes) / len(scopes) if scopes else 0.5
    return shared + 0.5 * named + 0.25 * words.endswith("/" + equation["primitive"])


def depths(before):
    """{key: how many wait for each other before it}, of {key: keys that it waits for}."""
    found = {}
    for first in before:
        stack = [first]
        while stack:
            missing = [key for key in before[stack[-1]] if key not in found]
            if missing:
                stack += missing
            else:
                key = stack.pop()
                found[key] = 1 + max((found[other] for other in before[key]), default=-1)
    return found


def _agreement(ours, theirs):
    """Between 0 and 1: how much two sets share."""
    return len(ours & theirs) / len(ours | theirs) if ours or theirs else 1.0


def pair(collective_parts, equations):
    """{place in `collective_parts`: place in `equations`}, each used once; what has no partner is left out."""
    ours = depths({c["instruction"]: c["before"] for c in collective_parts})
    theirs = depths({e["equation"]: e["before"] for e in equations})
    by_depth, alike = collections.defaultdict(list), collections.defaultdict(list)
    for c, collective in enumerate(collective_parts):
        by_depth[ours[collective["instruction"]]].append(c)
    key = lambda part: (part["kind"], part["type"], part["count"])
    for e, equation in enumerate(equations):
        alike[key(equation)].append(e)
    paired, taken, equation_of = {}, set(), {}
    for depth, level in sorted(by_depth.items()):
        candidates = []
        for c in level:
            collective = collective_parts[c]
            before = {equation_of.get(name) for name in collective["before"]}
            for e in alike[key(collective)]:
                equation = equations[e]
                waits = 0.5 * (theirs[equation["equation"]] == depth) + 0.5 * _agreement(before, set(equation["before"]))
                candidates.append((-waits - _likeness(collective, equation), e, c))
        for _, e, c in sorted(candidates):
            if c not in paired and e not in taken:
                paired[c] = e
                taken.add(e)
                equation_of.setdefault(collective_parts[c]["instruction"], equations[e]["equation"])
    return paired


def _merged(collective, equation, alone):
    """Equations without a collective whose results this one gives: XLA found that they reduce the same value."""
    found = []
    for other in alone:
        same = all(other[key] == equation[key] for key in ("kind", "type", "count", "axes", "region"))
        if same and other["results"] and other["results"] <= collective["results"]:
            found.append([other["equation"], other["operand"]])
    return found


def build(module, equations, result_names):
    """The map (`reprise.map/1`): every collective of the program, with its equation where it has one.

    `equations` are dictionaries of kind, type, shape, count, results, before, scope, primitive, entry, equation, operand,
    axes and source; `result_names` names the program's results in order."""
    collectives = operands_of(module)
    paired = pair(collectives, equations)
    alone = [e for place, e in enumerate(equations) if place not in paired.values()]
    entries = []
    for place, collective in enumerate(collectives):
        entry = {key: collective[key] for key in ("collective", "kind", "computation", "type", "shape")}
        entry["reaches"] = [result_names[r] for r in sorted(collective["results"]) if r < len(result_names)]
        if place in paired:
            equation = equations[paired[place]]
            entry.update({key: equation[key] for key in ("equation", "operand", "primitive", "axes", "source")})
            entry["merged"] = _merged(collective, equation, alone)
        else:
            entry["equation"] = None
        entries.append(entry)
    return {"schema": "reprise.map/1", "collectives": entries,
            "equations": [{key: e[key] for key in ("equation", "operand", "primitive", "type", "shape", "region")}
                          for e in equations]}
