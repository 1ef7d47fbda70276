"""LLVM IR of the opcodes on pairs of bf16, `dot_pairs` and `least_pairs`.

In: the function's text so far and a Let. Out: more lines. `vdpbf16ps` takes two FMAs, odd elements
first, and flushes what is denormal: it stands where the program says that nothing is.
"""

from __future__ import annotations

from graphc.codegen.llvm.fma import fma_text
from graphc.codegen.llvm.function_text import FunctionText, llvm_type, type_code
from graphc.codegen.loop_ir.nodes import Let
from graphc.ir.types import DType

_HIGH = -65536
"""The upper half of an i32."""
_INSTRUCTIONS = {4: 128, 8: 256, 16: 512}
"""Registers, in bits, by their lanes of f32."""


def emit_dot_pairs(function: FunctionText, statement: Let) -> None:
    """Two FMAs, or the instruction that is both."""
    total, a, b = statement.operands
    lanes = total.type.lanes
    if statement.attribute and function.target.paired_products and lanes in _INSTRUCTIONS:
        halves = f"<{2 * lanes} x bfloat>"
        operands = [
            (halves, function.temporary(f"bitcast {function.typed(each)} to {halves}"))
            for each in (a, b)
        ]
        type = llvm_type(total.type)
        name = f"llvm.x86.avx512bf16.dpbf16ps.{_INSTRUCTIONS[lanes]}"
        arguments = [(type, function.text(total)), *operands]
        function.define(statement.result, function.intrinsic(name, type, arguments))
        return
    bits, type = llvm_type(a.type), llvm_type(total.type)
    text = function.text(total)
    for opcode, amount in (("and", _HIGH), ("shl", 16)):
        number = str(amount) if a.type.is_scalar else f"splat (i32 {amount})"
        factors = []
        for each in (a, b):
            half = function.temporary(f"{opcode} {bits} {function.text(each)}, {number}")
            factors.append(function.temporary(f"bitcast {bits} {half} to {type}"))
        text = function.temporary(fma_text(function, total.type, [*factors, text]))
    function.alias(statement.result, text)


def emit_least_pairs(function: FunctionText, statement: Let) -> None:
    """Minima of unsigned halves; a magnitude less 1 makes the greatest of zero."""
    least, pairs = statement.operands
    count, bits = 2 * least.type.lanes, llvm_type(least.type)
    halves = least.type.with_dtype(DType.i16).with_lanes(count)
    type = llvm_type(halves)
    before, own = (
        function.temporary(f"bitcast {function.typed(each)} to {type}") for each in (least, pairs)
    )
    size = function.temporary(f"and {type} {own}, splat (i16 32767)")
    less = function.temporary(f"add {type} {size}, splat (i16 -1)")
    name, arguments = f"llvm.umin.{type_code(halves)}", [(type, before), (type, less)]
    lesser = function.temporary(function.intrinsic(name, type, arguments))
    function.define(statement.result, f"bitcast {type} {lesser} to {bits}")
