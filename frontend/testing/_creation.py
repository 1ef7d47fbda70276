"""`make_tensor`: random values in a range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.functions.random import randint
from graphc.ir.types import DType


def make_tensor(
    *shape: Any, dtype: Any, device: Any = "cpu", low: Any = None, high: Any = None,
    requires_grad: bool = False, noncontiguous: bool = False, exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """Random values in [low, high): of floats -9 to 9, of integers -9 to 9 (0 to 9 without a sign),
    of bools 0 to 2 unless given. Raises ValueError for an empty range."""
    sizes = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    unsigned = dtype in (DType.u8, DType.bool)
    first = (0 if unsigned else -9) if low is None else low
    last = (2 if dtype is DType.bool else 10 if dtype.is_integer else 9) if high is None else high
    if first >= last:
        raise ValueError(f"`low` must be less than `high`, but got {first} >= {last}")
    with no_grad():
        if dtype.is_float:
            result = empty(sizes, dtype=dtype, device=device).uniform_(first, last)
        else:
            result = randint(int(first), int(last), tuple(sizes), device=device).to(dtype)
        if exclude_zero:
            result[result == 0] = 1
    if noncontiguous and result.numel() > 1:
        doubled = result.repeat_interleave(2, dim=-1)
        result = doubled[..., ::2]
    return result.requires_grad_(requires_grad)
