#!/usr/bin/env python3
"""apply_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("apply_cases.py", ["jax", "flax", "optax"])
