"""LLVM IR of the opcode on quads of bytes, `dot_quads`.

In: the function's text so far and a Let. Out: more lines: `vpdpbusd`, or, where the processor has
none, products of 16 bits that are added by two, `vpmaddwd`: both are exact and wrap. With the
attribute no u8 is above 127, so two products of bytes are a number of 16 bits, and `vpmaddubsw`,
which saturates, is exact.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import FunctionText, llvm_type
from graphc.codegen.loop_ir.nodes import Let
from graphc.ir.types import DType

_INSTRUCTIONS = {4: 128, 8: 256, 16: 512}
"""Registers, in bits, by their lanes of i32."""
_BYTES = {
    4: ("ssse3", "ssse3.pmadd.ub.sw.128", "sse2.pmadd.wd"),
    8: ("avx2", "avx2.pmadd.ub.sw", "avx2.pmadd.wd"),
    16: ("avx512bw", "avx512.pmaddubs.w.512", "avx512.pmaddw.d.512"),
}
"""By lanes: the feature, and the instructions that add products of neighbours, of bytes and of 16
bits."""


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
    if statement.attribute and _multiplies_bytes(function, lanes):
        _emit_by_bytes(function, statement, llvm_type(halves))
        return
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


def _multiplies_bytes(function: FunctionText, lanes: int) -> bool:
    target = function.target
    if not target.triple.startswith("x86") or lanes not in _BYTES:
        return False
    by_level = target.cpu.startswith("x86-64-v") and 4 * lanes <= target.vector_bytes
    return by_level or f"+{_BYTES[lanes][0]}" in target.features.split(",")


def _emit_by_bytes(function: FunctionText, statement: Let, short: str) -> None:
    """Products of bytes added by two, these by two, and the total."""
    total, a, b = statement.operands
    _, of_bytes, of_halves = _BYTES[total.type.lanes]
    type, bytes_type = llvm_type(total.type), f"<{4 * total.type.lanes} x i8>"
    x, y = (
        function.temporary(f"bitcast {function.typed(each)} to {bytes_type}") for each in (a, b)
    )
    pairs = function.temporary(
        function.intrinsic(f"llvm.x86.{of_bytes}", short, [(bytes_type, x), (bytes_type, y)])
    )
    ones = [(short, pairs), (short, "splat (i16 1)")]
    quads = function.temporary(function.intrinsic(f"llvm.x86.{of_halves}", type, ones))
    function.define(statement.result, f"add {type} {function.text(total)}, {quads}")
