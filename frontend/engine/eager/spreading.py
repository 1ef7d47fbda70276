"""Elementwise ops on two tensors of different shapes in eager mode: NumPy's views are what is
computed with, and no tensor is made of them. The tape has the node of each broadcast.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import QUIET, record_one
from frontend.engine.eager.tape import Saves, TapeNode, next_sequence
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from graphc.ir.types import TensorType
from graphc.ops.movement import broadcast


class Spread:
    """The broadcast of tensors of one type to another: `type`, and what its nodes have."""

    __slots__ = ("attributes", "saves", "strides", "type")

    def __init__(self, narrow: TensorType, shape: tuple[int, ...]):
        self.type = TensorType(narrow.dtype, shape)
        self.strides = np.broadcast_to(np.empty(narrow.shape, narrow.dtype.numpy), shape).strides
        self.attributes = {"shape": shape}
        self.saves = Saves((narrow,), (self.type,), ((False,), (False,)))

    def view(self, array: np.ndarray) -> np.ndarray:
        """The array of one of these tensors, repeated; only to be read."""
        if not array.flags.c_contiguous:
            return np.broadcast_to(array, self.type.shape)
        return np.ndarray(self.type.shape, array.dtype, array, 0, self.strides)


def apply_spread(op: Any, x: Tensor, y: Tensor, of_x: Spread | None, of_y: Spread | None) -> Any:
    """`apply_binary` of operands that are broadcast (None: that one has the shape), without a
    tensor of what they are broadcast to. None where that is left to the ops one by one."""
    kind_x = x.tensor_type if of_x is None else of_x.type
    kind_y = y.tensor_type if of_y is None else of_y.type
    prepared = STATE.fast_path.get((op, kind_x, kind_y))
    if prepared is None or not prepared.plain or not kind_x.dtype.is_computed:
        return None
    left, right = x._value, y._value
    if left.__class__ is not np.ndarray or right.__class__ is not np.ndarray:
        return None
    if of_x is not None:
        left = of_x.view(left)
    if of_y is not None:
        right = of_y.view(right)
    native = prepared.native
    value = native.call(left, right) if native else QUIET.run(prepared.compute, left, right)
    result = object.__new__(Tensor)
    result._value = value if value.__class__ is np.ndarray else np.asarray(value)
    result.tensor_type = prepared.type
    result._counter = [0]
    if prepared.records and STATE.grad_enabled:
        if x._view is not None:
            x._view.bring_history(x)
        if y._view is not None:
            y._view.bring_history(y)
        one, other = x._requires_grad, y._requires_grad
        if one or other:
            edge = _edge(x, of_x) if one else None
            edges = (edge, _edge(y, of_y) if other else None)
            record_one(prepared, (x, y), (one, other), edges, result, (left, right))
    return result


def _edge(x: Tensor, spread: Spread | None) -> Any:
    """Where the gradient of an operand goes, through the node of its broadcast if it has one."""
    edge = x._edge or (x, 0)
    if spread is None:
        return edge
    node = object.__new__(TapeNode)
    node.op = broadcast
    node.attributes = spread.attributes
    node.saves = spread.saves
    node.sequence = next_sequence()
    node.edges = (edge,)
    return (node, 0)
