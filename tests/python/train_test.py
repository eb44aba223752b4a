#!/usr/bin/env python3
"""Steps of steps.py and of its neighbours on 1 and 2 ranks, of collective_steps.py on 2 and 4: exported, trained by
`reprise train`, each tensor compared with JAX.

  train_test.py [STEP…] [--ranks N…] [--steps N] [--keep DIR]

One process an interpreter, step and rank count."""

import argparse
import sys

import jaxes


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--ranks", type=int, nargs="*", default=[])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--keep", default="")
    parser.add_argument("--apply", action="store_true")
    flags = parser.parse_args()
    ranks = ["--ranks", *map(str, flags.ranks)] if flags.ranks else []
    arguments = [*ranks, "--steps", str(flags.steps), "--keep", flags.keep, *(["--apply"] if flags.apply else [])]
    sys.exit(jaxes.run_in_each("train_cases.py", ["jax", "flax", "optax"], [*flags.names, *arguments]))


if __name__ == "__main__":
    main()
