"""Reprise's door for Python: `import reprise.jax` exports a JAX training step, checks it and applies a plan to it.

The modules beside this file need numpy at most; only `reprise.jax` imports JAX."""

from .errors import RepriseError
from .trace import Analysis, analyze, read_trace

__version__ = "0.1.0"
__all__ = ["Analysis", "RepriseError", "__version__", "analyze", "read_trace"]
