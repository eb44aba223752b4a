"""Reprise's door for Python: `import reprise.jax` exports a JAX training step, checks it and applies a plan to it.

The modules beside this file need numpy at most; only `reprise.jax` imports JAX."""

from .errors import RepriseError

__version__ = "0.1.0"
__all__ = ["RepriseError", "__version__"]
