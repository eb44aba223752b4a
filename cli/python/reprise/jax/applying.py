"""apply: the user's own step under a plan. Its jaxpr is rewritten, so the step itself stays as it is.

Each bucket becomes one psum of its members, flattened and concatenated, with one element of the previous bucket's result
at the end: XLA then can neither merge two buckets (one needs the other's result) nor change their order. Barriers and
psums of tuples do not hold: barriers are removed before collectives are combined, tuples are lowered leaf by leaf
(jax 0.5.3, 0.7.2 and 0.10.2, CPU). On GPU XLA's own combiner may do it instead, method="keys"; that is untested."""

import collections
import dataclasses
import json
import pathlib
import re
import types

import jax

from .. import hlo
from .. import plan as plans
from ..errors import RepriseError
from . import equations, evaluation, frameworks, pmap, trees


@dataclasses.dataclass
class Report:
    """What of the plan runs, and what cannot be said to JAX."""

    buckets: list  # of (name, number of members, elements of each of its all-reduces)
    unexpressed: list  # of (what, why)
    method: str

    def __str__(self):
        several = sum(members > 1 for _, members, _ in self.buckets)
        lines = [f"{sum(len(sizes) for _, _, sizes in self.buckets)} all-reduces by {self.method} in {len(self.buckets)} "
                 f"buckets, {several} of several tensors"]
        lines += [f"  not expressed: {what}: {why}" for what, why in self.unexpressed]
        return "\n".join(lines)


@dataclasses.dataclass
class Counted:
    """All-reduces of the compiled step beside the plan's, each by its elements."""

    expected: list
    found: list
    names: list

    @property
    def ok(self):
        """As many, of the same sizes; all but the first carry one element of the one before it."""
        return len(self.expected) == len(self.found) and all(
            found - expected in (0, 1) for found, expected in zip(sorted(self.found), sorted(self.expected)))

    def __bool__(self):
        return self.ok

    def __str__(self):
        text = f"{len(self.found)} all-reduces compiled, {len(self.expected)} planned"
        if self.ok:
            return text
        return f"{text}: NOT the plan's, of {sorted(self.found)} elements instead of {sorted(self.expected)}"


def _mapping(exported, plan):
    if isinstance(exported, dict):
        return exported
    folder = pathlib.Path(exported) if exported is not None else None
    if folder is None and not isinstance(plan, dict):
        folder = pathlib.Path(plan).parent
    path = folder / "map.json" if folder is not None else None
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (AttributeError, OSError, ValueError) as error:
        raise RepriseError(f"no map.json in {folder}: give exported=, the folder that reprise.jax.export wrote") from error


def _check_same(found, mapped):
    """The step is the one that was exported: the same collectives of the same values, in order."""
    expected = mapped["equations"]
    if not found and mapped["collectives"]:
        raise RepriseError(
            "the step has no collective of its own: partitioning makes them (jit with shardings), after anything that "
            "apply can rewrite. Write the step with shard_map and psum, or set XLA's combiner thresholds by hand")
    for place in range(max(len(found), len(expected))):
        ours = found[place] if place < len(found) else None
        theirs = expected[place] if place < len(expected) else None
        say = lambda e: "nothing" if e is None else f"{e['primitive']} of {e['type']}{e['shape']}"
        if say(ours) != say(theirs):
            raise RepriseError(f"collective {place} of the step is {say(ours)}, of the exported one {say(theirs)}: "
                               "the step, its shapes or jax have changed; export, record and optimize again")


def _split(buckets, found):
    """What cannot share an all-reduce in JAX runs apart: members of different loops, branches or maps, and those that
    shard_map knows to be the same along an axis of the mesh beside those that differ there."""
    place_of = {(e["equation"], e["operand"]): (e["map"], tuple(e["varying"])) for e in found}
    kept, unexpressed = [], []
    for bucket in buckets:
        by_place = collections.OrderedDict()
        for member in bucket.members:
            by_place.setdefault(place_of[member], []).append(member)
        if len({where for where, _ in by_place}) > 1:
            unexpressed.append((f"bucket {bucket.name}", "its members stand in different loops or maps: one all-reduce "
                                "each"))
        elif len(by_place) > 1:
            unexpressed.append((f"bucket {bucket.name}", "its members differ along different axes of the mesh: one "
                                "all-reduce each kind, but for shard_map with check_vma=False"))
        for place, members in enumerate(by_place.values()):
            name = bucket.name if len(by_place) == 1 else f"{bucket.name}.{place}"
            kept.append(dataclasses.replace(bucket, name=name, members=members))
    return kept, unexpressed


def _all_reduces(bucket, elements, method):
    """What a bucket becomes, [all-reduce] elements: its chunks, none empty; packed, both halves of a complex number."""
    if method != "packing":
        return [sum(elements[member][0] for member in bucket.members)]
    halves = [2 if plans.is_complex(elements[member][1]) else 1 for member in bucket.members]
    size = sum(elements[member][0] * count for member, count in zip(bucket.members, halves))
    bits = max(int(re.search(r"\d+$", elements[member][1])[0]) // count for member, count in zip(bucket.members, halves))
    ends = evaluation.chunk_ends(size, max(1, bits // 8), bucket.chunks)
    return [end - begin for begin, end in zip([0, *ends], ends)]


def _method(method):
    if method is None:
        method = "keys" if jax.default_backend() == "gpu" and evaluation.metadata_keys() else "packing"
    if method not in ("packing", "keys"):
        raise RepriseError(f"method={method!r}: 'packing' or 'keys'")
    if method == "keys" and not evaluation.metadata_keys():
        raise RepriseError(f"jax {jax.__version__} has no set_xla_metadata: method='packing'")
    return method


class Planned:
    """A step under a plan: call it as the step itself; `.report` once called or checked, `.check(*args)` counts."""

    def __init__(self, plan, step, mapped, method):
        # Of a method jitted in its class, `self` is the first argument.
        self._first = (step.__self__,) if isinstance(step, types.MethodType) else ()
        self._plan, self._step, self._mapped, self._method = plan, getattr(step, "__func__", step), mapped, method
        self._traced = {}  # by shapes: places of arguments that are not static, names of keywords
        self._jitted = {}  # by shapes and static values
        self.report = None

    def _build(self, args, kwargs):
        args = (*self._first, *args)
        leaves, tree = jax.tree_util.tree_flatten((args, kwargs))
        shapes = (tree, tuple((tuple(getattr(x, "shape", ())), str(getattr(x, "dtype", type(x)))) for x in leaves))
        if shapes not in self._traced:
            lowered = (self._step.trace if hasattr(self._step, "trace") else self._step.lower)(*args, **kwargs)
            places, keywords = trees.traced_arguments(args, kwargs, lowered.args_info)
            self._traced[shapes] = places, sorted(keywords)
        places, names = self._traced[shapes]
        static = tuple(value for place, value in enumerate(args) if place not in places)
        static += tuple((name, value) for name, value in sorted(kwargs.items()) if name not in names)
        if (shapes, static) not in self._jitted:
            self._jitted[shapes, static] = self._rewrite(args, kwargs, places, names)
        if static:
            leaves = jax.tree_util.tree_leaves(([args[p] for p in places], {name: kwargs[name] for name in names}))
        return (leaves, *self._jitted[shapes, static])

    def _rewrite(self, args, kwargs, places, names):
        step, args, kwargs, traced = self._trace(args, kwargs, places, names)
        found = equations.collectives(traced.jaxpr)
        _check_same(found, self._mapped)
        planned = plans.buckets(self._plan, self._mapped)
        buckets, apart = _split(planned.buckets, found)
        elements = {(e["equation"], e["operand"]): (e["count"], e["type"]) for e in found}
        self.report = Report([(b.name, len(b.members), _all_reduces(b, elements, self._method)) for b in buckets],
                             planned.unexpressed + apart, self._method)
        function = evaluation.planned_function(traced.jaxpr, buckets, self._method)
        donated = [i for i, info in enumerate(jax.tree_util.tree_leaves(
            traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))) if info.donated]
        out_tree = jax.tree_util.tree_structure(traced.out_info)
        options = evaluation.jit_options(step, args, kwargs)
        if self._method == "keys":
            options["compiler_options"] = {"xla_gpu_all_reduce_combine_threshold_bytes": str(1 << 40)}
        return jax.jit(function, donate_argnums=tuple(donated), **options), out_tree

    def _trace(self, args, kwargs, places, names):
        """(the step as a function without static arguments, its arguments and keywords, what tracing it gave)."""
        if pmap.is_mapped(self._step):
            step, args, kwargs = pmap.jitted_step(self._step, args, kwargs)
            return step, args, kwargs, step.trace(*args, **kwargs)
        return (trees.bound(self._step, args, kwargs, places), tuple(args[place] for place in places),
                {name: kwargs[name] for name in names}, self._step.trace(*args, **kwargs))

    def __call__(self, *args, **kwargs):
        leaves, jitted, out_tree = self._build(args, kwargs)
        return jax.tree_util.tree_unflatten(out_tree, jitted(*leaves))

    def lower(self, *args, **kwargs):
        """The planned step lowered, its arguments flat."""
        leaves, jitted, _ = self._build(args, kwargs)
        return jitted.lower(*leaves)

    def check(self, *args, **kwargs):
        """Compiles for these arguments and compares: the compiled text's all-reduces are the plan's, by their sizes."""
        text = self.lower(*args, **kwargs).compile().as_text()
        compiled = [i for i in hlo.parse(text).collectives() if i.opcode.removesuffix("-start") == "all-reduce"]
        found = [sum(hlo.count(dimensions) for _, dimensions in i.arrays) for i in compiled]
        expected = [size for _, _, sizes in self.report.buckets for size in sizes]
        return Counted(expected, found, [i.name for i in compiled])


def apply(plan, step, exported=None, method=None):
    """The step with its all-reduces in the plan's buckets, in the plan's order; call it as the step.

    `plan` is a file of `reprise optimize` (or what it holds), `step` the jitted function that was exported, `exported`
    the folder of the export (by default the plan's own). State is bit-equal on two ranks; with more, sums may be taken
    in another order. Fused groups and the order of compute cannot be said to JAX: see `.report`.
    Errors: RepriseError where JAX is older than 0.5, the plan is of another program, the step has changed, or
    partitioning makes its collectives."""
    if not hasattr(jax.lax, "optimization_barrier"):
        raise RepriseError(f"apply needs JAX 0.5 or newer, this is {jax.__version__}; export and verify run with it")
    if not frameworks.is_plain(step) and not pmap.is_mapped(step):
        raise RepriseError("apply rewrites a step of jax.jit, called with arrays: of nnx.jit or filter_jit, split "
                           "modules from their arrays yourself (nnx.split, equinox.partition) and give the jax.jit")
    loaded = plans.load(plan)
    return Planned(loaded, step, _mapping(exported, plan), _method(method))
