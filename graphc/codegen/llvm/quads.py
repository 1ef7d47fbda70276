"""LLVM IR of the opcode on quads of bytes, `dot_quads`.

In: the function's text so far and a Let. Out: more lines: `vpdpbusd`, or, where the processor has
none, products of 16 bits that are added by two, `vpmaddwd`: both are exact and wrap.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText, llvm_type
from graphc.codegen.loop_ir.nodes import Let
from graphc.ir.types import DType

_INSTRUCTIONS = {4: 128, 8: 256, 16: 512}
"""Registers, in bits, by their lanes of i32."""


def emit_dot_quads(function: FunctionText, statement: Let) -> None:
    """One instruction, or products of the even bytes, then of the odd ones."""
    total, a, b = statement.operands
    lanes, type = total.type.lanes, llvm_type(total.type)
    if function.target.quad_products and lanes in _INSTRUCTIONS:
        name = f"llvm.x86.avx512.vpdpbusd.{_INSTRUCTIONS[lanes]}"
        arguments = [(type, function.text(each)) for each in (total, a, b)]
        function.define(statement.result, function.intrinsic(name, type, arguments))
        return
    halves = total.type.with_dtype(DType.i16).with_lanes(2 * lanes)
    short, wide = llvm_type(halves), llvm_type(halves.with_dtype(DType.i32))
    x, y = (function.temporary(f"bitcast {function.typed(each)} to {short}") for each in (a, b))
    moved = function.temporary(f"shl {short} {y}, splat (i16 8)")
    parts = (
        (f"and {short} {x}, splat (i16 255)", f"ashr {short} {moved}, splat (i16 8)"),
        (f"lshr {short} {x}, splat (i16 8)", f"ashr {short} {y}, splat (i16 8)"),
    )
    text = function.text(total)
    for part in parts:
        factors = (function.temporary(each) for each in part)
        left, right = (function.temporary(f"sext {short} {x} to {wide}") for x in factors)
        product = function.temporary(f"mul {wide} {left}, {right}")
        for first in (0, 1):
            mask = ", ".join(f"i32 {2 * lane + first}" for lane in range(lanes))
            mask = f"<{lanes} x i32> <{mask}>"
            each = function.temporary(f"shufflevector {wide} {product}, {wide} poison, {mask}")
            if first == 0:
                even = each
        both = function.temporary(f"add {type} {even}, {each}")
        text = function.temporary(f"add {type} {text}, {both}")
    function.alias(statement.result, text)
