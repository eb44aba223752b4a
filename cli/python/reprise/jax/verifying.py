"""verify: the same steps by JAX and by `reprise train`, every tensor compared."""

import dataclasses
import json
import os
import pathlib
import tempfile

import jax
import numpy as np

from .. import binary, compare, tensors
from ..errors import RepriseError
from . import exporting
from . import state as states
from . import trees


@dataclasses.dataclass
class Verified:
    """The outcome; printing it shows the worst tensors and both losses."""

    steps: int
    tolerance: float
    tensors: list  # of compare.Difference
    loss: tuple  # (JAX's, ours) of the last step, NaN where there is none
    trained: str  # the state that reprise train dumped
    # By tensor, measured where one is over the tolerance: what JAX itself moves when its inputs' last bits are others.
    own: dict = dataclasses.field(default_factory=dict)
    has_loss: bool = True

    @property
    def worst(self):
        return max(self.tensors, key=lambda d: d.error, default=None)

    @property
    def ok(self):
        return bool(self.tensors) and all(d.error <= self.allowed(d.name) for d in self.tensors)

    def allowed(self, name):
        """The tolerance, or twice what JAX itself moves the tensor."""
        return max(self.tolerance, 2 * self.own.get(name, 0.0))

    def __bool__(self):
        return self.ok

    def __str__(self):
        rows = sorted(self.tensors, key=lambda d: -d.error)
        width = max([len(d.name) for d in rows[:12]] + [6])
        lines = [f"{'tensor':{width}}  type  relative L2 of the change"]
        moved = lambda d: f"  JAX itself moves {self.own[d.name]:.1e}" if d.error > self.tolerance and self.own else ""
        lines += [f"{d.name:{width}}  {d.type:4}  {d.error:.1e}{moved(d)}" for d in rows[:12]]
        if len(rows) > 12:
            lines.append(f"... {len(rows) - 12} tensors below {rows[11].error:.1e}")
        verdict = "equal" if self.ok else "NOT equal"
        noise = sum(d.error > self.tolerance for d in rows) if self.ok else 0
        verdict += f" within {self.tolerance:.0e}" + (f", {noise} of them within twice what JAX moves" if noise else "")
        losses = f"last loss {self.loss[0]:.6g} in JAX, {self.loss[1]:.6g} in Reprise" if self.has_loss else "no loss"
        lines.append(f"{self.steps} steps, {len(rows)} tensors: {verdict}; {losses}")
        return "\n".join(lines)


def _step_of(directory, step, args, kwargs):
    known = exporting.exported_steps.get(os.path.realpath(directory))
    if step is None and known is not None:
        return known
    if step is None:
        raise RepriseError(f"{directory} was exported by another process: give the step and its arguments again, "
                           "verify(DIR, step, *args)")
    return exporting.trace_and_compile(step, args, kwargs)


def run_jax(directory, steps, step=None, args=(), kwargs=None, change=lambda array: array):
    """`steps` steps of JAX from the folder's own state and batches: ({tensor: final value as stored}, [loss]).

    `change` makes another array of each stored tensor and batch."""
    described = states.description(directory)
    run = _step_of(directory, step, args, kwargs or {})
    ranks, leaves = described["ranks"], described["leaves"]
    types = {e["name"]: e["type"] for e in leaves}
    stored = tensors.load(pathlib.Path(directory) / "state.safetensors", types)
    stored = {name: change(array) for name, array in stored.items()}
    has_batches = any(e["role"] == "batch" and e["parameter"] is not None for e in leaves)
    batches = tensors.load(pathlib.Path(directory) / "batches.safetensors", types) if has_batches else {}
    batches = {name: change(array) for name, array in batches.items()}
    values = [_first(entry, leaf, stored) for entry, leaf in zip(leaves, run.leaves)]
    losses = []
    for t in range(steps):
        for place, entry in enumerate(leaves):
            if entry["name"] in batches:
                parts = batches[entry["name"]][t % described["steps"]]
                values[place] = parts[0] if entry["slices"] is None else trees.join(
                    parts, entry["slices"], entry["shape"])
        results = jax.tree_util.tree_leaves(_call(run, leaves, values))
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


def _call(run, leaves, values):
    placed = []
    for entry, value, leaf, sharding in zip(leaves, values, run.leaves, run.in_shardings):
        if entry["key"] is not None and not trees.is_key(value):
            value = jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf))
        placed.append(jax.device_put(value, sharding) if sharding is not None else value)
    args, kwargs = jax.tree_util.tree_unflatten(run.tree, placed)
    return run.compiled(*args, **kwargs)


def _nudged(seed):
    """Changes f32 and f64 by one unit in the last place at most; of the shorter types one element in 256."""
    rng = np.random.default_rng(seed)

    def change(array):
        if np.iscomplexobj(array):
            return change(array.real) + 1j * change(array.imag)
        if not jax.numpy.issubdtype(array.dtype, np.floating):
            return array
        sign = rng.integers(-1, 2, array.shape)
        if array.dtype.itemsize < 4:
            sign *= rng.integers(0, 256, array.shape) == 0
        unit = float(jax.numpy.finfo(array.dtype).eps)
        return (array.astype(np.float64) * (1 + unit * sign)).astype(array.dtype)

    return change


def own_moves(directory, steps, theirs, initial, step=None, args=(), kwargs=None, seeds=3):
    """{tensor: median over seeds of what JAX's result moves where the last bits of first state and batches are others}.

    Rounding alone is as large as this: of programs in bfloat16, it is what permuting the rows of a batch moves too
    (decoder of the tests: 2.0e-2 and 1.9e-2), and of a tensor whose exact gradient is zero (the bias of attention's
    keys), all there is."""
    found = [compare.differences(run_jax(directory, steps, step, args, kwargs, _nudged(seed))[0], theirs, initial)
             for seed in range(seeds)]
    return {rows[0].name: float(np.median([d.error for d in rows])) for rows in zip(*found)}


def _train(directory, ranks, steps, dump, options):
    program = pathlib.Path(directory) / "step.hlo"
    printed = binary.run(["train", "-n", ranks, program, "--steps", steps, "--warmup", 0, "--dump-state", dump,
                          "--format", "json", *options])
    try:
        return json.loads(printed)
    except ValueError:
        return {}


def verify(directory, step=None, *args, steps=20, tolerance=1e-4, train_options=(), **kwargs):
    """Runs `steps` steps of JAX and of `reprise train` from the folder's state and batches and compares every tensor.

    In the process that exported, the folder is enough; elsewhere give the step and its arguments too. `tolerance` bounds
    the relative L2 error of each tensor's change; where one is over it, JAX is run again on state and batches whose last
    bits are others, and twice what that moves the tensor is allowed. Integers must be equal. `train_options` go to
    `reprise train`, as ["--plan", "plan.json"]. Errors: RepriseError where one of both cannot run."""
    described = states.description(directory)
    theirs, losses = run_jax(directory, steps, step, args, kwargs)
    types = {e["name"]: e["type"] for e in described["leaves"]}
    initial = tensors.load(pathlib.Path(directory) / "state.safetensors", types)
    trained = pathlib.Path(directory) / "trained.safetensors"
    with tempfile.TemporaryDirectory(dir=directory, prefix=".verify-") as temporary:
        dump = pathlib.Path(temporary) / "trained.safetensors"
        result = _train(directory, described["ranks"], steps, dump, train_options)
        ours = tensors.load(dump, types)
        os.replace(dump, trained)
    found = compare.differences(ours, theirs, initial)
    over = any(tolerance < d.error < float("inf") for d in found)
    own = own_moves(directory, steps, theirs, initial, step, args, kwargs) if over else {}
    mine = (result.get("loss") or [float("nan")])[-1]
    return Verified(steps, tolerance, found, ((losses or [float("nan")])[-1], float(mine)), str(trained), own,
                    bool(losses))
