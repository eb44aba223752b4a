#!/usr/bin/env python3
"""verify_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("verify_cases.py", ["jax", "flax", "optax"])
