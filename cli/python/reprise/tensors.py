"""Named tensors in files: safetensors (https://github.com/huggingface/safetensors, "Format") and .npz.

A safetensors file is a 64-bit little-endian length, that many bytes of JSON {name: {dtype, shape, data_offsets}} and the
data, row-major without holes. bfloat16 has no type in numpy: it is read and written as ml_dtypes.bfloat16 where that is
installed (JAX brings it) and as raw 16-bit integers otherwise; an .npz forgets it, so `load` is told the types. So it is
for complex128, which safetensors lacks: float64 with an axis of two more stands for it. float8_e4m3fn and float8_e5m2 are
ml_dtypes' as well, and integers of 4 and 2 bits, for which neither file has a name: int8 and uint8 stand for them, and
uint8 with their bits for all other floats of at most 8."""

import json
import os
import tempfile

import numpy as np

from .errors import RepriseError

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

# The name in a safetensors header, that in HLO, numpy's type.
_TYPES = [
    ("BOOL", "pred", np.bool_), ("U8", "u8", np.uint8), ("I8", "s8", np.int8), ("U16", "u16", np.uint16),
    ("I16", "s16", np.int16), ("U32", "u32", np.uint32), ("I32", "s32", np.int32), ("U64", "u64", np.uint64),
    ("I64", "s64", np.int64), ("F16", "f16", np.float16), ("F32", "f32", np.float32), ("F64", "f64", np.float64),
    ("C64", "c64", np.complex64),
]
# Those of ml_dtypes, by its own name; an integer as what its values are stored in, other floats by their bits.
_FLOATS = [("F8_E4M3", "f8e4m3fn", "float8_e4m3fn"), ("F8_E5M2", "f8e5m2", "float8_e5m2")]
_INTEGERS = [(np.int8, "s4", "int4"), (np.uint8, "u4", "uint4"), (np.int8, "s2", "int2"), (np.uint8, "u2", "uint2")]
_BITS = [("f8e4m3fnuz", "float8_e4m3fnuz"), ("f8e5m2fnuz", "float8_e5m2fnuz"), ("f8e4m3b11fnuz", "float8_e4m3b11fnuz"),
         ("f8e4m3", "float8_e4m3"), ("f8e3m4", "float8_e3m4"), ("f8e8m0fnu", "float8_e8m0fnu"),
         ("f4e2m1fn", "float4_e2m1fn")]
BFLOAT16 = np.dtype(ml_dtypes.bfloat16) if ml_dtypes is not None else np.dtype("V2")
_NARROW = {hlo: np.dtype(getattr(ml_dtypes, t)) for *_, hlo, t in [*_FLOATS, *_INTEGERS, *_BITS] if hasattr(ml_dtypes, t)}
_WHOLE = {_NARROW[hlo]: np.dtype(t) for t, hlo, _ in _INTEGERS if hlo in _NARROW}
_BY_BITS = {_NARROW[hlo] for hlo, _ in _BITS if hlo in _NARROW}
_HLO = {np.dtype(t): hlo for _, hlo, t in _TYPES} | {BFLOAT16: "bf16"} | {t: hlo for hlo, t in _NARROW.items()}
_HLO[np.dtype(np.complex128)] = "c128"
_STORED = {hlo: name for name, hlo, _ in _TYPES} | {"bf16": "BF16"}
_NUMPY = {name: np.dtype(t) for name, _, t in _TYPES} | {"BF16": BFLOAT16}
_STORED |= {hlo: name for name, hlo, _ in _FLOATS}
_NUMPY |= {name: _NARROW[hlo] for name, hlo, _ in _FLOATS if hlo in _NARROW}


def hlo_type(dtype):
    """The HLO name of a numpy type: "f32"."""
    name = _HLO.get(np.dtype(dtype))
    if name is None:
        raise RepriseError(
            f"no tensor file holds {np.dtype(dtype)}: known are {', '.join(sorted(_HLO.values()))}. Keep such state and "
            "batches in one of these, as bf16, which holds all values of 8-bit floats, and convert inside the step")
    return name


def as_float64(array):
    """Values of any stored type in float64, bfloat16 without ml_dtypes included; of complex ones both parts."""
    array = np.asarray(array)
    if np.iscomplexobj(array):
        array = _parts(array)
    if array.dtype == np.dtype("V2"):
        return (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)


def save(path, tensors):
    """Writes {name: array} in this order, as the name's end says, to a temporary name first."""
    path = os.fspath(path)
    directory = os.path.dirname(path) or "."
    handle, temporary = tempfile.mkstemp(dir=directory, prefix=".reprise-")
    try:
        with os.fdopen(handle, "wb") as file:
            if path.endswith(".npz"):
                np.savez(file, **{name: _raw(_bytes(a)) for name, a in tensors.items()})
            else:
                _write_safetensors(file, tensors)
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def _bytes(array):
    """Integers of less than a byte, and floats whose bits are stored, as what files hold."""
    array = np.asarray(array)
    if array.dtype in _BY_BITS:
        return array.view(np.uint8)
    return array.astype(_WHOLE.get(array.dtype, array.dtype), copy=False)


def _raw(array):
    """8-bit floats as raw bytes: numpy writes of one of them what it does not read."""
    return array.view("V1") if array.dtype in _NARROW.values() else array


def _parts(array):
    """Complex numbers as reals, with one axis of two more."""
    return np.stack([array.real, array.imag], -1)


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _write_safetensors(file, tensors):
    header, end = {}, 0
    arrays = {name: _parts(a) if np.asarray(a).dtype == np.complex128 else _bytes(a) for name, a in tensors.items()}
    arrays = {name: np.ascontiguousarray(a).reshape(a.shape) for name, a in arrays.items()}
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _STORED[hlo_type(array.dtype)], "shape": list(array.shape),
                        "data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    file.write(len(text).to_bytes(8, "little") + text)
    for array in arrays.values():
        file.write(array.tobytes())


def load(path, types=None):
    """Reads {name: array}. `types` ({name: HLO type}) restores bfloat16 and 8-bit floats, which .npz returns as raw bytes,
    other narrow floats and integers, and complex128, which a safetensors file keeps as pairs of float64."""
    path = os.fspath(path)
    try:
        with open(path, "rb") as file:
            if path.endswith(".npz"):
                with np.load(file, allow_pickle=False) as archive:
                    loaded = {name: archive[name] for name in archive.files}
                return {name: typed(a, (types or {}).get(name)) for name, a in loaded.items()}
            return {name: typed(a, (types or {}).get(name)) for name, a in _read_safetensors(file, path).items()}
    except OSError as error:
        raise RepriseError(f"{path}: {error.strerror or error}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise RepriseError(f"{path}: not a file of tensors: {error}") from error


def typed(array, hlo):
    """A loaded array in the type that its file may have had no name for. Errors: ValueError where it has other values."""
    if hlo == "c128" and array.dtype == np.float64:
        return array.view(np.complex128).reshape(array.shape[:-1])
    if hlo == "bf16" and array.dtype == np.dtype("V2"):
        return array.view(BFLOAT16)
    narrow = _NARROW.get(hlo)
    if narrow is not None and array.dtype == np.dtype("V1"):
        return array.view(narrow)
    if narrow in _BY_BITS and array.dtype == np.uint8:
        return array.view(narrow)
    if narrow is None or array.dtype != _WHOLE.get(narrow):
        return array
    held = array.astype(narrow)
    if (held.astype(array.dtype) != array).any():
        raise ValueError(f"{array.min()} to {array.max()} are not all {hlo}")
    return held


def _read_safetensors(file, path):
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if size < 8 or length > size - 8:
        raise RepriseError(f"{path}: not a safetensors file: a header of {length} bytes in a file of {size}")
    header = json.loads(file.read(length))
    data, tensors = np.frombuffer(file.read(), np.uint8), {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        dtype, (begin, end) = _NUMPY.get(entry["dtype"]), entry["data_offsets"]
        if dtype is None:
            raise RepriseError(f"{path}: tensor {name} is {entry['dtype']}: known are {', '.join(sorted(_NUMPY))}")
        count = int(np.prod(entry["shape"], dtype=np.int64))
        if not 0 <= begin <= end <= data.size or end - begin != count * dtype.itemsize:
            raise RepriseError(f"{path}: tensor {name} stands at bytes {begin} to {end}, its shape needs "
                               f"{count * dtype.itemsize} of {data.size}")
        tensors[name] = data[begin:end].copy().view(dtype).reshape(entry["shape"])
    return tensors
