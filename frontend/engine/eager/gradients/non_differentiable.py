"""Functions PyTorch has no derivative of: their results require gradients, and backward raises."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.eager.tape import Saves, record
from frontend.engine.tensors.state import STATE, check_custom_gradient, no_grad
from frontend.engine.tensors.tensor import Tensor


class DerivativeError(RuntimeError):
    """Backward through a function that has no derivative. `function` is its name."""

    def __init__(self, function: str):
        super().__init__(f"derivative for aten::{function} is not implemented")
        self.function = function


class NonDifferentiable:
    """The op of a tape node of a function that has no derivative."""

    def __init__(self, name: str, error: Callable[[str], Exception], node_name: str):
        self.name = name
        self.error = error
        self.node_name = node_name

    def vjp(self, *arguments: Any, **attributes: Any) -> Any:
        raise self.error(self.name)


def mark_non_differentiable(
    name: str, operands: tuple[Tensor, ...], result: Tensor,
    error: Callable[[str], Exception] = DerivativeError, node_name: str = "NotImplemented",
) -> None:  # fmt: skip
    """Put a node without derivative between the operands and the result: backward raises
    `error(name)`. It is shown as PyTorch shows such nodes."""
    if not result.dtype.is_float:
        return
    reads: Any = ((False,) * len(operands), (False,))
    kinds = tuple(x.tensor_type for x in operands)
    saves = Saves(kinds, (result.tensor_type,), reads)
    record(NonDifferentiable(name, error, node_name), {}, operands, (result,), saves)


def non_differentiable(name: str, compute: Callable[..., Tensor], *operands: Any) -> Tensor:
    """`compute(*operands)`, whose result requires gradients where an operand does, and which
    backward cannot pass. `name` is PyTorch's name of the function."""
    tensors = tuple(x for x in operands if isinstance(x, Tensor))
    if not STATE.grad_enabled or not any(x.requires_grad for x in tensors):
        return compute(*operands)
    check_custom_gradient(tensors)
    with no_grad():
        result = compute(*operands)
    mark_non_differentiable(name, tensors, result)
    return result
