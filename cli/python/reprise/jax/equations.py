"""Collectives in a jaxpr: which equations, what they reduce, which results they reach.

Calls (jit, shard_map, custom derivatives, checkpoint) are looked through, loops and branches are regions of their own.
Equations count from 0 in depth-first order; the n-th of the traced step is the n-th of every trace of the same step."""

import collections
import dataclasses
import math

import jax.numpy as jnp
import numpy as np

from .. import mapping, tensors

try:
    from jax.extend import core as jex
except ImportError:
    from jax import core as jex

# Values go in and out one to one; what stands inside may share a bucket with what stands around.
CALLS = ("jit", "pjit", "closed_call", "core_call", "core_closed_call", "custom_jvp_call", "custom_vjp_call",
         "custom_vjp_call_jaxpr", "remat", "remat2", "checkpoint", "named_call", "custom_lin")
MAPS = ("shard_map",)
# Not element by element, though the sizes may agree.
_MIXING = {"dot_general", "conv_general_dilated", "gather", "scatter", "scatter-add", "sort", "while", "scan", "cond",
           "cumsum", "rev", "dynamic_update_slice", "iota", "random_bits", "random_wrap", "random_unwrap"}


# The same numbers in other places.
_PLACING = {"reshape", "transpose", "squeeze", "broadcast_in_dim", "slice", "rev", "sharding_constraint"}


def inner_jaxpr(equation):
    """The jaxpr that a call or map runs on its operands, or None."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(key)
        if inner is not None:
            return inner
    return None


def called(equation, inputs):
    """(the jaxpr that a call runs, its operands of the call's `inputs`), or (None, None) for what is no call."""
    name = equation.primitive.name
    if name == "custom_linear_solve":  # Its other jaxprs, products with the matrix, serve derivatives.
        constants = equation.params["const_lengths"]
        begin = constants.matvec + constants.vecmat
        return equation.params["jaxprs"].solve, inputs[begin:begin + constants.solve] + inputs[sum(constants):]
    inner = inner_jaxpr(equation) if name in CALLS else None
    return (inner, inputs) if inner is not None else (None, None)


def open_jaxpr(jaxpr):
    """(jaxpr, constants) of a closed or an open one."""
    if hasattr(jaxpr, "consts"):
        return jaxpr.jaxpr, list(jaxpr.consts)
    return jaxpr, []


def sub_jaxprs(equation):
    """[(jaxpr, constants)] of everything that an equation holds, in the order of its parameters."""
    found = []
    for _, value in sorted(equation.params.items()):
        for item in value if isinstance(value, (tuple, list)) else [value]:
            if hasattr(getattr(item, "jaxpr", item), "eqns"):
                found.append(open_jaxpr(item))
    return found


def is_literal(variable):
    return isinstance(variable, jex.Literal)


def axes_of(equation):
    """Names of the axes that a collective works over."""
    axes = equation.params.get("axes", equation.params.get("axis_name", ()))
    axes = axes if isinstance(axes, (tuple, list)) else (axes,)
    return [str(axis) for axis in axes]


def varying_axes(aval):
    """Axes of the mesh along which shard_map takes a value to differ; none where it does not check, or JAX is before 0.7."""
    return getattr(getattr(aval, "manual_axis_type", aval), "varying", None) or getattr(aval, "vma", None) or frozenset()


def source_of(equation):
    """FILE:LINE of the user's call, or empty."""
    try:
        frames = equation.source_info.traceback.frames
    except AttributeError:
        return ""
    for frame in frames:
        if not any(part in frame.file_name for part in ("/jax/", "/flax/", "/optax/", "/equinox/")):
            return f"{frame.file_name.rsplit('/', 1)[-1]}:{frame.line_num}"
    return ""


@dataclasses.dataclass
class Flat:
    """One equation of a region, its operands and results as numbers of values (or literals)."""

    equation: object
    inputs: list
    outputs: list
    scope: str
    index: int = -1  # of a collective among those of the step
    body: object = None  # the Region of a map, or of a loop that holds collectives


@dataclasses.dataclass
class Region:
    """Equations that run one after another, calls replaced by what they call."""

    name: str
    inputs: list
    constants: dict
    equations: list
    outputs: list


class Flattener:
    """Turns a jaxpr into regions. With `inline_all`, calls without collectives are looked through too."""

    def __init__(self, inline_all):
        self.inline_all = inline_all
        self.avals = []  # by value
        self.collectives = 0

    def value(self, aval):
        self.avals.append(aval)
        return len(self.avals) - 1

    def region(self, jaxpr, consts, name="", scope=""):
        inputs = [self.value(v.aval) for v in jaxpr.invars]
        region = Region(name, inputs, {}, [], [])
        region.outputs = self._into(region, jaxpr, consts, inputs, scope)
        return region

    def _into(self, region, jaxpr, consts, inputs, scope):
        """Appends the equations of a jaxpr; the values of its outputs."""
        of = dict(zip(jaxpr.invars, inputs))
        for variable, constant in zip(jaxpr.constvars, consts):
            of[variable] = self.value(variable.aval)
            region.constants[of[variable]] = constant
        read = lambda v: v if is_literal(v) else of[v]
        for equation in jaxpr.eqns:
            inputs = [read(v) for v in equation.invars]
            stack = "/".join(filter(None, [scope, str(equation.source_info.name_stack)]))
            inner, operands = called(equation, inputs)
            if inner is not None and (self.inline_all or has_collective(equation)):
                results = self._into(region, *open_jaxpr(inner), operands, stack)
            else:
                results = self._append(region, equation, inputs, stack)
            of.update(zip(equation.outvars, results))
        return [read(v) for v in jaxpr.outvars]

    def _append(self, region, equation, inputs, scope):
        flat = Flat(equation, inputs, [], scope)
        name = equation.primitive.name
        if name in mapping.KINDS and axes_of(equation):
            flat.index = self.collectives
            self.collectives += 1
        elif name in MAPS:
            flat.body = self.region(*open_jaxpr(inner_jaxpr(equation)), region.name, scope)
        elif has_collective(equation):
            flat.body = [self.region(sub, consts, f"{region.name}/{name}.{len(region.equations)}.{place}", scope)
                         for place, (sub, consts) in enumerate(sub_jaxprs(equation))]
        flat.outputs = [self.value(v.aval) for v in equation.outvars]
        region.equations.append(flat)
        return flat.outputs


def has_collective(equation):
    """Whether one stands in anything that an equation holds."""
    for sub, _ in sub_jaxprs(equation):
        for inner in sub.eqns:
            if inner.primitive.name in mapping.KINDS and axes_of(inner) or has_collective(inner):
                return True
    return False


def _size(avals, value):
    return math.prod(getattr(value.aval if is_literal(value) else avals[value], "shape", ()))


def read_narrowed(closed):
    """{number of an input: the 16-bit float type that the step rounds it to before anything else}."""
    flattener = Flattener(inline_all=True)
    region = flattener.region(*open_jaxpr(closed))
    types = collections.defaultdict(set)  # by value: what it is read as, None but by rounding

    def note(region):
        for value in region.outputs:
            types[value if not is_literal(value) else None].add(None)
        for flat in reversed(region.equations):
            name = flat.equation.primitive.name
            if name in MAPS:
                note(flat.body)
            for place, value in enumerate(flat.inputs):
                if is_literal(value):
                    continue
                if name in MAPS:
                    types[value] |= types[flat.body.inputs[place]]
                elif name in _PLACING:
                    types[value] |= types[flat.outputs[0]]
                else:
                    to = np.dtype(flat.equation.params["new_dtype"]) if name == "convert_element_type" else None
                    types[value].add(to if to is not None and _is_short_float(to) else None)

    note(region)
    return {number: next(iter(types[value])) for number, value in enumerate(region.inputs)
            if len(types[value]) == 1 and types[value] != {None}}


def _is_short_float(dtype):
    return dtype.itemsize == 2 and jnp.issubdtype(dtype, np.floating)


def _edges(region, avals, edges, found):
    """Where values of a region go element by element; the collectives in it."""
    for flat in region.equations:
        name = flat.equation.primitive.name
        if name in MAPS:
            for outer, inner in list(zip(flat.inputs, flat.body.inputs)) + list(zip(flat.body.outputs, flat.outputs)):
                if not is_literal(outer):
                    edges[outer].append(inner)
            _edges(flat.body, avals, edges, found)
            continue
        for body in flat.body or []:
            _edges(body, avals, edges, found)
        if flat.index >= 0:
            found.append((region, flat))
            pairs = zip(flat.inputs, flat.outputs) if len(flat.inputs) == len(flat.outputs) else ()
        elif name in _MIXING:
            pairs = ()
        else:
            pairs = [(i, o) for i in flat.inputs for o in flat.outputs if _size(avals, i) == _size(avals, o)]
        for source, target in pairs:
            if not is_literal(source):
                edges[source].append(target)


def _before(region, waits, found):
    """Adds {collective: those of its own loop that it waits for} of a region, whose inputs' are in `waits` {value: set};
    maps are part of the region around them."""
    union = lambda values: frozenset().union(*(waits.get(v, ()) for v in values if not is_literal(v)))
    for flat in region.equations:
        if flat.equation.primitive.name in MAPS:
            waits.update({inner: union([outer]) for outer, inner in zip(flat.inputs, flat.body.inputs)})
            _before(flat.body, waits, found)
            waits.update({outer: union([inner]) for inner, outer in zip(flat.body.outputs, flat.outputs)})
            continue
        for body in flat.body or []:
            _before(body, waits, found)
        here = union(flat.inputs)
        if flat.index >= 0:
            found[flat.index] = here
            here = frozenset([flat.index])
        waits.update(dict.fromkeys(flat.outputs, here))


def _reach(edges, outputs):
    """{value: results reached}, by depth-first search against the edges from each result."""
    against = collections.defaultdict(list)
    for source, targets in edges.items():
        for target in targets:
            against[target].append(source)
    reached = collections.defaultdict(set)
    for index, value in enumerate(outputs):
        seen, stack = set(), [value] if not is_literal(value) else []
        while stack:
            at = stack.pop()
            if at not in seen:
                seen.add(at)
                reached[at].add(index)
                stack += against[at]
    return reached


def collectives(closed):
    """Every collective of a closed jaxpr, one entry an operand, in order: what mapping.build pairs with the program."""
    flattener = Flattener(inline_all=True)
    region = flattener.region(*open_jaxpr(closed))
    edges, found = collections.defaultdict(list), []
    _edges(region, flattener.avals, edges, found)
    reached = _reach(edges, region.outputs)
    before = {}
    _before(region, {}, before)
    entries = []
    for where, flat in sorted(found, key=lambda item: item[1].index):
        for place, result in enumerate(flat.outputs):
            aval = flattener.avals[result]
            entries.append({
                "equation": flat.index, "operand": place, "kind": mapping.KINDS[flat.equation.primitive.name],
                "primitive": flat.equation.primitive.name, "axes": axes_of(flat.equation),
                "type": tensors.hlo_type(np.dtype(aval.dtype)), "shape": list(aval.shape),
                "count": math.prod(aval.shape), "region": where.name, "map": id(where), "entry": not where.name,
                "scope": flat.scope, "source": source_of(flat.equation), "results": reached[result],
                "varying": sorted(varying_axes(aval)), "before": before[flat.index]})
    return entries
