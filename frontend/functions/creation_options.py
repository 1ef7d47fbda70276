"""What functions that create tensors take: sizes, a dtype, a place, a layout, `requires_grad`."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.dtypes import CPU, META, SCALAR_NAMES, as_dtype, place_of, strided
from frontend.engine.tensors.symbolic_numbers import whole
from frontend.engine.tensors.tensor import Tensor, without_data
from graphc.ir.types import DType


def shape_of(sizes: tuple[Any, ...], name: str = "size()") -> tuple[int, ...]:
    """A shape given as numbers, or as one sequence. Raises TypeError for what is no number,
    RuntimeError for negative ones."""
    if len(sizes) == 1 and sizes[0].__class__ is tuple:
        sizes = sizes[0]
    elif (
        len(sizes) == 1
        and sizes[0].__class__ is not int
        and isinstance(sizes[0], Sequence | Tensor | np.ndarray)
    ):
        single = isinstance(sizes[0], Tensor | np.ndarray) and not sizes[0].ndim
        sizes = sizes if single or isinstance(sizes[0], str) else tuple(sizes[0])
    if all([type(size) is int and size >= 0 for size in sizes]):
        return sizes
    shape = []
    for size in sizes:
        if isinstance(size, bool | np.bool_) or not hasattr(size, "__index__"):
            raise TypeError(
                f"{name}: argument 'size' must be tuple of ints, not {type(size).__name__}"
            )
        shape.append(whole(size) if isinstance(size, int) else operator.index(size))
    if any(size < 0 for size in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension {min(shape)}: {shape}")
    return tuple(shape)


def check_options(device: Any, layout: Any, pin_memory: Any = False) -> Any:
    """The place that a device names, CPU or META. Raises for a place, a layout or pinned memory
    that tensors cannot have."""
    place = place_of(device)
    if layout is not None and layout is not strided:
        raise NotImplementedError(f"the only layout is torch.strided, not {layout!r}")
    if pin_memory:
        raise RuntimeError("Cannot access accelerator device when none is available.")
    return place


def finished(result: Tensor, requires_grad: Any, device: Any = CPU) -> Tensor:
    """`result`, made to require gradients where that is wanted; without its data where `device`
    (None: the default) is meta."""
    if device is not CPU and place_of(device) is META:
        result = without_data(result.tensor_type)
    return result.requires_grad_() if requires_grad else result


def kind_of(dtype: Any, out: Any, default: DType) -> DType:
    """The dtype of a result: the one wanted, that of `out`, or `default`. Raises RuntimeError
    where `out` has another one than is wanted."""
    if out is None or not isinstance(out, Tensor):
        return default if dtype is None else as_dtype(dtype)
    if dtype is not None and as_dtype(dtype) is not out.dtype:
        raise RuntimeError(
            f"dtype {SCALAR_NAMES[as_dtype(dtype)]} does not match dtype of out parameter "
            f"({SCALAR_NAMES[out.dtype]})"
        )
    return out.dtype
