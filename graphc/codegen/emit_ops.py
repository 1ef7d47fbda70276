"""LLVM IR of the opcodes: one Let becomes a few lines of text.

In: a FunctionText (what is written so far) and a Let. Out: more lines, and what the result's name
stands for. opcodes.py states the meaning; nothing here is ever poison, undefined, or a trap.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Iterable

from graphc.codegen.loops import Let, Value, VectorType
from graphc.errors import LoweringError
from graphc.ir.types import DType

_ELEMENT = {
    DType.f32: "float",
    DType.f64: "double",
    DType.i32: "i32",
    DType.i64: "i64",
    DType.bool: "i1",
}
_CODE = {DType.f32: "f32", DType.f64: "f64", DType.i32: "i32", DType.i64: "i64", DType.bool: "i1"}
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_.]+")


def llvm_type(type: VectorType) -> str:
    element = _ELEMENT[type.dtype]
    return element if type.is_scalar else f"<{type.lanes} x {element}>"


def type_code(type: VectorType) -> str:
    """The suffix of an intrinsic's name for `type`."""
    code = _CODE[type.dtype]
    return code if type.is_scalar else f"v{type.lanes}{code}"


def scalar_literal(value: float | int | bool, dtype: DType) -> str:
    if dtype is DType.bool:
        return "true" if value else "false"
    if dtype.is_integer:
        return str(int(value))
    if math.isnan(value):
        return "0x7FF8000000000000"
    # LLVM writes every float by the bits of the double it equals.
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def literal(value: float | int | bool, type: VectorType) -> str:
    text = scalar_literal(value, type.dtype)
    return text if type.is_scalar else f"splat ({_ELEMENT[type.dtype]} {text})"


class FunctionText:
    """The lines of one LLVM function, and what each value's name stands for in it."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.declarations: dict[str, str] = {}
        self.constants: dict[str, float | int | bool] = {}
        self._text: dict[str, str] = {}
        self._count = 0

    def emit(self, line: str) -> None:
        self.lines.append("  " + line)

    def temporary(self, instruction: str) -> str:
        """A new name for the result of `instruction`."""
        name = f"%t{self._count}"
        self._count += 1
        self.lines.append(f"  {name} = {instruction}")
        return name

    def own_name(self, value: Value) -> str:
        """The name `value` has in LLVM when an instruction defines it."""
        plain = f"v.{value.name}"
        name = f"%{plain}" if _PLAIN_NAME.fullmatch(plain) else f'%"{plain}"'
        self._text[value.name] = name
        return name

    def define(self, value: Value, instruction: str) -> None:
        self.lines.append(f"  {self.own_name(value)} = {instruction}")

    def alias(self, value: Value, text: str) -> None:
        """`value` is another name, or a literal, and needs no instruction."""
        self._text[value.name] = text

    def constant(self, value: Value, number: float | int | bool) -> None:
        self.constants[value.name] = number
        self._text[value.name] = literal(number, value.type)

    def text(self, value: Value) -> str:
        return self._text[value.name]

    def typed(self, value: Value) -> str:
        return f"{llvm_type(value.type)} {self._text[value.name]}"

    def intrinsic(self, name: str, result: str, arguments: Iterable[tuple[str, str]]) -> str:
        """The call of an intrinsic or libm function; declares it."""
        listed = list(arguments)
        if name not in self.declarations:
            types = ", ".join(type for type, _ in listed)
            self.declarations[name] = f"declare {result} @{name}({types})"
        operands = ", ".join(f"{type} {text}" for type, text in listed)
        return f"call {result} @{name}({operands})"


def emit_let(function: FunctionText, statement: Let) -> None:
    """Writes `statement`. Raises LoweringError for an opcode that has no native form."""
    emitter = _EMITTERS.get(statement.opcode)
    if emitter is None:
        raise LoweringError(f"opcode {statement.opcode} has no LLVM form")
    emitter(function, statement)


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


def _divide(function: FunctionText, a: Value, b: Value) -> tuple[str, str]:
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
    divisor = function.constants.get(b.name, 0)
    quotient_wanted = statement.opcode == "floordiv"
    if isinstance(divisor, int) and divisor > 0 and divisor & (divisor - 1) == 0:
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
    name = _FLOAT_INTRINSICS.get(statement.opcode, statement.opcode)
    function.define(
        statement.result,
        function.intrinsic(
            f"llvm.{name}.{type_code(statement.result.type)}",
            type,
            [(type, function.text(operand)) for operand in statement.operands],
        ),
    )


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
    predicate = "olt" if statement.opcode == "minimum" else "ogt"
    better = function.temporary(f"fcmp {predicate} {type} {x}, {y}")
    picked = f"select {flag} {better}, {type} {x}, {type} {y}"
    number = function.constants.get(a.name)
    if number is not None and number == number:
        function.define(statement.result, picked)
        return
    picked = function.temporary(picked)
    is_nan = function.temporary(f"fcmp uno {type} {x}, {literal(0.0, a.type)}")
    function.define(statement.result, f"select {flag} {is_nan}, {type} {x}, {type} {picked}")


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


# -- selection, conversion ------------------------------------------------------------------------


def _select(function: FunctionText, statement: Let) -> None:
    condition, a, b = map(function.typed, statement.operands)
    function.define(statement.result, f"select {condition}, {a}, {b}")


def _convert(function: FunctionText, statement: Let) -> None:
    (a,) = statement.operands
    source, target = a.type.dtype, statement.result.type.dtype
    type = llvm_type(statement.result.type)
    if source is target:
        function.alias(statement.result, function.text(a))
    elif target is DType.bool:
        test = "fcmp une" if source.is_float else "icmp ne"
        zero = literal(0.0 if source.is_float else 0, a.type)
        function.define(statement.result, f"{test} {function.typed(a)}, {zero}")
    elif source.is_float and target.is_integer:
        name = f"llvm.fptosi.sat.{type_code(statement.result.type)}.{type_code(a.type)}"
        call = function.intrinsic(name, type, [(llvm_type(a.type), function.text(a))])
        function.define(statement.result, call)
    else:
        cast = _cast(source, target)
        function.define(statement.result, f"{cast} {function.typed(a)} to {type}")


def _cast(source: DType, target: DType) -> str:
    if source is DType.bool:
        return "uitofp" if target.is_float else "zext"
    if source.is_integer and target.is_float:
        return "sitofp"
    widens = target.itemsize > source.itemsize
    if source.is_integer:
        return "sext" if widens else "trunc"
    return "fpext" if widens else "fptrunc"


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
    element = _ELEMENT[type.dtype]
    listed = ", ".join(f"{element} {lane}" for lane in range(type.lanes))
    function.alias(statement.result, f"<{listed}>")


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
    element = _ELEMENT[type.dtype]
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
    **dict.fromkeys((*_FLOAT_INTRINSICS, "fma"), _float_intrinsic),
    **dict.fromkeys(("minimum", "maximum"), _extremum),
    **dict.fromkeys(_PREDICATES, _compare),
    **dict.fromkeys(("shl", "lshr", "ashr"), _shift),
    "neg": _neg,
    "abs": _abs,
    "not": _not,
    "select": _select,
    "convert": _convert,
    "bitcast": _bitcast,
    "const": _const,
    "splat": _splat,
    "iota": _iota,
    "extract": _extract,
    "insert": _insert,
    "shuffle": _shuffle,
    "call": _call,
}
