"""Gradients that some operand has no influence on: where they are themselves differentiated, that
operand has the gradient 0, as in PyTorch, not none. These are the derivatives that are constant in
pieces, and those that PyTorch computes by one rule for all operands."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.dispatch import filled_like
from frontend.engine.eager.tape import Saves, TapeNode, edge_of, record
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import TensorType

PIECEWISE = {
    "adaptive_max_pool", "avg_pool", "hardshrink", "hardsigmoid", "hardtanh", "leaky_relu",
    "max_pool", "prelu", "relu", "softshrink",
}  # fmt: skip
"""Names of ops. (What PyTorch's rules of other ops read, comparisons say, takes no gradient.)"""
ONE_RULE = {
    "batch_norm": (0, 1), "batch_norm_by": (0, 3), "group_norm": (0, 1), "layer_norm": (0, 1),
    "prelu": (0, 1),
}  # fmt: skip
"""Names of ops, and the operands that the rule reads: input and weight."""


class PiecewiseConstant:
    """The op of a tape node between a gradient and the operand that it does not change with."""

    name = "piecewise_constant"

    def __init__(self, derived: str, operand: TensorType):
        self.node_name = f"{derived}Backward0"
        self.operand = operand

    def vjp(self, gradient: Any, output: Any, *inputs: Any) -> tuple[Any, ...]:
        return gradient, lambda: filled_like(0, self.operand)


def connected(node: TapeNode, gradients: list[Any]) -> list[Any]:
    """The gradients of a node's operands, connected with the operands they are for PyTorch."""
    name, edges = node.op.name, node.edges
    if name in PIECEWISE:
        gradients = [_joined(node, gradients[0], 0), *gradients[1:]]
    other = next((i for i in ONE_RULE.get(name, ()) if edges[i] is not None), None)
    if other is None:
        return gradients
    return [g if g is None or g._requires_grad else _joined(node, g, other) for g in gradients]


def _joined(node: TapeNode, gradient: Tensor | None, operand: int) -> Tensor | None:
    """A gradient, connected with an operand of the node that it does not change with."""
    edge = node.edges[operand]
    if gradient is None or edge is None:
        return gradient
    result = make(gradient._value, gradient.tensor_type)
    op = PiecewiseConstant(node.name().removesuffix("0"), node.saves.types[operand])
    kinds = (gradient.tensor_type, op.operand)
    between = record(op, {}, (gradient,), (result,), Saves(kinds, kinds[:1], ((), ())))
    between.edges = (edge_of(gradient) if gradient.requires_grad else None, edge)
    return result
