"""Which arguments of a step are state and which are batches, and what data= gives for those."""

import dataclasses
import inspect
import itertools

import jax
import numpy as np

from .. import roles
from ..errors import RepriseError
from . import moves, trees


def check_options(jitted, args, kwargs, function):
    """Refuses a step whose argument has the name of an option of `function`, which takes it for its own."""
    try:
        parameters = inspect.signature(jitted).parameters.values()
        given = inspect.signature(jitted).bind_partial(*args, **kwargs).arguments
    except (TypeError, ValueError):
        return  # JAX says what is wrong with them.
    own = {p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY}
    for parameter in parameters:
        if parameter.name in own and parameter.name not in given and parameter.default is parameter.empty:
            name, by_place = parameter.name, parameter.kind is not parameter.KEYWORD_ONLY
            raise RepriseError(f"{name}= is an option of {function.__name__} itself: "
                               + (f"give the step's {name} by its place" if by_place else
                                  f"call the step's {name} otherwise, as its keywords go by name alone"))


def _batch_places(step, batch):
    if batch is None:
        return None
    places = set()
    for item in batch if isinstance(batch, (tuple, list, set)) else [batch]:
        if isinstance(item, str) and item in step.names:
            places.add(step.names.index(item))
        elif isinstance(item, int) and -len(step.args) <= item < len(step.names):
            places.add(item % len(step.names) if item >= 0 else len(step.args) + item)
        else:
            raise RepriseError(f"batch={item!r} is no argument of the step, which has {', '.join(step.names)}")
    return places


def _arguments(step):
    arguments = [roles.Argument(name, [], False) for name in step.names]
    for (place, path), leaf, donated in zip(step.paths, step.leaves, step.donated):
        dtype = getattr(leaf, "dtype", None)
        dtype = str(dtype) if dtype is not None else str(trees.to_numpy(leaf).dtype)
        dtype = dtype if trees.is_key(leaf) else str(jax.dtypes.canonicalize_dtype(dtype))
        arguments[place].leaves.append(roles.Leaf(path, tuple(np.shape(leaf)), dtype))
        arguments[place].donated |= donated
    return arguments


@dataclasses.dataclass
class Roles:
    batch: set  # argument places
    next_value: list  # by argument: first result leaf, or None
    loss: object
    notes: list  # on batches that look like state


def _uncertain(arguments, found, results, loss, distances):
    """Notes on next values of which their structure alone tells that they are, and on numbers that may have one."""
    followed, notes = {part for (_, part), distance in distances.items() if distance < roles.FOLLOWS}, []
    for p, first in enumerate(found):
        name = arguments[p].name
        if distances.get((p, first), 0.0) >= roles.FOLLOWS and first not in followed:
            path = results[first].path[:len(results[first].path) - len(arguments[p].leaves[0].path)]
            notes.append(f"result {'.'.join(path)} is taken for the next value of {name}, as it has its structure, "
                         f"though it does not follow it: where it is none, name the batches, batch=, and {name} among them")
        parts = [part for (of, part), distance in distances.items() if of == p and part != loss
                 and distance < float("inf") and results[part].path and results[part].path[-1].isdigit()]
        if first is None and arguments[p].leaves[0].shape == () and parts:
            notes.append(f"{name} is taken for no state: result {'.'.join(results[parts[0]].path)} depends on it and "
                         "does not follow it; where that is its next value, return it by that name, in a dict")
    return notes


def find_roles(step, batch, loss):
    """Roles of the arguments; `batch`: None, or the places or names of the batches."""
    places, arguments = _batch_places(step, batch), _arguments(step)
    distances = {}

    def tell(of, parts):
        distances.update(moves.distances(step, of, parts))
        return {pair: distances[pair] for pair in distances if pair[0] in of and pair[1] in parts}

    found = roles.next_values(arguments, step.results, places, tell)
    roles.check_donated(arguments, found, step.results, places)
    taken = {i for argument, first in zip(arguments, found) if first is not None
             for i in range(first, first + len(argument.leaves))}
    unpaired = {p for p, first in enumerate(found) if first is None and arguments[p].leaves}
    loose, notes = [result for i, result in enumerate(step.results) if i not in taken], []
    for p in sorted(unpaired - (places or set())):
        why = roles.changed_leaf(arguments[p], step.results) if places is None else ""
        why = why or roles.returned_part(arguments[p], loose)
        taken_for = "a batch, not for state" if places is None else "state that no result updates"
        notes += [f"{arguments[p].name} is taken for {taken_for}: {why}"] if why else []
    places = unpaired if places is None else places
    parts = [dataclasses.replace(result, shape=tuple(sharding.shard_shape(result.shape))) if sharding else result
             for result, sharding in zip(step.results, step.out_shardings)]
    loss = roles.pick_loss(parts, taken, loss)
    return Roles(places, found, loss, notes + _uncertain(arguments, found, step.results, loss, distances))


def _together(values):
    """As an item of data= gives them: a tuple, a single one alone."""
    return tuple(values) if len(values) != 1 else values[0]


def values(step):
    return [*step.args, *(step.kwargs[k] for k in sorted(step.kwargs))]


def _first_item(data):
    """(the first item of data=, data that still has it); nothing of what has none. A function becomes an iterator, so
    that it is called once a step."""
    data = map(data, itertools.count()) if callable(data) else data
    items = iter(data)
    first = list(itertools.islice(items, 1))
    data = itertools.chain(first, items) if hasattr(data, "__next__") else data
    return (first[0] if first else ()), data


def _has_shapes(value, own, axes):
    """Whether a value of data= has the structure and the shapes of some arguments, with `axes` before."""
    pairs = zip(jax.tree_util.tree_leaves(value), jax.tree_util.tree_leaves(own))
    return _is_like(value, own) and all(np.shape(a)[axes:] == np.shape(b) for a, b in pairs)


def _given_arguments(step, chosen, value, axes):
    """The places of the arguments that a value of data= gives: the last ones, as few as they are, or those of the batches
    that alone have its shapes, with `axes` before; None where none do, or several."""
    for count in range(1, len(step.args) + 1):
        own = step.args[-count:]
        if any(_has_shapes(value, form, axes) for form in {1: [own[0], own]}.get(count, [own])):
            return list(range(len(step.args) - count, len(step.args)))
    places = sorted(chosen.batch) if chosen is not None else []
    counts = ({len(value), 1} if isinstance(value, tuple) else {1}) - {0}
    fitting = [some for count in counts for some in itertools.combinations(places, count)
               if _has_shapes(value, _together([values(step)[p] for p in some]), axes)] if len(places) < 12 else []
    return list(fitting[0]) if len(fitting) == 1 else None


def roles_by_data(step, batch, loss, data):
    """(roles, data for `batches`): as find_roles finds them, or, where those leave no batch that data= fits, by what data=
    gives."""
    if data is None:
        return find_roles(step, batch, loss), None
    item, data = _first_item(data)
    if batch is not None:
        return find_roles(step, batch, loss), data
    unclear = RepriseError("data= gives batches, but every argument comes back in the result, as state does: name the "
                           "batches, batch=")
    chosen = found = None
    try:
        chosen = found = find_roles(step, None, loss)
        first = batches(step, chosen, data if not hasattr(data, "__next__") else [item], 1)[0]
        own = jax.tree_util.tree_leaves([values(step)[p] for p in sorted(chosen.batch)])
        if own and [np.shape(leaf) for leaf in first] == [np.shape(leaf) for leaf in own]:
            return chosen, data
    except RepriseError as error:
        chosen, unclear = None, error
    places = None if hasattr(data, "__next__") or isinstance(data, list) else _given_arguments(
        step, found, data, 1)
    places = places or _given_arguments(step, found, tuple(item) if isinstance(item, list) else item, 0)
    if places is not None:
        return find_roles(step, places, loss), data
    if chosen is None or not chosen.batch:
        raise unclear
    return chosen, data  # Its first item is refused by name.


def _is_like(value, other):
    return jax.tree_util.tree_structure(value) == jax.tree_util.tree_structure(other)


def _fitted(step, arguments, places, item, t):
    """The leaves of one item of data=. It may leave out keywords, and numbers: they keep the values that were given."""
    is_number = lambda value: jax.tree_util.tree_structure(value).num_nodes == 1 and np.ndim(value) == 0
    choices = [places, [p for p in places if p < len(step.args)], [p for p in places if not is_number(arguments[p])]]
    for some in choices:
        structure = jax.tree_util.tree_structure(_together([arguments[p] for p in some]))
        listed = isinstance(item, list) and (len(some) > 1 or some and isinstance(arguments[some[0]], tuple))
        value = tuple(item) if listed else item
        if isinstance(value, (tuple, list)) and len(some) == len(value) == 1 and \
                jax.tree_util.tree_structure(value) != structure:
            value = value[0]
        if some and jax.tree_util.tree_structure(value) == structure:
            given = dict(zip(some, value if len(some) > 1 else [value]))
            return jax.tree_util.tree_leaves([given.get(p, arguments[p]) for p in places])
    if isinstance(item, dict) and item and set(item) <= {step.names[p] for p in places}:  # By name, as keywords are.
        given = {p: item.get(step.names[p], arguments[p]) for p in places}
        if all(map(_is_like, given.values(), (arguments[p] for p in places))):
            return jax.tree_util.tree_leaves([given[p] for p in places])
    names = ", ".join(step.names[p] for p in places)
    structure = jax.tree_util.tree_structure(_together([arguments[p] for p in places]))
    raise RepriseError(f"batch {t} of data= is {jax.tree_util.tree_structure(item)}, the step takes ({names}) of "
                       f"{structure}")


def batches(step, chosen, data, limit):
    """Steps of batch leaves, flat: [[array]]. Without data (of roles_by_data), the arguments' own."""
    places, arguments = sorted(chosen.batch), values(step)
    own = _together([arguments[p] for p in places])
    structure, own_leaves = jax.tree_util.tree_structure(own), jax.tree_util.tree_leaves(own)
    if data is None or not places:
        return [own_leaves]
    leaves = [] if hasattr(data, "__next__") else jax.tree_util.tree_leaves(data)
    if leaves and jax.tree_util.tree_structure(data) == structure and all(
            np.ndim(a) == np.ndim(b) + 1 and np.shape(a)[1:] == np.shape(b) for a, b in zip(leaves, own_leaves)):
        return [[leaf[t] for leaf in leaves] for t in range(min(limit, len(leaves[0])))]
    batches = []
    for t, item in enumerate(itertools.islice(data, limit)):
        batches.append(_fitted(step, arguments, places, item, t))
    if not batches:
        raise RepriseError("data= gave no batch")
    return batches
