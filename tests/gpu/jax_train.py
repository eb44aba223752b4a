"""A training script in JAX: a multi-layer perceptron with Adam on made-up data, one jitted step.

    python3 jax_train.py [--steps N] [--width N] [--layers N] [--device cuda|cpu]

JAX makes no NVTX ranges, so the script says where its steps are by `reprise_mark_step`, where the profiler is loaded
into the process; without it nothing changes. Prints step times, each from its call until its results are ready, as
JSON. --device cpu is there to try this script, and what records it, on a machine without a GPU.
"""

import argparse
import ctypes
import json
import statistics
import time

import jax
import jax.numpy as jnp


def make_marker():
    """Calls reprise_mark_step(step, is warm-up, start, end in ns of CLOCK_MONOTONIC), if there."""
    try:
        mark = ctypes.CDLL(None).reprise_mark_step
    except AttributeError:
        return lambda *_: None
    mark.argtypes = [ctypes.c_int32, ctypes.c_int32, ctypes.c_int64, ctypes.c_int64]
    mark.restype = None
    return mark


def initial(key, width, layers):
    weights = [jax.random.normal(k, (width, width)) * width ** -0.5
               for k in jax.random.split(key, layers)]
    zeros = [jnp.zeros_like(w) for w in weights]
    return weights, zeros, [jnp.zeros_like(w) for w in weights]


def loss_of(weights, x, y):
    for weight in weights:
        x = jnp.tanh(x @ weight) + x
    return jnp.mean((x - y) ** 2)


@jax.jit
def train_step(state, x, y):
    weights, first, second = state
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    first = [0.9 * m + 0.1 * g for m, g in zip(first, gradients)]
    second = [0.999 * v + 0.001 * g * g for v, g in zip(second, gradients)]
    weights = [w - 1e-4 * m / (jnp.sqrt(v) + 1e-8) for w, m, v in zip(weights, first, second)]
    return (weights, first, second), loss


def train(options):
    mark = make_marker()
    key = jax.random.PRNGKey(0)
    state = initial(key, options.width, options.layers)
    x = jax.random.normal(key, (options.batch, options.width))
    y = jnp.roll(x, 1, axis=1)
    times, losses = [], []
    for step in range(options.warmup + options.steps):
        start = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        state, loss = train_step(state, x, y)
        jax.block_until_ready((state, loss))
        end = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        mark(step, int(step < options.warmup), start, end)
        if step >= options.warmup:
            times.append(end - start)
            losses.append(float(loss))
    return times, losses


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--width", type=int, default=4096)
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--batch", type=int, default=4096)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    jax.config.update("jax_platforms", options.device)
    times, losses = train(options)
    print(json.dumps({"schema": "reprise.gpu.script/1", "framework": f"jax {jax.__version__}",
                      "device": jax.devices()[0].platform, "loss": losses,
                      "step_time_ns": {"median": statistics.median(times), "all": times}}))


if __name__ == "__main__":
    main()
