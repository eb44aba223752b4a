"""Leaves of pytrees with names, and what JAX keeps in them: typed keys, shardings."""

import inspect
import itertools

import jax
import numpy as np


def part_name(key):
    """One step of a tree path: a key, an index or a field."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key).strip(".[]'\"")


def path_name(root, path):
    """"state.params.Dense_0.kernel"."""
    return ".".join([root, *map(part_name, path)] if root else map(part_name, path))


def leaves(tree):
    """[(path, leaf)]."""
    return jax.tree_util.tree_flatten_with_path(tree)[0]


def argument_names(function, positions, keywords):
    """Names of the positional arguments from the signature where it has them, then the keywords, sorted as JAX does."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        parameters = []
    names = []
    for position in range(positions):
        plain = position < len(parameters) and parameters[position].kind in (
            inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names.append(parameters[position].name if plain else f"argument_{position}")
    return names + sorted(keywords)


def bound(function, args, kwargs, places):
    """The function of the arguments at `places` and of keywords alone; the rest are those given."""
    def of_traced(*arrays, **named):
        every = list(args)
        for place, value in zip(places, arrays):
            every[place] = value
        return function(*every, **{**kwargs, **named})

    return of_traced


def signature(names):
    """Of a function of arguments by these names."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in names])


def traced_arguments(args, kwargs, args_info):
    """(places of positional arguments, keywords) that a program takes: all but the static ones, which `args_info` of
    the lowered step lacks. Where several could be static, words before numbers."""
    info, named = args_info
    keywords = {name: value for name, value in kwargs.items() if name in named}
    structures = [jax.tree_util.tree_structure(i, is_leaf=lambda x: hasattr(x, "donated")) for i in info]
    number = lambda place: isinstance(args[place], (int, float, complex)) and not isinstance(args[place], bool)
    arrays = [any(hasattr(leaf, "dtype") for leaf in jax.tree_util.tree_leaves(value)) for value in args]
    hashed = sorted((p for p in range(len(args)) if not arrays[p]), key=number)
    for static in itertools.combinations(hashed, max(0, len(args) - len(info))):
        places = [p for p in range(len(args)) if p not in static]
        if [jax.tree_util.tree_structure(args[p]) for p in places] == structures:
            return places, keywords
    return list(range(len(args))), keywords


def is_key(leaf):
    """Whether a leaf is a typed key of jax.random.key, whose data is u32 with one dimension more."""
    dtype = getattr(leaf, "dtype", None)
    return dtype is not None and jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)


def plain(leaf):
    """A leaf without the type of keys."""
    return jax.random.key_data(leaf) if is_key(leaf) else leaf


def to_numpy(leaf):
    """A leaf's value on the host, with the type that a jitted function would give it."""
    leaf = plain(leaf)
    if isinstance(leaf, jax.Array):
        return np.asarray(jax.device_get(leaf))
    array = np.asarray(leaf)
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype), copy=False)


def physical(aval):
    """Shape and numpy type of what a program passes for an abstract value (a key: its data; 64 bits only with x64)."""
    if is_key(aval):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(aval.shape, aval.dtype))
        return tuple(data.shape), np.dtype(data.dtype)
    return tuple(aval.shape), np.dtype(jax.dtypes.canonicalize_dtype(aval.dtype))


def devices_in_order(shardings):
    """Devices by rank, as the program numbers them."""
    for sharding in shardings:
        order = getattr(sharding, "_device_assignment", None)
        if order:
            return list(order)
        mesh = getattr(sharding, "mesh", None)
        if mesh is not None and hasattr(mesh, "devices"):
            return list(mesh.devices.flat)
    return jax.devices()[:1]


def place(sharding, format):
    """Where a value is put: the format, a sharding and a layout, where the step asks for another layout than rows."""
    order = getattr(getattr(format, "layout", None), "major_to_minor", ())
    return sharding if list(order) == sorted(order) else format


def slices_by_rank(sharding, shape, devices):
    """[[start, stop] for each dimension] by rank, or None where every rank has the whole."""
    if sharding is None or len(devices) == 1 or sharding.is_fully_replicated:
        return None
    index = sharding.devices_indices_map(tuple(shape))
    return [[list(s.indices(n)[:2]) for s, n in zip(index[d], shape)] for d in devices]


def split(array, slices, ranks):
    """[ranks, rank's shape…] of a global array."""
    if slices is None:
        return np.broadcast_to(array, (ranks, *array.shape))
    return np.stack([array[tuple(slice(*s) for s in mine)] for mine in slices])


def join(parts, slices, shape):
    """The global array of what each rank holds."""
    whole = np.empty(shape, parts.dtype)
    for part, mine in zip(parts, slices):
        whole[tuple(slice(*s) for s in mine)] = part
    return whole
