"""What functions check of their arguments: `torch._check` and its kin (`torch._assert`, which asks
proxies too, stands in overrides.checks)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.tensor import Tensor

__all__ = ["_assert_async", "_check", "_check_index", "_check_is_size", "_check_value",
           "_check_type", "_check_tensor_all", "_check_tensor_all_with", "_check_with"]  # fmt: skip

Message = Callable[[], Any] | None


def _assert_async(input: Tensor, assert_msg: str = "Expected Tensor with single nonzero value, but "
                  "got zero") -> None:  # fmt: skip
    """Raises RuntimeError where the one element of a tensor is zero."""
    if not bool(input):
        raise RuntimeError(assert_msg)


def _check_with(error_type: type[Exception], cond: Any, message: Message = None) -> None:
    """Raises `error_type` with what `message()` gives unless the condition holds. Raises TypeError
    for a condition that is no bool."""
    if not isinstance(cond, bool):
        raise TypeError(f"cond must be a bool, but got {type(cond)}")
    if not cond:
        default = "Expected cond to be True, but got False."
        raise error_type(default if message is None else str(message()))


def _check(cond: Any, message: Message = None) -> None:
    """Raises RuntimeError unless the condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_index(cond: Any, message: Message = None) -> None:
    """Raises IndexError unless the condition holds."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Message = None) -> None:
    """Raises ValueError unless the condition holds."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Message = None) -> None:
    """Raises TypeError unless the condition holds."""
    _check_with(TypeError, cond, message)


def _check_is_size(i: int, message: Message = None, *, max: int | None = None) -> None:
    """Raises RuntimeError for a negative number, or one greater than `max`."""
    _check(i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(
    error_type: type[Exception], cond: Tensor, message: Message = None
) -> None:
    """Raises `error_type` unless all elements of a bool tensor are true."""
    _check_with(error_type, bool(cond.all()), message)


def _check_tensor_all(cond: Tensor, message: Message = None) -> None:
    """Raises RuntimeError unless all elements of a bool tensor are true."""
    _check_tensor_all_with(RuntimeError, cond, message)
