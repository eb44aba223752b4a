"""Functions of jax.numpy, jax.nn, jax.scipy and jax.lax, each with its gradient: a step computes a group of them from
two arrays of numbers in (0, 1), and its state holds the results. `functions_GROUP` calls them as they are,
`functions_GROUP_mapped` in the loop of lax.map. As steps.py; `FUNCTIONS[name](ranks)`; the same work on each rank.

What a function has no derivative for in JAX is left out of the gradients. By hand: train_cases.py functions_arrays."""

import jax
import jax.numpy as jnp
import jax.scipy.signal as signal
import jax.scipy.special as special
import jax.scipy.stats as stats
import numpy as np
from jax import lax
from jax.scipy.linalg import block_diag, expm, lu_factor, lu_solve, toeplitz
from jax.scipy.ndimage import map_coordinates
from steps import Step, data_mesh, place

ROWS, COLUMNS = 6, 8


def _of_one(module, names):
    """Those that this JAX has, of the first array alone."""
    found = {name: getattr(module, name) for name in names.split() if hasattr(module, name)}
    return {name: (lambda a, b, call=call: call(a)) for name, call in found.items()}


def _of_both(module, names):
    return {name: getattr(module, name) for name in names.split() if hasattr(module, name)}


def _newton(a, b):
    """A cube root by lax.custom_root."""
    def solve(f, start):
        return lax.fori_loop(0, 12, lambda i, v: v - f(v) / (3 * v**2 + 1e-3), start)

    return lax.custom_root(lambda v: v**3 - a[0], jnp.ones_like(a[0]), solve, lambda g, y: y / g(jnp.ones_like(y)))


def _regular(a):
    return a[:4, :4] + 2 * jnp.eye(4, dtype=a.dtype)


ELEMENTWISE = _of_one(
    jnp, "abs arccos arcsin arctan arctanh cbrt ceil cos cosh deg2rad exp exp2 expm1 floor i0 log log10 log1p log2 "
    "negative rad2deg reciprocal rint sign sin sinc sinh sqrt square tan tanh trunc nan_to_num modf") | _of_one(
    jax.nn, "relu relu6 sigmoid softplus sparse_plus soft_sign silu log_sigmoid leaky_relu hard_sigmoid hard_silu "
    "hard_tanh elu celu selu gelu glu squareplus mish log_softmax softmax standardize logsumexp") | _of_both(
    jnp, "add arctan2 copysign divide floor_divide fmax fmin fmod hypot logaddexp logaddexp2 maximum minimum mod multiply "
    "power remainder subtract heaviside float_power divmod") | {
    "round to two digits": lambda a, b: jnp.round(a, 2) * b, "integer power": lambda a, b: lax.integer_pow(a, -3),
    "fraction": lambda a, b: a**0.3, "far sigmoid": lambda a, b: lax.logistic(a * 9), "far tanh": lambda a, b: jnp.tanh(a * 20),
    "precision": lambda a, b: lax.reduce_precision(a, 8, 5), "rem": lambda a, b: lax.rem(a * 7, b),
    "bits": lambda a, b: a * lax.population_count((b * 100).astype(jnp.uint8)).astype(a.dtype)}

SPECIAL = _of_one(
    special, "digamma entr erf erfc erfinv expit expi gammaln i0 i0e i1 i1e log_ndtr logit ndtr ndtri gamma factorial "
    "spence") | _of_both(special, "betaln beta gammainc gammaincc xlog1py xlogy kl_div rel_entr") | {
    "polygamma": lambda a, b: special.polygamma(1, a), "polygamma 2": lambda a, b: special.polygamma(2, a + 0.5),
    "zeta": lambda a, b: special.zeta(a + 1.5, b + 1), "multigammaln": lambda a, b: special.multigammaln(a + 3, 2),
    "hyp1f1": lambda a, b: special.hyp1f1(a, b + 1, a), "bessel": lambda a, b: lax.bessel_i1e(a * 5),
    "logsumexp": lambda a, b: special.logsumexp(a, axis=1, b=b)}

DENSITIES = {
    "norm": lambda a, b: stats.norm.logpdf(a, b, 0.7), "norm cdf": lambda a, b: stats.norm.cdf(a, b),
    "beta": lambda a, b: stats.beta.logpdf(a, b + 1, 2.5), "gamma": lambda a, b: stats.gamma.logpdf(a, b + 1),
    "t": lambda a, b: stats.t.logpdf(a, b + 3), "cauchy": lambda a, b: stats.cauchy.logpdf(a, b),
    "logistic": lambda a, b: stats.logistic.logpdf(a, b), "expon": lambda a, b: stats.expon.logpdf(a),
    "pareto": lambda a, b: stats.pareto.logpdf(a + 1, b + 1), "chi2": lambda a, b: stats.chi2.logpdf(a, b + 2),
    "poisson": lambda a, b: stats.poisson.logpmf(jnp.floor(a * 5), b),
    "nbinom": lambda a, b: stats.nbinom.logpmf(jnp.floor(a * 5), 3.0, b),
    "dirichlet": lambda a, b: stats.dirichlet.logpdf(jax.nn.softmax(a[0]), b[0] + 1),
    "multivariate": lambda a, b: stats.multivariate_normal.logpdf(a, b[0], jnp.eye(COLUMNS, dtype=a.dtype)),
    "truncated": lambda a, b: stats.truncnorm.logpdf(a, -1.0, 2.0), "vonmises": lambda a, b: stats.vonmises.logpdf(a, b),
    "generalized": lambda a, b: stats.gennorm.logpdf(a, b + 1), "kernel": lambda a, b: stats.gaussian_kde(a[0]).logpdf(b[0])}

ARRAYS = _of_one(
    jnp, "cumsum cumprod sort argsort fliplr ravel diff gradient ediff1d var std median nanmedian nanmean nanstd nansum "
    "nanprod nanmax max min mean prod sum ptp average unwrap tril triu trace diagonal rot90 nancumsum count_nonzero") | {
    "einsum": lambda a, b: jnp.einsum("ij,kj->ik", a, b), "kron": lambda a, b: jnp.kron(a[:2, :2], b[:2, :3]),
    "outer": lambda a, b: jnp.outer(a[0], b[0]), "tensordot": lambda a, b: jnp.tensordot(a, b, axes=([1], [1])),
    "vdot": jnp.vdot, "cross": lambda a, b: jnp.cross(a[:, :3], b[:, :3]), "trapezoid": lambda a, b: jnp.trapezoid(a, dx=0.1),
    "percentile": lambda a, b: jnp.percentile(a, 30.0, axis=1), "cov": lambda a, b: jnp.cov(a),
    "corrcoef": lambda a, b: jnp.corrcoef(a), "vander": lambda a, b: jnp.vander(a[0], 4), "roll": lambda a, b: jnp.roll(a, 3, 1),
    **{f"pad {mode}": (lambda a, b, mode=mode: jnp.pad(a, 2, mode)) for mode in (
        "reflect", "wrap", "symmetric", "linear_ramp", "mean", "edge", "maximum")},
    "tile": lambda a, b: jnp.tile(a, (2, 3)), "repeat": lambda a, b: jnp.repeat(a, 3, 1),
    "repeats": lambda a, b: jnp.repeat(a, jnp.array([0, 1, 2, 1, 1, 1]), 0, total_repeat_length=6),
    "where": lambda a, b: jnp.where(a > b, a * 2, b), "select": lambda a, b: jnp.select([a > 0.6, b > 0.5], [a, b], a * b),
    "piecewise": lambda a, b: jnp.piecewise(a, [a < 0.3, a >= 0.3], [lambda v: v * 2, lambda v: v**2]),
    "clip": lambda a, b: jnp.clip(a, 0.3, 0.6), "block": lambda a, b: jnp.block([[a, b], [b, a]]),
    "meshgrid": lambda a, b: jnp.stack(jnp.meshgrid(a[0], b[0])), "isclose": lambda a, b: jnp.isclose(a, b, 0.1) * a,
    "weighted": lambda a, b: jnp.average(a, axis=1, weights=b[0]), "some": lambda a, b: jnp.max(a, 1, where=b > 0.5, initial=-1),
    "variance of some": lambda a, b: jnp.var(a, axis=1, ddof=1, where=b > 0.3),
    "cumulative logsumexp": lambda a, b: lax.cumlogsumexp(a, 1), "cummax": lambda a, b: lax.cummax(a, 1),
    "cummin from the end": lambda a, b: lax.cummin(a, 1, reverse=True),
    "cumprod from the end": lambda a, b: lax.cumprod(a, 0, reverse=True),
    "windows": lambda a, b: lax.reduce_window(a, -jnp.inf, lax.max, (2, 3), (1, 2), "SAME")}

INDICES = {
    "bincount": lambda a, b: jnp.bincount((a.ravel() * 5).astype(int), b.ravel(), length=6),
    "histogram": lambda a, b: jnp.histogram(a, 5, (0.0, 1.0), weights=b)[0],
    "searchsorted": lambda a, b: a[jnp.searchsorted(jnp.sort(b[0]), a[0]) % ROWS],
    "digitize": lambda a, b: b.ravel()[jnp.digitize(a, jnp.sort(b[0]))],
    "take along": lambda a, b: jnp.take_along_axis(a, jnp.argsort(b, axis=1), 1),
    "unique": lambda a, b: jnp.unique(jnp.round(a * 3), size=4), "nonzero": lambda a, b: a[0][jnp.nonzero(b[0] > 0.5, size=4)[0]],
    "set": lambda a, b: a.at[:, ::2].set(b[:, ::2]), "add at": lambda a, b: a.at[jnp.array([0, 0, 2])].add(b[:3]),
    "multiply at": lambda a, b: a.at[jnp.array([0, 1, 2])].multiply(b[:3]),
    "max at": lambda a, b: a.at[jnp.array([0, 0, 2])].max(b[:3]), "power at": lambda a, b: a.at[jnp.array([0, 1])].power(b[:2]),
    "lexsort": lambda a, b: a[0][jnp.lexsort((a[0], b[0]))], "partition": lambda a, b: jnp.partition(a, 3),
    "top k": lambda a, b: lax.top_k(a, 3)[0], "ix": lambda a, b: a[jnp.ix_(jnp.array([0, 2]), jnp.array([1, 3]))],
    "argmax": lambda a, b: a[jnp.arange(ROWS), jnp.argmax(b, 1)],
    "one hot": lambda a, b: jax.nn.one_hot((a * 4).astype(int), 5, dtype=a.dtype) * b[..., None],
    "update": lambda a, b: lax.dynamic_update_slice(a, b[:2, :2], (jnp.int32(1), jnp.int32(3))),
    "segment sum": lambda a, b: jax.ops.segment_sum(a, jnp.array([0, 1, 0, 2, 2, 1]), 3),
    "segment max": lambda a, b: jax.ops.segment_max(a, jnp.array([0, 1, 0, 2, 2, 1]), 3),
    "interp": lambda a, b: jnp.interp(a[0], jnp.sort(b[0]), b[1]),
    "coordinates": lambda a, b: map_coordinates(a, [b[0] * 5, b[1] * 7], order=1)}

ALGEBRA = {
    "det": lambda a, b: jnp.linalg.det(_regular(a)), "inv": lambda a, b: jnp.linalg.inv(_regular(a)),
    "pinv": lambda a, b: jnp.linalg.pinv(a), "nuclear norm": lambda a, b: jnp.linalg.norm(a, "nuc"),
    "norm 2": lambda a, b: jnp.linalg.norm(a, 2), "norm 3": lambda a, b: jnp.linalg.norm(a, 3, axis=1),
    "power": lambda a, b: jnp.linalg.matrix_power(a[:4, :4], 5), "multi dot": lambda a, b: jnp.linalg.multi_dot([a, b.T, a]),
    "condition": lambda a, b: jnp.linalg.cond(_regular(a)), "expm": lambda a, b: expm(a[:4, :4]),
    "lu solve": lambda a, b: lu_solve(lu_factor(_regular(a)), b[0, :4]), "toeplitz": lambda a, b: toeplitz(a[0], b[0]),
    "block diagonal": block_diag, "polyval": lambda a, b: jnp.polyval(a[0], b), "polyfit": lambda a, b: jnp.polyfit(a[0], b[0], 2),
    "tridiagonal": lambda a, b: lax.linalg.tridiagonal_solve(a[0] * 0.1, b[0] + 2, a[1] * 0.1, b[1:3].T)}

SIGNALS = {
    "fft": lambda a, b: jnp.abs(jnp.fft.fft(a)), "rfft": lambda a, b: jnp.abs(jnp.fft.rfft(a)),
    "irfft": lambda a, b: jnp.fft.irfft(a + 1j * b), "fft 2": lambda a, b: jnp.real(jnp.fft.fft2(a)),
    "convolve": lambda a, b: jnp.convolve(a[0], b[0]), "correlate": lambda a, b: jnp.correlate(a[0], b[0], "same"),
    "convolve 2": lambda a, b: signal.convolve2d(a, b[:3, :3], "same"), "by fft": signal.fftconvolve,
    "stft": lambda a, b: jnp.abs(signal.stft(a.ravel(), nperseg=16)[2]),
    "welch": lambda a, b: signal.welch(a.ravel(), nperseg=16)[1], "bilinear": lambda a, b: jax.image.resize(a, (9, 5), "bilinear"),
    "cubic": lambda a, b: jax.image.resize(a, (9, 13), "cubic"), "lanczos": lambda a, b: jax.image.resize(a, (4, 13), "lanczos5"),
    "strided": lambda a, b: lax.conv_general_dilated(a[None, None], b[None, None, :3, :3], (1, 2), "SAME"),
    "transposed": lambda a, b: lax.conv_transpose(a[None, ..., None], b[:3, :3, None, None], (2, 2), "SAME"),
    "attention": lambda a, b: jax.nn.dot_product_attention(a[None, :, None], b[None, :, None], a[None, :, None])}

CONTROL = {
    "root": _newton, "checkpoint": lambda a, b: jax.checkpoint(lambda v: jnp.sin(jnp.cos(v) @ b.T))(a),
    "hessian": lambda a, b: jax.hessian(lambda v: jnp.sum(jnp.sin(v) ** 3))(a[0]), "jvp": lambda a, b: jax.jvp(jnp.tanh, (a,), (b,))[1],
    "loop": lambda a, b: lax.fori_loop(0, 3, lambda i, v: jnp.sin(v) * b, a),
    "scan": lambda a, b: lax.associative_scan(lambda x, y: (x[0] * y[0], x[1] * y[0] + y[1]), (a, b))[1],
    "switch": lambda a, b: lax.switch((a[0, 0] * 3).astype(int), [jnp.sin, jnp.cos, jnp.exp], b),
    "mapped": lambda a, b: jax.vmap(jnp.interp, (0, None, None))(a, jnp.sort(b[0]), b[1])}

GROUPS = {"elementwise": ELEMENTWISE, "special": SPECIAL, "densities": DENSITIES, "arrays": ARRAYS, "indices": INDICES,
          "algebra": ALGEBRA, "signals": SIGNALS, "control": CONTROL}


def _results(call, a, b):
    """What a function gives, and the gradient of a sum that weighs each of its elements otherwise."""
    def weighed(a):
        leaves = [jnp.real(leaf).astype(jnp.float32) for leaf in jax.tree.leaves(call(a, b))]
        return sum(jnp.sum(leaf * jnp.linspace(0.5, 1.5, leaf.size).reshape(leaf.shape)) for leaf in leaves)

    return jax.tree.leaves(call(a, b)), jax.grad(weighed)(a)


def _in_a_loop(call):
    return lambda a, b: lax.map(lambda each: call(each, b), jnp.stack([a, a * 0.9]))


def functions(group, is_mapped=False):
    def make(ranks):
        calls = {name: _in_a_loop(call) if is_mapped else call for name, call in GROUPS[group].items()}
        first, second = np.random.default_rng(1).uniform(0.15, 0.85, (2, ROWS, COLUMNS)).astype(np.float32)

        def step(state, x):
            a = state["a"] + x
            found = {name.replace(" ", "_"): _results(call, a, state["b"]) for name, call in calls.items()}
            return {"a": state["a"] * 1, "b": state["b"] * 1, "found": found}, {"loss": jnp.float32(0)}

        mesh, inputs = data_mesh(ranks), {"a": jnp.asarray(first), "b": jnp.asarray(second)}
        found = jax.eval_shape(step, inputs, jnp.float32(0))[0]["found"]
        state = inputs | {"found": jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), found)}
        return Step(jax.jit(step, donate_argnums=0), place(mesh, state), lambda t: (place(mesh, jnp.float32(t / 64)),))

    return make


FUNCTIONS = {f"functions_{group}{mapped}": functions(group, bool(mapped)) for group in GROUPS for mapped in ("", "_mapped")}
