"""Steps of jax.pmap as steps of jax.jit: a shard_map over pmap's devices, whose arrays keep the mapped axis, one row a
device. From JAX 0.8 on pmap is made so itself; before, the function that it maps is taken from its equation."""

import jax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from ..errors import RepriseError
from . import trees
from .equations import jex


def is_mapped(step):
    """Whether jax.pmap made a step: a class of its own before JAX 0.8, then a function that can be lowered."""
    return "Pmap" in type(step).__name__ or (
        hasattr(step, "lower") and getattr(getattr(step, "lower"), "__module__", "") == "jax._src.pmap")


def jitted_step(step, args, kwargs):
    """(the step as one of jax.jit, its arguments laid out on the devices, its keywords); static arguments are bound.
    Errors: RepriseError where pmap is not the whole step."""
    info = step.lower(*args, **kwargs).args_info
    places, keywords = trees.traced_arguments(args, kwargs, info)
    traced = tuple(args[place] for place in places)
    closed, shapes = jax.make_jaxpr(trees.bound(step, args, kwargs, places), return_shape=True)(*traced, **keywords)
    equations = closed.jaxpr.eqns
    if len(equations) != 1:
        raise RepriseError("the jax.pmap is not the whole step: write it as jax.jit(jax.shard_map(step, mesh=…, "
                           "in_specs=…, out_specs=…)), where a mapped argument has P('axis') and keeps an axis of 1")
    structure = jax.tree_util.tree_structure((traced, keywords))
    if equations[0].primitive.name == "xla_pmap":
        one_device = trees.bound(step.__wrapped__, args, kwargs, places)
        axes = _of_arguments(closed.jaxpr.invars, equations[0].invars, equations[0].params["in_axes"])
        run, mesh, specs = _of_equation(equations[0].params, axes, one_device, structure)
    else:
        inner = equations[0].params["jaxpr"].jaxpr
        (mapped,) = inner.eqns
        own = _of_arguments(inner.invars, mapped.invars, mapped.params["in_specs"])
        specs = _of_arguments(closed.jaxpr.invars, equations[0].invars, own)
        run, mesh = jex.jaxpr_as_fun(closed), mapped.params["mesh"]
    shardings = structure.unflatten([NamedSharding(mesh, spec) for spec in specs])
    results = jax.tree_util.tree_structure(shapes)

    def whole(*arrays, **named):
        return results.unflatten(run(*jax.tree_util.tree_leaves((arrays, named))))

    whole.__name__ = getattr(step, "__name__", "step")
    names = trees.argument_names(getattr(step, "__wrapped__", step), len(args), {})
    whole.__signature__ = trees.signature([names[place] for place in places])
    donated = [number for number, one in enumerate(info[0]) if any(
        leaf.donated for leaf in jax.tree_util.tree_leaves(one, is_leaf=lambda x: hasattr(x, "donated")))]
    # jit takes no shardings of keywords: those lie as their arrays do.
    options = {} if keywords else {"in_shardings": shardings[0]}
    traced, keywords = jax.device_put((traced, keywords), shardings)
    return jax.jit(whole, donate_argnums=donated, **options), traced, keywords


def _of_arguments(arguments, operands, values):
    """Of `values`, one an operand, those of the operands that are arguments; the rest the step captures."""
    return [next(value for operand, value in zip(operands, values) if operand is argument) for argument in arguments]


def _of_equation(params, in_axes, one_device, structure):
    """(function of flat arrays, mesh, PartitionSpec of each) of an xla_pmap, before JAX 0.8, of the function
    `one_device`, whose arguments and keywords have this structure."""
    from jax.experimental.shard_map import shard_map

    devices = params["devices"] or jax.devices(params["backend"])[: params["global_axis_size"]]
    axis = params["axis_name"]
    mesh = Mesh(list(devices), (axis,))
    taken, given = ([PartitionSpec(*[None] * place, axis) if place is not None else PartitionSpec() for place in axes]
                    for axes in (in_axes, params["out_axes"]))

    def rows(*arrays):
        own = [array if place is None else jax.lax.squeeze(array, (place,))
               for array, place in zip(arrays, in_axes)]
        positional, named = structure.unflatten(own)
        results = jax.tree_util.tree_leaves(one_device(*positional, **named))
        return [jax.numpy.asarray(result) if place is None else jax.lax.expand_dims(result, (place,))
                for result, place in zip(results, params["out_axes"])]

    return shard_map(rows, mesh, tuple(taken), given, check_rep=False), mesh, taken
