"""What pickles name of NumPy: arrays and numbers of plain element types.

Arrays come in two ways: an empty one that is filled by BUILD (protocols 2 to 4), and whole, from
bytes (protocol 5). In both, the bytes are as many as shape and dtype say.
"""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np

from frontend.serialization.errors import Refused
from frontend.serialization.pickle_machine import Call
from frontend.serialization.storages import with_plain_bools

_CODE = re.compile(r"[<|=]?(b1|[iu][1248]|f[248]|c(8|16)|[SU][0-9]{1,4})")
_ARRAY_VERSION = 1


def _dtype(code: Any = None, *flags: Any) -> np.dtype[Any]:
    if type(code) is not str:
        raise Refused("NumPy arrays of a strange element type")
    if not _CODE.fullmatch(code):
        raise Refused(f"NumPy arrays of the element type {code[:40]!r}")
    return np.dtype(code)


def _scalar(dtype: Any, data: Any) -> Any:
    return _contents((), dtype, data, "C")[()]


def _empty(kind: Any, shape: Any = (0,), code: Any = b"b") -> np.ndarray:
    if kind is not _NDARRAY:
        raise Refused("a NumPy array of a class of its own")
    return np.empty(0, np.int8)


def _frombuffer(data: Any, dtype: Any, shape: Any, order: Any, axes: Any = None) -> np.ndarray:
    if axes is not None:
        raise Refused("a NumPy array with axes in an order of their own")
    return _contents(shape, dtype, data, order)


def _contents(shape: Any, dtype: Any, data: Any, order: Any) -> np.ndarray:
    """An array of its own memory."""
    if not isinstance(dtype, np.dtype) or type(data) not in (bytes, bytearray):
        raise Refused("a NumPy array of something else than bytes")
    if type(shape) is not tuple or len(shape) > 64 or order not in ("C", "F"):
        raise Refused("a NumPy array of a strange shape")
    if any(type(n) is not int or n < 0 for n in shape):
        raise Refused("a NumPy array of a strange shape")
    if math.prod(shape) * dtype.itemsize != len(data):
        raise Refused("a NumPy array whose bytes are not as many as its shape says")
    if not dtype.itemsize and math.prod(shape) > 1:
        raise Refused("a NumPy array of elements without bytes")
    array = np.frombuffer(bytearray(data), dtype) if data else np.zeros(math.prod(shape), dtype)
    return with_plain_bools(array).reshape(shape, order=order)


def _not_callable(*_: Any) -> Any:
    raise Refused("it makes a NumPy array without content")


_NDARRAY = Call("ndarray", _not_callable)
TABLE: dict[str, Any] = {
    "numpy.ndarray": _NDARRAY,
    "numpy.dtype": Call("dtype", _dtype),
}
for _core in ("numpy.core", "numpy._core"):
    TABLE[f"{_core}.multiarray._reconstruct"] = Call("_reconstruct", _empty)
    TABLE[f"{_core}.multiarray.scalar"] = Call("scalar", _scalar)
    TABLE[f"{_core}.numeric._frombuffer"] = Call("_frombuffer", _frombuffer)


def set_state(target: Any, state: Any) -> None:
    """Fill an empty array once, or confirm the byte order of a dtype. Raises Refused."""
    if isinstance(target, np.dtype):
        _confirm(state)
    elif type(target) is np.ndarray and target.dtype == np.int8 and target.shape == (0,):
        _fill(target, state)
    else:
        raise Refused(f"its pickle changes a {type(target).__name__}")


def _confirm(state: Any) -> None:
    match state:
        case (int(), "<" | "|" | "=", None, None, None, *_):
            return
    raise Refused("NumPy arrays of another byte order, or with fields")


def _fill(target: np.ndarray, state: Any) -> None:
    match state:
        case (int(version), shape, dtype, bool(columns), data) if version == _ARRAY_VERSION:
            content = _contents(shape, dtype, data, "F" if columns else "C")
            whole: Any = (version, shape, dtype, columns, content.tobytes("A"))
            target.__setstate__(whole)
            return
    raise Refused("a NumPy array with a strange state")
