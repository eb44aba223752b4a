"""Evaluates a traced step with its collectives in buckets: what `apply` jits.

Regions that hold collectives (shard_map, scan, while, cond) are entered again through JAX's own functions, everything
else is bound as it was traced. A bucket runs when its last member's operand is there; what needs a result of it waits."""

import dataclasses

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from ..errors import RepriseError
from . import equations, packing

def planned_function(closed, buckets, method):
    """A function of flat arguments that runs the step's jaxpr with these buckets."""
    flattener = equations.Flattener(inline_all=False)
    jaxpr, consts = equations.open_jaxpr(closed)
    region = flattener.region(jaxpr, consts)
    evaluator = _Evaluator(buckets, method)

    def step(*leaves):
        return tuple(evaluator.run(region, leaves))

    return step


def jit_options(step, args, kwargs):
    """The shardings that the user's jit states; `step` takes no static arguments."""
    jaxpr = jax.make_jaxpr(step)(*args, **kwargs)
    params = jaxpr.jaxpr.eqns[0].params if len(jaxpr.jaxpr.eqns) == 1 else {}
    options = {}
    for key in ("in_shardings", "out_shardings"):
        shardings = params.get(key, ())
        if any(isinstance(s, jax.sharding.Sharding) for s in shardings):
            options[key] = tuple(s if isinstance(s, jax.sharding.Sharding) else None for s in shardings)
    return options


@dataclasses.dataclass
class _Pending:
    """A bucket of a region and the operands that it still waits for."""

    bucket: object
    operands: dict  # (equation, operand): value
    flats: dict  # (equation, operand): Flat


class _Evaluator:
    def __init__(self, buckets, method):
        self.buckets, self.method = buckets, method
        self.of_member = {}
        for place, bucket in enumerate(buckets):
            self.of_member.update({member: place for member in [*bucket.members, *bucket.merged]})

    def run(self, region, inputs):
        """The outputs of a region for these inputs."""
        return _RegionRun(self, region, inputs).outputs()


class _RegionRun:
    """One evaluation of a region: values by number, equations that wait, buckets as they fill. `link` is one element of
    the result of the last bucket before the region."""

    def __init__(self, evaluator, region, inputs, link=None):
        self.evaluator, self.region = evaluator, region
        self.values = dict(region.constants)
        self.values.update(zip(region.inputs, inputs))
        self.pending = {}
        self.order = []  # places of the region's buckets, in the plan's order
        self.link = link  # one element of the last bucket's result
        for flat in region.equations:
            for place, _ in enumerate(flat.outputs if flat.index >= 0 else []):
                at = evaluator.of_member.get((flat.index, place))
                if at is not None:
                    bucket = evaluator.buckets[at]
                    pending = self.pending.setdefault(at, _Pending(bucket, {}, {}))
                    pending.flats[(flat.index, place)] = flat
        self.order = sorted(self.pending)

    def read(self, atom):
        return atom.val if equations.is_literal(atom) else self.values[atom]

    def has(self, atom):
        return equations.is_literal(atom) or atom in self.values

    def outputs(self):
        waiting = list(self.region.equations)
        while waiting:
            known = len(self.values)
            left = [flat for flat in waiting if not self._step(flat)]
            self._run_full_buckets()
            if len(left) == len(waiting) and len(self.values) == known and not self._run_out_of_order():
                self._stuck()
            waiting = left
        return [self.read(atom) for atom in self.region.outputs]

    def _run_out_of_order(self):
        """Inside a loop or branch, of which a plan gives no order, runs the first bucket that is full; whether there is
        one."""
        for place, at in enumerate(self.order if self.region.name else []):
            pending = self.pending[at]
            if all(member in pending.operands for member in pending.bucket.members):
                self._reduce(pending)
                self.order.pop(place)
                return True
        return False

    def _stuck(self):
        waiting = [self.pending[at].bucket.name for at in self.order]
        raise RepriseError(f"buckets {', '.join(waiting[:5])} wait for each other's results: in this order no step can "
                           "run them; the plan is of another program")

    def _step(self, flat):
        """Runs an equation if its operands are there; whether it is done."""
        if flat.index >= 0 and any((flat.index, place) in self.evaluator.of_member for place in range(len(flat.inputs))):
            return self._offer(flat)
        if not all(self.has(atom) for atom in flat.inputs):
            return False
        values = [self.read(atom) for atom in flat.inputs]
        results = self._enter(flat, values) if flat.body else packing.bind(flat.equation, values)
        self.values.update(zip(flat.outputs, results))
        return True

    def _offer(self, flat):
        """Gives those operands of a collective that are there to their buckets: of one that averages a tree, the first
        leaves are reduced before the last are known. Whether all are given."""
        for place, atom in enumerate(flat.inputs):
            at = self.evaluator.of_member.get((flat.index, place))
            if self.has(atom) and at is not None:
                self.pending[at].operands[(flat.index, place)] = self.read(atom)
            elif self.has(atom) and flat.outputs[place] not in self.values:
                self.values[flat.outputs[place]] = packing.alone(flat.equation, self.read(atom))
        return all(self.has(atom) for atom in flat.inputs)

    def _run_full_buckets(self):
        """Runs, in the plan's order, the buckets whose operands are all there."""
        while self.order:
            pending = self.pending[self.order[0]]
            if any(member not in pending.operands for member in pending.bucket.members):
                break
            self._reduce(pending)
            self.order.pop(0)

    def _reduce(self, pending):
        bucket = pending.bucket
        operands = [pending.operands[member] for member in bucket.members]
        made = [pending.flats[member].equation for member in bucket.members]
        results, self.link = packing.together(made, operands, bucket, self.link, self.evaluator.method)
        for member, result in zip(bucket.members, results):
            self.values[pending.flats[member].outputs[member[1]]] = result
        for member, source in bucket.merged.items():
            if member in pending.flats:
                result = results[bucket.members.index(source)]
                self.values[pending.flats[member].outputs[member[1]]] = result

    def _enter(self, flat, values):
        """A map or a loop that holds collectives, entered by JAX's own function."""
        name, params = flat.equation.primitive.name, flat.equation.params
        run = self.evaluator.run
        if name == "shard_map":
            return self._enter_map(flat, values)
        if name == "scan":
            return _scan(params, lambda inner: run(flat.body[0], inner), values)
        if name == "while":
            return _while(params, flat.body, run, values)
        if name == "cond":
            branches = [lambda *inner, body=body: tuple(run(body, inner)) for body in flat.body]
            return list(jax.lax.switch(values[0], branches, *values[1:]))
        raise RepriseError(f"a collective stands inside {name}, which apply cannot enter: take it out of there")

    def _enter_map(self, flat, values):
        """A map; the link goes in and comes out, so that its buckets wait for those of the map before: jax.grad of a map
        makes two."""
        links = [] if self.link is None else [self.link]

        def body(*inner):
            inside = _RegionRun(self.evaluator, flat.body, inner[len(links):], *inner[:len(links)])
            outputs = inside.outputs()
            is_whole = inside.link is not None and not packing.varying(inside.link)
            return (inside.link if is_whole else jnp.zeros(1), *outputs)

        self.link, *results = _shard_map(flat.equation.params, body, len(links))(*links, *values)
        return results


def _specs(names_or_specs):
    """PartitionSpecs; jax before 0.6 keeps {dimension: axes} instead."""
    specs = []
    for item in names_or_specs:
        if isinstance(item, dict):
            rank = max(item, default=-1) + 1
            item = PartitionSpec(*(tuple(item[d]) if d in item else None for d in range(rank)))
        specs.append(item)
    return tuple(specs)


def _shard_map(params, body, links):
    """The map of another body, which takes `links` arrays more, returns one more, and takes them for the same everywhere."""
    in_specs = (PartitionSpec(),) * links + _specs(params.get("in_specs", params.get("in_names")))
    out_specs = (PartitionSpec(), *_specs(params.get("out_specs", params.get("out_names"))))
    mesh = params["mesh"]
    if hasattr(jax, "shard_map"):
        manual = params.get("newly_manual_axes", params.get("manual_axes", frozenset(mesh.axis_names)))
        return jax.shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs,
                             check_vma=params["check_vma"], axis_names=set(manual))
    from jax.experimental.shard_map import shard_map

    # What was checked when the step was traced need not be checked again, and psum2 is psum here.
    return shard_map(body, mesh=mesh, in_specs=in_specs, out_specs=out_specs, check_rep=False,
                     auto=params.get("auto", frozenset()))


def _scan(params, body, values):
    if "ft_in" in params:  # Since JAX 0.12.
        consts, carry, xs = map(list, params["ft_in"].update(values).unpack())
        carried = len(carry)
    else:
        constants, carried = params["num_consts"], params["num_carry"]
        consts, carry, xs = values[:constants], values[constants:constants + carried], values[constants + carried:]

    def one(carry, x):
        results = body([*consts, *carry, *x])
        return tuple(results[:carried]), tuple(results[carried:])

    carry, ys = jax.lax.scan(one, tuple(carry), tuple(xs), length=params["length"], reverse=params["reverse"],
                             unroll=params.get("unroll", 1))
    return [*carry, *ys]


def _while(params, bodies, run, values):
    of_condition, of_body = params["cond_nconsts"], params["body_nconsts"]
    body, condition = bodies  # as the parameters are sorted: body_jaxpr, cond_jaxpr
    first, second = values[:of_condition], values[of_condition:of_condition + of_body]
    return list(jax.lax.while_loop(lambda carry: run(condition, [*first, *carry])[0],
                                   lambda carry: tuple(run(body, [*second, *carry])),
                                   tuple(values[of_condition + of_body:])))
