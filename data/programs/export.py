#!/usr/bin/env python3
"""Writes the shipped programs: HLO text, manifests and JAX's own references.

Run by hand, never at build time:
  pip install jax==0.4.30 jaxlib==0.4.30 numpy scikit-learn
  python3 data/programs/export.py              everything
  python3 data/programs/export.py --only gpt --no-reference
  python3 data/programs/export.py --time       JAX's step time on one core
"""

import argparse
import collections
import json
import os
import pathlib
import re
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_force_host_platform_device_count=2"
    " --xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1")
try:
    import jax
    import numpy as np

    import generator
    import models
except ImportError as error:
    sys.exit(f"export.py: {error}\nexport.py needs: pip install jax==0.4.30 "
             "jaxlib==0.4.30 numpy scikit-learn")

HERE = pathlib.Path(__file__).resolve().parent
RANKS = (1, 2, 4)
REFERENCE_RANKS = (1, 2)
REFERENCE_STEPS = 20

# Retune here and run again. Batches are per rank (weak scaling).
MLP = dict(widths=(64, 1024, 1024, 1024, 10), batch=512, learning_rate=0.1)
GPT = dict(layers=8, width=256, heads=4, sequence=64, batch=10, rate=1e-3,
           betas=(0.9, 0.999), epsilon=1e-6)

FORBIDDEN = {"while", "conditional", "custom-call", "sort", "rng",
             "rng-bit-generator", "call"}


def text_tokens():
    """The text as token ids: rank of a byte among those that occur."""
    data = np.frombuffer((HERE / "text.txt").read_bytes(), np.uint8)
    vocabulary, tokens = np.unique(data, return_inverse=True)
    return tokens.astype(np.int32), len(vocabulary)


def make_models():
    return {"mlp": models.make_mlp(**MLP),
            "gpt": models.make_gpt(vocabulary=text_tokens()[1], **GPT)}


# ---- program text -----------------------------------------------------------


def hlo_text(model, ranks):
    """One rank's program, state donated, source places stripped."""
    arguments = [jax.ShapeDtypeStruct(t.shape, t.dtype)
                 for t in model.state + model.batch]
    computation = jax.xla_computation(
        model.step, axis_env=[(models.AXIS, ranks)],
        donate_argnums=tuple(range(len(model.state))))(*arguments)
    options = jax.lib.xla_client._xla.HloPrintOptions.short_parsable()
    options.print_metadata = True
    text = computation.get_hlo_module().to_string(options)
    text = _METADATA.sub(_short_name, text)
    return re.sub(r"^HloModule [^,]*", f"HloModule {model.name}_{ranks}", text)


_METADATA = re.compile(r', metadata=\{op_name="((?:[^"\\]|\\.)*)"[^}"]*'
                       r'(?:"[^"]*"[^}"]*)*\}')


def _short_name(match):
    """Keeps the scopes of op_name; drops source places and parameters of ops."""
    name = match.group(1).split("[")[0].split("jit(main)/")[-1]
    scoped = "/" in name
    return f', metadata={{op_name="{name}"}}' if scoped else ""


def opcodes(text):
    pattern = re.compile(r"^\s+(?:ROOT )?\S+ = (?:\([^=]*\)|\S+) ([a-z0-9-]+)\(",
                         re.M)
    return collections.Counter(pattern.findall(text))


def check_text(model, text):
    """What the project relies on; an AssertionError names what fails."""
    count = opcodes(text)
    assert not FORBIDDEN & set(count), FORBIDDEN & set(count)
    assert "f64[" not in text and "s64[" not in text, "64-bit types"
    reduces = re.findall(r" all-reduce\(([^)]*)\)", text)
    assert len(reduces) == len(model.gradients), len(reduces)
    assert all("," not in operands for operands in reduces), "variadic"
    aliases = re.findall(r"\{(\d+)\}: \((\d+), \{\}", text.split("\n", 1)[0])
    assert [(int(a), int(b)) for a, b in aliases] == [
        (i, i) for i in range(len(model.state))], "aliases"


def manifest(model, ranks):
    parameters = [{"index": i, "name": t.name, "role": "state", "init": t.init}
                  for i, t in enumerate(model.state)]
    parameters += [{"index": len(model.state) + i, "name": t.name,
                    "role": "batch", "field": t.batch_field}
                   for i, t in enumerate(model.batch)]
    outputs = [{"index": i, "role": "state", "parameter": i}
               for i in range(len(model.state))]
    outputs += [{"index": len(model.state) + i, "role": role}
                for i, role in enumerate(model.extra_outputs)]
    result = {"schema": "reprise.manifest/1", "name": model.name,
              "program": f"{model.name}.{ranks}.hlo", "ranks": ranks,
              "parameters": parameters, "outputs": outputs,
              "dataset": model.dataset}
    if ranks in REFERENCE_RANKS:
        result["reference"] = {"file": f"{model.name}.{ranks}.reference.json",
                               "steps": REFERENCE_STEPS}
    return result


def write_manifest(path, value):
    """JSON with one line per entry of the long lists."""
    parts = []
    for key, item in value.items():
        if isinstance(item, list):
            rows = ",\n  ".join(json.dumps(row) for row in item)
            parts.append(f'"{key}": [\n  {rows}]')
        else:
            parts.append(f'"{key}": {json.dumps(item)}')
    path.write_text("{" + ",\n ".join(parts) + "}\n")


# ---- batches and references -------------------------------------------------


def batch_at(model, step, rank):
    """The batch tensors of one rank at one step, in parameter order."""
    rows = model.batch[0].shape[0]
    seed = model.dataset["seed"]
    if model.dataset["kind"] == "records":
        raw = np.frombuffer((HERE / model.dataset["file"]).read_bytes(), np.uint8)
        records = raw.reshape(-1, model.dataset["record_bytes"])
        chosen = records[generator.batch_records(
            seed, step, rank, rows, len(records))]
        return [chosen[:, :64].astype(np.float32) * np.float32(0.0625),
                chosen[:, 64].astype(np.int32)]
    tokens, _ = text_tokens()
    length = model.dataset["sequence"]
    starts = generator.batch_records(
        seed, step, rank, rows, len(tokens) - length - 1)
    places = starts[:, None] + np.arange(length)
    return [tokens[places], tokens[places + 1]]


def initial_state(model):
    return [generator.initial_value(t.init, t.shape) for t in model.state]


def run_reference(model, ranks, steps=REFERENCE_STEPS):
    """Losses (mean over ranks), accuracies and final state of JAX's own run."""
    step = jax.pmap(model.step, axis_name=models.AXIS,
                    devices=jax.devices()[:ranks])
    state = [np.stack([value] * ranks) for value in initial_state(model)]
    losses, extras = [], []
    for index in range(steps):
        batches = [batch_at(model, index, rank) for rank in range(ranks)]
        *state, = step(*state, *(np.stack(field) for field in zip(*batches)))
        outputs = [np.asarray(o, np.float64) for o in state[len(model.state):]]
        state = state[:len(model.state)]
        losses.append(float(outputs[0].mean()))
        extras += [float(o.mean()) for o in outputs[1:]]
    final = [np.asarray(value) for value in state]
    assert all((value == value[0]).all() for value in final), "ranks differ"
    return losses, extras, [value[0] for value in final]


def digest(index, tensor, first, last):
    """Exact change of small tensors, count-sketch of the others."""
    change = (np.asarray(last, np.float64) - np.asarray(first, np.float64)).ravel()
    entry = {"name": tensor.name, "index": index,
             "norm_of_change": float(np.linalg.norm(change))}
    if change.size <= generator.SKETCH_BUCKETS:
        entry["exact"] = change.tolist()
    else:
        entry["sketch"] = generator.sketch(index, change).tolist()
    return json.loads(json.dumps(entry), parse_float=lambda x: float("%.9g" % float(x)))


def reference(model, ranks):
    losses, extras, final = run_reference(model, ranks)
    print(f"  {model.name}.{ranks} losses {losses[0]:.4f} -> {losses[-1]:.4f}"
          + (f", correct {extras[0]:.0f} -> {extras[-1]:.0f}" if extras else ""))
    state = [digest(i, t, a, b) for i, (t, a, b) in enumerate(
        zip(model.state, initial_state(model), final))]
    return {"schema": "reprise.reference/1", "steps": REFERENCE_STEPS,
            "jax": jax.__version__,
            "loss": [float("%.9g" % loss) for loss in losses], "state": state}


# ---- figures ----------------------------------------------------------------


def gradient_bytes(model):
    return sum(4 * int(np.prod(t.shape)) for t in model.gradients)


def time_step(model, repeats=15):
    """Median step time of jax.jit on this process's cores, one thread."""
    function = jax.jit(jax.vmap(model.step, axis_name=models.AXIS),
                       donate_argnums=tuple(range(len(model.state))))
    values = [v[None] for v in initial_state(model)]
    batch = [b[None] for b in batch_at(model, 0, 0)]
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        values = function(*values, *batch)
        jax.block_until_ready(values)
        times.append(time.perf_counter() - start)
        values = values[:len(model.state)]
    return float(np.median(times[2:])), min(times[2:])


def report(model, text):
    size = gradient_bytes(model)
    count = opcodes(text)
    print(f"  {len(text)} bytes of text, {sum(count.values())} instructions, "
          f"{len(model.gradients)} gradients of {size} bytes, "
          f"{size * 8e-6:.1f} ms at 1 Gbit/s")
    print("  " + " ".join(f"{k}:{v}" for k, v in count.most_common()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", choices=["mlp", "gpt"])
    parser.add_argument("--no-reference", action="store_true")
    parser.add_argument("--time", action="store_true")
    options = parser.parse_args()
    for model in make_models().values():
        if options.only and model.name != options.only:
            continue
        if options.time:
            median, best = time_step(model)
            print(f"{model.name}: step {median * 1e3:.1f} ms (best "
                  f"{best * 1e3:.1f}), wire {gradient_bytes(model) * 8e-6:.1f} ms")
            continue
        for ranks in RANKS:
            text = hlo_text(model, ranks)
            check_text(model, text)
            (HERE / f"{model.name}.{ranks}.hlo").write_text(text)
            write_manifest(HERE / f"{model.name}.{ranks}.json",
                           manifest(model, ranks))
        print(model.name)
        report(model, text)
        for ranks in () if options.no_reference else REFERENCE_RANKS:
            value = reference(model, ranks)
            write_manifest(HERE / f"{model.name}.{ranks}.reference.json", value)


if __name__ == "__main__":
    main()
