"""apply: the user's own step under a plan. Its jaxpr is rewritten, so the step itself stays as it is.

Each bucket becomes one psum, all_gather or psum_scatter of its members, flattened and concatenated, with one element of
the previous bucket's result at the end: XLA then can neither merge two buckets (one needs the other's result) nor change
their order. Barriers and psums of tuples do not hold: barriers are removed before collectives are combined, tuples are
lowered leaf by leaf (jax 0.5.3, 0.7.2 and 0.10.2, CPU). On GPU XLA's own combiner may do it for all-reduces instead,
method="keys"; that is untested."""
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
from . import equations, evaluation, frameworks, packing, pmap, trees


@dataclasses.dataclass
class Made:
    """A bucket as it runs."""

    name: str
    kind: str  # of its collectives, in HLO's words
    members: int
    sizes: list  # of each of its collectives, the elements of the result


@dataclasses.dataclass
class Report:
    """What of the plan runs, and what cannot be said to JAX."""

    buckets: list  # of Made
    unexpressed: list  # of (what, why)
    method: str

    def __str__(self):
        lines = []
        for kind in sorted({made.kind for made in self.buckets} | {"all-reduce"}):
            buckets = [made for made in self.buckets if made.kind == kind]
            several = sum(made.members > 1 for made in buckets)
            lines.append(f"{sum(len(made.sizes) for made in buckets)} {kind}s by {self.method} in {len(buckets)} "
                         f"buckets, {several} of several tensors")
        lines += [f"  not expressed: {what}: {why}" for what, why in self.unexpressed]
        return "\n".join(lines)


@dataclasses.dataclass
class Counted:
    """Collectives of the compiled step beside the plan's, {kind: the elements of each result}."""

    expected: dict
    found: dict
    names: list
    ranks: int  # at most in a group

    @property
    def ok(self):
        """As many of each kind, of the same sizes; all but the first carry one element of the one before it."""
        return not any(self._wrong(kind) for kind in self.expected)

    def _wrong(self, kind):
        expected, found = sorted(self.expected[kind]), sorted(self.found.get(kind, []))
        link = self.ranks if kind == "all-gather" else 1
        return len(expected) != len(found) or not all(
            0 <= more - size <= link for more, size in zip(found, expected))

    def __bool__(self):
        return self.ok

    def __str__(self):
        lines = []
        for kind, expected in self.expected.items():
            found = self.found.get(kind, [])
            text = f"{len(found)} {kind}s compiled, {len(expected)} planned"
            if self._wrong(kind):
                text += f": NOT the plan's, of {sorted(found)} elements instead of {sorted(expected)}"
            lines.append(text)
        return ", ".join(lines)


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
            unexpressed.append((f"bucket {bucket.name}", "its members stand in different loops or maps: one collective "
                                "each"))
        elif len(by_place) > 1:
            unexpressed.append((f"bucket {bucket.name}", "its members differ along different axes of the mesh: one "
                                "collective each kind, but for shard_map with check_vma=False"))
        for place, members in enumerate(by_place.values()):
            name = bucket.name if len(by_place) == 1 else f"{bucket.name}.{place}"
            kept.append(dataclasses.replace(bucket, name=name, members=members))
    return kept, unexpressed


def _made(bucket, entries, method):
    """What a bucket becomes: chunks, none empty; packed, both halves of a complex number."""
    members = [entries[member] for member in bucket.members]
    kind = members[0]["kind"]
    if method != "packing" and kind == "all-reduce":
        return Made(bucket.name, kind, len(members), [sum(e["count"] for e in members)])
    halves = [2 if plans.is_complex(e["type"]) else 1 for e in members]
    size = sum(e["count"] * count for e, count in zip(members, halves))
    bits = max(int(re.search(r"\d+$|$", e["type"])[0] or 8) // count for e, count in zip(members, halves))
    ends = packing.chunk_ends(size, max(1, bits // 8), bucket.chunks)
    return Made(bucket.name, kind, len(members), [end - begin for begin, end in zip([0, *ends], ends)])


def _method(method):
    if method is None:
        method = "keys" if jax.default_backend() == "gpu" and packing.metadata_keys() else "packing"
    if method not in ("packing", "keys"):
        raise RepriseError(f"method={method!r}: 'packing' or 'keys'")
    if method == "keys" and not packing.metadata_keys():
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
        entries = {(e["equation"], e["operand"]): e for e in found}
        self.report = Report([_made(b, entries, self._method) for b in buckets], planned.unexpressed + apart,
                             self._method)
        function = evaluation.planned_function(traced.jaxpr, buckets, self._method)
        donated = [i for i, info in enumerate(jax.tree_util.tree_leaves(
            traced.args_info, is_leaf=lambda x: hasattr(x, "donated"))) if info.donated]
        out_tree = jax.tree_util.tree_structure(traced.out_info)
        options = evaluation.jit_options(step, args, kwargs)
        if self._method == "keys":
            options["compiler_options"] = {"xla_gpu_all_reduce_combine_threshold_bytes": str(1 << 40),
                                           "xla_gpu_all_gather_combine_threshold_bytes": "0",
                                           "xla_gpu_reduce_scatter_combine_threshold_bytes": "0"}
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
        """Compiles for these arguments and compares: the compiled text's collectives, of the kinds that the plan has
        buckets of, are the plan's, by their sizes."""
        text = self.lower(*args, **kwargs).compile().as_text()
        expected = {"all-reduce": []}
        for made in self.report.buckets:
            expected.setdefault(made.kind, []).extend(made.sizes)
        found, names = {}, []
        for compiled in hlo.parse(text).collectives():
            kind = compiled.opcode.removesuffix("-start")
            if kind in expected:
                names.append(compiled.name)
                arrays = compiled.arrays if kind == "all-reduce" else compiled.arrays[-1:]
                found.setdefault(kind, []).append(sum(hlo.count(dimensions) for _, dimensions in arrays))
        return Counted(expected, found, names, len(jax.devices()))


def apply(plan, step, exported=None, method=None):
    """The step with its collectives in the plan's buckets, in the plan's order; call it as the step.

    `plan` is a file of `reprise optimize` (or what it holds), `step` the jitted function that was exported, `exported`
    the folder of the export (by default the plan's own). State is bit-equal on two ranks; with more, sums may be taken
    in another order, as may a sum over all of a gathered array that XLA takes in one loop with its slice. Fused groups and the order of compute cannot be said to JAX: see `.report`.
    Errors: RepriseError where JAX is older than 0.5, the plan is of another program, the step has changed, or
    partitioning makes its collectives."""
    if not hasattr(jax.lax, "optimization_barrier"):
        raise RepriseError(f"apply needs JAX 0.5 or newer, this is {jax.__version__}; export and verify run with it")
    if not frameworks.is_plain(step) and not pmap.is_mapped(step):
        raise RepriseError("apply rewrites a step of jax.jit, called with arrays: of nnx.jit or filter_jit, split "
                           "modules from their arrays yourself (nnx.split, equinox.partition) and give the jax.jit")
    loaded = plans.load(plan)
    return Planned(loaded, step, _mapping(exported, plan), _method(method))
