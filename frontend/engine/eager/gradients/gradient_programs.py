"""Gradient rules as one program each: what backward runs on native kernels, op by op elsewhere.

in : the record of an op whose rule is several ops (of a batch norm, of gelu)
out: a record whose rule computes the same gradients at once, from a graph of the rule

A kernel's bits do not depend on what it is fused with, so the gradients have the bits of the rule's
ops run one by one. What the rule does not read is passed as one number, spread to its shape.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from frontend.engine.eager.kernels.gradient_rule import GradientRule
from frontend.engine.eager.kernels.gradient_worker import settle
from frontend.engine.eager.kernels.native_ops import native_op
from frontend.engine.eager.kernels.openings import BATCHED, FACTORS
from frontend.engine.tensors.bounded import Bounded
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import make
from graphc.autodiff.sweep import Record, Unread
from graphc.ir.nodes import CONSTANT, INPUT
from graphc.ir.types import TensorType
from graphc.ops.contract import matmul
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.op import Array, Op
from graphc.ops.movement import broadcast, reshape, transpose
from graphc.ops.nn.products import addmm

_SIMPLE = {INPUT, CONSTANT, broadcast.name, reshape.name, "extent"}
_STEPS: Bounded[tuple[Op, tuple[bool, ...]], int] = Bounded(4096)
"""By op and wanted gradients, how many ops its rule is. (A difference that attributes or types make
decides what is faster, and no bit.)"""


def at_once(record: Record) -> Record:
    """The record, its rule made one program where that can be done and says more than one op.
    Not where the ops are recorded, traced or watched. A record may be of a user's own function."""
    if not isinstance(record.op, Op):
        return record
    if STATE.backend != "native" or STATE.mode is not None or STATE.observer is not None:
        return record
    wanted = tuple([key is not None for key in record.input_keys])
    settle(record.op, record.attributes, record.inputs, wanted)
    if STATE.grad_enabled:
        return record
    if record.op is addmm:
        record.op = LINEAR
        return record
    if not _can_be_one(record):
        return record
    steps = _STEPS.get((record.op, wanted))
    if steps is None:
        steps = _STEPS[record.op, wanted] = _steps(record, wanted)
    if steps > 1:
        record.op = _program(record.op, wanted)
    return record


def _can_be_one(record: Record) -> bool:
    """Whether the rule has parts, and all that it may read is there, of types that are compiled."""
    op = record.op
    if op in FACTORS or op in BATCHED:
        return False
    if isinstance(op, Composite):
        if not op.has_own_gradient:
            return False
    elif not isinstance(op, Elementwise) or len(record.inputs) > 1:
        return False
    for x in (*record.inputs, *record.outputs):
        dtype = x.tensor_type.dtype
        if not dtype.is_compiled or dtype.is_storage:
            return False
        if not (isinstance(x, Unread) or isinstance(x._value, np.ndarray)):
            return False
    return True


def _steps(record: Record, wanted: tuple[bool, ...]) -> int:
    """Ops of the rule, but for those that only spread numbers."""
    outputs = [x.tensor_type for x in record.outputs]
    rule = GradientRule(record.op, wanted, (True,) * len(outputs))
    types = (*outputs, *outputs, *[x.tensor_type for x in record.inputs])
    graph = rule.definition(types, record.attributes)
    return sum(node.op not in _SIMPLE for node in graph.nodes)


@lru_cache(maxsize=4096)
def _rule(op: Op, wanted: tuple[bool, ...], present: tuple[bool, ...]) -> GradientRule:
    return GradientRule(op, wanted, present)


@lru_cache(maxsize=4096)
def _program(op: Op, wanted: tuple[bool, ...]) -> Any:
    return RuleProgram(op, wanted)


class LinearRule:
    """The rule of a linear layer's product, whose weight stands in it transposed. The gradient is
    computed as the weight lies, so that none has to be turned when it is kept: the same sums."""

    name = addmm.name

    def vjp(self, gradient: Any, result: Any, bias: Any, x: Any, weight: Any) -> tuple[Any, ...]:
        assert addmm.vjp is not None
        of_bias, of_x, _ = addmm.vjp(gradient, result, bias, x, weight)

        def of_weight() -> Any:
            product = matmul(transpose(gradient, permutation=(1, 0)), x)
            return transpose(product, permutation=(1, 0))

        return of_bias, of_x, of_weight


LINEAR: Any = LinearRule()


class RuleProgram:
    """What stands for an op in a record: its rule is one program."""

    def __init__(self, op: Op, wanted: tuple[bool, ...]):
        self.name = op.name
        self._of = op
        self._wanted = wanted

    def vjp(self, gradient: Any, result: Any, *inputs: Any, **attributes: Any) -> list[Any]:
        gradients = gradient if isinstance(gradient, tuple) else (gradient,)
        results = result if isinstance(result, tuple) else (result,)
        rule = _rule(self._of, self._wanted, tuple([g is not None for g in gradients]))
        operands = (*[g for g in gradients if g is not None], *results, *inputs)
        types = tuple([x.tensor_type for x in operands])
        native = native_op(rule, types, attributes)
        arrays = tuple([_array(x) for x in operands])
        of_inputs: list[Any] = [None] * len(inputs)
        values = native.all(arrays)
        for position, value in zip(rule.positions, values, strict=True):
            of_inputs[position] = make(value, inputs[position].tensor_type)
        return of_inputs


def _array(x: Any) -> Array:
    return _spread(x.tensor_type) if isinstance(x, Unread) else x._value


@lru_cache(maxsize=4096)
def _spread(type: TensorType) -> Array:
    """What is passed for a value that the rule does not read."""
    return np.broadcast_to(np.zeros((), type.dtype.numpy), type.shape)
