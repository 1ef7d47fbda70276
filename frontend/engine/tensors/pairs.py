"""Complex numbers as native code has them: pairs of reals along a last axis of 2, which is the same
memory."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import TensorType
from graphc.ops.complex_numbers import as_pairs, from_pairs, stored_type

__all__ = ["as_pairs", "from_pairs", "made_of", "stored_type"]


def made_of(array: Any, type: TensorType) -> Tensor:
    """A tensor of this type over an array that native code made."""
    return make(from_pairs(array) if type.dtype.is_complex else array, type)
