"""LLVM IR of `convert`: between all dtypes, with the bits graphc.ops.conversion gives.

In: the function's text so far and a Let. Out: more lines. f16 and bf16 lie in registers as their
bits, in i16. LLVM would call library functions for them, which a process need not have; so bf16 is
shifts of f32, and f16 the processor's instructions where it has them, integer operations elsewhere.
"""

from __future__ import annotations

from graphc.codegen.llvm.function_text import (
    ELEMENT,
    FunctionText,
    llvm_type,
    scalar_literal,
    type_code,
)
from graphc.codegen.loop_ir.nodes import Let
from graphc.codegen.loop_ir.opcodes import VectorType
from graphc.ir.types import UNSIGNED, DType
from graphc.ops.conversion import EXACT_INTEGER, STICKY

_HALVES = (DType.f16, DType.bf16)
_UNSIGNED = (DType.bool, DType.u8, *UNSIGNED)
# Bits of f32 that stand for a number of f16: the least normal one, the first that overflows, 1/2.
_F16_TINY, _F16_OVERFLOW, _HALF = 0x38800000, 0x477FF000, 0x3F000000
_F32_INFINITY, _F32_SIGN = 0x7F800000, 0x80000000


def emit_convert(function: FunctionText, statement: Let) -> None:
    """Writes the conversion of the operand to the result's dtype."""
    (a,), target = statement.operands, statement.result.type.dtype
    lanes = _Lanes(function, a.type.lanes)
    if target is DType.bf16 and a.name in function.exact:
        function.alias(statement.result, lanes.upper_half(function.text(a)))
        return
    text = lanes.converted(function.text(a), a.type.dtype, target)
    function.alias(statement.result, text)
    if (a.type.dtype, target) == (DType.bf16, DType.f32):
        function.exact.add(statement.result.name)
        if a.type.is_scalar:
            function.widened[statement.result.name] = function.text(a)


def widened_in_all_lanes(function: FunctionText, text: str, lanes: int) -> str:
    """One bf16 as f32 in all lanes: broadcast from memory as two to a lane, and moved up there,
    where a number that is widened first goes through two other registers."""
    halves = f"<{2 * lanes} x i16>"
    first = function.temporary(f"insertelement {halves} poison, i16 {text}, i64 0")
    twice = function.temporary(
        f"shufflevector {halves} {first}, {halves} poison, <{2 * lanes} x i32> zeroinitializer"
    )
    vectors = _Lanes(function, lanes)
    bits = function.temporary(f"bitcast {halves} {twice} to {vectors.type('i32')}")
    moved = vectors.op("shl", "i32", bits, vectors.integer("i32", 16))
    return vectors.cast("bitcast", moved, "i32", "float")


class _Lanes:
    """Writes instructions on vectors of one number of lanes (or scalars): texts in, texts out."""

    def __init__(self, function: FunctionText, lanes: int):
        self.function = function
        self.lanes = lanes

    # -- by dtype --------------------------------------------------------------------------------

    def converted(self, text: str, source: DType, target: DType) -> str:
        if source is target:
            return text
        if target is DType.bool:
            return self.is_nonzero(text, source)
        if source in _HALVES:
            widened = self.from_f16(text) if source is DType.f16 else self.from_bf16(text)
            return self.converted(widened, DType.f32, target)
        if target in _HALVES:
            near = self.as_f32(text, source, exactly=target is DType.bf16)
            return self.to_f16(near) if target is DType.f16 else self.to_bf16(near)
        if source.is_float and target in UNSIGNED:
            whole = self.to_unsigned(text, source)
            return self.cast(_cast(DType.u64, target), whole, "i64", ELEMENT[target])
        if source.is_float and target.is_integer:
            return self.to_integer(text, source, target)
        return self.cast(_cast(source, target), text, ELEMENT[source], ELEMENT[target])

    def is_nonzero(self, text: str, source: DType) -> str:
        element = ELEMENT[source]
        if source in _HALVES:
            text = self.op("and", "i16", text, self.integer("i16", 0x7FFF))
        elif source.is_float:
            return self.op("fcmp une", element, text, self.float(0.0, source))
        return self.op("icmp ne", element, text, self.integer(element, 0))

    def to_integer(self, text: str, source: DType, target: DType) -> str:
        """Truncated; saturates in what `target` computes as, and wraps from there."""
        wide = target.computes_as
        if self.lanes > 1 and self.function.target.triple.startswith("x86"):
            wide_text = self.saturated(text, source, wide)
        else:
            from_, to = VectorType(source, self.lanes), VectorType(wide, self.lanes)
            name = f"llvm.fptosi.sat.{type_code(to)}.{type_code(from_)}"
            call = self.function.intrinsic(name, llvm_type(to), [(llvm_type(from_), text)])
            wide_text = self.function.temporary(call)
        if wide is target:
            return wide_text
        return self.cast("trunc", wide_text, ELEMENT[wide], ELEMENT[target])

    def saturated(self, text: str, source: DType, target: DType) -> str:
        """`llvm.fptosi.sat` by comparisons, since LLVM cuts vectors of that into their lanes for
        x86, with branches. What no integer is near is 0 while it is converted."""
        element, integer = ELEMENT[source], ELEMENT[target]
        bits = 8 * target.itemsize - 1
        type = VectorType(source, self.lanes)
        top, bottom = (self.float(sign * 2.0**bits, source) for sign in (1, -1))
        size = self.function.temporary(
            self.function.intrinsic(
                f"llvm.fabs.{type_code(type)}", llvm_type(type), [(llvm_type(type), text)]
            )
        )
        inside = self.op("fcmp olt", element, size, top)
        safe = self.select(inside, element, text, self.float(0.0, source))
        whole = self.cast("fptosi", safe, element, integer)
        above = self.op("fcmp oge", element, text, top)
        below = self.op("fcmp ole", element, text, bottom)
        whole = self.select(above, integer, self.integer(integer, 2**bits - 1), whole)
        return self.select(below, integer, self.integer(integer, -(2**bits)), whole)

    def to_unsigned(self, text: str, source: DType) -> str:
        """u64: what i64 does not hold is counted from 2^63 on."""
        if source is DType.f32:
            text = self.cast("fpext", text, "float", "double")
        start = self.float(2.0**63, DType.f64)
        beyond = self.op("fcmp oge", "double", text, start)
        rest = self.select(beyond, "double", self.op("fsub", "double", text, start), text)
        whole = self.to_integer(rest, DType.f64, DType.i64)
        top = self.select(beyond, "i64", self.integer("i64", -(2**63)), self.integer("i64", 0))
        return self.op("add", "i64", whole, top)

    def as_f32(self, text: str, source: DType, exactly: bool) -> str:
        """An f32 that rounds to a half type as the operand does. Long integers need not be told
        apart `exactly` for f16: those that f32 rounds overflow."""
        if source is DType.f32:
            return text
        if source is DType.f64:
            return self.rounded_to_odd(text)
        if source in (DType.i32, DType.i64, DType.u32, DType.u64) and exactly:
            if source.itemsize == 8:
                text = self.shortened(text, source)
            wide = self.cast(_cast(source, DType.f64), text, ELEMENT[source], "double")
            return self.rounded_to_odd(wide)
        return self.cast(_cast(source, DType.f32), text, ELEMENT[source], "float")

    # -- f16 and bf16 ------------------------------------------------------------------------

    def from_bf16(self, text: str) -> str:
        wide = self.cast("zext", text, "i16", "i32")
        bits = self.op("shl", "i32", wide, self.integer("i32", 16))
        return self.cast("bitcast", bits, "i32", "float")

    def upper_half(self, text: str) -> str:
        """Of a number that bf16 has."""
        bits = self.cast("bitcast", text, "float", "i32")
        return self.cast(
            "trunc", self.op("lshr", "i32", bits, self.integer("i32", 16)), "i32", "i16"
        )

    def to_bf16(self, text: str) -> str:
        """Half of the last place is added, less one bit where that place is even."""
        bits = self.cast("bitcast", text, "float", "i32")
        top = self.op("lshr", "i32", bits, self.integer("i32", 16))
        odd = self.op("and", "i32", top, self.integer("i32", 1))
        half = self.op("add", "i32", odd, self.integer("i32", 0x7FFF))
        rounded = self.op("lshr", "i32", self.op("add", "i32", bits, half),
                          self.integer("i32", 16))  # fmt: skip
        quiet = self.op("or", "i32", top, self.integer("i32", 0x40))
        is_nan = self.op("fcmp uno", "float", text, self.float(0.0, DType.f32))
        return self.cast("trunc", self.select(is_nan, "i32", quiet, rounded), "i32", "i16")

    def from_f16(self, text: str) -> str:
        if self.function.target.half_instructions:
            half = self.cast("bitcast", text, "i16", "half")
            return self.cast("fpext", half, "half", "float")
        wide = self.cast("zext", text, "i16", "i32")
        magnitude = self.op("and", "i32", wide, self.integer("i32", 0x7FFF))
        moved = self.op("shl", "i32", magnitude, self.integer("i32", 13))
        # The exponents differ by 112; a product makes subnormal numbers normal.
        scaled = self.op("fmul", "float", self.cast("bitcast", moved, "i32", "float"),
                         self.float(2.0**112, DType.f32))  # fmt: skip
        number = self.cast("bitcast", scaled, "float", "i32")
        special = self.op("or", "i32", moved, self.integer("i32", _F32_INFINITY))
        is_special = self.op("icmp uge", "i32", magnitude, self.integer("i32", 0x7C00))
        bits = self.select(is_special, "i32", special, number)
        sign = self.op("shl", "i32", self.op("xor", "i32", wide, magnitude),
                       self.integer("i32", 16))  # fmt: skip
        return self.cast("bitcast", self.op("or", "i32", bits, sign), "i32", "float")

    def to_f16(self, text: str) -> str:
        if self.function.target.half_instructions:
            half = self.cast("fptrunc", text, "float", "half")
            return self.cast("bitcast", half, "half", "i16")
        bits = self.cast("bitcast", text, "float", "i32")
        sign = self.op("and", "i32", bits, self.integer("i32", _F32_SIGN))
        size = self.op("xor", "i32", bits, sign)
        # Where f16 is subnormal: adding 1/2 leaves the multiple of 2^-24 in the last bits.
        shifted = self.op("fadd", "float", self.cast("bitcast", size, "i32", "float"),
                          self.float(0.5, DType.f32))  # fmt: skip
        small = self.op("sub", "i32", self.cast("bitcast", shifted, "float", "i32"),
                        self.integer("i32", _HALF))  # fmt: skip
        odd = self.op("and", "i32", self.op("lshr", "i32", size, self.integer("i32", 13)),
                      self.integer("i32", 1))  # fmt: skip
        rebased = self.op("add", "i32", size, self.integer("i32", 0xFFF - (112 << 23)))
        normal = self.op("lshr", "i32", self.op("add", "i32", rebased, odd),
                         self.integer("i32", 13))  # fmt: skip
        below = self.op("icmp ult", "i32", size, self.integer("i32", _F16_TINY))
        above = self.op("icmp uge", "i32", size, self.integer("i32", _F16_OVERFLOW))
        is_nan = self.op("icmp ugt", "i32", size, self.integer("i32", _F32_INFINITY))
        rounded = self.select(below, "i32", small, normal)
        rounded = self.select(above, "i32", self.integer("i32", 0x7C00), rounded)
        rounded = self.select(is_nan, "i32", self.integer("i32", 0x7E00), rounded)
        top = self.op("lshr", "i32", sign, self.integer("i32", 16))
        return self.cast("trunc", self.op("or", "i32", rounded, top), "i32", "i16")

    # -- f64 and i64 to a half type: see graphc.ops.conversion -----------------------------------

    def rounded_to_odd(self, text: str) -> str:
        near = self.cast("fptrunc", text, "double", "float")
        back = self.cast("fpext", near, "float", "double")
        bits = self.cast("bitcast", near, "float", "i32")
        last = self.op("and", "i32", bits, self.integer("i32", 1))
        is_even = self.op("icmp eq", "i32", last, self.integer("i32", 0))
        differs = self.op("fcmp one", "double", back, text)
        wrong = self.op("and", "i1", is_even, differs)
        above = self.op("fcmp ogt", "double", self.magnitude(back), self.magnitude(text))
        minus, plus = self.integer("i32", -1), self.integer("i32", 1)
        step = self.select(above, "i32", minus, plus)
        step = self.select(wrong, "i32", step, self.integer("i32", 0))
        return self.cast("bitcast", self.op("add", "i32", bits, step), "i32", "float")

    def shortened(self, text: str, source: DType) -> str:
        """An i64 whose bits beyond f64 are replaced by one."""
        rest = self.op("and", "i64", text, self.integer("i64", STICKY - 1))
        whole = self.op("xor", "i64", text, rest)
        has_rest = self.op("icmp ne", "i64", rest, self.integer("i64", 0))
        zero, half = self.integer("i64", 0), self.integer("i64", STICKY // 2)
        marked = self.op("or", "i64", whole, self.select(has_rest, "i64", half, zero))
        if source is DType.u64:
            is_small = self.op("icmp ule", "i64", text, self.integer("i64", EXACT_INTEGER))
            return self.select(is_small, "i64", text, marked)
        from_least = self.op("add", "i64", text, self.integer("i64", EXACT_INTEGER))
        is_small = self.op("icmp ule", "i64", from_least, self.integer("i64", 2 * EXACT_INTEGER))
        return self.select(is_small, "i64", text, marked)

    def magnitude(self, text: str) -> str:
        type = VectorType(DType.f64, self.lanes)
        name = f"llvm.fabs.{type_code(type)}"
        call = self.function.intrinsic(name, llvm_type(type), [(llvm_type(type), text)])
        return self.function.temporary(call)

    # -- instructions ----------------------------------------------------------------------------

    def type(self, element: str) -> str:
        return element if self.lanes == 1 else f"<{self.lanes} x {element}>"

    def op(self, name: str, element: str, *operands: str) -> str:
        return self.function.temporary(f"{name} {self.type(element)} {', '.join(operands)}")

    def cast(self, name: str, text: str, source: str, target: str) -> str:
        if not name:
            return text
        return self.function.temporary(f"{name} {self.type(source)} {text} to {self.type(target)}")

    def select(self, condition: str, element: str, one: str, other: str) -> str:
        type = self.type(element)
        return self.function.temporary(
            f"select {self.type('i1')} {condition}, {type} {one}, {type} {other}"
        )

    def integer(self, element: str, value: int) -> str:
        """A number in every lane; those beyond the signed range stand for their bits."""
        width = int(element[1:])
        value = (value + (1 << width - 1)) % (1 << width) - (1 << width - 1)
        return str(value) if self.lanes == 1 else f"splat ({element} {value})"

    def float(self, value: float, dtype: DType) -> str:
        text = scalar_literal(value, dtype)
        return text if self.lanes == 1 else f"splat ({ELEMENT[dtype]} {text})"


def _cast(source: DType, target: DType) -> str:
    """The instruction between numbers that are no half types; none where the bits stay."""
    if target.is_float and not source.is_float:
        return "uitofp" if source in _UNSIGNED else "sitofp"
    if source.is_float:
        return "fpext" if target.itemsize > source.itemsize else "fptrunc"
    if source is DType.bool:
        return "zext"
    if target.itemsize == source.itemsize:
        return ""
    if target.itemsize < source.itemsize:
        return "trunc"
    return "zext" if source in _UNSIGNED else "sext"
