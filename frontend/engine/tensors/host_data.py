"""Python data as arrays, by PyTorch's rules: what `tensor(data)` holds.

In: numbers, nested sequences of numbers, NumPy arrays and scalars, tensors of one element. Out: a
NumPy array of a supported dtype. The dtype follows from all elements: Python floats count as the
default dtype, Python integers as int64, others as what they are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import as_dtype, complex_of, promote_types
from graphc.errors import DTypeError
from graphc.ir.handle import Handle
from graphc.ir.types import DType
from graphc.ops.conversion import convert

_SUPPORTED = [kind.numpy for kind in DType]
_PLAIN = {bool: DType.bool, int: DType.i64, float: DType.f32}
_WIDE = (DType.bool, DType.i64, DType.f32, DType.f64)
_OVERFLOW = "Overflow when unpacking long long"
_INTEGER_LIMITS = {kind: np.iinfo(kind.numpy) for kind in DType if kind.is_integer}


def array_of(data: Any, dtype: Any, default: DType, copy: bool) -> np.ndarray:
    """`data` as an array of `dtype`, or of the dtype it implies; with `copy` one nobody else holds.

    Raises TypeError, ValueError and RuntimeError where PyTorch does: for ragged sequences, things
    that are no numbers, numbers an integer dtype does not hold."""
    kind = None if dtype is None else as_dtype(dtype)
    if kind is None and type(data) in _PLAIN:
        plain = default if type(data) is float else _PLAIN[type(data)]
        if plain in _WIDE and -1e18 <= data <= 1e18:  # nothing is beyond its range
            return np.array(data, plain.numpy)
    if data.__class__ in (list, tuple):
        row = _row(data, kind, default)
        if row is not None:
            return row
    if isinstance(data, Handle):
        data = data._array("tensor()")  # type: ignore[attr-defined]
    elif not isinstance(data, np.ndarray | np.generic) and hasattr(data, "__array__"):
        data = np.asarray(data)
    if isinstance(data, np.ndarray | np.generic):
        return _of_array(np.asarray(data), kind, copy)
    leaves = _Leaves(data)
    kind = leaves.dtype(default) if kind is None else kind
    return numbers_as(leaves.values, kind).reshape(leaves.shape)


def _row(data: Any, kind: DType | None, default: DType) -> np.ndarray | None:
    """An array of a list or tuple of numbers of one type, Python's or NumPy's; None of others."""
    types = set(map(type, data))
    if len(types) != 1:
        return None
    (each,) = types
    plain = _PLAIN.get(each)
    if plain is None:
        if kind is None and issubclass(each, np.number | np.bool_):
            array = np.array(data)
            check_supported(array)
            return array
        return None
    if kind is None:
        kind = default if each is float else plain
    if kind is plain and kind is DType.i64:
        try:
            return np.array(data, np.int64)
        except OverflowError:
            raise ValueError(_OVERFLOW) from None
    return numbers_as(data, kind)


def _of_array(array: np.ndarray, kind: DType | None, copy: bool) -> np.ndarray:
    check_supported(array)
    if kind is None or array.dtype == kind.numpy:
        return array.copy() if copy else array
    with np.errstate(all="ignore"):
        return np.asarray(convert(array, kind))


def check_supported(array: np.ndarray) -> None:
    """Raise TypeError for an array whose elements are of no supported dtype, ValueError for one of
    foreign byte order."""
    if array.dtype in _SUPPORTED:
        return
    if array.dtype.newbyteorder("=") in _SUPPORTED:
        raise ValueError(
            "given numpy array has byte order different from the native byte order. Conversion "
            "between byte orders is currently not supported."
        )
    raise DTypeError(
        f"can't convert np.ndarray of type numpy.{array.dtype.type.__name__}. The only supported "
        f"types are: {', '.join(kind.name for kind in _SUPPORTED)}."
    )


def numbers_as(values: Any, kind: DType) -> np.ndarray:
    """Python numbers (one, or a flat list) as an array of `kind`: truncated for integers, `!= 0`
    for bool. Raises ValueError beyond int64, RuntimeError beyond `kind`."""
    if kind.is_complex:
        with np.errstate(all="ignore"):
            return np.array(values, np.complex128).astype(kind.numpy)
    if kind.is_float:
        with np.errstate(all="ignore"):
            return np.asarray(convert(_real(values, np.float64), kind))
    if kind is DType.bool:
        return np.asarray(np.array(values, np.complex128) != 0)
    try:
        wide = _real(values)
        if kind is DType.u64 and _mixes(values, wide):
            wide = np.array(values, np.uint64)
        if wide.dtype.kind == "f":
            return _whole(_wrapping(values, wide, kind), kind)
        if kind is DType.u64 and wide.dtype.kind == "u":
            return wide.astype(np.uint64)
        exact = wide.astype(np.int64) if wide.dtype.kind in "bi" or not wide.size else None
    except OverflowError:
        exact = None
    if exact is None:
        raise ValueError(_OVERFLOW)
    low, high = _INTEGER_LIMITS[kind].min, _INTEGER_LIMITS[kind].max
    # PyTorch lets a negative number wrap in an unsigned type.
    if exact.size and (exact.min() < (low or -high) or exact.max() > high):
        raise overflow(kind)
    return exact.astype(kind.numpy)


def _real(values: Any, dtype: Any = None) -> np.ndarray:
    """An array of numbers, of which none may be complex."""
    try:
        array = np.array(values, dtype)
    except TypeError:  # a complex number as a float
        array = np.array(values)
    if array.dtype.kind != "c":
        return array
    if array.imag.any():
        raise TypeError("must be real number, not complex")
    return array.real if dtype is None else array.real.astype(dtype)


def _mixes(values: Any, wide: np.ndarray) -> bool:
    """Whether NumPy made floats of integers, because some are above int64 and some are not."""
    integers = (int, np.integer)
    return (
        wide.dtype.kind == "f"
        and wide.ndim == 1
        and all(isinstance(value, integers) and value >= 0 for value in values)
    )


def _wrapping(values: Any, wide: np.ndarray, kind: DType) -> np.ndarray:
    """The floats of these numbers; of an unsigned type, negative integers among them as they wrap
    there."""
    limits = _INTEGER_LIMITS[kind]
    if limits.min or not wide.ndim or all(type(value) is float for value in values):
        return wide
    greatest = int(limits.max)
    wraps = [isinstance(value, int) and -greatest <= value < 0 for value in values]
    return np.where(wraps, wide + (greatest + 1), wide)


def _whole(wide: np.ndarray, kind: DType) -> np.ndarray:
    """Floats within the limits of `kind`, truncated. 2^63 rounds to what int64 has as a float."""
    limits = _INTEGER_LIMITS[kind]
    within = (wide >= limits.min) & (wide <= limits.max) & (wide < float(limits.max) + 1)
    if wide.size and not within.all():
        raise overflow(kind)
    return np.asarray(np.trunc(wide)).astype(kind.numpy)


def overflow(kind: DType) -> RuntimeError:
    """The error of a number that `kind` does not hold."""
    return RuntimeError(f"value cannot be converted to type {kind.numpy.name} without overflow")


class _Leaves:
    """The numbers of nested sequences: a flat list, their shape, and what they say of the dtype."""

    def __init__(self, data: Any):
        self.values: list[Any] = []
        self.shape = _shape(data)
        self.kinds: set[Any] = set()
        if not self.shape:
            self._leaf(data)
            self.values = self.values[0]
        elif math.prod(self.shape):
            self._collect(data, 0)

    def dtype(self, default: DType) -> DType:
        """The dtype that holds all of them."""
        python = {
            bool: DType.bool, int: DType.i64, float: default, complex: complex_of(default),
        }  # fmt: skip
        common: DType | None = None
        for kind in self.kinds:
            each = python.get(kind, kind)
            common = each if common is None else promote_types(common, each)
        return default if common is None else common

    def _collect(self, data: Any, depth: int) -> None:
        if not _is_sequence(data):
            raise TypeError("not a sequence")
        if len(data) != self.shape[depth]:
            raise ValueError(
                f"expected sequence of length {self.shape[depth]} at dim {depth} (got {len(data)})"
            )
        if isinstance(data, np.ndarray):
            self._array(data, depth)
            return
        if depth + 1 < len(self.shape):
            for item in data:
                self._collect(item, depth + 1)
            return
        types = set(map(type, data))
        if types <= {int, float, bool, complex}:
            self.kinds |= types
            self.values.extend(data)
            return
        for item in data:
            self._leaf(item)

    def _array(self, array: np.ndarray, depth: int) -> None:
        if array.shape != self.shape[depth:]:
            raise ValueError(
                f"expected sequence of shape {list(self.shape[depth:])} at dim {depth} (got "
                f"{list(array.shape)})"
            )
        check_supported(array)
        self.kinds.add(DType.of(array.dtype))
        self.values.extend(array.reshape(-1).tolist())

    def _leaf(self, item: Any) -> None:
        if isinstance(item, bool | int | float | complex) and not isinstance(item, np.generic):
            kinds = (bool, int, float, complex)
            self.kinds.add(next(kind for kind in kinds if isinstance(item, kind)))
            self.values.append(item)
            return
        if isinstance(item, Handle):
            array = item._array("tensor() of a sequence of tensors")  # type: ignore[attr-defined]
            if array.size != 1:
                raise TypeError(
                    "only one element tensors can be converted to Python scalars; torch.stack() "
                    "makes one tensor of several"
                )
            self.kinds.add(item.dtype)
            self.values.append(array.item())
            return
        if isinstance(item, np.generic) or (isinstance(item, np.ndarray) and not item.ndim):
            check_supported(np.asarray(item))
            self.kinds.add(DType.of(item.dtype))
            self.values.append(item.item())
            return
        if isinstance(item, str | bytes):
            raise TypeError(f"new(): invalid data type '{type(item).__name__}'")
        if _is_sequence(item):
            raise TypeError(f"'{type(item).__name__}' object cannot be interpreted as an integer")
        raise RuntimeError(f"Could not infer dtype of {type(item).__name__}")


def _shape(data: Any) -> tuple[int, ...]:
    """The lengths met going down the first elements."""
    sizes: list[int] = []
    while _is_sequence(data):
        if isinstance(data, np.ndarray):
            return (*sizes, *data.shape)
        sizes.append(len(data))
        if len(sizes) > 64:
            raise ValueError(f"too many dimensions '{type(data).__name__}'")
        if not len(data):
            break
        data = data[0]
    if sizes and isinstance(data, str):
        raise ValueError("too many dimensions 'str'")
    return tuple(sizes)


def _is_sequence(data: Any) -> bool:
    if isinstance(data, list | tuple | range):
        return True
    if isinstance(data, str | bytes | dict | set | frozenset | np.generic | Handle):
        return False
    if isinstance(data, np.ndarray):
        return data.ndim > 0
    return hasattr(data, "__len__") and hasattr(data, "__getitem__")
