"""Complex numbers as native code has them: pairs of reals along a last axis of 2, which is the same
memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import DType, TensorType


def stored_type(type: TensorType) -> TensorType:
    """The type that graphs have in place of a tensor's: of complex numbers that of the pairs."""
    if not type.dtype.is_complex:
        return type
    return TensorType(type.dtype.computes_as, (*type.shape, 2))


def as_pairs(array: Any) -> Any:
    """A complex array as pairs, in the same memory; another one as it is."""
    return array[..., None].view(array.real.dtype) if array.dtype.kind == "c" else array


def from_pairs(array: Any) -> Any:
    """Pairs that lie side by side as a complex array, in the same memory."""
    kind = DType.c128 if array.dtype == np.float64 else DType.c64
    return array.view(kind.numpy)[..., 0]


def made_of(array: Any, type: TensorType) -> Tensor:
    """A tensor of this type over an array that native code made."""
    return make(from_pairs(array) if type.dtype.is_complex else array, type)
