"""Steps jitted by flax.nnx, equinox or jax.pmap (pmap.py), as the plain functions of arrays that jax.jit takes.

nnx.jit updates the modules and optimizers among its arguments in place: here their variables are one argument `state`,
a dict by argument and path, whose next value comes back beside the result. equinox.filter_jit traces what is an array
in its arguments and results: here the rest is bound."""

import inspect

import jax

from ..errors import RepriseError
from . import pmap, trees


def plain_step(jitted, args, kwargs):
    """(a function of jax.jit, its arguments, its keywords) for any jitted step. Errors: RepriseError for a step that no
    jit made."""
    if hasattr(jitted, "__func__"):  # A method jitted in its class: `self` is an argument as any other.
        return plain_step(jitted.__func__, (jitted.__self__, *args), kwargs)
    if hasattr(jitted, "func") and hasattr(jitted, "keywords"):  # functools.partial, and equinox's for methods
        return plain_step(jitted.func, (*jitted.args, *args), {**jitted.keywords, **kwargs})
    if _of_cached_partial(jitted):
        cached = inspect.getclosurevars(jitted).nonlocals
        return plain_step(cached["f"], (*cached["cached_args"], *args), kwargs)
    if pmap.is_mapped(jitted):
        return pmap.jitted_step(jitted, args, kwargs)
    if _is_nnx(jitted):
        return _of_nnx(jitted, args, kwargs)
    if type(jitted).__module__.startswith("equinox."):
        return _of_equinox(jitted, args, kwargs)
    if isinstance(jitted, (jax.stages.Lowered, jax.stages.Compiled)):
        raise RepriseError("the step is lowered or compiled already: give what jax.jit returned")
    if inspect.isfunction(jitted) and hasattr(getattr(jitted, "__wrapped__", None), "lower"):
        raise RepriseError("the step is a function around a jitted one: give that one, or jax.jit(step)")
    if _call_is_jitted(jitted):
        return plain_step(jitted.__call__, args, kwargs)
    if not hasattr(jitted, "lower"):
        raise RepriseError("the step is not jitted: give jax.jit(step, donate_argnums=…)")
    if not is_plain(jitted):
        raise RepriseError("the step is no jax.jit: give jax.jit(step, donate_argnums=…)")
    return jitted, args, kwargs


def is_plain(jitted):
    """Whether a step is one of jax.jit itself."""
    return hasattr(jitted, "trace") and not pmap.is_mapped(jitted) and not _is_nnx(jitted)


def _call_is_jitted(step):
    """Whether a step is an object whose class jits its `__call__`."""
    method = None if hasattr(step, "lower") or inspect.isroutine(step) else getattr(step, "__call__", None)
    return any(hasattr(one, "lower") for one in (method, getattr(method, "func", None)))


def _is_nnx(jitted):
    """A class of its own since flax 0.11; before, a function that holds the jitted one."""
    made_by = [type(jitted), type(getattr(getattr(jitted, "inner", None), "__wrapped__", None))]
    return any(one.__module__.startswith("flax.nnx") for one in made_by)


def _of_cached_partial(jitted):
    """nnx.cached_partial's: a function around the jitted one, which holds its first arguments."""
    return getattr(getattr(jitted, "__code__", None), "co_name", "") == "cache_args_wrapper"


def _is_array(leaf):
    return hasattr(leaf, "dtype") or isinstance(leaf, (bool, int, float, complex))


def _named(function, like, names):
    """As jit's messages and the export call it and its arguments."""
    function.__name__ = getattr(like, "__name__", "step")
    function.__signature__ = trees.signature(names)
    return function


def _positional_names(function, count):
    try:
        names = [p.name for p in inspect.signature(function).parameters.values() if p.kind <= p.POSITIONAL_OR_KEYWORD]
    except (TypeError, ValueError):
        names = []
    return [names[i] if i < len(names) else f"argument_{i}" for i in range(count)]


def _of_nnx(jitted, args, kwargs):
    from flax import nnx

    function = jitted.__wrapped__
    names = _positional_names(function, len(args)) + list(kwargs)
    given = dict(zip(names, [*args, *kwargs.values()]))
    is_graph = lambda value: any(map(nnx.graph.is_graph_node, jax.tree_util.tree_leaves(
        value, is_leaf=nnx.graph.is_graph_node)))
    nodes = {name: value for name, value in given.items() if is_graph(value)}
    traced = {name: value for name, value in given.items()
              if name not in nodes and all(map(_is_array, jax.tree_util.tree_leaves(value)))}
    if not nodes:
        raise RepriseError("no argument of the nnx.jit step holds a module or an optimizer: give jax.jit(step)")
    graph, first = nnx.split(nodes)

    def step(state, *arrays):
        known = jax.tree_util.tree_map(lambda leaf: leaf, first)  # Variables of this trace, not the caller's own.
        nnx.replace_by_pure_dict(known, state)
        merged = nnx.merge(graph, known)
        every = {**given, **dict(zip(traced, arrays)), **merged}
        result = function(*(every[name] for name in names[: len(args)]), **{name: every[name] for name in kwargs})
        return {"state": nnx.to_pure_dict(nnx.split(merged)[1]), "result": result}

    step = _named(step, jitted, ["state", *traced])
    return jax.jit(step, donate_argnums=0), (nnx.to_pure_dict(first), *traced.values()), {}


def _of_equinox(jitted, args, kwargs):
    import equinox

    dynamic, static = equinox.partition((args, kwargs), equinox.is_array)
    traced = [place for place, value in enumerate(dynamic[0]) if jax.tree_util.tree_leaves(value)]
    keywords = {name: value for name, value in dynamic[1].items() if jax.tree_util.tree_leaves(value)}
    function = jitted.__wrapped__

    def step(*arrays, **named):
        every = list(dynamic[0])
        for place, value in zip(traced, arrays):
            every[place] = value
        whole = equinox.combine((tuple(every), {**dynamic[1], **named}), static)
        return equinox.filter(function(*whole[0], **whole[1]), equinox.is_array)

    names = _positional_names(function, len(args))
    step = _named(step, jitted, [names[place] for place in traced] + list(keywords))
    return jax.jit(step), tuple(dynamic[0][place] for place in traced), keywords
