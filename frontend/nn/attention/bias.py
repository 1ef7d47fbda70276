"""`torch.nn.attention.bias`: causal masks as tensors."""

from __future__ import annotations

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import ones
from frontend.functions.select import tril
from graphc.ir.types import DType

__all__ = ["causal_lower_right", "causal_upper_left"]


def causal_upper_left(*size: int) -> Tensor:
    """True where column j ≤ row i: bool, of `size` [rows, columns]."""
    return tril(ones(*size, dtype=DType.bool))


def causal_lower_right(*size: int) -> Tensor:
    """True where column j ≤ row i + columns - rows: bool, of `size` [rows, columns]."""
    return tril(ones(*size, dtype=DType.bool), size[1] - size[0])
