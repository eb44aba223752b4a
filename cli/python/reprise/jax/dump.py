"""One compile of a lowered step that leaves the program as Reprise reads it."""

import contextlib
import pathlib
import tempfile

import jax

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
