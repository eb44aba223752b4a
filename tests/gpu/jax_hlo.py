"""Times XLA on one of our programs: JAX compiles the same HLO text and runs it step after step.

    python3 jax_hlo.py PROGRAM.hlo [--steps N] [--warmup N] [--device cuda|cpu]

State comes back in as JAX gives it out: results that alias a parameter (`input_output_alias`) replace it, as in training;
the batch stays the same. Prints {"schema": "reprise.gpu.jax_hlo/1", "platform", "device", "step_time_ns": {...}}. One
step is timed from its call until its last result is ready.
"""

import argparse
import json
import pathlib
import re
import statistics
import time


def xla_function(path):
    """A function of jaxlib's bindings, which move between releases: "hlo_module_from_text"."""
    import importlib
    for place in ("jax._src.lib.xla_client", "jax._src.lib.xla_client._xla", "jax._src.lib._jax",
                  "jax._src.lib.hlo", "jaxlib._hlo", "jaxlib._jax", "jaxlib._xla",
                  "jaxlib.xla_extension", "jaxlib.xla_client"):
        names = place.split(".")
        for cut in range(len(names), 0, -1):
            try:
                found = importlib.import_module(".".join(names[:cut]))
            except ImportError:
                continue
            for name in names[cut:] + path.split("."):
                found = getattr(found, name, None)
            if found is not None:
                return found
            break
    raise RuntimeError(f"this jaxlib has no {path}")


def compile_hlo(text):
    """The executable, by whichever of its interfaces this jaxlib has."""
    import jax
    backend = jax.devices()[0].client
    module = xla_function("hlo_module_from_text")(text)
    computation = xla_function("XlaComputation")(module.as_serialized_hlo_module_proto())
    mlir = xla_function("mlir.xla_computation_to_mlir_module")(computation)
    options = xla_function("CompileOptions")()
    devices = jax.devices()[:1]
    attempts = [
        lambda: backend.compile_and_load(mlir, xla_function("DeviceList")(tuple(devices)),
                                         options),
        lambda: backend.compile_and_load(mlir, devices, options),
        lambda: backend.compile(mlir, options),
    ]
    problems = []
    for attempt in attempts:
        try:
            return attempt()
        except (AttributeError, TypeError, RuntimeError) as problem:
            problems.append((str(problem) or type(problem).__name__).splitlines()[0])
    raise RuntimeError("this jaxlib compiles no HLO text: " + "; ".join(problems))


def execute(executable, arguments):
    """Arrays of one device, however this jaxlib hands them out."""
    if hasattr(executable, "execute"):
        return executable.execute(arguments)
    results = executable.execute_sharded(arguments)
    return [array[0] for array in results.disassemble_into_single_device_arrays()]


def entry_shapes(text):
    """(type, dimensions) of each entry parameter, in order of their numbers."""
    entry = text[text.index("\nENTRY "):]
    found = {}
    for kind, dimensions, number in re.findall(
            r"= (\w+)\[([\d,]*)\](?:\{[^}]*\})? parameter\((\d+)\)", entry):
        found[int(number)] = (kind, [int(d) for d in dimensions.split(",") if d])
    return [found[number] for number in sorted(found)]


def aliases(text):
    """Output -> parameter."""
    header = text[:text.index("\n\n")]
    return {int(output): int(parameter) for output, parameter in
            re.findall(r"\{(\d+)\}: \((\d+), \{\}", header)}


def values(shapes, manifest):
    """Small numbers as state, zeros and ones where the manifest says so, and a batch in range."""
    import numpy
    generator = numpy.random.default_rng(0)
    inits = {p["index"]: p.get("init", {}).get("kind") for p in manifest["parameters"]}
    types = {"f32": numpy.float32, "s32": numpy.int32, "pred": numpy.bool_}
    made = []
    for index, (kind, dimensions) in enumerate(shapes):
        if inits.get(index) == "zeros":
            made.append(numpy.zeros(dimensions, types[kind]))
        elif inits.get(index) == "ones":
            made.append(numpy.ones(dimensions, types[kind]))
        elif kind == "f32":
            made.append((0.02 * generator.standard_normal(dimensions)).astype(numpy.float32))
        else:
            made.append(generator.integers(0, 10, dimensions).astype(types[kind]))
    return made


def run(path, steps, warmup):
    import jax
    text = path.read_text()
    manifest = json.loads(path.with_suffix(".json").read_text())
    executable = compile_hlo(text)
    replaced = aliases(text)
    arguments = [jax.device_put(value) for value in values(entry_shapes(text), manifest)]
    times = []
    for step in range(warmup + steps):
        start = time.perf_counter_ns()
        results = execute(executable, arguments)
        for result in results:
            result.block_until_ready()
        if step >= warmup:
            times.append(time.perf_counter_ns() - start)
        for output, parameter in replaced.items():
            arguments[parameter] = results[output]
    device = jax.devices()[0]
    return {"schema": "reprise.gpu.jax_hlo/1", "program": path.name, "platform": device.platform,
            "device": device.device_kind, "jax": jax.__version__,
            "step_time_ns": {"median": statistics.median(times), "min": min(times), "all": times}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    import jax
    jax.config.update("jax_platforms", options.device)
    print(json.dumps(run(options.program, options.steps, options.warmup)))


if __name__ == "__main__":
    main()
