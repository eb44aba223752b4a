"""export: a jitted training step becomes a folder that `reprise train` runs."""

import dataclasses
import json
import os
import pathlib
import re

import jax
import numpy as np

from .. import hlo, manifest, mapping, roles, tensors
from ..errors import RepriseError
from . import arguments, dump, equations, frameworks, gradients, trees


@dataclasses.dataclass
class Exported:
    """What export wrote; printing it says what each argument was taken for."""

    directory: str
    program: str
    ranks: int
    arguments: list  # of (name, role, tensors)
    loss: str
    collectives: int
    notes: list

    def __str__(self):
        lines = [f"{self.program}: {self.ranks} {'rank' if self.ranks == 1 else 'ranks'}, "
                 f"{self.collectives} collectives, loss {self.loss or 'none'}"]
        lines += [f"  {name}: {role}, {count} tensors" for name, role, count in self.arguments]
        return "\n".join(lines + [f"  note: {note}" for note in self.notes])


@dataclasses.dataclass
class Step:
    """A traced and compiled step with its arguments in flat order."""

    jitted: object
    args: tuple
    kwargs: dict
    given: tuple  # (places of args, all arguments, all keywords): the static ones, too
    names: list  # of arguments
    paths: list  # by leaf: (argument place, names below it)
    leaves: list
    closed: object  # jaxpr
    compiled: object
    text: str
    module: object
    results: list  # roles.Leaf
    out_avals: list
    donated: list
    kept: list  # leaves that the program takes, in order
    captured: list  # arrays passed before them, that the step closed over
    in_shardings: list
    in_places: list  # the same, with the layout where the step asks for another than rows
    out_shardings: list
    devices: list

    @property
    def tree(self):
        return jax.tree_util.tree_structure((self.args, self.kwargs))

    def with_static(self, traced, keywords):
        """(args, kwargs) of `jitted`, of those that are traced."""
        places, args, kwargs = self.given
        every = list(args)
        for place, value in zip(places, traced):
            every[place] = value
        return tuple(every), {**kwargs, **keywords}

    def call(self, values):
        """The leaves of the result for a value a leaf; those of donated leaves that are JAX's arrays are used up."""
        placed = []
        for value, leaf, place in zip(values, self.leaves, self.in_places):
            if trees.is_key(leaf) and not trees.is_key(value):
                value = jax.random.wrap_key_data(value, impl=jax.random.key_impl(leaf))
            placed.append(jax.device_put(value, place) if place is not None else value)
        args, kwargs = jax.tree_util.tree_unflatten(self.tree, placed)
        has_part_of_byte = any(str(getattr(leaf, "dtype", "")) in _PARTS_OF_BYTE for leaf in self.leaves)
        if has_part_of_byte and self.compiled is not self.jitted:
            # What JAX 0.10 has compiled takes no array of these that was put on a device.
            args, kwargs = self.with_static(args, kwargs)
            return jax.tree_util.tree_leaves(self.jitted(*args, **kwargs))
        return jax.tree_util.tree_leaves(self.compiled(*args, **kwargs))


_PARTS_OF_BYTE = ("int4", "uint4", "int2", "uint2", "float4_e2m1fn")
# Steps that this process exported, by folder: verify runs what was compiled.
exported_steps = {}


def _lower(jitted, args, kwargs):
    jitted, args, kwargs = frameworks.plain_step(jitted, args, kwargs)
    if hasattr(jitted, "trace"):
        traced = jitted.trace(*args, **kwargs)
        jaxpr, lowered = traced.jaxpr, traced.lower()
    else:  # Before 0.4.31; static arguments are not told apart there.
        jaxpr, lowered = jax.make_jaxpr(jitted)(*args, **kwargs), jitted.lower(*args, **kwargs)
    names = trees.argument_names(getattr(jitted, "__wrapped__", jitted), len(args), kwargs)
    places, keywords = trees.traced_arguments(args, kwargs, lowered.args_info)
    names = [names[place] for place in places] + sorted(keywords)
    traced = tuple(args[place] for place in places)
    return jitted, traced, keywords, (places, args, kwargs), names, jaxpr, lowered


def _refuse_what_has_no_value(args, kwargs):
    """Before JAX meets it, with a traceback of its own."""
    if jax.config.jax_disable_jit:
        raise RepriseError("jax_disable_jit is set, so no step is compiled: unset it")
    for leaf in jax.tree_util.tree_leaves((args, kwargs)):
        if isinstance(leaf, jax.core.Tracer):
            raise RepriseError("an argument is traced, as within a jitted function: export outside of it, on values")
        if type(leaf).__name__ in ("Ref", "ArrayRef", "MutableArray"):
            raise RepriseError("an argument is a reference that the step writes (jax.new_ref), which is not kept: let "
                               "the step take and return its value; references within the step are fine")


def _parameters(lowered, leaves):
    """(leaves that the program takes, arrays that it takes before them)."""
    inner = getattr(lowered, "_lowering", None)
    compile_args = getattr(inner, "compile_args", None) or {}
    kept = compile_args.get("kept_var_idx")
    kept = sorted(kept) if kept is not None else list(range(len(leaves)))
    captured = list(compile_args.get("const_args") or getattr(inner, "const_args", None) or [])
    return kept, captured


def _flat_shardings(shardings, structure, kept):
    """A sharding a leaf of `structure`, which may hold None itself; None where a leaf has none."""
    try:
        return structure.flatten_up_to(shardings)
    except ValueError:  # those of the leaves in use alone
        flat = jax.tree_util.tree_leaves(shardings)
    by_leaf = dict(zip(kept, flat)) if len(flat) == len(kept) else {}
    return [by_leaf.get(i) for i in range(structure.num_leaves)]


def trace_and_compile(jitted, args, kwargs):
    """Traces, lowers and compiles once."""
    _refuse_what_has_no_value(args, kwargs)
    jitted, args, kwargs, given, names, jaxpr, lowered = _lower(jitted, args, kwargs)
    with_paths = [(place, path, leaf) for place, tree in enumerate([*args, *(kwargs[k] for k in sorted(kwargs))])
                  for path, leaf in trees.leaves(tree)]
    leaves = [leaf for _, _, leaf in with_paths]
    for leaf in leaves:
        if isinstance(leaf, jax.ShapeDtypeStruct):
            raise RepriseError("an argument is a ShapeDtypeStruct: export needs its first value")
        if getattr(leaf, "is_deleted", bool)():
            raise RepriseError("an argument was deleted, as by a call of the step that donates it: export before the "
                               "first step, or give the state that the last one returned")
    kept, captured = _parameters(lowered, leaves)
    ordered = (getattr(getattr(lowered, "_lowering", None), "compile_args", None) or {}).get("ordered_effects")
    if ordered:
        raise RepriseError("the step calls Python in order (ordered=True, of jax.debug.print, callback or io_callback): "
                           "leave the order out; training leaves such calls out where they return nothing")
    compiled, text, _ = dump.compile_and_dump(lowered)
    out = trees.leaves(lowered.out_info)
    results = [roles.Leaf(tuple(trees.part_name(k) for k in path), tuple(info.shape), str(info.dtype))
               for path, info in out]
    donated = [bool(info.donated) for info in jax.tree_util.tree_leaves(
        lowered.args_info, is_leaf=lambda x: hasattr(x, "donated"))]
    structure = jax.tree_util.tree_structure((args, kwargs))
    in_shardings = _flat_shardings(compiled.input_shardings, structure, kept)
    in_formats = _flat_shardings(getattr(compiled, "input_formats", compiled.input_shardings), structure, kept)
    out_shardings = _flat_shardings(compiled.output_shardings, jax.tree_util.tree_structure(lowered.out_info),
                                    range(len(results)))
    module = hlo.parse(text)
    step = Step(jitted, args, kwargs, given, names, [(place, tuple(map(trees.part_name, path))) for place, path, _ in with_paths],
                leaves, jaxpr, compiled, text, module, results, [info for _, info in out], donated, kept,
                captured, in_shardings, list(map(trees.place, in_shardings, in_formats)), out_shardings,
                trees.devices_in_order([s for s in in_shardings + out_shardings if s is not None]))
    _check(step)
    return step


def _check(step):
    """The program's parameters are the step's leaves as one rank holds them."""
    parameters = step.module.parameters()
    if len(parameters) != len(step.captured) + len(step.kept):
        raise RepriseError(f"the program has {len(parameters)} parameters, the step {len(step.kept)} leaves in use and "
                           f"{len(step.captured)} captured arrays: jax {jax.__version__} is not understood")
    if len(step.module.results()) != len(step.results):
        raise RepriseError(f"the program returns {len(step.module.results())} values, the step {len(step.results)}")
    if step.module.ranks() != len(step.devices):
        raise RepriseError(f"the program runs on {step.module.ranks()} devices, its arguments lie on "
                           f"{len(step.devices)}")


def _leaf_table(step, chosen):
    """By leaf: what the files say of it."""
    table, below = [], {}
    for number, ((place, path), leaf) in enumerate(zip(step.paths, step.leaves)):
        value = trees.to_numpy(leaf)
        sharding = step.in_shardings[number]
        slices = trees.slices_by_rank(sharding, np.shape(leaf), step.devices) if sharding is not None else None
        if slices is not None and trees.is_key(leaf):
            slices = [mine + [[0, n] for n in value.shape[len(mine):]] for mine in slices]
        first, within = chosen.next_value[place], below.get(place, 0)
        below[place] = within + 1
        table.append({
            "name": ".".join([step.names[place], *path]), "argument": step.names[place],
            "role": "batch" if place in chosen.batch else "state",
            "parameter": step.kept.index(number) + len(step.captured) if number in step.kept else None,
            "result": first + within if first is not None else None,
            "type": tensors.hlo_type(value.dtype), "shape": list(value.shape), "slices": slices,
            "key": str(jax.random.key_impl(leaf)) if trees.is_key(leaf) else None})
    names = [entry["name"] for entry in table]
    for entry in table:
        if names.count(entry["name"]) > 1:
            raise RepriseError(f"two leaves are both called {entry['name']}: name the keys otherwise, so that their "
                               "paths, joined by dots, differ")
    return table


def _recast(step, results):
    """{leaf: type that it comes out with} of state that comes out of the step in another type than it goes in.
    `results`: by leaf, the result that is its next value, or None."""
    types = {}
    for number, (leaf, result) in enumerate(zip(step.leaves, results)):
        if result is None or trees.is_key(leaf):
            continue
        made = step.out_avals[result].dtype
        if str(jax.dtypes.canonicalize_dtype(jax.numpy.result_type(leaf))) != str(made):
            types[number] = made
    return types


def _moved(step, results):
    """The same of state that comes out split otherwise: {leaf: sharding}."""
    moved = {}
    for number, (leaf, result) in enumerate(zip(step.leaves, results)):
        if result is None or number not in step.kept or trees.is_key(leaf):
            continue
        given, made = step.in_shardings[number], step.out_shardings[result]
        if given is None or made is None:
            continue
        split_in, split_out = (trees.slices_by_rank(s, np.shape(leaf), step.devices) for s in (given, made))
        if split_in != split_out:
            moved[number] = made
    return moved


def settled(step, results):
    """The step that JAX itself runs from the second call on, which it compiles anew: its state in the types and places
    in which the call before returned it. The step itself where that changes nothing, or where it fixes them."""
    for _ in range(3):
        types, moved = _recast(step, results), _moved(step, results)
        if not types and not moved:
            break
        leaves = [jax.numpy.asarray(leaf, types[n]) if n in types else leaf for n, leaf in enumerate(step.leaves)]
        leaves = [jax.device_put(leaf, moved[n]) if n in moved else leaf for n, leaf in enumerate(leaves)]
        args, kwargs = step.with_static(*jax.tree_util.tree_unflatten(step.tree, leaves))
        try:
            step = trace_and_compile(step.jitted, args, kwargs)
        except ValueError:
            break
    return step


def _check_next_values(step, table):
    """State comes out of a step as the next one takes it."""
    for number, made in _recast(step, [entry["result"] for entry in table]).items():
        raise RepriseError(f"{table[number]['name']} goes in as {step.leaves[number].dtype} and comes out as {made}, in "
                           "every step: cast it in the step to the one or the other")
    for number, made in _moved(step, [entry["result"] for entry in table]).items():
        shape = tuple(table[number]["shape"])
        raise RepriseError(
            f"{table[number]['name']} goes in as {step.in_shardings[number].shard_shape(shape)} of {shape} a rank and "
            f"comes out as {made.shard_shape(shape)}, which the next step does not take: give jax.jit in_shardings= and "
            "out_shardings= that agree")


def _take_unread(step, table):
    """State that the step writes and never reads is no parameter of the program: XLA drops it. Makes parameters of such
    leaves, the last ones, for whoever goes on from the trained state; returns their types as the text has them."""
    made = {instruction.name: instruction.arrays for instruction in step.module.instructions[step.module.entry]}
    results, types = step.module.results(), []
    for entry in table:
        arrays = made.get(results[entry["result"]], []) if entry["result"] is not None else []
        if entry["role"] != "state" or entry["parameter"] is not None or len(arrays) != 1:
            continue
        sharding, (name, extents) = step.out_shardings[entry["result"]], arrays[0]
        if sharding is not None and entry["slices"] is None and entry["key"] is None:
            entry["slices"] = trees.slices_by_rank(sharding, tuple(entry["shape"]), step.devices)
        entry["parameter"] = len(step.captured) + len(step.kept) + len(types)
        types.append(f"{name}[{','.join(map(str, extents))}]")
    return types


def _with_parameters(text, types, first):
    """The program's text with further parameters, which nothing reads, from number `first` on."""
    if not types:
        return text
    lines = [f"  %reprise_unread.{n} = {kind} parameter({n})" for n, kind in enumerate(types, first)]
    signature = ", ".join(f"reprise_unread.{n}: {kind}" for n, kind in enumerate(types, first))
    entry = re.compile(r"^(ENTRY %?\S+ \()(.*)(\) -> .*\{)$", re.MULTILINE)
    return entry.sub(lambda m: "\n".join([m[1] + ", ".join(filter(None, [m[2], signature])) + m[3], *lines]), text, 1)


def _stacked(step, table, batches):
    """{tensor: [steps, ranks, shape of a rank…]} of the batch leaves."""
    entries = [e for e in table if e["role"] == "batch"]
    stacked = {}
    for column, entry in enumerate(entries):
        values = []
        for t, batch in enumerate(batches):
            value = trees.to_numpy(batch[column])
            if list(value.shape) != entry["shape"] or tensors.hlo_type(value.dtype) != entry["type"]:
                raise RepriseError(f"batch {t}: {entry['name']} is {value.dtype}{list(value.shape)}, the step takes "
                                   f"{entry['type']}{entry['shape']}")
            values.append(trees.split(value, entry["slices"], len(step.devices)))
        if entry["parameter"] is not None:
            stacked[entry["name"]] = np.stack(values)
    return stacked


def _state(step, table):
    state = {f"captured.{i}": trees.to_numpy(array) for i, array in enumerate(step.captured)}
    for entry, leaf in zip(table, step.leaves):
        if entry["role"] == "state" and entry["parameter"] is not None:
            value = trees.to_numpy(leaf)
            state[entry["name"]] = value if entry["slices"] is None else trees.split(
                value, entry["slices"], len(step.devices))
    return state


def _manifest(step, table, chosen, name, steps):
    parameters = [{"name": f"captured.{i}", "role": "state"} for i in range(len(step.captured))]
    unread = [n for n, entry in enumerate(table) if entry["parameter"] is not None and n not in step.kept]
    for number in [*step.kept, *unread]:
        entry = table[number]
        parameters.append({"name": entry["name"], "role": entry["role"], "per_rank": entry["slices"] is not None})
    outputs = [{"role": "metric", "name": ".".join(r.path) or "result"} for r in step.results]
    for entry in table:
        if entry["result"] is not None and entry["parameter"] is not None:
            outputs[entry["result"]] = {"role": "state", "parameter": entry["parameter"]}
    if chosen.loss is not None:
        outputs[chosen.loss] = {"role": "loss"}
    return manifest.build(name, "step.hlo", len(step.devices), parameters, outputs,
                          {"file": "batches.safetensors", "steps": steps})


def _aliases(text, outputs):
    """The program's text without its donations where they pair other values than the manifest: sizes are all that JAX
    pairs by, and the manifest's pairs are what Reprise updates in place."""
    header, _, rest = text.partition("\n")
    for result, parameter in re.findall(r"\{(\d+)\}: \((\d+), \{\}, (?:may|must)-alias\)", header):
        output = outputs[int(result)]
        if output["role"] != "state" or output["parameter"] != int(parameter):
            return re.sub(r" input_output_alias=\{(?: \{\d+\}: \(\d+, \{\}, \w+-alias\),?)+ \},?", "", header) + "\n" + rest
    return text


def _write_text(path, text):
    temporary = path.with_name(path.name + ".partial")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def export(jitted, *args, out, batch=None, data=None, loss=None, steps=20, name=None, **kwargs):
    """Writes into the folder `out` what `reprise train out/step.hlo` needs; returns an Exported.

    `jitted(*args, **kwargs)` is one training step. An argument whose structure comes back in the result is state, with
    these values at first; the others are batches (`batch=`, places or names, says so where that is not right; where an
    output looks like the next value of one, what `data` gives decides). State that comes out in another type or placed
    otherwise than it goes in begins as it comes out, as in JAX's second step. `data` gives the batches of `steps` steps:
    an iterator, a function of the step, or the arguments with one axis more before; without it the given batch is used in every step. `loss=` names the loss among several scalars of the result.
    Compiles the step once, without the persistent cache, and, in its first call, one line that shows how this XLA rounds;
    sets no environment variable. Where the only state is one argument of floats, runs the step three times to tell new
    parameters from gradients (gradients.notes).
    Errors: RepriseError, saying what to do."""
    if steps < 1:
        raise RepriseError(f"steps={steps}: a training has one at least")
    arguments.check_options(jitted, args, kwargs, export)
    step = trace_and_compile(jitted, args, kwargs)
    chosen, data = arguments.roles_by_data(step, batch, loss, data)
    table = _leaf_table(step, chosen)
    later = settled(step, [entry["result"] for entry in table])
    if later is not step:
        step, chosen = later, dataclasses.replace(arguments.find_roles(later, sorted(chosen.batch), loss), notes=chosen.notes)
        table = [{**entry, "given": of["type"]} for entry, of in zip(_leaf_table(step, chosen), table)]
    _check_next_values(step, table)
    unread = _take_unread(step, table)
    batches = arguments.batches(step, chosen, data, steps)
    stacked = _stacked(step, table, batches)
    state = _state(step, table)
    name = name or getattr(jitted, "__name__", "step")
    manifest_json = _manifest(step, table, chosen, name, len(batches))
    found = equations.collectives(step.closed)
    result_names = [".".join(r.path) for r in step.results]
    for entry in table:
        if entry["result"] is not None:
            result_names[entry["result"]] = entry["name"]
    mapped = mapping.build(step.module, found, result_names)

    directory = pathlib.Path(out)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RepriseError(f"out={str(out)!r} is no folder, nor can one be made there: {error.strerror}") from error
    tensors.save(directory / "state.safetensors", state)
    tensors.save(directory / "state.npz", state)
    if stacked:
        tensors.save(directory / "batches.safetensors", stacked)
    compiled_text = step.compiled.as_text()
    platform = step.devices[0].platform
    notes = dump.notes_on_arithmetic(step.text, platform) + dump.notes_on_sums(step.text, compiled_text)
    text = dump.noted(_aliases(step.text, manifest_json["outputs"]), notes, compiled_text)
    text = dump.noted_conversions(text, compiled_text, platform)
    text = _with_parameters(text, unread, len(step.captured) + len(step.kept))
    _write_text(directory / "step.hlo", text)
    _write_text(directory / "map.json", json.dumps(mapped, indent=1) + "\n")
    _write_text(directory / "jax.json", json.dumps({
        "schema": "reprise.jax/1", "jax": jax.__version__, "platform": step.devices[0].platform,
        "ranks": len(step.devices), "steps": len(batches), "leaves": table,
        "loss": chosen.loss, "results": result_names}, indent=1) + "\n")
    _write_text(directory / "step.json", manifest.dumps(manifest_json))
    exported_steps[os.path.realpath(directory)] = step
    said = chosen.notes + gradients.notes(step, chosen)
    if data is not None and chosen.batch and len(batches) < steps:
        said.append(f"data= gave {len(batches)} of {steps} batches: training begins with the first again")
    return _summary(directory, step, chosen, table, mapped, said, data)


def _summary(directory, step, chosen, table, mapped, said, data):
    listed = []
    for place, name in enumerate(step.names):
        count = sum(entry["argument"] == name for entry in table)
        role = "batch" if place in chosen.batch else (
            "state" if chosen.next_value[place] is not None else "state that no result updates")
        listed.append((name, role, count))
    notes = said + [f"{e['name']} is not used by the step" for e in table if e["parameter"] is None]
    if chosen.batch and data is None:
        notes.append("every step has the same batch: data= gives others")
    calls, checks = dump.calls_of_python(step.text)
    if calls:
        notes.append("the step calls Python (jax.debug.print, callbacks): training leaves out what returns nothing, and "
                     "refuses the rest")
    if checks:
        notes.append("where a check of equinox's error_if fails (those of diffrax, lineax, optimistix), training gives "
                     "NaN, as with EQX_ON_ERROR=nan, and raises nothing")
    unmapped = sum(e["equation"] is None for e in mapped["collectives"])
    if unmapped:
        notes.append(f"{unmapped} collectives were made by partitioning: a plan cannot go back to them by apply()")
    loss = None if chosen.loss is None else ".".join(step.results[chosen.loss].path) or "the result"
    return Exported(str(directory), str(directory / "step.hlo"), len(step.devices), listed, loss,
                    len(mapped["collectives"]), notes)
