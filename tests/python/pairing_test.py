#!/usr/bin/env python3
"""pairing_cases.py with every interpreter that has JAX, flax and optax."""

import jaxes

jaxes.run_in_each("pairing_cases.py", ["jax", "flax", "optax"])
