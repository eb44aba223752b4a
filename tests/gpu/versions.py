"""Prints the version of PyTorch or JAX and the device it would use: python3 versions.py torch."""

import importlib
import json
import sys


def device_of(name, module):
    if name == "torch":
        return "cuda" if module.cuda.is_available() else "cpu"
    platform = module.devices()[0].platform  # "gpu" in some releases.
    return "cuda" if platform in ("gpu", "cuda") else platform


def main():
    name = sys.argv[1]
    module = importlib.import_module(name)
    print(json.dumps({"version": module.__version__, "device": device_of(name, module)}))


if __name__ == "__main__":
    main()
