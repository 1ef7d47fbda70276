"""Dropout: random zeros in training."""

from __future__ import annotations

from frontend import random
from frontend.nn.checks import fail, scalar_name
from frontend.tensor import Tensor
from graphc.errors import DTypeError
from graphc.ops import elementwise

__all__ = ["dropout"]


def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """In training each element is 0 with probability p, else scaled by 1/(1-p); otherwise the
    input. The mask is drawn from the default generator: the same stream eager and compiled."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    if not input.dtype.is_float:
        raise fail(
            DTypeError,
            f"result type Float can't be cast to the desired output type {scalar_name(input)}",
        )
    kept = random.rand(tuple(input.shape)) >= p
    scale = 0.0 if p == 1 else 1 / (1 - p)
    out = input * (elementwise.cast(kept, dtype=input.dtype) * scale)
    return input.copy_(out) if inplace else out
