"""Arithmetic on uint16, uint32 and uint64, which the functions of `torch` refuse as PyTorch does.

A function is computed on signed integers that hold the values (int32, int64), and its results wrap
back. uint64 has no such integer: it is computed on the int64 of its bits, which sums, products and
equality do not tell apart; what asks for order flips the sign bit first, and quotients are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import frontend as torch
from frontend.engine.tensors.dtypes import int32, int64, uint16, uint32, uint64
from frontend.engine.tensors.tensor import Tensor

_WIDE = {uint16: int32, uint32: int64, uint64: int64}
_SIGN = -(1 << 63)


def _flipped(x: Tensor) -> Tensor:
    """int64 in the order of the uint64 of these bits."""
    return torch.bitwise_xor(x, torch.full((), _SIGN, dtype=int64))


def on_unsigned(function: Callable[..., Any], ordered: bool = False) -> Callable[..., Any]:
    """`function` of tensors of one dtype, unsigned ones too. `ordered`: it compares its operands
    (and gives bools, or one of them)."""

    @functools.wraps(function)
    def computed(*xs: Any, **attributes: Any) -> Any:
        kind = next((x.dtype for x in xs if isinstance(x, Tensor) and x.dtype in _WIDE), None)
        if kind is None:
            return function(*xs, **attributes)
        flips = ordered and kind is uint64
        wide = [
            (_flipped(x.to(int64)) if flips else x.to(_WIDE[kind]))
            if isinstance(x, Tensor) and x.dtype is kind
            else x
            for x in xs
        ]
        result = function(*wide, **attributes)
        if result.dtype is not _WIDE[kind]:
            return result
        return (_flipped(result) if flips else result).to(kind)

    return computed


def quotient(x: Tensor, y: Tensor) -> Tensor:
    """x // y of uint64. By a divisor of 2^63 upward it is 0 or 1; else half of x is divided, and
    what is left decides about one more."""
    a, b = x.to(int64), y.to(int64)
    least = _flipped(a) >= _flipped(b)
    half = ((a >> 1) & ((1 << 63) - 1)).div(torch.where(b > 0, b, 1), rounding_mode="trunc") << 1
    rest = a - half * b
    more = _flipped(rest) >= _flipped(b)
    return torch.where(b < 0, least.to(int64), half + more.to(int64)).to(uint64)


def divided(function: Callable[..., Any], x: Tensor, y: Tensor, remainder: bool = False) -> Tensor:
    """`function`, a quotient or a remainder of integers, on unsigned ones too."""
    if x.dtype is not uint64:
        return on_unsigned(function)(x, y)
    result = quotient(x, y)
    if not remainder:
        return result
    return (x.to(int64) - result.to(int64) * y.to(int64)).to(uint64)
