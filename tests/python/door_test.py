#!/usr/bin/env python3
"""door_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("door_cases.py", ["jax", "flax", "optax"])
