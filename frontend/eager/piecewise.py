"""Ops whose derivative is constant in pieces: where it is itself differentiated, their operand has
the gradient 0, as in PyTorch, not none."""

from __future__ import annotations

from typing import Any

from frontend.eager.dispatch import filled_like
from frontend.eager.tape import Saves, TapeNode, edge_of, record
from frontend.tensors.tensor import Tensor, make
from graphc.ir.types import TensorType

PIECEWISE = {
    "adaptive_max_pool", "avg_pool", "hardshrink", "hardsigmoid", "hardtanh", "leaky_relu",
    "max_pool", "prelu", "relu", "softshrink",
}  # fmt: skip
"""Names of ops. (What PyTorch's rules of other ops read, comparisons say, takes no gradient.)"""


class PiecewiseConstant:
    """The op of a tape node between a gradient and the operand that it does not change with."""

    name = "piecewise_constant"

    def __init__(self, derived: str, operand: TensorType):
        self.node_name = f"{derived}Backward0"
        self.operand = operand

    def vjp(self, gradient: Any, output: Any, *inputs: Any) -> tuple[Any, ...]:
        return gradient, lambda: filled_like(0, self.operand)


def connected(node: TapeNode, gradient: Tensor | None) -> Tensor | None:
    """The gradient of a node's first operand, which is connected with that operand."""
    edge = node.edges[0]
    if gradient is None or edge is None:
        return gradient
    result = make(gradient._value, gradient.tensor_type)
    op = PiecewiseConstant(node.name().removesuffix("0"), node.saves.types[0])
    kinds = (gradient.tensor_type, op.operand)
    between = record(op, {}, (gradient,), (result,), Saves(kinds, kinds[:1], ((), ())))
    between.edges = (edge_of(gradient) if gradient.requires_grad else None, edge)
    return result
