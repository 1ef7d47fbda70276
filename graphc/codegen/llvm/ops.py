"""LLVM IR of the opcodes: one Let becomes a few lines of text.

In: a FunctionText (what is written so far) and a Let. Out: more lines, and what the result's name
stands for. opcodes.py states the meaning; nothing here is ever poison, undefined, or a trap.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from graphc.codegen.llvm.convert import emit_convert, widened_in_all_lanes
from graphc.codegen.llvm.fma import fma_text
from graphc.codegen.llvm.function_text import (
    ELEMENT,
    FunctionText,
    literal,
    llvm_type,
    type_code,
)
from graphc.codegen.llvm.lookup import emit_lookup
from graphc.codegen.llvm.pairs import emit_dot_pairs, emit_least_pairs
from graphc.codegen.llvm.quads import emit_dot_quads
from graphc.codegen.loop_ir.nodes import Let, LoopValue
from graphc.errors import LoweringError
from graphc.ir.types import DType


def emit_let(function: FunctionText, statement: Let) -> None:
    """Writes `statement`. Raises LoweringError for an opcode that has no native form."""
    emitter = _EMITTERS.get(statement.opcode)
    if emitter is None:
        raise LoweringError(f"opcode {statement.opcode} has no LLVM form")
    emitter(function, statement)
    if statement.opcode in ("minimum", "maximum") and all(
        operand.name in function.exact or function.constants.get(operand.name) == 0
        for operand in statement.operands
    ):
        function.exact.add(statement.result.name)


# -- arithmetic -----------------------------------------------------------------------------------

_BINARY = {
    "add": ("fadd", "add"),
    "sub": ("fsub", "sub"),
    "mul": ("fmul", "mul"),
    "and": ("", "and"),
    "or": ("", "or"),
    "xor": ("", "xor"),
}
_PREDICATES = {
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "gt": ("ogt", "sgt", "ugt"),
    "ge": ("oge", "sge", "uge"),
}
# rint is `round` in the default rounding mode, which nothing here changes.
_FLOAT_INTRINSICS = {
    "sqrt": "sqrt",
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
    "round": "rint",
}


def _binary(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    name = _BINARY[statement.opcode][0 if a.type.dtype.is_float else 1]
    function.define(statement.result, f"{name} {function.typed(a)}, {function.text(b)}")


def _div(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    if not a.type.dtype.is_float:
        quotient, remainder = _divide(function, a, b)
        function.alias(statement.result, quotient if statement.opcode == "div" else remainder)
        return
    name = "fdiv" if statement.opcode == "div" else "frem"
    function.define(statement.result, f"{name} {function.typed(a)}, {function.text(b)}")


def _divide(function: FunctionText, a: LoopValue, b: LoopValue) -> tuple[str, str]:
    """Quotient and remainder of integers, truncated, with the divisors 0 and -1 made harmless."""
    type = llvm_type(a.type)
    x, y = function.text(a), function.text(b)
    if function.constants.get(b.name) not in (None, 0, -1):
        quotient = function.temporary(f"sdiv {type} {x}, {y}")
        return quotient, function.temporary(f"srem {type} {x}, {y}")
    flag = llvm_type(a.type.with_dtype(DType.bool))
    one, minus = literal(1, a.type), literal(-1, a.type)
    is_zero = function.temporary(f"icmp eq {type} {y}, {literal(0, a.type)}")
    is_minus = function.temporary(f"icmp eq {type} {y}, {minus}")
    special = function.temporary(f"or {flag} {is_zero}, {is_minus}")
    safe = function.temporary(f"select {flag} {special}, {type} {one}, {type} {y}")
    quotient = function.temporary(f"sdiv {type} {x}, {safe}")
    remainder = function.temporary(f"srem {type} {x}, {safe}")
    negated = function.temporary(f"sub {type} {literal(0, a.type)}, {x}")
    quotient = function.temporary(f"select {flag} {is_minus}, {type} {negated}, {type} {quotient}")
    zero = literal(0, a.type)
    return (
        function.temporary(f"select {flag} {is_zero}, {type} {zero}, {type} {quotient}"),
        function.temporary(f"select {flag} {special}, {type} {zero}, {type} {remainder}"),
    )


def _floor_divide(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    type = llvm_type(a.type)
    divisor = int(function.constants.get(b.name, 0))
    quotient_wanted = statement.opcode == "floordiv"
    if divisor > 0 and divisor & (divisor - 1) == 0:
        if quotient_wanted:
            shift = literal(divisor.bit_length() - 1, a.type)
            function.define(statement.result, f"ashr {function.typed(a)}, {shift}")
        else:
            mask = literal(divisor - 1, a.type)
            function.define(statement.result, f"and {function.typed(a)}, {mask}")
        return
    quotient, remainder = _divide(function, a, b)
    flag = llvm_type(a.type.with_dtype(DType.bool))
    zero = literal(0, a.type)
    inexact = function.temporary(f"icmp ne {type} {remainder}, {zero}")
    signs = function.temporary(f"xor {type} {remainder}, {function.text(b)}")
    differ = function.temporary(f"icmp slt {type} {signs}, {zero}")
    adjust = function.temporary(f"and {flag} {inexact}, {differ}")
    start, change = (
        (quotient, literal(-1, a.type)) if quotient_wanted else (remainder, function.text(b))
    )
    other = function.temporary(f"add {type} {start}, {change}")
    function.define(statement.result, f"select {flag} {adjust}, {type} {other}, {type} {start}")


def _neg(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    if a.type.dtype.is_float:
        function.define(statement.result, f"fneg {function.typed(a)}")
        return
    type = llvm_type(a.type)
    function.define(statement.result, f"sub {type} {literal(0, a.type)}, {function.text(a)}")


def _abs(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    type = llvm_type(a.type)
    arguments = [(type, function.text(a))]
    if a.type.dtype.is_float:
        name = "fabs"
    else:
        name = "abs"
        arguments.append(("i1", "false"))
    call = function.intrinsic(f"llvm.{name}.{type_code(a.type)}", type, arguments)
    function.define(statement.result, call)


def _float_intrinsic(function: FunctionText, statement: Let) -> None:
    type = llvm_type(statement.result.type)
    name = _FLOAT_INTRINSICS[statement.opcode]
    function.define(
        statement.result,
        function.intrinsic(
            f"llvm.{name}.{type_code(statement.result.type)}",
            type,
            [(type, function.text(operand)) for operand in statement.operands],
        ),
    )


def _fma(function: FunctionText, statement: Let) -> None:
    operands = [function.text(operand) for operand in statement.operands]
    function.define(statement.result, fma_text(function, statement.result.type, operands))


def _extremum(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    type = llvm_type(a.type)
    x, y = function.text(a), function.text(b)
    if not a.type.dtype.is_float:
        name = "llvm.smin" if statement.opcode == "minimum" else "llvm.smax"
        arguments = [(type, x), (type, y)]
        call = function.intrinsic(f"{name}.{type_code(a.type)}", type, arguments)
        function.define(statement.result, call)
        return
    # compare and select is one instruction (minps, maxps), which gives the second operand for a
    # NaN in either; so only a NaN in the first needs a test.
    flag = llvm_type(a.type.with_dtype(DType.bool))
    if _is_never_nan(function, b) and function.constants[b.name] != 0:
        # Equal operands have equal bits, so the constant may as well come first.
        a, x, y = b, y, x
    predicate = "olt" if statement.opcode == "minimum" else "ogt"
    better = function.temporary(f"fcmp {predicate} {type} {x}, {y}")
    picked = f"select {flag} {better}, {type} {x}, {type} {y}"
    if _is_never_nan(function, a):
        function.define(statement.result, picked)
        return
    picked = function.temporary(picked)
    is_nan = function.temporary(f"fcmp uno {type} {x}, {literal(0.0, a.type)}")
    # All bits set is a NaN too: cheaper than a selection, and no branch on the data.
    bits = llvm_type(a.type.with_dtype(DType.i32 if a.type.dtype is DType.f32 else DType.i64))
    mask = function.temporary(f"sext {flag} {is_nan} to {bits}")
    number = function.temporary(f"bitcast {type} {picked} to {bits}")
    either = function.temporary(f"or {bits} {number}, {mask}")
    function.define(statement.result, f"bitcast {bits} {either} to {type}")


def _is_never_nan(function: FunctionText, value: LoopValue) -> bool:
    number = function.constants.get(value.name)
    return number is not None and number == number


def _compare(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    floating, signed, unsigned = _PREDICATES[statement.opcode]
    if a.type.dtype.is_float:
        test = f"fcmp {floating}"
    else:
        test = f"icmp {unsigned if a.type.dtype is DType.bool else signed}"
    function.define(statement.result, f"{test} {function.typed(a)}, {function.text(b)}")


def _not(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    ones = literal(True if a.type.dtype is DType.bool else -1, a.type)
    function.define(statement.result, f"xor {function.typed(a)}, {ones}")


def _shift(function: FunctionText, statement: Let) -> None:
    a, amount = statement.operands
    width = 8 * a.type.dtype.itemsize
    number = function.constants.get(amount.name)
    if number is not None:
        text = literal(int(number) % width, a.type)
    else:
        text = function.temporary(
            f"and {function.typed(amount)}, {literal(width - 1, amount.type)}"
        )
    function.define(statement.result, f"{statement.opcode} {function.typed(a)}, {text}")


# -- selection ------------------------------------------------------------------------------------


def _select(function: FunctionText, statement: Let) -> None:
    condition, a, b = map(function.typed, statement.operands)
    function.define(statement.result, f"select {condition}, {a}, {b}")


def _bitcast(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    type = llvm_type(statement.result.type)
    function.define(statement.result, f"bitcast {function.typed(a)} to {type}")


# -- lanes ----------------------------------------------------------------------------------------


def _const(function: FunctionText, statement: Let) -> None:
    function.constant(statement.result, statement.attribute)


def _splat(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    type = statement.result.type
    if a.name in function.constants:
        function.constant(statement.result, function.constants[a.name])
    elif type.is_scalar:
        function.alias(statement.result, function.text(a))
    elif a.name in function.widened:
        text = widened_in_all_lanes(function, function.widened[a.name], type.lanes)
        function.alias(statement.result, text)
    else:
        vector = llvm_type(type)
        first = function.temporary(f"insertelement {vector} poison, {function.typed(a)}, i64 0")
        function.define(
            statement.result,
            f"shufflevector {vector} {first}, {vector} poison, "
            f"<{type.lanes} x i32> zeroinitializer",
        )


def _iota(function: FunctionText, statement: Let) -> None:
    type = statement.result.type
    if type.is_scalar:
        function.constant(statement.result, 0)
        return
    element = ELEMENT[type.dtype]
    listed = ", ".join(f"{element} {lane}" for lane in range(type.lanes))
    function.alias(statement.result, f"<{listed}>")
    function.lanes[statement.result.name] = np.arange(type.lanes, dtype=type.dtype.numpy)


def _extract(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    lane = statement.attribute
    function.define(statement.result, f"extractelement {function.typed(a)}, i64 {lane}")


def _insert(function: FunctionText, statement: Let) -> None:
    a, scalar = statement.operands
    function.define(
        statement.result,
        f"insertelement {function.typed(a)}, {function.typed(scalar)}, i64 {statement.attribute}",
    )


def _shuffle(function: FunctionText, statement: Let) -> None:
    a, b = statement.operands
    lanes: tuple[int, ...] = statement.attribute
    if len(lanes) == 1:
        source, lane = (a, lanes[0]) if lanes[0] < a.type.lanes else (b, lanes[0] - a.type.lanes)
        function.define(statement.result, f"extractelement {function.typed(source)}, i64 {lane}")
        return
    picks = ", ".join(f"i32 {lane}" for lane in lanes)
    function.define(
        statement.result,
        f"shufflevector {function.typed(a)}, {function.typed(b)}, <{len(lanes)} x i32> <{picks}>",
    )


def _call(function: FunctionText, statement: Let) -> None:
    type = statement.result.type
    element = ELEMENT[type.dtype]
    name = statement.attribute + ("f" if type.dtype is DType.f32 else "")

    def call(arguments: list[str]) -> str:
        # nobuiltin: the function's own bits, not those of LLVM's idea of it (pow(x, 2) as x*x,
        # constants folded in another precision).
        listed = [(element, argument) for argument in arguments]
        return function.intrinsic(name, element, listed) + " nobuiltin"

    if type.is_scalar:
        function.define(statement.result, call([function.text(a) for a in statement.operands]))
        return
    vector = llvm_type(type)
    built = "poison"
    for lane in range(type.lanes):
        arguments = [
            function.temporary(f"extractelement {function.typed(a)}, i64 {lane}")
            for a in statement.operands
        ]
        result = function.temporary(call(arguments))
        built = function.temporary(
            f"insertelement {vector} {built}, {element} {result}, i64 {lane}"
        )
    function.alias(statement.result, built)


_EMITTERS: dict[str, Callable[[FunctionText, Let], None]] = {
    **dict.fromkeys(_BINARY, _binary),
    **dict.fromkeys(("div", "rem"), _div),
    **dict.fromkeys(("floordiv", "mod"), _floor_divide),
    **dict.fromkeys(_FLOAT_INTRINSICS, _float_intrinsic),
    "fma": _fma,
    **dict.fromkeys(("minimum", "maximum"), _extremum),
    **dict.fromkeys(_PREDICATES, _compare),
    **dict.fromkeys(("shl", "lshr", "ashr"), _shift),
    "neg": _neg,
    "abs": _abs,
    "not": _not,
    "select": _select,
    "convert": emit_convert,
    "bitcast": _bitcast,
    "const": _const,
    "splat": _splat,
    "iota": _iota,
    "extract": _extract,
    "insert": _insert,
    "shuffle": _shuffle,
    "lookup": emit_lookup,
    "dot_pairs": emit_dot_pairs,
    "dot_quads": emit_dot_quads,
    "least_pairs": emit_least_pairs,
    "call": _call,
}
