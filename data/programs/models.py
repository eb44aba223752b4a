"""The two shipped programs as JAX training steps on flat lists of tensors.

A step takes state tensors then batch tensors and returns new state in the same
order, then the local loss (and, for the MLP, the local count of correct
answers). They are written on jax.lax so that few opcodes and no calls appear.
"""

import math
from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

AXIS = "dp"


@dataclass
class Tensor:
    """One program parameter: its shape and what its manifest entry says."""

    name: str
    shape: tuple
    init: dict = field(default_factory=dict)
    batch_field: str = ""
    dtype: str = "float32"


@dataclass
class Model:
    """A training step with all that its manifest needs."""

    name: str
    state: list
    batch: list
    gradients: list  # the tensors that have a gradient: a prefix of state
    step: object
    extra_outputs: list
    dataset: dict


def _uniform(name, shape, scale):
    return Tensor(name, shape, {"kind": "uniform", "scale": round(scale, 6)})


def _filled(name, shape, kind):
    return Tensor(name, shape, {"kind": kind})


def _number_seeds(tensors):
    for index, tensor in enumerate(tensors):
        if tensor.init["kind"] == "uniform":
            tensor.init = {"kind": "uniform", "seed": 1000 + index,
                           "scale": tensor.init["scale"]}


def _mean_gradients(gradients, tensors):
    """One all-reduce a tensor, then the mean over ranks."""
    ranks = lax.psum(1, AXIS)
    means = []
    for gradient, tensor in zip(gradients, tensors):
        with jax.named_scope(tensor.name):
            means.append(lax.psum(gradient, AXIS) * (1.0 / ranks))
    return means


def _over_rows(vector, shape):
    """Broadcast along all axes but the last."""
    return lax.broadcast_in_dim(vector, shape, (len(shape) - 1,))


def _over_columns(values, shape):
    """Broadcast along the last axis."""
    return lax.broadcast_in_dim(values, shape, tuple(range(len(shape) - 1)))


def _linear(x, weight, bias=None):
    """x times a weight of shape [out, in], whose gradient then needs no
    transpose."""
    y = lax.dot_general(x, weight, (((x.ndim - 1,), (1,)), ((), ())))
    return y if bias is None else y + _over_rows(bias, y.shape)


def _sum_last(x):
    return lax.reduce(x, np.float32(0), lax.add, (x.ndim - 1,))


def _max_last(x):
    x = lax.stop_gradient(x)
    return lax.reduce(x, np.float32(-np.inf), lax.max, (x.ndim - 1,))


def _cross_entropy(logits, labels):
    """Mean negative log-likelihood over the rows of a matrix of logits."""
    shifted = logits - _over_columns(_max_last(logits), logits.shape)
    log_sum = lax.log(_sum_last(lax.exp(shifted)))
    picked = _sum_last(lax.mul(shifted, _one_hot(labels, logits.shape)))
    total = lax.reduce(log_sum - picked, np.float32(0), lax.add, (0,))
    return total * (1.0 / logits.shape[0])


def _one_hot(labels, shape):
    classes = lax.broadcasted_iota(jnp.int32, shape, 1)
    hit = lax.eq(_over_columns(labels, shape), classes)
    return lax.convert_element_type(hit, jnp.float32)


# ---- MLP on the 8x8 digits, plain SGD --------------------------------------


def make_mlp(widths, batch, learning_rate):
    """Fully connected tanh layers; state is their weights and biases.

    Not relu: its derivative jumps, and the one activation in a million whose
    sign differs by rounding moves the change of a bias by 1e-3 in 20 steps,
    measured, ten times what the numerics test allows.
    """
    weights = []
    for layer, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
        scale = math.sqrt(3.0 / fan_in)
        weights.append(_uniform(f"layers.{layer}.w", (fan_out, fan_in), scale))
        weights.append(_filled(f"layers.{layer}.b", (fan_out,), "zeros"))
    _number_seeds(weights)

    def loss_of(params, x, y):
        for layer in range(0, len(params), 2):
            x = _linear(x, params[layer], params[layer + 1])
            if layer + 2 < len(params):
                x = lax.tanh(x)
        return _cross_entropy(x, y), x

    def step(*args):
        params, x, y = list(args[:-2]), args[-2], args[-1]
        (loss, logits), gradients = jax.value_and_grad(
            loss_of, has_aux=True)(params, x, y)
        gradients = _mean_gradients(gradients, weights)
        updated = [p - learning_rate * g for p, g in zip(params, gradients)]
        picked = _sum_last(lax.mul(logits, _one_hot(y, logits.shape)))
        hits = lax.convert_element_type(picked >= _max_last(logits), jnp.float32)
        return (*updated, loss, lax.reduce(hits, np.float32(0), lax.add, (0,)))

    inputs = [Tensor("x", (batch, widths[0]), batch_field="x"),
              Tensor("y", (batch,), batch_field="y", dtype="int32")]
    dataset = {"kind": "records", "file": "digits.bin",
               "record_bytes": 65, "seed": 17,
               "fields": [{"name": "x", "offset": 0, "count": 64, "type": "u8",
                           "scale": 0.0625},
                          {"name": "y", "offset": 64, "count": 1, "type": "u8"}]}
    return Model("mlp", weights, inputs, weights, step, ["loss", "correct"],
                 dataset)


# ---- character GPT, Adam ----------------------------------------------------


@jax.custom_jvp
def _gelu(x):
    """The tanh approximation of gelu."""
    inner = 0.7978845608 * (x + 0.044715 * (x * x * x))
    return (0.5 * x) * (1.0 + lax.tanh(inner))


@_gelu.defjvp
def _gelu_jvp(primals, tangents):
    """Its derivative, written out so that tanh is computed once."""
    (x,), (dx,) = primals, tangents
    squared = x * x
    t = lax.tanh(0.7978845608 * (x + 0.044715 * (x * squared)))
    slope = 0.7978845608 * (1.0 + 0.134145 * squared)
    left = 0.5 * (1.0 + t)
    derivative = left + (0.5 * x) * (1.0 - t * t) * slope
    return x * left, derivative * dx


def _layer_norm(x, gain, bias):
    width = x.shape[-1]
    centred = x - _over_columns(_sum_last(x) * (1.0 / width), x.shape)
    variance = _sum_last(centred * centred) * (1.0 / width)
    scale = _over_columns(lax.rsqrt(variance + 1e-5), x.shape)
    return centred * scale * _over_rows(gain, x.shape) + _over_rows(bias, x.shape)


@jax.custom_jvp
def _softmax(x):
    e = lax.exp(x - _over_columns(_max_last(x), x.shape))
    return e / _over_columns(_sum_last(e), x.shape)


@_softmax.defjvp
def _softmax_jvp(primals, tangents):
    """Its derivative without the power that a quotient's has."""
    y, (dx,) = _softmax(*primals), tangents
    return y, y * (dx - _over_columns(_sum_last(y * dx), y.shape))


def _split_heads(x, batch, sequence, heads):
    x = lax.reshape(x, (batch, sequence, heads, x.shape[-1] // heads))
    return lax.transpose(x, (0, 2, 1, 3))


def _attention(x, p, heads, batch, sequence):
    """Causal attention over rows [batch*sequence, width]; the key has no bias,
    whose gradient is zero but for rounding and which Adam would blow up."""
    width = x.shape[-1]
    q = _split_heads(_linear(x, p["q.w"], p["q.b"]), batch, sequence, heads)
    k = _split_heads(_linear(x, p["k.w"]), batch, sequence, heads)
    v = _split_heads(_linear(x, p["v.w"], p["v.b"]), batch, sequence, heads)
    pairs = (((3,), (3,)), ((0, 1), (0, 1)))
    scores = lax.dot_general(q, k, pairs) * (1.0 / math.sqrt(width // heads))
    rows = lax.broadcasted_iota(jnp.int32, scores.shape, 2)
    columns = lax.broadcasted_iota(jnp.int32, scores.shape, 3)
    blocked = lax.full_like(scores, -1e9)
    weights = _softmax(lax.select(lax.ge(rows, columns), scores, blocked))
    mixed = lax.dot_general(weights, v, (((3,), (2,)), ((0, 1), (0, 1))))
    mixed = lax.reshape(lax.transpose(mixed, (0, 2, 1, 3)), x.shape)
    return _linear(mixed, p["o.w"], p["o.b"])


def _embed(table, tokens):
    """Rows of a table by gather; tokens are flat and in range."""
    numbers = lax.GatherDimensionNumbers(
        offset_dims=(1,), collapsed_slice_dims=(0,), start_index_map=(0,))
    return lax.gather(table, lax.reshape(tokens, (tokens.size, 1)), numbers,
                      (1, table.shape[1]),
                      mode=lax.GatherScatterMode.PROMISE_IN_BOUNDS)


def _gpt_tensors(layers, width, sequence, vocabulary):
    tensors = [_uniform("token", (vocabulary, width), 0.05),
               _uniform("position", (sequence, width), 0.05)]
    residual = 0.06 / math.sqrt(2 * layers)
    for layer in range(layers):
        at = f"blocks.{layer}."
        tensors += [
            _filled(at + "ln1.g", (width,), "ones"),
            _filled(at + "ln1.b", (width,), "zeros"),
            _uniform(at + "q.w", (width, width), 0.06),
            _filled(at + "q.b", (width,), "zeros"),
            _uniform(at + "k.w", (width, width), 0.06),
            _uniform(at + "v.w", (width, width), 0.06),
            _filled(at + "v.b", (width,), "zeros"),
            _uniform(at + "o.w", (width, width), residual),
            _filled(at + "o.b", (width,), "zeros"),
            _filled(at + "ln2.g", (width,), "ones"),
            _filled(at + "ln2.b", (width,), "zeros"),
            _uniform(at + "up.w", (4 * width, width), 0.06),
            _filled(at + "up.b", (4 * width,), "zeros"),
            _uniform(at + "down.w", (width, 4 * width), residual / 2),
            _filled(at + "down.b", (width,), "zeros"),
        ]
    return tensors + [_filled("ln.g", (width,), "ones"),
                      _filled("ln.b", (width,), "zeros"),
                      _uniform("head.w", (vocabulary, width), 0.06),
                      _filled("head.b", (vocabulary,), "zeros")]


def _gpt_loss(names, heads):
    def loss_of(params, x, y):
        p = dict(zip(names, params))
        batch, sequence = x.shape
        h = _embed(p["token"], x)
        width = h.shape[-1]
        position = lax.broadcast_in_dim(
            p["position"], (batch, sequence, width), (1, 2))
        h = h + lax.reshape(position, h.shape)
        layers = sum(name.endswith("ln1.g") for name in names)
        for layer in range(layers):
            at = f"blocks.{layer}."
            block = {n[len(at):]: v for n, v in p.items() if n.startswith(at)}
            with jax.named_scope(at + "attention"):
                normed = _layer_norm(h, block["ln1.g"], block["ln1.b"])
                h = h + _attention(normed, block, heads, batch, sequence)
            with jax.named_scope(at + "mlp"):
                normed = _layer_norm(h, block["ln2.g"], block["ln2.b"])
                inner = _gelu(_linear(normed, block["up.w"], block["up.b"]))
                h = h + _linear(inner, block["down.w"], block["down.b"])
        h = _layer_norm(h, p["ln.g"], p["ln.b"])
        logits = _linear(h, p["head.w"], p["head.b"])
        return _cross_entropy(logits, lax.reshape(y, (y.size,)))
    return loss_of


def _adam(params, m, v, t, gradients, rate, beta1, beta2, epsilon):
    t = t + 1.0
    correct1 = 1.0 / (1.0 - lax.pow(jnp.float32(beta1), t))
    correct2 = 1.0 / (1.0 - lax.pow(jnp.float32(beta2), t))
    rate = rate * correct1
    new_p, new_m, new_v = [], [], []
    for p, a, b, g in zip(params, m, v, gradients):
        a = beta1 * a + (1.0 - beta1) * g
        b = beta2 * b + (1.0 - beta2) * (g * g)
        new_p.append(p - rate * a / (lax.sqrt(b * correct2) + epsilon))
        new_m.append(a)
        new_v.append(b)
    return new_p, new_m, new_v, t


def make_gpt(layers, width, heads, sequence, vocabulary, batch, rate, betas,
             epsilon):
    """A pre-norm decoder on characters; state is weights, m, v and t."""
    weights = _gpt_tensors(layers, width, sequence, vocabulary)
    _number_seeds(weights)
    count = len(weights)
    moments = [_filled(f"{kind}.{w.name}", w.shape, "zeros")
               for kind in ("m", "v") for w in weights]
    state = weights + moments + [_filled("t", (), "zeros")]
    loss_of = _gpt_loss([w.name for w in weights], heads)

    def step(*args):
        params = list(args[:count])
        m, v = args[count:2 * count], args[2 * count:3 * count]
        t, x, y = args[3 * count:]
        loss, gradients = jax.value_and_grad(loss_of)(params, x, y)
        gradients = _mean_gradients(gradients, weights)
        p, m, v, t = _adam(params, m, v, t, gradients, rate, *betas, epsilon)
        return (*p, *m, *v, t, loss)

    inputs = [Tensor(name, (batch, sequence), batch_field=name, dtype="int32")
              for name in ("x", "y")]
    dataset = {"kind": "text", "file": "text.txt",
               "sequence": sequence, "seed": 17,
               "fields": [{"name": "x", "shift": 0}, {"name": "y", "shift": 1}]}
    return Model("gpt", state, inputs, weights, step, ["loss"], dataset)
