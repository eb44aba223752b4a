"""One compile of a lowered step that leaves the program as Reprise reads it."""

import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import pathlib
import re
import tempfile

import jax
import numpy as np

from ..errors import RepriseError

# Passes whose result is taken, the best first. After layout assignment on CPU, dots are plain matrices and calls are
# inlined; its last is the one before tree reductions are rewritten. Elsewhere the program after partitioning is taken.
_PASSES = "spmd-partitioning|dot_decomposer"


@contextlib.contextmanager
def without_compilation_cache():
    """A hit of the persistent cache compiles nothing, and so dumps nothing. Whether it is used is decided once a
    process, so it is forgotten before and after."""
    flag = jax.config.jax_enable_compilation_cache
    jax.config.update("jax_enable_compilation_cache", False)
    _forget_cache()
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", flag)
        _forget_cache()


def _forget_cache():
    try:
        from jax.experimental.compilation_cache import compilation_cache
    except ImportError:
        return
    if hasattr(compilation_cache, "reset_cache"):
        compilation_cache.reset_cache()


def compile_and_dump(lowered):
    """(compiled, text of the program for one rank, the name of the file that XLA gave it)."""
    with tempfile.TemporaryDirectory(prefix="reprise-") as directory, without_compilation_cache():
        options = {"xla_dump_to": directory, "xla_dump_hlo_as_text": True, "xla_dump_large_constants": True,
                   "xla_dump_hlo_pass_re": _PASSES}
        compiled = lowered.compile(compiler_options=options)
        path = choose(sorted(pathlib.Path(directory).glob("*.txt")))
        if path is None:
            raise RepriseError("XLA dumped no program of this compile: run export where XLA_FLAGS sets no xla_dump_to, "
                               "or report the versions of jax and jaxlib")
        return compiled, path.read_text(), path.name


def _computed(platform, function, *arrays):
    """What XLA gives. In a thread of its own, where no mesh that the user has set holds: of several devices it would
    refuse the arrays."""
    def compute():
        device = jax.local_devices(backend=platform)[0]
        return jax.device_get(jax.jit(function)(*jax.device_put(arrays, device)))

    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        return thread.submit(compute).result()


@functools.cache
def combines_constants(platform):
    """Whether XLA computes (x + 1) - 0.3 as x + 0.7, after the pass whose dump is taken: up to JAX 0.11 it does."""
    x = np.linspace(0, 1, 64, dtype=np.float32)
    return np.array_equal(_computed(platform, lambda x: (x + 1) - 0.3, x), x + (np.float32(1) - np.float32(0.3)))


@functools.cache
def takes_reciprocals(platform):
    """Whether XLA divides by what is broadcast by way of its reciprocals: JAX 0.10 to 0.12 do, 0.7 does not."""
    x, y = np.linspace(1, 2, 64, dtype=np.float32).reshape(8, 8), np.linspace(3, 5, 8, dtype=np.float32)
    return np.array_equal(_computed(platform, lambda x, y: x / y[:, None], x, y), x * (np.float32(1) / y)[:, None])


@functools.cache
def rounds_products_of_half(platform):
    """Whether XLA rounds x * y + z of f16 twice: on CPUs without arithmetic of f16 it does."""
    x = np.linspace(1, 2, 64, dtype=np.float16)
    return np.array_equal(_computed(platform, lambda x, y, z: x * y + z, x, x[::-1], x / 3), x * x[::-1] + x / 3)


@functools.cache
def computes_shifts_once(platform):
    """Whether XLA computes x * 25 once for its maximum and for what is shifted by it before an exponential, of up to 32
    elements: on CPUs JAX 0.12 does. Else the product is rounded for the maximum alone, and exp(x * 25 - maximum) is not
    exactly 1 where the maximum is."""
    x = np.linspace(1, 2, 64, dtype=np.float32).reshape(8, 8)
    shifted = lambda x: jax.numpy.exp(x * 25 - (x * 25).max(-1, keepdims=True))
    return bool(np.all(_computed(platform, shifted, x).max(-1) == 1))


@functools.cache
def rounds_products_in_tables(platform):
    """Whether XLA rounds x * y + z twice in small arrays that depend on no input, as weights by which pictures are resized:
    on CPUs LLVM of JAX 0.5 unrolls such loops and computes them itself."""
    def weights(module, row, column):
        x = abs(column * np.float32(0.55) + np.float32(-0.225) - row)
        far, near = ((x * np.float32(-0.5) + 2.5) * x - 4) * x + 2, (x * np.float32(1.5) - 2.5) * x * x + 1
        return module.where(x >= 2, np.float32(0), module.where(x >= 1, far, near))

    def table(zero):
        row, column = (jax.lax.broadcasted_iota(np.float32, zero.shape, d) for d in (0, 1))
        made = weights(jax.numpy, row, column)
        return made + zero, made.sum(0)

    zero = np.zeros((5, 9), np.float32)
    rows, columns = np.arange(5, dtype=np.float32)[:, None], np.arange(9, dtype=np.float32)[None]
    expected = weights(np, *np.broadcast_arrays(rows, columns))
    return np.array_equal(_computed(platform, table, zero)[0], expected)


@functools.cache
def rounds_within_expm1_of_half(platform):
    """Whether XLA rounds exp(x) of f16 before it takes 1 from it: on CPUs up to JAX 0.11 it does."""
    x = np.linspace(1, 2, 64, dtype=np.float16)
    rounded = np.exp(x.astype(np.float32)).astype(np.float16) - np.float16(1)
    return np.array_equal(_computed(platform, jax.numpy.expm1, x), rounded)


@functools.cache
def rounds_within_functions_of_half(platform):
    """Whether XLA rounds sqrt(x) of f16 before it divides 1 by it, and so within log1p and cbrt: up to JAX 0.7."""
    x = np.linspace(1, 2, 64, dtype=np.float16)
    return np.array_equal(_computed(platform, jax.lax.rsqrt, x), np.float16(1) / np.sqrt(x))


@functools.cache
def takes_late_columns(platform):
    """Whether XLA's sums over windows that reach one column beyond the end take that column last: on CPUs JAX 0.10 to
    0.12 do, 0.7 does not. Row by row the first window has (256 - 256) + 1, by columns (256 + 1) - 256, rounded to 0."""
    x = np.array([[256, -256, 0], [1, 0, 0], [0, 0, 0]], jax.numpy.bfloat16)
    zero = np.zeros((), x.dtype)
    sums = lambda x: jax.lax.reduce_window(x, zero, jax.lax.add, (2, 2), (1, 1), "SAME")
    return float(_computed(platform, sums, x)[0, 0]) == 0


@functools.cache
def rounds_by_half(platform, is_fused):
    """Whether XLA rounds f32 to float8_e5m2 by way of f16: on CPUs that of JAX 0.5 does, that of 0.7 where a conversion is
    not fused with others. 1.125 is halfway between two numbers, which go to the even one."""
    x = np.array([np.nextafter(np.float32(1.125), np.float32(2))] * 8)
    narrow = lambda x: x.astype(jax.numpy.float8_e5m2)
    convert = (lambda x: narrow(x).astype(jax.numpy.float32)) if is_fused else narrow
    return float(_computed(platform, convert, x)[0]) == 1


def notes_on_arithmetic(text, platform):
    """How this XLA computes what the text leaves open, as notes in the header (data/hlo/fold_constants.h,
    data/hlo/contract_products.h, data/hlo/repeated_products.h, data/hlo/half_functions.h,
    data/hlo/late_columns.h, data/hlo/narrow_types.h)."""
    notes = [] if combines_constants(platform) else ['reprise_constants="separate"']
    if " divide(" in text:
        notes += ['reprise_quotients="reciprocals"'] if takes_reciprocals(platform) else []
    if " iota(" in text and " multiply(" in text:
        notes += ['reprise_tables="rounded"'] if rounds_products_in_tables(platform) else []
    if " exponential(" in text:
        notes += ['reprise_shifts="shared"'] if computes_shifts_once(platform) else []
    if " = f16[" in text:
        notes += ['reprise_half_products="rounded"'] if rounds_products_of_half(platform) else []
        if " exponential-minus-one(" in text:
            notes += ['reprise_half_expm1="steps"'] if rounds_within_expm1_of_half(platform) else []
        if re.search(r" (?:rsqrt|sqrt|log-plus-one|cbrt)\(", text):
            notes += ['reprise_half_functions="steps"'] if rounds_within_functions_of_half(platform) else []
    if _HALF_WINDOW.search(text):
        notes += ['reprise_windows="late"'] if takes_late_columns(platform) else []
    if re.search(_BY_HALF, text):
        notes += [_NARROW] if rounds_by_half(platform, is_fused=True) else []
    return notes


_BY_HALF = r"\b(?:f8e4m3fn|f8e5m2|f8e4m3b11fnuz|f4e2m1fn)\["
_NARROW = 'reprise_narrow="by_f16"'
_HALF_WINDOW = re.compile(r" = (?:bf16|f16)\[[^=]*? reduce-window\(")
_HALF_SUM = re.compile(r" = \(?[^()=]*\bbf16\[[^=]*? (?:all-reduce|reduce-scatter)(?:-start)?\(")


def notes_on_sums(text, compiled_text):
    """Whether bfloat16 is summed among ranks in f32, as a note (data/hlo/wide_sums.h)."""
    return ['reprise_sums="f32"'] if _HALF_SUM.search(text) and not _HALF_SUM.search(compiled_text) else []


def noted(text, header_notes, compiled_text):
    """The program's text with notes on how this XLA computes later what the text leaves open: `header_notes`, and which
    results of bfloat16 round to it whoever reads them, and which not even where they are read as bfloat16
    (data/hlo/unrounded_reads.h). JAX 0.11 is the first whose CPU library takes products of bfloat16 as they are."""
    is_rounded = _rounded_dots(compiled_text)
    kept = _unrounded(compiled_text)
    header, _, rest = text.partition("\n")
    for note in header_notes:
        header = _with_note(header, note)
    lines = [header]
    for line in rest.split("\n"):
        made = _made_by(line) if " = bf16[" in line else None
        if made and made.opcode == "dot" and is_rounded(line, made):
            line = _with_note(line, 'reprise_result="rounded"')
        elif made and made.place in kept:
            line = _with_note(line, 'reprise_result="unrounded"')
        lines.append(line)
    return "\n".join(lines)


@dataclasses.dataclass
class _Made:
    """An instruction of a program's text. `place` is how it is known again after names and types have changed: sizes of
    the result but 1, in any order, and where in the user's program it comes from."""
    name: str
    type: str
    opcode: str
    operand: str
    place: tuple


_INSTRUCTION = re.compile(r"%?(\S+) = (\w+)\[([\d,]*)\]\S* ([\w-]+)\(%?([^,) ]*)(?:.*metadata=\{(.*?)\})?")


def calls_of_python(text):
    """How many calls of Python a program has (jax.debug.print, callbacks), and how many that tell of a failed check of
    equinox's error_if."""
    lines = [line for line in text.split("\n") if re.search(r'custom_call_target="[^"]*python', line)]
    checks = sum("(branched_error_if_impl)" in line for line in lines)
    return len(lines) - checks, checks


def _made_by(line):
    match = _INSTRUCTION.search(line)
    if match is None:
        return None
    name, kind, sizes, opcode, operand, origin = match.groups()
    extents = [size for size in sizes.split(",") if size != "1"]
    return _Made(name, kind, opcode, operand, (tuple(sorted(extents)), origin))


def _rounded_dots(compiled_text):
    """Whether a product, given by its line, is one of bfloat16 in the compiled program. Of one place (the gradients of
    both sides of an attention's scores) XLA's library may take one, and leave the other as one of f32: which dimensions
    they add over tells them apart, where those are still the same. A product that is transposed has the transpose's
    place: its sizes remain."""
    found = collections.defaultdict(set)
    for line in compiled_text.split("\n"):
        made = _made_by(line)
        if made and made.opcode == "dot":
            for key in _dot_keys(line, made):
                found[key].add(made.type)
    return lambda line, made: next((found[key] for key in _dot_keys(line, made) if key in found), None) == {"bf16"}


def _dot_keys(line, made):
    """What a product is known again by, the surest first."""
    return (made.place, _dimensions(line)), made.place, made.place[0]


def _dimensions(dot):
    return tuple(re.findall(r"\w+_(?:batch|contracting)_dims=\{[\d,]*\}", dot))


def _unrounded(text):
    """Places of what is rounded to bfloat16 and widened again inside of fusions that XLA's CPU leaves to YNNPACK, which
    does neither (JAX 0.10: softmax beside products, from some 2^18 elements on), and is rounded nowhere else."""
    taken = {match[1] for match in re.finditer(r"calls=%?([^,\s]+).*__ynn_fusion", text)}
    if not taken:
        return set()
    kept, rounded = set(), set()
    for computation in re.findall(r"^(?:ENTRY )?%?\S+ \(.*?^\}", text, re.MULTILINE | re.DOTALL):
        name = re.match(r"(?:ENTRY )?%?(\S+)", computation)[1]
        made = {one.name: one for one in map(_made_by, computation.split("\n")) if one}
        # The conversion is the program's own where it says where it comes from.
        place_of = {one.name: one.place if one.place[1] else made[one.operand].place for one in made.values()
                    if one.type == "bf16" and one.opcode == "convert" and one.operand in made}
        widened = {one.operand for one in made.values() if one.type == "f32" and one.opcode == "convert"}
        for narrow, place in place_of.items():
            (kept if name in taken and narrow in widened else rounded).add(place)
    return kept - rounded


def noted_conversions(text, compiled_text, platform):
    """The program's text with notes on which conversions round by way of f16, where not all do or none."""
    if not re.search(_BY_HALF, text) or rounds_by_half(platform, True) or not rounds_by_half(platform, False):
        return text
    alone = _places_alone(compiled_text)
    return "\n".join(_with_note(line, _NARROW) if _narrowed(line) in alone else line for line in text.split("\n"))


def _places_alone(text):
    """Places of conversions to narrow floats that no fusion has."""
    fused = set(re.findall(r"calls=%?([^,\s]+)", text))
    places = {True: set(), False: set()}
    for computation in re.findall(r"^(?:ENTRY )?%?\S+ \(.*?^\}", text, re.MULTILINE | re.DOTALL):
        name = re.match(r"(?:ENTRY )?%?(\S+)", computation)[1]
        places[name in fused] |= set(map(_narrowed, computation.split("\n")))
    return places[False] - places[True] - {None}


def _narrowed(line):
    made = _made_by(line) if re.search(_BY_HALF, line) else None
    return made.place if made and made.opcode == "convert" and re.match(_BY_HALF, made.type + "[") else None


def _with_note(line, note):
    start, found, end = line.partition(", frontend_attributes={")
    return f"{start}{found}{note},{end}" if found else f"{line}, frontend_attributes={{{note}}}"


def choose(paths):
    """The program among dumped files, sorted: on CPU the last after dot_decomposer of the layout-assignment pipeline,
    else the last after spmd-partitioning, else the one before optimizations."""
    def last(*words):
        matching = [p for p in paths if all(w in p.name for w in words)]
        return matching[-1] if matching else None

    on_cpu = last("cpu_after_optimizations.txt") is not None or last("layout_assignment", "all-reduce-promotion")
    decomposed = last("layout_assignment", "after_dot_decomposer")
    return (decomposed if on_cpu else None) or last("after_spmd-partitioning") or decomposed or last(
        "before_optimizations")
