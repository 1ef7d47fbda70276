"""Whole numbers and bools that are known when a kernel is written: folded here, as LLVM is not
asked to simplify what it is given.

In: a Let whose operands may all be constants. Out: nothing, or what its result's name stands for.
Masks of lanes and places that a lane adds are most of them; a mask that is known lets LLVM choose
plain loads and stores.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.codegen.llvm.function_text import ELEMENT, FunctionText, scalar_literal
from graphc.codegen.loop_ir.nodes import Let, LoopValue
from graphc.codegen.loop_ir.operations import OPERATIONS
from graphc.ir.types import DType

Array = np.ndarray[Any, Any]
_FOLDED = (DType.i32, DType.i64, DType.bool)


def folded(function: FunctionText, statement: Let) -> bool:
    """Whether the result is a constant: then it is one from here on."""
    type = statement.result.type
    if type.dtype not in _FOLDED or not statement.operands:
        return False
    for operand in statement.operands:
        known = operand.name in function.constants or operand.name in function.lanes
        if not known or operand.type.dtype not in _FOLDED:
            return False
    lanes = [_lanes(function, operand) for operand in statement.operands]
    results = OPERATIONS[statement.opcode](statement, *lanes)
    if (results == results[0]).all():
        function.constant(statement.result, results[0].item())
        return True
    element = ELEMENT[type.dtype]
    listed = ", ".join(f"{element} {scalar_literal(lane.item(), type.dtype)}" for lane in results)
    function.alias(statement.result, f"<{listed}>")
    function.lanes[statement.result.name] = results
    return True


def _lanes(function: FunctionText, value: LoopValue) -> Array:
    if value.name in function.lanes:
        return function.lanes[value.name]
    return np.full(value.type.lanes, function.constants[value.name], value.type.dtype.numpy)
