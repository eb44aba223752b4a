"""Steps whose forms no older file has: activations kept in the host's memory, dots by named algorithms and by blocks of
scales, Taylor mode, sparse matrices, references, groups of ranks, arrays that the compiler splits. As steps.py;
`NEWER[name](ranks)`; `referenced` needs JAX 0.7, `partly_by_hand` and `scaled_blocks`
0.10."""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import optax
from collective_steps import place_by, specs_like, square_mesh, stream_by
from jax.ad_checkpoint import checkpoint_name
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from model_steps import data_parallel, image_classes, trained
from modern_steps import normal, sequences
from recent_steps import updated
from steps import Step, cross_entropy, data_mesh, labelled, place


def classes(ranks, rows=8):
    return labelled(rows * ranks, (16,), 5)


# Layers in a scan, recomputed but for two activations: one stays, one goes to the host's memory and back.
def offloaded(ranks, width=24, layers=3):
    params = normal(1, first=(16, width), head=(width, 5), up=(width * layers, 3 * width), down=(width * layers, width))
    params |= {n: params[n].reshape(layers, width, -1) for n in ("up", "down")}
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=["gated"], names_which_can_be_offloaded=["wide"], offload_src="device",
        offload_dst="pinned_host")

    def loss_of(p, extra, x, y):
        def layer(h, weights):
            up, down = weights
            a, b, c = jnp.split(checkpoint_name(h @ up, "wide"), 3, -1)
            return h + checkpoint_name(jax.nn.silu(a) * b + jnp.tanh(c), "gated") @ down, None

        layer = jax.checkpoint(layer, policy=policy, prevent_cse=False)
        h, _ = jax.lax.scan(layer, x @ p["first"], (p["up"], p["down"]))
        return cross_entropy(h @ p["head"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), classes(ranks))


# Products of f32 by pieces of bfloat16, as accelerators take them: one, three and six of them, and a default.
def named_algorithms(ranks, width=32):
    params = normal(1, a=(16, width), b=(width, width), c=(width, width), d=(width, width), out=(width, 5))
    algorithms = jax.lax.DotAlgorithmPreset

    def loss_of(p, extra, x, y):
        h = jnp.tanh(jax.lax.dot(x, p["a"], precision=algorithms.BF16_BF16_F32))
        h = jnp.tanh(jax.lax.dot(h, p["b"], precision=algorithms.BF16_BF16_F32_X3))
        h = jnp.tanh(jnp.einsum("bi,ij->bj", h, p["c"], precision=algorithms.F32_F32_F32))
        h = jnp.tanh(jax.lax.dot(h, p["d"], precision=algorithms.BF16_BF16_F32_X6))
        with jax.default_matmul_precision("bfloat16"):
            h = h + jnp.tanh(h @ p["b"])
        return cross_entropy(jax.lax.dot(h, p["out"], precision="highest"), y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), classes(ranks))


# float8 with a scale a block of 32, whose product the compiler scales (lax.scaled_dot); gradients straight through.
def scaled_blocks(ranks, width=64, block=32):
    params = normal(1, first=(16, width), a=(width, 32), out=(32, 5))

    def quantised(x):
        parts = x.reshape(*x.shape[:-1], -1, block)
        scale = jnp.exp2(jnp.ceil(jnp.log2(jnp.abs(parts).max(-1) / 448 + 1e-20)))
        narrow = (parts / scale[..., None]).reshape(x.shape).astype(jnp.float8_e4m3fn)
        return narrow, scale.astype(jnp.float8_e8m0fnu)

    @jax.custom_vjp
    def product(x, w):
        (a, of_a), (b, of_b) = quantised(x), quantised(w.T)
        return jax.lax.scaled_dot(a, b.T, lhs_scale=of_a, rhs_scale=of_b.T, preferred_element_type=jnp.float32)

    product.defvjp(lambda x, w: (product(x, w), (x, w)), lambda kept, g: (g @ kept[1].T, kept[0].T @ g))

    def loss_of(p, extra, x, y):
        h = jax.nn.relu(product(jnp.tanh(x @ p["first"]), p["a"]))
        return cross_entropy(h @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), classes(ranks))


# float8 layers of flax: scales and histories of maxima come back as gradients and overwrite themselves.
class NarrowNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        narrow = functools.partial(nn.Dense, dot_general_cls=nn.Fp8DotGeneralOp)
        x = nn.relu(narrow(32)(x))
        return nn.Dense(5)(x + nn.gelu(narrow(32)(x)))


def delayed_scales(ranks):
    model, tx, kept = NarrowNet(), optax.adam(3e-3), "_overwrite_with_gradient"
    variables = model.init(jax.random.key(0), jnp.zeros((1, 16)))

    def step(state, x, y):
        loss, grads = jax.value_and_grad(lambda v: cross_entropy(model.apply(v, x), y))(
            {"params": state["params"], kept: state["scales"]})
        loss, of_params = jax.lax.pmean((loss, grads["params"]), "data")
        params, opt = updated(tx, of_params, state["opt"], state["params"])
        scales = jax.tree.map(lambda a: jax.lax.pmax(a, "data"), grads[kept])
        return {"params": params, "opt": opt, "scales": scales}, {"loss": loss}

    params = variables["params"]
    return data_parallel(ranks, {"params": params, "opt": tx.init(params), "scales": variables[kept]}, step,
                         classes(ranks))


# A graph network whose adjacency is a BCOO matrix with learnt entries, transposed and summed by rows.
def sparse_graph(ranks, nodes=12, edges=40):
    from jax.experimental import sparse

    params = normal(1, first=(6, 16), a=(16, 16), out=(16, 3)) | {"edges": jnp.ones(edges)}
    places = np.unique(np.random.default_rng(0).integers(0, nodes, (200, 2)), axis=0)[:edges].astype(np.int32)

    def loss_of(p, extra, x, y):
        matrix = sparse.BCOO((jax.nn.softplus(p["edges"]), jnp.asarray(places)), shape=(nodes, nodes))
        degree = sparse.bcoo_reduce_sum(matrix, axes=(1,)).todense()[:, None] + 1

        def net(x):
            h = jax.nn.relu(matrix @ (x @ p["first"]) / degree)
            h = h + jnp.tanh((matrix.T @ h) / degree @ p["a"])
            return h @ p["out"]

        return cross_entropy(jax.vmap(net)(x), y), extra

    def draw(rng):
        rows = 2 * ranks
        return (rng.normal(size=(rows, nodes, 6)).astype(np.float32),
                rng.integers(0, 3, (rows, nodes)).astype(np.int32))

    return trained(ranks, params, loss_of, optax.adam(3e-3), draw)


# A wave equation's residual, third derivatives by Taylor mode.
def taylor_mode(ranks, width=24):
    from jax.experimental.jet import jet

    params = normal(1, a=(2, width), b=(width, width), c=(width, 1)) | {"bias": jnp.zeros(width)}

    def height(p, x):
        return (jnp.sin(jnp.tanh(x @ p["a"] + p["bias"]) @ p["b"]) @ p["c"])[0]

    def residual(p, x):
        along, across, none = jnp.array([1.0, 0.0]), jnp.array([0.0, 1.0]), jnp.zeros(2)
        value, (first, _, third) = jet(lambda z: height(p, z), (x,), ((along, none, none),))
        _, in_time = jax.jvp(lambda z: height(p, z), (x,), (across,))
        return in_time + 6 * value * first + third

    def loss_of(p, extra, x):
        begin = jnp.stack([x[:, 0], jnp.zeros_like(x[:, 0])], 1)
        wanted = 1 / jnp.cosh(x[:, 0]) ** 2
        off = jax.vmap(height, (None, 0))(p, begin) - wanted
        return jnp.mean(jax.vmap(residual, (None, 0))(p, x) ** 2) + jnp.mean(off**2), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3),
                   lambda rng: (rng.normal(size=(8 * ranks, 2)).astype(np.float32),))


# Gradients of microbatches added up in references, which a scan's body writes.
def referenced(ranks, width=16, parts=2):
    params, tx = normal(1, a=(16, width), out=(width, 5)), optax.adam(3e-3)

    def step(state, x, y):
        sums = jax.tree.map(lambda a: jax.new_ref(jnp.zeros_like(a)), state["params"])

        def part(total, batch):
            loss, grads = jax.value_and_grad(
                lambda p: cross_entropy(jnp.tanh(batch[0] @ p["a"]) @ p["out"], batch[1]))(state["params"])
            for name, grad in grads.items():
                sums[name][...] += grad
            return total + loss, None

        total, _ = jax.lax.scan(part, 0.0, (x.reshape(parts, -1, 16), y.reshape(parts, -1)))
        grads = {name: jax.lax.pmean(each[...] / parts, "data") for name, each in sums.items()}
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, {"loss": jax.lax.pmean(total / parts, "data")}

    return data_parallel(ranks, {"params": params, "opt": tx.init(params)}, step, classes(ranks))


# RWKV-7: a state a head that decays, forgets along a key and takes a new one, by the token.
def erased_keys(ranks, width=16, heads=2, time=12, vocabulary=24):
    size = width // heads
    params = normal(1, table=(vocabulary, width), r=(width, width), k=(width, width), v=(width, width),
                    out=(width, width), decay=(width, width), rate=(width, width), gate=(width, width),
                    up=(width, 4 * width), down=(4 * width, width), head=(width, vocabulary))
    params |= {"mix": jnp.linspace(0, 1, 6 * width).reshape(6, width), "slow": jnp.linspace(-4.0, -1.0, width),
               "removed": jnp.full(width, 0.85), "replaced": jnp.ones(width)}

    def norm(x, least=1e-5):
        return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + least)

    def write(state, token):
        r, w, k, v, removed, rate = token
        read = jnp.einsum("bhij,bhj->bhi", state, removed)
        state = state * w[..., None, :] - read[..., None] * (removed * rate)[..., None, :]
        state = state + v[..., None] * k[..., None, :]
        return state, jnp.einsum("bhij,bhj->bhi", state, r)

    def loss_of(p, extra, text):
        x = p["table"][text[:, :-1]]
        h = norm(x)
        before = jnp.pad(h, ((0, 0), (1, 0), (0, 0)))[:, :-1] - h
        for_r, for_w, for_k, for_v, for_a, for_g = (h + before * m for m in p["mix"])
        r, k, v = for_r @ p["r"], for_k @ p["k"], for_v @ p["v"]
        w = jnp.exp(-jnp.exp(-0.5) * jax.nn.sigmoid(p["slow"] + jnp.tanh(for_w @ p["decay"])))
        rate = jax.nn.sigmoid(for_a @ p["rate"])
        split = lambda a: a.reshape(*a.shape[:2], heads, size)
        removed = split(k * p["removed"])
        removed = removed / jnp.maximum(jnp.linalg.norm(removed, axis=-1, keepdims=True), 1e-12)
        k = k * (1 + (rate - 1) * p["replaced"])
        tokens = tuple(a.swapaxes(0, 1) for a in (split(r), split(w), split(k), split(v), removed, split(rate)))
        _, y = jax.lax.scan(write, jnp.zeros((x.shape[0], heads, size, size)), tokens)
        y = norm(y.swapaxes(0, 1), 64e-5).reshape(x.shape) * jax.nn.sigmoid(for_g @ p["gate"])
        x = x + y @ p["out"]
        x = x + jax.nn.relu(norm(x) @ p["up"]) ** 2 @ p["down"]
        return cross_entropy(norm(x) @ p["head"], text[:, 1:]), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), sequences(3 * ranks, time, vocabulary))


# Reductions, windows and scans whose elements are combined by functions of the user's: Welford's moments, an argmax,
# logarithms of sums, products of matrices.
def own_reductions(ranks, width=24):
    params = normal(1, a=(16, width), s=(width, 4), out=(width, 5))

    def moments(a, b):
        n, apart = a[0] + b[0], b[1] - a[1]
        share = b[0] / jnp.maximum(n, 1e-9)
        return n, a[1] + apart * share, a[2] + b[2] + apart * apart * a[0] * share

    def larger(a, b):
        is_left = a[0] >= b[0]
        return jnp.where(is_left, a[0], b[0]), jnp.where(is_left, a[1], b[1])

    def loss_of(p, extra, x, y):
        h, zero = x @ p["a"], jnp.float32(0)
        fixed = jax.lax.stop_gradient(h)
        n, mean, squares = jax.lax.reduce((jnp.ones_like(h), fixed, jnp.zeros_like(h)), (zero,) * 3, moments, (1,))
        h = (h - mean[:, None]) * jax.lax.rsqrt(squares / n + 1e-5)[:, None]
        fixed = jax.lax.stop_gradient(h)
        columns = jax.lax.broadcasted_iota(jnp.int32, h.shape, 1)
        most, where = jax.lax.reduce((fixed, columns), (jnp.float32(-jnp.inf), jnp.int32(0)), larger, (1,))
        near = jax.lax.reduce_window(fixed, -jnp.inf, jnp.logaddexp, (1, 3), (1, 1), "SAME")
        odd = jax.lax.reduce(y[:, None] + jnp.arange(3), jnp.int32(0), jax.lax.bitwise_xor, (1,))
        turns = jnp.tanh(h @ p["s"]).reshape(-1, 2, 2) + jnp.eye(2)
        turns = jax.lax.associative_scan(lambda a, b: jnp.einsum("...ij,...jk->...ik", a, b), turns, axis=0)
        added = 0.05 * (most + turns.mean((1, 2))) + 0.01 * (where + odd)
        return cross_entropy(jax.nn.gelu(h + 0.1 * near + added[:, None]) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), classes(ranks))


# Features sampled where offsets say, kernels that a network makes for each image, dilated windows of volumes.
def bent_windows(ranks, width=4):
    kernel = lambda seed, a, b: normal(seed, q=(9 * a, b))["q"].reshape(3, 3, a, b)
    params = {"first": kernel(1, 3, width), "offsets": 0.1 * kernel(2, width, 18)}
    params |= normal(3, mixed=(9 * width, 8), kernels=(8, 9 * 8 * width), volume=(27 * width, width), out=(width, 5))
    near = np.array([(i, j) for i in (-1, 0, 1) for j in (-1, 0, 1)], np.float32)

    def conv(x, w):
        return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    def sampled(x, offsets):
        rows, columns, _ = x.shape
        grid = jnp.stack(jnp.meshgrid(jnp.arange(rows), jnp.arange(columns), indexing="ij"), -1)[:, :, None]
        at = grid + near + offsets.reshape(rows, columns, 9, 2)
        low = jnp.floor(at).astype(jnp.int32)
        part, total = at - low, 0.0
        for i, j in ((0, 0), (0, 1), (1, 0), (1, 1)):
            row, column = low[..., 0] + i, low[..., 1] + j
            inside = (row >= 0) & (row < rows) & (column >= 0) & (column < columns)
            weight = (part[..., 0] if i else 1 - part[..., 0]) * (part[..., 1] if j else 1 - part[..., 1])
            found = x.at[row, column].get(mode="fill", fill_value=0)
            total = total + jnp.where(inside, weight, 0.0)[..., None] * found
        return total.reshape(rows, columns, -1)

    def loss_of(p, extra, x, y):
        h = jax.nn.relu(conv(x, p["first"]))
        h = jax.vmap(sampled)(h, conv(h, p["offsets"])) @ p["mixed"]
        made = (jnp.tanh(h.mean((1, 2))) @ p["kernels"]).reshape(-1, 3, 3, 8, width)
        h = jax.vmap(lambda image, w: conv(image[None], w)[0])(h, made)
        volume = h[:, None] * jnp.arange(1.0, 4.0)[:, None, None, None]
        volume = jax.lax.conv_general_dilated(
            volume, p["volume"].reshape(3, 3, 3, width, width), (1, 2, 1), ((2, 1), (2, 2), (1, 2)),
            lhs_dilation=(1, 1, 2), rhs_dilation=(1, 2, 1), dimension_numbers=("NDHWC", "DHWIO", "NDHWC"))
        return cross_entropy(jax.nn.gelu(volume).mean((1, 2, 3)) @ p["out"], y), extra

    return trained(ranks, params, loss_of, optax.adam(3e-3), image_classes(2 * ranks, 6, classes=5))


# Statistics among pairs of ranks (axis_index_groups), gathers and scatters that add a dimension, shuffles, swaps.
def paired_ranks(ranks, width=16):
    params, tx = normal(1, a=(16, width), b=(width, width), out=(width, 5)), optax.adamw(3e-3)
    groups = [[i, i + 1] for i in range(0, ranks, 2)] if ranks > 1 else [[0]]
    pairs = {"axis_name": "data", "axis_index_groups": groups}
    order = [(3 * i + 1) % ranks for i in range(ranks)]

    def loss_of(p, x, y):
        h = x @ p["a"]
        mean, square = jax.lax.pmean((h.mean(0), (h**2).mean(0)), **pairs)
        h = (h - mean) * jax.lax.rsqrt(square - mean**2 + 1e-3)
        theirs = jax.lax.all_gather(h, **pairs)
        h = h + 0.1 * jnp.einsum("rbd,de->be", theirs, p["b"]) / len(groups[0])
        h = h + 0.1 * jax.lax.pshuffle(h, "data", order)
        summed = jax.lax.psum_scatter(jnp.stack([h] * len(groups[0])), **pairs)
        swapped = jax.lax.pswapaxes(jnp.stack([h.mean(0)] * ranks), "data", 0)
        return cross_entropy((h + 0.1 * summed + 0.1 * swapped.mean(0)) @ p["out"], y)

    def step(state, x, y):
        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"], x, y), "data")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, {"loss": loss}

    return data_parallel(ranks, {"params": params, "opt": tx.init(params)}, step, classes(ranks))


# What the compiler has to split along the sharded dimension itself: sorts, rolls, sums that go on, look-ups and writes
# by index, a convolution, factors of matrices, a transform, random numbers.
def split_by_compiler(ranks, width=12):
    mesh, tx, rows = data_mesh(ranks), optax.adam(3e-3), 8 * ranks
    params = normal(1, first=(16, width), table=(rows, width), kernel=(5 * width, width), out=(width, 5))
    specs = {"first": P(), "table": P("data"), "kernel": P(), "out": P()}
    state = {"params": params, "opt": tx.init(params), "key": jax.random.key(1)}
    specs = {"params": specs, "opt": specs_like(state["opt"], specs, params), "key": P()}
    split = lambda a: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P("data")))

    def hidden(p, key, x):
        h = split(x @ p["first"])
        h = h + 0.1 * jnp.roll(h, 3, 0) + 0.1 * jnp.flip(h, 0)
        h = h + 0.05 * jnp.cumsum(h, 0) / jnp.arange(1, rows + 1)[:, None]
        kernel = p["kernel"].reshape(5, width, width)
        beside = jax.lax.conv_general_dilated(h[None], kernel, (1,), "SAME", dimension_numbers=("NWC", "WIO", "NWC"))
        h = h + jnp.tanh(split(beside[0]))
        order = jnp.argsort(h[:, 1])
        h = h + 0.1 * p["table"][order] + 0.1 * jnp.sort(h[:, 0])[order][:, None]
        most, where = jax.lax.top_k(h[:, 2], 4)
        h = h.at[where].add(0.1 * most[:, None])
        fours = split(h.reshape(-1, 4, width))
        factor = jnp.linalg.cholesky(fours @ fours.swapaxes(1, 2) / width + jnp.eye(4))
        h = h + 0.1 * jax.scipy.linalg.solve_triangular(factor, fours, lower=True).reshape(h.shape)
        waves = jnp.abs(jnp.fft.rfft(h, axis=0))[:rows // 2]
        h = h + 0.01 * jnp.concatenate([waves, waves]) + 0.05 * jax.random.normal(key, h.shape)
        return h + 0.05 * jax.lax.cummax(h, 0)

    def step(state, x, y):
        key, now = jax.random.split(state["key"])
        loss, grads = jax.value_and_grad(
            lambda p: cross_entropy(hidden(p, now, x) @ p["out"], y))(state["params"])
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt, "key": key}, {"loss": loss}

    return Step(jax.jit(step, donate_argnums=0), place_by(mesh, state, specs),
                stream_by(mesh, labelled(rows, (16,), 5), P("data")))


# Images split along their height: halos of strided, dilated and transposed windows, norms over all ranks.
def split_images(ranks, side=16, width=8):
    mesh, tx = data_mesh(ranks), optax.sgd(1e-2, 0.9)
    kernel = lambda seed, a, b, extent=3: normal(seed, q=(extent**2 * a, b))["q"].reshape(extent, extent, a, b)
    params = {"first": kernel(1, 3, width), "down": kernel(2, width, width), "wide": kernel(3, width, width),
              "up": kernel(4, width, width, 2), "out": kernel(5, 2 * width, 3)}
    numbers = ("NHWC", "HWIO", "NHWC")
    split = lambda a: jax.lax.with_sharding_constraint(a, NamedSharding(mesh, P(None, "data")))

    def conv(x, w, stride=1, **more):
        return jax.lax.conv_general_dilated(x, w, (stride, stride), "SAME", dimension_numbers=numbers, **more)

    def loss_of(p, x):
        h = jax.nn.relu(conv(split(x), p["first"]))
        h = (h - h.mean((0, 1, 2))) * jax.lax.rsqrt(h.var((0, 1, 2)) + 1e-5)
        low = jax.nn.silu(split(conv(h, p["down"], 2)))
        low = low + nn.max_pool(low, (3, 3), (1, 1), "SAME")
        low = split(low + conv(low, p["wide"], rhs_dilation=(2, 2)))
        high = split(jax.lax.conv_transpose(low, p["up"], (2, 2), "SAME", dimension_numbers=numbers))
        return jnp.mean((conv(jnp.concatenate([h, high], -1), p["out"]) - jnp.roll(x, 1, 1)) ** 2)

    def step(state, x):
        loss, grads = jax.value_and_grad(loss_of)(state["params"], x)
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, {"loss": loss}

    return Step(jax.jit(step, donate_argnums=0), place(mesh, {"params": params, "opt": tx.init(params)}),
                stream_by(mesh, lambda rng: (rng.normal(size=(2, side, side, 3)).astype(np.float32),), P()))


# Rows split by hand along one axis of the mesh, weights along the other by the compiler (shard_map's axis_names). Of 1
# or 4 ranks: XLA compiles no such mean over an axis of one rank beside one of two.
def partly_by_hand(ranks, width=16):
    mesh, tx = square_mesh(ranks, "rows", "model"), optax.adamw(3e-3)
    params = normal(1, first=(16, width), up=(width, 4 * width), down=(4 * width, width), out=(width, 5))
    specs = {"first": P(), "up": P(None, "model"), "down": P("model"), "out": P()}

    def step(state, x, y):
        def loss_of(p):
            h = x @ p["first"]
            wide = jax.lax.with_sharding_constraint(jax.nn.gelu(h @ p["up"]), P(None, "model"))
            return cross_entropy((h + wide @ p["down"]) @ p["out"], y)

        loss, grads = jax.lax.pmean(jax.value_and_grad(loss_of)(state["params"]), "rows")
        params, opt = updated(tx, grads, state["opt"], state["params"])
        return {"params": params, "opt": opt}, {"loss": loss}

    state = {"params": params, "opt": tx.init(params)}
    mapped = jax.shard_map(step, mesh=mesh, in_specs=(P(), P("rows"), P("rows")), out_specs=(P(), P()),
                           axis_names={"rows"}, check_vma=False)
    return Step(jax.jit(mapped, donate_argnums=0),
                place_by(mesh, state, {"params": specs, "opt": specs_like(state["opt"], specs, params)}),
                stream_by(mesh, classes(ranks), P("rows")))


NEWER = {f.__name__: f for f in (
    offloaded, named_algorithms, scaled_blocks, delayed_scales, sparse_graph, taylor_mode, referenced, erased_keys,
    own_reductions, bent_windows, paired_ranks, split_by_compiler, split_images, partly_by_hand)}
