"""Creating tensors. Inside a trace they are constants of the graph."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.dispatch import CONTEXT, filled
from frontend.dtypes import as_dtype
from frontend.state import STATE
from frontend.tensor import Tensor, from_data, make
from graphc.ir.types import DType, TensorType
from graphc.ops.generate import iota

__all__ = [
    "arange", "as_tensor", "empty", "empty_like", "eye", "from_numpy", "full", "full_like",
    "linspace", "ones", "ones_like", "tensor", "zeros", "zeros_like",
]  # fmt: skip
METHODS = "new_tensor new_full new_zeros new_ones new_empty"


def tensor(
    data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:  # fmt: skip
    """A new tensor holding a copy of `data`: numbers, nested lists, an array, a tensor."""
    result = from_data(data, dtype)
    return result.requires_grad_() if requires_grad else result


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor: itself, or over the same memory, where dtype allows."""
    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return from_data(data, dtype, copy=False)


def from_numpy(array: Any) -> Tensor:
    """A tensor over the memory of a NumPy array. Raises TypeError for anything else."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    return from_data(array, copy=False)


def shape_of(sizes: tuple[Any, ...]) -> tuple[int, ...]:
    """A shape given as numbers, or as one sequence. Raises RuntimeError for negative ones."""
    if len(sizes) == 1 and isinstance(sizes[0], Sequence | Tensor | np.ndarray):
        sizes = tuple(sizes[0])
    shape = tuple(int(size) for size in sizes)
    if any(size < 0 for size in shape):
        raise RuntimeError(
            f"Trying to create tensor with negative dimension {min(shape)}: {list(shape)}"
        )
    return shape


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, out: Any = None, layout: Any = None,
) -> Tensor:  # fmt: skip
    """A tensor of shape `size` with every element `fill_value`; its dtype follows the value."""
    if isinstance(fill_value, Tensor):
        fill_value = fill_value.item()
    kind = as_dtype(dtype) if dtype is not None else _value_dtype(fill_value)
    return _filled(shape_of((size,)), fill_value, kind, requires_grad)


def _value_dtype(value: Any) -> DType:
    if isinstance(value, bool):
        return DType.bool
    return DType.i64 if isinstance(value, int) else STATE.default_dtype


def _filled(shape: tuple[int, ...], value: Any, dtype: DType, requires_grad: bool) -> Tensor:
    if STATE.session is None:
        result = make(np.full(shape, value, dtype.numpy), TensorType(dtype, shape))
    else:
        result = filled(value, dtype, shape)
    return result.requires_grad_() if requires_grad else result


def zeros(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Zeros of shape `size`, given as numbers or one sequence."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    return _filled(shape_of(size), 0, kind, requires_grad)


def ones(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """Ones of shape `size`, given as numbers or one sequence."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    return _filled(shape_of(size), 1, kind, requires_grad)


def empty(
    *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    layout: Any = None, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """As `zeros`: memory is never handed out uninitialised."""
    return zeros(*size, dtype=dtype, requires_grad=requires_grad)


def arange(
    start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """start, start + step, … before `end`. Integers give int64. Raises RuntimeError where step
    is 0 or leads away from `end`."""
    if end is None:
        start, end = 0, start
    first, last, by = (x.item() if isinstance(x, Tensor) else x for x in (start, end, step))
    if by == 0:
        raise RuntimeError("step must be nonzero")
    if (last - first) * by < 0:
        raise RuntimeError("upper bound and lower bound inconsistent with step sign")
    if dtype is None:
        whole = all(isinstance(x, int) for x in (first, last, by))
        kind = DType.i64 if whole else STATE.default_dtype
    else:
        kind = as_dtype(dtype)
    count = math.ceil((last - first) / by)
    if STATE.session is not None and (first, by) == (0, 1):
        result = CONTEXT.apply(iota, (), {"shape": (count,), "axis": 0, "dtype": kind})[0]
    else:
        result = from_data((first + by * np.arange(count)).astype(kind.numpy), copy=False)
    return result.requires_grad_() if requires_grad else result


def linspace(
    start: float, end: float, steps: int, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """`steps` numbers from `start` to `end`, both included, evenly spaced."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    result = from_data(np.linspace(start, end, steps).astype(kind.numpy), copy=False)
    return result.requires_grad_() if requires_grad else result


def eye(
    n: int, m: int | None = None, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """[n, m] with ones on the diagonal."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    result = from_data(np.eye(n, m, dtype=kind.numpy), copy=False)
    return result.requires_grad_() if requires_grad else result


# -- like another tensor -------------------------------------------------------------------------


def _kind(like: Tensor, dtype: Any) -> DType:
    return like.dtype if dtype is None else as_dtype(dtype)


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """`fill_value` in the shape of `input`."""
    shape = input.tensor_type.shape
    return _filled(shape, fill_value, _kind(input, dtype), requires_grad)


def zeros_like(input: Tensor, **options: Any) -> Tensor:
    """Zeros in the shape and dtype of `input`."""
    return full_like(input, 0, **options)


def ones_like(input: Tensor, **options: Any) -> Tensor:
    """Ones in the shape and dtype of `input`."""
    return full_like(input, 1, **options)


def empty_like(input: Tensor, **options: Any) -> Tensor:
    """As `zeros_like`."""
    return full_like(input, 0, **options)


def new_tensor(
    self: Tensor, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """`data` as a new tensor of this one's dtype."""
    return tensor(data, dtype=_kind(self, dtype), requires_grad=requires_grad)


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None,
    requires_grad: bool = False,
) -> Tensor:  # fmt: skip
    """A filled tensor of this one's dtype."""
    return _filled(shape_of((size,)), fill_value, _kind(self, dtype), requires_grad)


def new_zeros(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Zeros of this one's dtype."""
    return _filled(shape_of(size), 0, _kind(self, dtype), requires_grad)


def new_ones(
    self: Tensor, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    """Ones of this one's dtype."""
    return _filled(shape_of(size), 1, _kind(self, dtype), requires_grad)


def new_empty(self: Tensor, *size: Any, **options: Any) -> Tensor:
    """As `new_zeros`."""
    return new_zeros(self, *size, **options)
