"""Numbers about dtypes: `finfo` and `iinfo`, with PyTorch's texts; the ends of a range, and whether
a number lies in it."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from frontend.engine.tensors.absent_dtypes import AbsentDType
from frontend.engine.tensors.dtypes import as_dtype
from frontend.engine.tensors.host_data import overflow
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import is_open
from graphc.ir.types import DType

__all__ = ["finfo", "iinfo"]


class _Limits:
    """Numbers about a dtype, named by `_shown`, with PyTorch's text."""

    _shown: tuple[str, ...] = ()
    bits: int
    dtype: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, type(self)) and self.dtype == other.dtype

    def __hash__(self) -> int:
        return hash((type(self), self.dtype))

    def __repr__(self) -> str:
        listed = ", ".join(f"{name}={getattr(self, name):g}" for name in self._shown)
        return f"{type(self).__name__}({listed}, dtype={self.dtype})"


class finfo(_Limits):
    """`bits`, `eps`, `max`, `min`, `tiny`, `smallest_normal` and `resolution` of a float dtype, the
    default one without an argument. Raises TypeError for another dtype."""

    _shown = ("resolution", "min", "max", "eps", "smallest_normal", "tiny")

    def __init__(self, type: Any = None):
        if isinstance(type, AbsentDType) and type.is_floating_point:
            stored = np.dtype(getattr(ml_dtypes, type.name.removesuffix("_x2")))
        else:
            kind = STATE.default_dtype if type is None else as_dtype(type)
            if not kind.is_float:
                raise TypeError(
                    "torch.finfo() requires a floating point input type. Use torch.iinfo to handle "
                    f"{kind}"
                )
            stored = kind.numpy if not kind.is_complex else kind.computes_as.numpy
        limits = ml_dtypes.finfo(stored)
        self.bits = 8 * stored.itemsize
        self.dtype = stored.name
        self.eps = float(limits.eps)
        self.max = float(limits.max)
        self.min = float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        # The least 10^-n that is not less than eps.
        self.resolution = float(f"1e-{int(-math.log10(self.eps))}")


class iinfo(_Limits):
    """`bits`, `max` and `min` of an integer dtype. Raises TypeError for another one."""

    _shown = ("min", "max")

    def __init__(self, type: Any):
        kind = as_dtype(type)
        if kind.is_float:
            raise TypeError(
                f"torch.iinfo() requires an integer input type. Use torch.finfo to handle {kind}"
            )
        if not kind.is_integer:
            raise TypeError(f"{kind} is not supported by torch.iinfo")
        limits = np.iinfo(kind.numpy)
        self.bits = limits.bits
        self.dtype = kind.numpy.name
        self.max, self.min = int(limits.max), int(limits.min)


def limits(kind: DType) -> tuple[Any, Any]:
    """The least and the greatest value of a dtype, for floats the infinities."""
    if kind.is_float:
        return -math.inf, math.inf
    info = np.iinfo(kind.numpy)
    return int(info.min), int(info.max)


def fitting(number: Any, kind: DType, *, computed: bool = False) -> Any:
    """`number`, which a tensor of `kind` can hold; with `computed`, one of what `kind` computes in:
    float32 for half types. A negative whole number wraps in an unsigned type. Raises RuntimeError,
    as PyTorch does. Tensors, and numbers beside bools and complex ones, are as they are."""
    if computed and kind.is_float:
        kind = kind.computes_as
    if kind in _HELD_BY_ALL or not isinstance(number, int | float | np.integer | np.floating):
        return number
    if isinstance(number, bool):
        return number
    least, greatest = _FINITE_LIMITS[kind]
    if not least and isinstance(number, int | np.integer):
        least = -greatest
    if kind.is_float and isinstance(number, int) and is_open(number):
        # Numbers that are left open are of 64 bits: all but half types hold them.
        outside = kind is DType.f16 and (number > int(greatest) or number < int(least))
    elif kind.is_float:
        outside = (number > greatest and number != math.inf) or (
            number < least and number != -math.inf
        )
    else:
        outside = not (number >= least and number <= greatest)  # NaN is not
    if outside:
        raise overflow(kind)
    return number


def wrapped(number: Any, kind: DType) -> Any:
    """A number that fits `kind`, as it holds it: a negative whole one of an unsigned type is what
    is modulo its range."""
    if isinstance(number, int) and number < 0 and kind.is_integer and not limits(kind)[0]:
        return number + int(limits(kind)[1]) + 1
    return number


_HELD_BY_ALL = (DType.bool, DType.f64, DType.c64, DType.c128)


def _finite_limits(kind: DType) -> tuple[Any, Any]:
    return (finfo(kind).min, finfo(kind).max) if kind.is_float else limits(kind)


_FINITE_LIMITS = {kind: _finite_limits(kind) for kind in DType if kind not in _HELD_BY_ALL}
