"""verify: the same steps by JAX and by `reprise train`, every tensor compared."""

import dataclasses
import json
import os
import pathlib
import re
import tempfile
import typing

import jax
import numpy as np

from .. import binary, compare, tensors
from ..errors import RepriseError
from . import equations, exporting
from . import state as states
from . import trees, widening


MOST_OFF = 0.1  # from float64, of a result that is the same but for rounding
ALL_ROUNDING = 1e3  # from float64, of a change that is nothing else: the exact one is less than a thousandth of it


class OwnMove(typing.NamedTuple):
    """How far JAX's own result of a tensor moves where only rounding is another: in the median of several runs, and the
    most in any. One element whose step turns its sign, as Adam's do where a gradient is nearly zero, is most of a small
    tensor's move, and is seen in one run of several."""
    median: float
    most: float

    def __str__(self):
        return f"{self.median:.1e}" + (f", once {self.most:.1e}" if self.most > 2 * self.median else "")


@dataclasses.dataclass
class Verified:
    """The outcome; printing it shows the worst tensors, those over what is allowed first, and both losses."""

    steps: int
    tolerance: float
    tensors: list  # of compare.Difference
    loss: tuple  # (JAX's, ours) of the last step, NaN where there is none
    trained: str  # the state that reprise train dumped
    # By tensor, measured where one is over the tolerance: an OwnMove.
    own: dict = dataclasses.field(default_factory=dict)
    has_loss: bool = True
    # By tensor, likewise: how far (JAX, Reprise) are from the step in float64, see distances_from_exact.
    exact: dict = dataclasses.field(default_factory=dict)

    @property
    def worst(self):
        return max(self.tensors, key=lambda d: d.error, default=None)

    @property
    def ok(self):
        return bool(self.tensors) and all(self.is_equal(d) for d in self.tensors)

    def allowed(self, name):
        """The tolerance, or twice what JAX itself moves the tensor, or a quarter more than it did once."""
        own = self.own.get(name, OwnMove(0.0, 0.0))
        return max(self.tolerance, 2 * own.median, 1.25 * own.most)

    def is_equal(self, difference):
        """Whether a tensor is within what is allowed, or at most twice as far from the step in float64 as JAX is; ten
        times where all of JAX's change is rounding, of which a true error of a gradient would be a millionfold."""
        theirs, ours = self.exact.get(difference.name, (0.0, float("inf")))
        return difference.error <= self.allowed(difference.name) or ours <= (2 if theirs < ALL_ROUNDING else 10) * theirs

    def __bool__(self):
        return self.ok

    def __str__(self):
        over = [d for d in self.tensors if not self.is_equal(d)]
        rows = sorted(self.tensors, key=lambda d: (self.is_equal(d), -d.error))
        width = max([len(d.name) for d in rows[:12]] + [6])
        lines = [f"{'tensor':{width}}  type  relative L2 of the change"]
        lines += [f"{d.name:{width}}  {d.type:4}  {d.error:.1e}{self._reason(d)}" for d in rows[:12]]
        if len(rows) > 12:
            lines.append(f"... {len(rows) - 12} tensors, up to {max(d.error for d in rows[12:]):.1e}")
        verdict = "equal" if self.ok else f"{len(over)} NOT equal" if over else "NOT equal"
        noise = sum(d.error > self.tolerance for d in rows) if self.ok else 0
        verdict += f" within {self.tolerance:.0e}" + (f", {noise} of them within JAX's own rounding" if noise else "")
        losses = f"last loss {self.loss[0]:.6g} in JAX, {self.loss[1]:.6g} in Reprise" if self.has_loss else "no loss"
        if not rows:
            verdict = "nothing to compare, since the step reads no state"
        lines.append(f"{self.steps} steps, {len(rows)} tensors: {verdict}; {losses}")
        return "\n".join(lines)

    def _reason(self, difference):
        """What is known of JAX's own rounding of a tensor that is over the tolerance."""
        if difference.error <= self.tolerance:
            return ""
        words = [f"JAX itself moves {self.own[difference.name]}"] if self.own else []
        if difference.name in self.exact:
            theirs, ours = self.exact[difference.name]
            words.append(f"from the step in float64 JAX is {theirs:.1e} off, Reprise {ours:.1e}")
        return "".join("  " + word for word in words)


def _step_of(directory, step, args, kwargs):
    known = exporting.exported_steps.get(os.path.realpath(directory))
    if step is None and known is not None:
        return known
    if step is None:
        raise RepriseError(f"{directory} was exported by another process: give the step and its arguments again, "
                           "verify(DIR, step, *args)")
    leaves = states.description(directory)["leaves"]
    traced = exporting.trace_and_compile(step, args, kwargs)
    shapes = [list(trees.to_numpy(leaf).shape) for leaf in traced.leaves]
    exported = [entry["shape"] for entry in leaves]
    if shapes != exported:
        name = next((e["name"] for e, shape in zip(leaves, shapes) if e["shape"] != shape), "their number")
        raise RepriseError(f"the step's arguments are not those that were exported to {directory}: {name} differs")
    return exporting.settled(traced, [entry["result"] for entry in leaves])


def _same(tensors_by_name):
    return tensors_by_name


def run_jax(directory, steps, run=None, change_state=_same, change_batches=_same):
    """`steps` steps of JAX from the folder's own state and batches: ({tensor: final value as stored}, [loss]).

    `run` is the traced step, without it the one that this process exported to the folder. `change_state` and
    `change_batches` make others of the stored ones, {name: array}."""
    described = states.description(directory)
    run = run or _step_of(directory, None, (), {})
    ranks, leaves = described["ranks"], described["leaves"]
    types = {e["name"]: e["type"] for e in leaves}
    stored = tensors.load(pathlib.Path(directory) / "state.safetensors", types)
    stored = change_state(stored)
    has_batches = any(e["role"] == "batch" and e["parameter"] is not None for e in leaves)
    batches = tensors.load(pathlib.Path(directory) / "batches.safetensors", types) if has_batches else {}
    for name in types.keys() & batches.keys():
        if len(batches[name]) < described["steps"]:
            raise RepriseError(f"{os.path.join(directory, 'batches.safetensors')}: {name} holds {len(batches[name])} of "
                               f"the {described['steps']} batches that were exported: export again")
    batches = change_batches(batches)
    values = [_first(entry, leaf, stored) for entry, leaf in zip(leaves, run.leaves)]
    losses = []
    for t in range(steps):
        for place, entry in enumerate(leaves):
            if entry["name"] in batches:
                parts = batches[entry["name"]][t % described["steps"]]
                values[place] = parts[0] if entry["slices"] is None else trees.join(
                    parts, entry["slices"], entry["shape"])
        results = run.call(values)
        for place, entry in enumerate(leaves):
            if entry["result"] is not None:
                values[place] = results[entry["result"]]
        if described["loss"] is not None:
            losses.append(float(np.mean(np.asarray(jax.device_get(results[described["loss"]]), np.float64))))
    final = {}
    for entry, value in zip(leaves, values):
        if entry["role"] == "state" and entry["parameter"] is not None:
            value = trees.to_numpy(value)
            final[entry["name"]] = value if entry["slices"] is None else trees.split(value, entry["slices"], ranks)
    return final, losses


def _first(entry, leaf, stored):
    if entry["name"] in stored:
        return states.whole(entry, stored[entry["name"]])
    return trees.to_numpy(leaf)


def _nudged(seed, read_as=None):
    """Changes f32 and f64 by one unit in the last place at most; of the shorter types one element in 256.

    `read_as`: {name: the shorter type that the step rounds an array to before all else}, whose unit counts then; of
    these one element in 16, since what is made of a batch in one step shows each of its roundings."""
    rng, read_as = np.random.default_rng(seed), read_as or {}

    def nudge(array, dtype, often=False):
        if np.iscomplexobj(array):
            return nudge(array.real, array.real.dtype) + 1j * nudge(array.imag, array.imag.dtype)
        if not jax.numpy.issubdtype(array.dtype, np.floating):
            return array
        sign = rng.integers(-1, 2, array.shape)
        if dtype.itemsize < 4:
            sign *= rng.integers(0, 16 if often else 256, array.shape) == 0
        unit = float(jax.numpy.finfo(dtype).eps)
        return (array.astype(np.float64) * (1 + unit * sign)).astype(array.dtype)

    return lambda arrays: {name: nudge(array, read_as.get(name, array.dtype), name in read_as)
                           for name, array in arrays.items()}


class _RowOrder:
    """Another order of the rows of batches, [step, rank, row, ...]: of every batch, step and rank alike, where as many
    rows."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.order = np.zeros(0, int)

    def change(self, batches):
        largest = max(batches.values(), key=lambda array: array.size, default=np.zeros(0))
        rows = largest.shape[2] if largest.ndim > 2 else 0
        self.order = self.rng.permutation(rows)
        return batches | {name: array[:, :, self.order] for name, array in batches.items()
                          if array.ndim > 2 and array.shape[2] == rows}

    def put_back(self, final):
        """State that holds something for each row, as it were in the old order; the other tensors as they are."""
        def put(array):
            for axis in range(min(array.ndim, 2)):
                if array.shape[axis] == len(self.order):
                    return np.take(array, np.argsort(self.order), axis)
            return array

        return {name: put(array) for name, array in final.items()}


def _x64():
    """JAX's context of 64-bit types."""
    if hasattr(jax, "enable_x64"):
        return jax.enable_x64(True)
    from jax.experimental import enable_x64

    return enable_x64(True)


def _wider(arrays):
    return {name: widening.wider(array) for name, array in arrays.items()}


def _in_float64(run):
    """The traced step as the same program in float64, to run in _x64."""
    program = jax.jit(equations.jex.jaxpr_as_fun(widening.widened(run.closed)))

    def step(*args, **kwargs):
        return program(*map(widening.wider, jax.tree_util.tree_leaves((args, kwargs))))

    return dataclasses.replace(run, jitted=step, compiled=step)


def distances_from_exact(directory, steps, ours, theirs, initial, run=None, losses=()):
    """{tensor: (JAX's, Reprise's) relative L2 distance from the same steps in float64}, of tensors that say something.

    The step's program runs on state and batches of float64, every f32 of it an f64, with the same random bits (widening).
    Its result is the exact one to a few digits, so the nearer of two that differ by rounding is the better one: sums of
    many squares, as in batch norms, are off by 1e-3 in f32, each way of adding them up by its own. Where the program
    names floats of 16 bits, whose rounding stays, or an operation that there is in f32 alone, nothing is known; where its
    first loss is another, what it does hangs on f32, which tells nothing either. Nor does a tensor in which JAX is more
    than a tenth off, but where that is rounding which stays in few tensors (gradients that are exactly zero, which Adam
    makes steps of), half of all being within a hundredth: there Reprise is to be the nearer one, or all is rounding."""
    run = run or _step_of(directory, None, (), {})
    rounds = re.search(r"\b(bf16|f16)\[", run.text)
    if rounds or not any(str(getattr(leaf, "dtype", "")) in ("float32", "complex64") for leaf in run.leaves):
        return {}
    try:
        with _x64():
            exact, exact_losses = run_jax(directory, steps, _in_float64(run), change_state=_wider, change_batches=_wider)
    except Exception:  # whatever an operation says of types that it does not have
        return {}
    if losses and not _starts_alike(losses, exact_losses, within=1e-3):
        return {}
    off = compare.differences(theirs, exact, initial)
    changed = [d.error for d in off if d.type in ("f64", "c128") and d.change > 0]
    is_local = bool(changed) and float(np.median(changed)) <= MOST_OFF / 10
    mine = {d.name: d.error for d in compare.differences(ours, exact, initial)}
    return {d.name: (d.error, mine[d.name]) for d in off
            if d.error <= MOST_OFF or (is_local and min(mine[d.name], ALL_ROUNDING) <= d.error < float("inf"))}


def _unfused(run):
    """The step compiled without XLA's fusion, so that sums are added up in other orders; itself where this JAX cannot."""
    if jax.__version_info__ < (0, 7):
        return run
    args, kwargs = run.with_static(run.args, run.kwargs)
    options = {"xla_disable_hlo_passes": "fusion"}
    return dataclasses.replace(run, compiled=run.jitted.lower(*args, **kwargs).compile(compiler_options=options))


def own_moves(directory, steps, theirs, initial, run=None, losses=(), seeds=5):
    """{tensor: OwnMove}: the median over the seeds of one of three ways, that which moves it most, and the most of all.

    Rounding is another where the last bits of first state and batches are, where XLA does not fuse, and where the rows of
    each batch come in another order; the last counts where the step has a loss and its first one then stays equal to
    1e-5 (it does not where a row's place means something, as for dropout's mask). What the state holds for each row is
    put back before. Steps in 16 bits may move by the one and not by the other: a change of f32's last bits that the cast
    to bfloat16 drops moves nothing; so a batch that the step rounds to 16 bits before all else is changed in those, by a
    few elements. Of a tensor whose exact gradient is zero (the bias of attention's keys, or one under
    a norm) this is all there is."""
    run = run or _step_of(directory, None, (), {})
    leaves, narrowed = states.description(directory)["leaves"], equations.read_narrowed(run.closed)
    read_as = {leaves[n]["name"]: dtype for n, dtype in narrowed.items() if leaves[n]["role"] == "batch"}

    # What no step changes does not move because it started elsewhere.
    kept = {d.name for d in compare.differences(theirs, initial, initial) if d.error == 0}

    def distances(final):
        return {d.name: d.error for d in compare.differences(final, theirs, initial)}

    def nudged_moves(seed):
        first = {}

        def nudge(state):
            first.update(_nudged(seed)(state))
            return first

        final, _ = run_jax(directory, steps, run, nudge, _nudged(seed, read_as))
        return {name: 0.0 if name in kept and np.array_equal(final[name], first[name]) else error
                for name, error in distances(final).items()}

    def permuted_moves(seed):
        rows = _RowOrder(seed)
        final, changed = run_jax(directory, steps, run, change_batches=rows.change)
        if not _starts_alike(losses, changed):
            return {}
        back = distances(rows.put_back(final))
        return {name: min(error, back[name]) for name, error in distances(final).items()}

    nudged, permuted = [nudged_moves(seed) for seed in range(seeds)], [permuted_moves(seed) for seed in range(seeds)]
    if not all(permuted):
        permuted = []
    unfused = [distances(run_jax(directory, steps, _unfused(run))[0])]

    def move(name):
        ways = [[found[name] for found in runs] for runs in (nudged, permuted, unfused) if runs]
        return OwnMove(max(float(np.median(way)) for way in ways), max(map(max, ways)))

    return {name: move(name) for name in nudged[0]}


def _starts_alike(losses, others, within=1e-5):
    return bool(losses and others) and abs(losses[0] - others[0]) <= within * abs(losses[0])


def _train(directory, ranks, steps, dump, options):
    program = pathlib.Path(directory) / "step.hlo"
    try:
        printed = binary.run(["train", "-n", ranks, program, "--steps", steps, "--warmup", 0, "--dump-state", dump,
                              "--format", "json", *options])
    except RepriseError as error:
        if "--allow-nan" not in str(error):
            raise
        raise RepriseError(f'{error} (here: verify(..., train_options=["--allow-nan"]))') from None
    try:
        result = json.loads(printed)
    except ValueError:
        return {}
    # JSON has no number for a loss that is not finite.
    result["loss"] = [float("nan") if loss is None else loss for loss in result.get("loss") or []]
    return result


def verify(directory, step=None, *args, steps=20, tolerance=1e-4, train_options=(), **kwargs):
    """Runs `steps` steps of JAX and of `reprise train` from the folder's state and batches and compares every tensor.

    In the process that exported, the folder is enough; elsewhere give the step and its arguments too. `tolerance` bounds
    the relative L2 error of each tensor's change. Where one is over it, the steps are run in float64, and what is at most
    twice as far from those as JAX is counts as equal (distances_from_exact); where one is still over it, JAX is run again
    on state and batches whose last bits are others, on batches whose rows come in another order, and without fusion, and
    twice what that moves the tensor in the median, or 1.25 of the most, is allowed (own_moves). Integers must be equal.
    `train_options` go to `reprise train`, as ["--plan", "plan.json"]. Errors: RepriseError where one of both cannot run."""
    if steps < 1:
        raise RepriseError(f"steps={steps}: a training has one at least")
    described = states.description(directory)
    run = _step_of(directory, step, args, kwargs)
    theirs, losses = run_jax(directory, steps, run)
    types = {e["name"]: e["type"] for e in described["leaves"]}
    initial = tensors.load(pathlib.Path(directory) / "state.safetensors", types)
    trained = pathlib.Path(directory) / "trained.safetensors"
    with tempfile.TemporaryDirectory(dir=directory, prefix=".verify-") as temporary:
        dump = pathlib.Path(temporary) / "trained.safetensors"
        result = _train(directory, described["ranks"], steps, dump, train_options)
        ours = tensors.load(dump, types)
        os.replace(dump, trained)
    found = compare.differences(ours, theirs, initial)
    mine = (result.get("loss") or [float("nan")])[-1]
    done = Verified(steps, tolerance, found, ((losses or [float("nan")])[-1], float(mine)), str(trained), {}, bool(losses))
    if any(tolerance < d.error < float("inf") for d in found):
        done.exact = distances_from_exact(directory, steps, ours, theirs, initial, run, losses)
        # A first loss that is another is no matter of rounding.
        alike = not losses or _starts_alike(losses, result.get("loss"), within=MOST_OFF)
        if alike and any(not done.is_equal(d) and d.error < float("inf") for d in found):
            done.own = own_moves(directory, steps, theirs, initial, run, losses)
    return done
