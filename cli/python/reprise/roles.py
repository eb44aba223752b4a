"""Which argument of a step is state, and which result is its next value. Standard library only.

An argument is state where a part of the result has its structure: leaves of the same names below it, shapes and types.
Everything is by path: what JAX donates to what says only that sizes agree."""

import dataclasses
import math
import re

from .errors import RepriseError


FOLLOWS = 0.5  # of a change of an argument, what may be missing in its next value: an average's is a tenth or less
NUMBER_FOLLOWS = 0.11  # the same of a single number, which a loss may follow by chance
COUNTS = 0.02  # the same where other arguments are donated and it is not


@dataclasses.dataclass
class Leaf:
    path: tuple  # of names, from the argument or the result down
    shape: tuple
    dtype: str


@dataclasses.dataclass
class Argument:
    name: str
    leaves: list
    donated: bool


def _same(ours, theirs, depth, types=True):
    return len(ours) == len(theirs) and all(
        a.path == b.path[depth:] and a.shape == b.shape and (a.dtype == b.dtype or not types)
        for a, b in zip(ours, theirs))


def _is_single(argument):
    return len(argument.leaves) == 1 and not argument.leaves[0].path


def _is_key(leaf):
    """Typed, or the pair of numbers that jax.random.PRNGKey gives."""
    return leaf.dtype.startswith("key<") or (leaf.dtype, leaf.shape) == ("uint32", (2,))


def _parts(results):
    """(path, first leaf, leaves) of every part of the result, outer before inner."""
    seen = {}
    for depth in range(max((len(r.path) for r in results), default=0) + 1):
        for index, leaf in enumerate(results):
            if len(leaf.path) >= depth:
                seen.setdefault((depth, leaf.path[:depth]), []).append(index)
    for (_, path), indices in seen.items():
        yield path, indices[0], [results[i] for i in indices]


def _scalars(results, taken):
    return [i for i, r in enumerate(results) if i not in taken and r.shape == () and "float" in r.dtype]


def _of_one_structure(arguments, places):
    """The places of equal leaves together; those whose part another may be first."""
    groups = {}
    for place in places:
        leaves = arguments[place].leaves
        groups.setdefault(tuple((leaf.path, leaf.shape, leaf.dtype) for leaf in leaves), []).append(place)
    return [groups[leaves] for leaves in sorted(groups, key=lambda leaves: (
        -len(leaves), -max(len(path) for path, _, _ in leaves)))]


def _named(name, parts):
    """The first leaves of the parts that have the name."""
    return [first for path, first in parts if path and path[-1] == name]


def _told(arguments, places, parts, tell):
    """({place: first leaf} of those of _pairs that names tell or `tell` does, what that said)."""
    pairs = {}
    for place in places:
        named = _named(arguments[place].name, parts)
        pairs.update({place: first for first in named[:1] if first not in pairs.values()})
    parts, distances = [first for _, first in parts if first not in pairs.values()], {}
    places = [p for p in places if p not in pairs]
    if tell is not None and places and parts and len(places) + len(parts) > 2:
        distances = tell(places, parts)
    following = [pair for pair, distance in distances.items() if distance < FOLLOWS]
    for place, first in sorted(following, key=distances.get):
        if place not in pairs and first not in pairs.values():
            pairs[place] = first
    return pairs, distances


def _pairs(arguments, places, parts, tell):
    """{place: first leaf of its next value} of arguments of one structure, `parts` being what has it in the result."""
    pairs, distances = _told(arguments, places, parts, tell)
    for place in places:
        # Outer parts before inner ones, and these in the result's order.
        some = [first for path, first in parts if first not in pairs.values()
                and _may_be_next(arguments[place].name, path, first, distances)]
        count = sum(p not in pairs for p in places)
        if place not in pairs and some:
            pairs[place] = min(some[:count])
    return pairs


def _may_be_next(name, path, first, distances):
    """Whether a part may be the next value of an argument that it does not follow: it is told by place, or has such a
    name, or follows another one, as a copy that is made every so many steps."""
    follows_other = any(distance < FOLLOWS for (_, part), distance in distances.items() if part == first)
    return not distances or not path or bool(_own(name).fullmatch(path[-1])) or follows_other


def _own(name):
    """What is a place, or named as new_x, x_next and x1 are of x."""
    return re.compile(rf"\d+|(.*_)?{re.escape(name)}(_.*|\d*)")


def next_values(arguments, results, batch=None, tell=None):
    """[first result leaf or None] by argument: where its next value stands.

    What has the structure of a part of another argument (parameters, of the moments in an optimizer's state) comes after
    that one. Arguments of one structure (parameters and a copy of them) go by name where a part of the result has it, else
    by `tell(places, parts)`, {(place, first leaf of a part): how far it is from following a change of the argument}, NaN
    where that is not known, infinite where it does not depend on it, and then in order.

    `batch` (a set of places) says which arguments are none; without it, single arrays count as state only where they are
    donated or nothing is, or are keys of jax.random, or numbers that a result follows, as counts. A number that is not
    donated is none where all that could be its next value is the only floating scalar of the result, the loss, unless
    that has its name, and where what could be does not depend on it or does not follow it: it is a rate then, or a weight
    in the loss. What has no part of its types may have one of its names and shapes: state that is of another type from the
    first step on, as a momentum that begins as zeros of bfloat16; JAX compiles the second step anew. A single array is only
    such state where it is donated.
    Errors: RepriseError where one that is not stands where its next value would, and may be a batch."""
    return _NextValues(arguments, results, batch, tell).found


class _NextValues:
    """Pairs arguments with results, those first of which most is known."""

    def __init__(self, arguments, results, batch, tell):
        self.arguments, self.results, self.batch, self.tell = arguments, results, batch, tell
        self.found, self.taken = [None] * len(arguments), set()
        open_places = [p for p, a in enumerate(arguments) if a.leaves and not (batch is not None and p in batch)]
        loose = [p for p in open_places if _is_single(arguments[p]) and not arguments[p].donated]
        self.pair_firm([p for p in open_places if p not in loose])
        is_sure = batch is None and any(a.donated for a in arguments)
        unsure = [p for p in loose if not is_sure or _is_key(arguments[p].leaves[0])]
        self.pair_rivals(unsure)
        for place in loose:
            if self.found[place] is not None:
                continue
            if not self.pair_number(place, NUMBER_FOLLOWS if place in unsure else COUNTS) and place in unsure:
                self.pair_loose(place)

    def fitting(self, argument, types=True):
        """[(path, first leaf)] of the parts that have its structure, and nothing has taken."""
        return [(path, first) for path, first, leaves in _parts(self.results)
                if _same(argument.leaves, leaves, len(path), types)
                and (types or not _same(argument.leaves, leaves, len(path)))
                and not self.taken & set(range(first, first + len(leaves)))]

    def take(self, place, first):
        self.found[place] = first
        self.taken.update(range(first, first + len(self.arguments[place].leaves)))

    def pair_firm(self, firm):
        for types in (True, False):
            for places in _of_one_structure(self.arguments, firm):
                places = [p for p in places if self.found[p] is None
                          and (types or any(leaf.shape for leaf in self.arguments[p].leaves))]
                parts = self.fitting(self.arguments[places[0]], types) if places else []
                for place, first in _pairs(self.arguments, places, parts, self.tell).items():
                    self.take(place, first)

    def pair_rivals(self, loose):
        """Several arrays of one shape, as weights and their average: those that a result follows, or has the name of."""
        for places in _of_one_structure(self.arguments, loose):
            leaf, parts = self.arguments[places[0]].leaves[0], self.fitting(self.arguments[places[0]])
            if len(places) > 1 and parts and leaf.shape and not _is_key(leaf) and self.tell is not None:
                for place, first in _told(self.arguments, places, parts, self.tell)[0].items():
                    self.take(place, first)

    def is_loss(self, name, parts):
        """Whether all that could be the next value of a number is the only floating scalar left, of another name."""
        scalars = _scalars(self.results, self.taken)
        return len(scalars) == 1 and [first for _, first in parts] == scalars and not _named(name, parts)

    def pair_number(self, place, within):
        """Whether a result has a number's name, or follows it: donated or not, it is state then."""
        leaf, name = self.arguments[place].leaves[0], self.arguments[place].name
        parts = [] if leaf.shape or _is_key(leaf) or self.tell is None else self.fitting(self.arguments[place])
        if not parts or self.is_loss(name, parts):
            return False
        following = _named(name, parts)
        if not following:
            distances = self.tell([place], [first for _, first in parts])
            near = sorted((distances[place, first], first) for _, first in parts if distances[place, first] < within)
            following = [first for _, first in near]
        for first in following[:1]:
            self.take(place, first)
        return bool(following)

    def pair_loose(self, place):
        """An array or number that is not donated."""
        argument = self.arguments[place]
        leaf, name = argument.leaves[0], argument.name
        parts = self.fitting(argument)
        named = _named(name, parts)
        if self.is_loss(name, parts):
            return
        if not named and not leaf.shape and not _is_key(leaf) and parts and self.tell is not None:
            distances = self.tell([place], [first for _, first in parts])
            parts = [item for item in parts if math.isnan(distances.get((place, item[1]), math.nan))]
        if not named and self.batch is None and not _is_key(leaf):
            parts = _in_order(place, self.arguments, self.found, parts)
            if parts and leaf.shape and self.tell is not None:
                self.tell([place], [parts[0][1]])  # What does not follow it is noted.
        for first in (named or [first for _, first in parts])[:1]:
            self.take(place, first)
        in_place = [self.results[first].dtype for path, first in self.fitting(argument, False)
                    if path == (str(place),) and leaf.shape]
        if self.found[place] is None and in_place and self.batch is None and None not in self.found[:place]:
            raise RepriseError(
                f"argument {name} is {leaf.dtype}, the result in its place {in_place[0]}: where that is its next value, "
                f"give it as {in_place[0]}; where not, name the batches, batch=")


def _in_order(place, arguments, found, parts):
    """Of the parts that could be the next value of an array, which one of its name is none of, that which stands where
    it would: right after that of the state before, or right before that of the state after. Elsewhere, one of another
    name is an output beside (a reconstruction). Errors: RepriseError where it may be the one or the other."""
    name = arguments[place].name
    before = next((p for p in reversed(range(place)) if found[p] is not None), None)
    after = next((p for p in range(place + 1, len(arguments)) if found[p] is not None), None)
    if not parts or before is None and after is None:
        return parts
    start = found[after] - 1 if before is None else found[before] + len(arguments[before].leaves)
    following = [(path, first) for path, first in parts if first == start and _own(name).fullmatch(path[-1])]
    others = [path for path, first in parts if path[-1].isdigit() or first == start]
    if not following and others:
        raise RepriseError(
            f"result {'.'.join(others[0])} has the shape and type of argument {name}: where it is its next value, name the "
            f"batches without it, batch=(…), or () where there are none; where not, with it, batch={name!r}")
    return following


def changed_leaf(argument, results):
    """Why an argument of several leaves is no state, though a part of the result has its names and some of its shapes
    and types: the first leaf of another, in words; "" where no part does."""
    for path, _, leaves in _parts(results):
        pairs = list(zip(argument.leaves, leaves))
        names_agree = len(argument.leaves) == len(leaves) and all(a.path == b.path[len(path):] for a, b in pairs)
        others = [(a, b) for a, b in pairs if (a.shape, a.dtype) != (b.shape, b.dtype)]
        if names_agree and 0 < len(others) < len(pairs):
            before, after = others[0]
            return (f"{'.'.join([argument.name, *before.path])} goes in as {before.dtype}{list(before.shape)} and comes "
                    f"out, in result {'.'.join(after.path)}, as {after.dtype}{list(after.shape)}")
    return ""


def returned_part(argument, results):
    """Why an argument is no state, though a part of it comes back, in words; "" where none of several leaves does."""
    own = [(path, [dataclasses.replace(leaf, path=leaf.path[len(path):]) for leaf in leaves])
           for path, _, leaves in _parts(argument.leaves) if path and len(leaves) > 1]
    for path, _, leaves in _parts(results):
        for part, of_part in own:
            if _same(of_part, leaves, len(path)):
                name = ".".join([argument.name, *part])
                return (f"result {'.'.join(path)} has the leaves of {name}: return {argument.name} whole, with these in "
                        f"it, or give {name} as an argument of its own")
    return ""


def check_donated(arguments, found, results, batch):
    """A donated argument that comes back nowhere is most likely state whose structure changed."""
    for place, (argument, first) in enumerate(zip(arguments, found)):
        if argument.donated and first is None and argument.leaves and not (batch and place in batch):
            changed = changed_leaf(argument, results)
            raise RepriseError(
                f"argument {argument.name} is donated, but no part of the result has its structure, shapes and types"
                f"{' (' + changed + ')' if changed else ''}: return its next value in the same structure, or name it in "
                "batch=")


def pick_loss(results, taken, loss=None):
    """The result leaf that is the loss, or None where there is none: of `results` as a rank has them, a scalar, or where
    none is, an array of one element, as pmap returns. Errors: RepriseError where it cannot be told."""
    scalars = _scalars(results, taken) or [
        i for i, r in enumerate(results) if i not in taken and set(r.shape) <= {1} and "float" in r.dtype]
    names = {i: ".".join(results[i].path) for i in scalars}
    listed = ", ".join(repr(n) for n in names.values()) or "none"
    if loss is not None:
        matching = [i for i in scalars if names[i] == str(loss) or names[i].endswith("." + str(loss))]
        if len(matching) != 1:
            raise RepriseError(f"loss={loss!r} names {len(matching)} results; scalars that are no state: {listed}")
        return matching[0]
    if len(scalars) <= 1:
        return scalars[0] if scalars else None
    matching = [i for i in scalars if "loss" in names[i].lower()]
    exact = [i for i in matching if results[i].path[-1].lower() == "loss"]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    raise RepriseError(f"the step returns several scalars ({listed}): name the loss, loss='…'")
