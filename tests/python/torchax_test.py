#!/usr/bin/env python3
"""A transformer and a convolutional network of torch.nn on 1 and 2 ranks: made JAX steps by torchax, exported, trained by
`reprise train`, each tensor compared with JAX."""

import sys

import jaxes

if __name__ == "__main__":
    sys.exit(jaxes.run_in_each("torchax_cases.py", ["jax", "flax", "optax", "torchax"]))
