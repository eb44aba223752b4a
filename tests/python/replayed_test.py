#!/usr/bin/env python3
"""replayed_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("replayed_cases.py", ["jax", "flax", "optax"])
