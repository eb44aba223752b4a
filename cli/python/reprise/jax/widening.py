"""A traced step in float64: the same program, every f32 of it an f64 and every c64 a c128.

Random bits, integers and constants stay what they are in f32, so that its result is what the step would give without
rounding. Only what a step does to the bits of a number (bitcasts, XLA's own draws) is done in f32 as before."""

import copy

import jax
import numpy as np

from . import equations

_WIDER = {np.dtype(np.float32): np.dtype(np.float64), np.dtype(np.complex64): np.dtype(np.complex128)}
_OF_BITS = ("bitcast_convert_type", "random_gamma", "rng_uniform")


def wider(array):
    """An array of the wider type; of another type than f32 and c64, itself."""
    dtype = _WIDER.get(getattr(array, "dtype", None))
    return array if dtype is None else np.asarray(array).astype(dtype)


def widened(closed):
    """A step's jaxpr in float64, to run under jax.enable_x64."""
    return closed.replace(jaxpr=_jaxpr(closed.jaxpr), consts=[wider(const) for const in closed.consts])


def _aval(aval):
    dtype = _WIDER.get(getattr(aval, "dtype", None))
    return aval if dtype is None else aval.update(dtype=dtype)


class _Variables:
    """The variables of one jaxpr and their wider ones."""

    def __init__(self):
        self._wider = {}

    def of(self, atom):
        """The wider atom; of a literal, with the value that it has in f32, and never a number of Python, whose type
        is another under enable_x64."""
        if equations.is_literal(atom):
            dtype = getattr(atom.aval, "dtype", None)
            return type(atom)(wider(np.asarray(atom.val, dtype)), _aval(atom.aval)) if dtype is not None else atom
        if atom not in self._wider:
            self._wider[atom] = _with_aval(atom, _aval(atom.aval))
        return self._wider[atom]


def _with_aval(variable, aval):
    other = copy.copy(variable)
    other.aval = aval
    return other


def _jaxpr(jaxpr):
    variables = _Variables()
    every = lambda atoms: [variables.of(atom) for atom in atoms]
    made = []
    for equation in jaxpr.eqns:
        inputs, outputs = every(equation.invars), every(equation.outvars)
        if equation.primitive.name in _OF_BITS:
            made += _in_f32(equation, inputs, outputs)
        else:
            made.append(equation.replace(invars=inputs, outvars=outputs, params=_params(equation)))
    return jaxpr.replace(constvars=every(jaxpr.constvars), invars=every(jaxpr.invars), outvars=every(jaxpr.outvars),
                         eqns=made)


def _in_f32(equation, inputs, outputs):
    """The equation as it was, between conversions."""
    narrow = lambda wide, atom: wide if wide.aval is atom.aval else _with_aval(wide, atom.aval)
    taken = [narrow(*pair) for pair in zip(inputs, equation.invars)]
    given = [narrow(*pair) for pair in zip(outputs, equation.outvars)]
    return [*(_conversion(*pair) for pair in zip(inputs, taken) if pair[0] is not pair[1]),
            equation.replace(invars=taken, outvars=given),
            *(_conversion(*pair) for pair in zip(given, outputs) if pair[0] is not pair[1])]


def _conversion(source, target):
    struct = jax.ShapeDtypeStruct(source.aval.shape, source.aval.dtype)
    (equation,) = jax.make_jaxpr(lambda x: jax.lax.convert_element_type(x, target.aval.dtype))(struct).eqns
    return equation.replace(invars=[source], outvars=[target])


def _params(equation):
    params = {name: _param(value) for name, value in equation.params.items()}
    if equation.primitive.name == "reduce_precision" and (params["exponent_bits"], params["mantissa_bits"]) == (8, 23):
        return params | {"exponent_bits": 11, "mantissa_bits": 52}  # To f32, as checkpoint has it: no rounding.
    return params


def _param(value):
    """A parameter of an equation with the types and programs that it names."""
    if hasattr(value, "eqns"):
        return widened(value) if hasattr(value, "consts") else _jaxpr(value)
    if isinstance(value, jax.core.ShapedArray):
        return _aval(value)
    if type(value) in (tuple, list):
        return type(value)(map(_param, value))
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_param, value))
    try:
        return _WIDER.get(np.dtype(value), value) if isinstance(value, (np.dtype, type)) else value
    except TypeError:  # a class that is no type of numbers
        return value
