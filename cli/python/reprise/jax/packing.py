"""What a bucket becomes in JAX: one collective over its members, end to end.

With one element of the bucket before at its end, XLA can neither merge two buckets nor change their order."""

import contextlib

import jax
import jax.numpy as jnp

from .. import mapping
from . import equations

LINE_BYTES = 64  # chunks are whole lines of it (data/plan/format.md)


def metadata_keys():
    """JAX's context that puts frontend attributes on operations, or None."""
    try:
        from jax.experimental.xla_metadata import set_xla_metadata
    except ImportError:
        return None
    return set_xla_metadata


def bind(equation, values):
    """Runs an equation as it was traced, in its contexts and under its name; its results as a list."""
    bound = equation.primitive.get_bind_params(equation.params)
    subfunctions, params = bound if isinstance(bound, tuple) else ((), bound)
    manager = getattr(getattr(equation, "ctx", None), "manager", None) or contextlib.nullcontext()
    name = str(equation.source_info.name_stack)
    with manager, jax.named_scope(name) if name else contextlib.nullcontext():
        results = equation.primitive.bind(*subfunctions, *values, **params)
    return list(results) if equation.primitive.multiple_results else [results]


def alone(equation, operand):
    """The equation's own collective of another operand."""
    if equation.primitive.name == "psum2":
        return jax.lax.psum_p.bind(operand, **equation.params)[0]
    return bind(equation, [operand])[0]


def kind_of(equation):
    return mapping.KINDS[equation.primitive.name]


def together(made, operands, bucket, link, method):
    """The members of a bucket, one equation and operand each, as one collective; (results, one element of the last)."""
    kind = kind_of(made[0])
    if kind == "all-gather":
        return _gathered(made, operands, link)
    if kind == "reduce-scatter":
        return _scattered(made, operands, link)
    if method == "keys":
        return _keyed(made[0], operands, bucket.name), link
    return _packed(made[0], operands, bucket.chunks, link)


def varying(value):
    return equations.varying_axes(jax.typeof(value)) if hasattr(jax, "typeof") else frozenset()


def chunk_ends(size, item_bytes, chunks):
    """Where each chunk of a buffer of `size` elements ends: whole lines, none empty."""
    per_line = max(1, LINE_BYTES // item_bytes)
    lines = -(-size // per_line)
    return sorted({min(size, per_line * (lines * (i + 1) // chunks)) for i in range(chunks)} - {0})


def _halves(array):
    """Arrays of real numbers: a complex one shares its bucket with them."""
    return [array.real, array.imag] if jnp.iscomplexobj(array) else [array]


def _linked(parts, link):
    """Whether a bucket's parts can take the element of the bucket before: it must not differ along more axes."""
    return link is not None and varying(link) <= frozenset().union(*(varying(part) for part in parts))


def _with_params(equation, **params):
    return equation.replace(params={**equation.params, **params})


def _whole(operand, halves):
    return halves[0].astype(operand.dtype) if len(halves) == 1 else jax.lax.complex(*halves)


def _out_shape(equation):
    return equation.outvars[0].aval.shape


def _gathered(made, operands, link):
    """One all-gather of all operands; of its result [ranks, elements] each member's columns, at the place where its own
    all-gather has the ranks."""
    operands = [jnp.asarray(operand) for operand in operands]
    flat = [jnp.ravel(half) for operand in operands for half in _halves(operand)]
    if _linked(flat, link):
        flat.append(link.astype(flat[0].dtype))
    buffer = jnp.concatenate(flat) if len(flat) > 1 else flat[0]
    gathered = alone(_with_params(made[0], all_gather_dimension=0, tiled=False), buffer)
    results, begin = [], 0
    for equation, operand in zip(made, operands):
        halves = []
        for _ in _halves(operand):
            columns = jnp.reshape(gathered[:, begin:begin + operand.size], (gathered.shape[0], *operand.shape))
            columns = jnp.moveaxis(columns, 0, equation.params["all_gather_dimension"])
            halves.append(jnp.reshape(columns, _out_shape(equation)))
            begin += operand.size
        results.append(_whole(operand, halves))
    return jax.lax.optimization_barrier(results), gathered[0, begin - 1:begin]


def _rows(equation, operand):
    """An operand of a reduce-scatter as [ranks, elements]: a row for each rank."""
    ranks, dimension = equation.params["axis_size"], equation.params["scatter_dimension"]
    if equation.params["tiled"]:
        split = (ranks, operand.shape[dimension] // ranks)
        operand = jnp.reshape(operand, (*operand.shape[:dimension], *split, *operand.shape[dimension + 1:]))
    return jnp.reshape(jnp.moveaxis(operand, dimension, 0), (ranks, -1))


def _scattered(made, operands, link):
    """One reduce-scatter of all operands, a row for each rank."""
    operands = [jnp.asarray(operand) for operand in operands]
    rows = [_rows(equation, half) for equation, operand in zip(made, operands) for half in _halves(operand)]
    if _linked(rows, link):
        rows.append(jnp.broadcast_to(link.astype(rows[0].dtype), (rows[0].shape[0], 1)))
    buffer = jnp.concatenate(rows, axis=1) if len(rows) > 1 else rows[0]
    scattered = alone(_with_params(made[0], scatter_dimension=0, tiled=False), buffer)
    results, begin = [], 0
    for equation, operand in zip(made, operands):
        shape, halves = _out_shape(equation), []
        for _ in _halves(operand):
            size = operand.size // equation.params["axis_size"]
            halves.append(jnp.reshape(scattered[begin:begin + size], shape))
            begin += size
        results.append(_whole(operand, halves))
    return jax.lax.optimization_barrier(results), scattered[begin - 1:begin]


def _packed(equation, operands, chunks, link):
    """One psum a chunk over all operands end to end, each with one element of the one before; (results, last element).
    Operands of 16 bits share it with floats where the program that was planned reduces them as floats: XLA does on CPU."""
    operands = [jnp.asarray(operand) for operand in operands]
    flat = [half for operand in operands for half in _halves(jnp.ravel(operand))]
    buffer = jnp.concatenate(flat) if len(flat) > 1 else flat[0]
    parts, begin = [], 0
    for end in chunk_ends(buffer.size, buffer.dtype.itemsize, chunks):
        part = buffer[begin:end] if (begin, end) != (0, buffer.size) else buffer
        if _linked([part], link):
            part = jnp.concatenate([part, link.astype(part.dtype)])
        reduced = alone(equation, part)
        link = reduced[end - begin - 1:end - begin]
        parts.append(reduced[:end - begin])
        begin = end
    whole = jnp.concatenate(parts) if len(parts) > 1 else parts[0]
    results, begin = [], 0
    for operand in operands:
        halves = []
        for _ in _halves(operand):
            halves.append(jnp.reshape(whole[begin:begin + operand.size], operand.shape))
            begin += operand.size
        results.append(_whole(operand, halves))
    # Without it XLA moves what follows across the slices, and updates are rounded in other places than in the step.
    return jax.lax.optimization_barrier(results), link


def _keyed(equation, operands, name):
    """A psum each, marked so that XLA:GPU's combiner merges those of one bucket only. Untested."""
    marked = metadata_keys() or (lambda **_: contextlib.nullcontext())
    with marked(combiner_key=name, collective_group_key=name):
        return [alone(equation, operand) for operand in operands]
