#!/usr/bin/env python3
"""memory_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("memory_cases.py", ["jax", "flax", "optax"])
