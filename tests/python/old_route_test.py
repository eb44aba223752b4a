#!/usr/bin/env python3
"""The seven steps of steps.py by the route of JAX before 0.5, without the package: xla_computation of what a rank runs
(of jit with shardings the compiled text), the manifest that `reprise hlo --manifest` makes of it, state and batches as
.npz; trained on 1, 2 and 4 ranks, every tensor compared with JAX. Tried with JAX 0.4.30, flax 0.8.5 and optax 0.2.3;
skipped where no interpreter of REPRISE_JAX_PYTHON has xla_computation.

  old_route_test.py [STEP…] [--ranks N…]"""

import argparse
import sys

import jaxes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", nargs="*", default=["1", "2", "4"])
    flags = parser.parse_args()
    names = flags.names or ["mlp", "decoder", "resnet", "lstm", "dropout", "fsdp", "auto"]
    jaxes.run_in_each("old_route_cases.py", ["jax", "flax", "optax"], [*names, "--ranks", *flags.ranks],
                      ["jax.xla_computation"])


if __name__ == "__main__":
    main()
