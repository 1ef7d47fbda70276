"""The opcodes of the loop IR: their arity, their typing rule, and what each means exactly.

In: operand types and an attribute. Out: the result type, or a VerifyError saying what is wrong.
The meaning stated here is the contract between the interpreter (run_loops) and the emitter
(llvm/). Every opcode is total: no operand makes one undefined or makes the processor trap.

Which NaN comes out of an operation (sign, payload) is not part of the contract; that one comes
out is. Everything else is, to the bit.

| opcode | meaning |
|---|---|
| const | the attribute, of the result's type, in every lane |
| add sub mul | float: IEEE, rounded once; integers wrap |
| div rem | float: IEEE division, C's fmod; integers truncate; x/0 = 0, x rem 0 = 0, MIN/-1 = MIN |
| floordiv mod | integers, rounded down like Python's; by zero both are 0; MIN//-1 = MIN |
| neg abs | float: the sign bit only; integers wrap |
| fma | a*b + c, rounded once |
| sqrt floor ceil trunc round | float; round goes half to even |
| minimum maximum | NaN if one operand is NaN; of equal ones (-0 and +0) the second operand |
| eq ne lt le gt ge | to bool; with a NaN all are false but ne, which is true; integers are signed |
| and or xor not | integers bitwise, bool logical |
| shl lshr ashr | integers; the amount counts modulo the width |
| select | first operand picks: lane by lane, or one scalar bool for whole vectors |
| convert | rounded once; integers wrap; float to int truncates, saturates, NaN: 0; bool is `!= 0` |
| bitcast | same bits, another dtype; of vectors also another number of lanes, the low bits first |
| splat iota | a scalar in all lanes; 0, 1, 2, … |
| extract insert shuffle | fixed lanes; shuffle picks from both operands' lanes laid end to end |
| lookup | of i32: the entry of a table, eight numbers, that the low three bits tell |
| dot_pairs | f32, and twice i32 as two bf16, the even one low: FMAs of odd ones, then even ones |
| dot_quads | vectors of i32, and twice i32 as four u8 and four i8: products added, which wraps |
| least_pairs | of pairs of bf16 as two numbers of 16 bits: the lesser of what was, and abs less 1 |
| call | a libm function, lane by lane, in the precision of the operands |

Storage types (f16, bf16, u8, i8, i16, u16, u32, u64) are only moved, selected, bitcast and
converted. A float becomes u8, i8 or i16 by way of i32.

The attribute of `dot_pairs` tells whether certainly no element and no sum is denormal, that of
`dot_quads`, where it has one, that no u8 is above 127.

`maximum(0, x)` with the constant first is a single instruction: only the first operand needs a
test for NaN, and the compiler sees that a constant is none. A constant other than 0 may be second.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.errors import VerifyError
from graphc.ir.types import DType
from graphc.records import record


class VectorType:
    """An element type and a number of lanes; one lane is a scalar. Text: `f32`, `f32x16`.

    bool is one byte in memory and one bit in registers. Equal types are one object, as with
    TensorType: types are compared and looked up more often than anything else here.
    """

    __slots__ = ("dtype", "lanes")

    dtype: DType
    lanes: int

    def __new__(cls, dtype: DType, lanes: int = 1) -> VectorType:
        known = _TYPES.get((dtype, lanes))
        if known is not None:
            return known
        if lanes < 1:
            raise VerifyError(f"a vector of {lanes} lanes")
        type = super().__new__(cls)
        object.__setattr__(type, "dtype", dtype)
        object.__setattr__(type, "lanes", lanes)
        return _TYPES.setdefault((dtype, lanes), type)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a VectorType is fixed: {name} cannot be set")

    def __reduce__(self) -> tuple[type[VectorType], tuple[DType, int]]:
        return VectorType, (self.dtype, self.lanes)

    def __repr__(self) -> str:
        return f"VectorType({self.dtype!r}, {self.lanes})"

    def __str__(self) -> str:
        return self.dtype.value if self.lanes == 1 else f"{self.dtype.value}x{self.lanes}"

    @property
    def is_scalar(self) -> bool:
        return self.lanes == 1

    def with_lanes(self, lanes: int) -> VectorType:
        return VectorType(self.dtype, lanes)

    def with_dtype(self, dtype: DType) -> VectorType:
        return VectorType(dtype, self.lanes)


_TYPES: dict[tuple[DType, int], VectorType] = {}
Types = tuple[VectorType, ...]
TypeRule = Callable[[Types, Any], VectorType]

TABLE_SIZE = 8
"""Entries of the table of a `lookup`."""

LIBM_ARITY: dict[str, int] = {
    **dict.fromkeys(("exp", "exp2", "expm1", "log", "log2", "log10", "log1p"), 1),
    **dict.fromkeys(("sin", "cos", "tan", "asin", "acos", "atan"), 1),
    **dict.fromkeys(("sinh", "cosh", "tanh", "asinh", "acosh", "atanh"), 1),
    **dict.fromkeys(("erf", "erfc", "lgamma", "tgamma", "cbrt"), 1),
    **dict.fromkeys(("pow", "atan2", "hypot", "fmod", "remainder", "copysign", "nextafter"), 2),
}
"""Functions `call` may name, with their number of operands."""


@record
class Opcode:
    """`arity` None: the rule decides. `elementwise`: scalar operands are splat to fit vectors."""

    name: str
    arity: int | None
    rule: TypeRule
    elementwise: bool = True


def _fail(message: str, hint: str | None = None) -> VerifyError:
    return VerifyError(message, hint=hint)


def _same(types: Types) -> VectorType:
    first = types[0]
    for other in types[1:]:
        if other != first:
            listed = ", ".join(map(str, types))
            raise _fail(f"operands differ in type: {listed}", "convert or splat one of them")
    return first


def _computed(types: Types) -> VectorType:
    result = _same(types)
    if result.dtype.is_storage:
        raise _fail(f"{result} is only moved and converted",
                    f"convert to {result.dtype.computes_as.value} first")  # fmt: skip
    return result


def _numeric(types: Types, attribute: Any) -> VectorType:
    result = _computed(types)
    if result.dtype is DType.bool:
        raise _fail("bool has no arithmetic", "convert it to a number, or use and, or, xor, not")
    return result


def _float(types: Types, attribute: Any) -> VectorType:
    result = _computed(types)
    if not result.dtype.is_float:
        raise _fail(f"wants f32 or f64, has {result}", "convert the operand first")
    return result


def _integer(types: Types, attribute: Any) -> VectorType:
    result = _computed(types)
    if not result.dtype.is_integer:
        raise _fail(f"wants i32 or i64, has {result}", "convert the operand first")
    return result


def _bits(types: Types, attribute: Any) -> VectorType:
    result = _computed(types)
    if result.dtype.is_float:
        raise _fail(f"wants integers or bool, has {result}", "bitcast the operand first")
    return result


def _compare(types: Types, attribute: Any) -> VectorType:
    return _computed(types).with_dtype(DType.bool)


def _select(types: Types, attribute: Any) -> VectorType:
    condition, *arms = types
    result = _same(tuple(arms))
    if condition.dtype is not DType.bool or condition.lanes not in (1, result.lanes):
        raise _fail(f"the condition {condition} does not select among {result}")
    return result


def _convert(types: Types, attribute: Any) -> VectorType:
    if not isinstance(attribute, DType):
        raise _fail(f"the attribute is the dtype to convert to, not {attribute!r}")
    return types[0].with_dtype(attribute)


def _bitcast(types: Types, attribute: Any) -> VectorType:
    result = _convert(types, attribute)
    width = types[0].lanes * types[0].dtype.itemsize
    alike = attribute.itemsize == types[0].dtype.itemsize
    if (
        DType.bool in (attribute, types[0].dtype)
        or width % attribute.itemsize
        or (types[0].is_scalar and not alike)
    ):
        raise _fail(f"{types[0]} and {result} differ in width", "use convert")
    return result.with_lanes(width // attribute.itemsize)


def _dot_pairs(types: Types, attribute: Any) -> VectorType:
    total, a, b = types
    if total.dtype is not DType.f32 or a != b or a != total.with_dtype(DType.i32):
        raise _fail(f"wants f32 and as many i32 twice, has {total}, {a}, {b}")
    return total


def _dot_quads(types: Types, attribute: Any) -> VectorType:
    result = _same(types)
    if result.dtype is not DType.i32 or result.is_scalar:
        raise _fail(f"wants vectors of i32, has {result}")
    if attribute not in (None, True):
        raise _fail(f"the attribute is true or none, not {attribute!r}")
    return result


def _least_pairs(types: Types, attribute: Any) -> VectorType:
    return _dot_quads(types, None)


def _splat(types: Types, attribute: Any) -> VectorType:
    if not types[0].is_scalar:
        raise _fail(f"splat takes a scalar, has {types[0]}", "use shuffle")
    return types[0].with_lanes(attribute)


def _iota(types: Types, attribute: Any) -> VectorType:
    if not isinstance(attribute, VectorType) or not attribute.dtype.is_integer:
        raise _fail(f"the attribute is an integer vector type, not {attribute!r}")
    return attribute


def _lane(vector: VectorType, lane: Any) -> None:
    if vector.is_scalar:
        raise _fail("a scalar has no lanes to address")
    if not isinstance(lane, int) or not 0 <= lane < vector.lanes:
        raise _fail(f"lane {lane!r} is outside {vector}")


def _extract(types: Types, attribute: Any) -> VectorType:
    _lane(types[0], attribute)
    return types[0].with_lanes(1)


def _insert(types: Types, attribute: Any) -> VectorType:
    vector, scalar = types
    _lane(vector, attribute)
    if scalar != vector.with_lanes(1):
        raise _fail(f"{scalar} is no lane of {vector}")
    return vector


def _shuffle(types: Types, attribute: Any) -> VectorType:
    vector = _same(types)
    if vector.is_scalar:
        raise _fail("shuffle takes vectors", "use splat")
    if not isinstance(attribute, tuple) or not attribute:
        raise _fail(f"the attribute is a tuple of lanes, not {attribute!r}")
    for lane in attribute:
        if not isinstance(lane, int) or not 0 <= lane < 2 * vector.lanes:
            raise _fail(f"lane {lane!r} is outside two {vector} laid end to end")
    return vector.with_lanes(len(attribute))


def _lookup(types: Types, attribute: Any) -> VectorType:
    (result,) = types
    if result.dtype is not DType.i32:
        raise _fail(f"wants i32, has {result}", "convert the operand first")
    if not isinstance(attribute, tuple) or len(attribute) != TABLE_SIZE:
        raise _fail(f"the attribute is a tuple of {TABLE_SIZE} numbers, not {attribute!r}")
    for entry in attribute:
        check_constant(entry, result)
    return result


def _call(types: Types, attribute: Any) -> VectorType:
    arity = LIBM_ARITY.get(attribute)
    if arity is None:
        raise _fail(f"{attribute!r} is no known libm function", f"one of {', '.join(LIBM_ARITY)}")
    if len(types) != arity:
        raise _fail(f"{attribute} takes {arity} operands, has {len(types)}")
    return _float(types, attribute)


def _const(types: Types, attribute: Any) -> VectorType:
    raise _fail("the type of a const stands in its result")


def _table(rule: TypeRule, arity: int, names: str) -> dict[str, Opcode]:
    return {name: Opcode(name, arity, rule) for name in names.split()}


OPCODES: dict[str, Opcode] = {
    **_table(_numeric, 2, "add sub mul div rem minimum maximum"),
    **_table(_integer, 2, "floordiv mod shl lshr ashr"),
    **_table(_numeric, 1, "neg abs"),
    **_table(_float, 3, "fma"),
    **_table(_float, 1, "sqrt floor ceil trunc round"),
    **_table(_compare, 2, "eq ne lt le gt ge"),
    **_table(_bits, 2, "and or xor"),
    **_table(_bits, 1, "not"),
    **_table(_select, 3, "select"),
    **_table(_convert, 1, "convert"),
    **_table(_bitcast, 1, "bitcast"),
    "const": Opcode("const", 0, _const, elementwise=False),
    "splat": Opcode("splat", 1, _splat, elementwise=False),
    "iota": Opcode("iota", 0, _iota, elementwise=False),
    "extract": Opcode("extract", 1, _extract, elementwise=False),
    "insert": Opcode("insert", 2, _insert, elementwise=False),
    "shuffle": Opcode("shuffle", 2, _shuffle, elementwise=False),
    "dot_pairs": Opcode("dot_pairs", 3, _dot_pairs, elementwise=False),
    "dot_quads": Opcode("dot_quads", 3, _dot_quads, elementwise=False),
    "least_pairs": Opcode("least_pairs", 2, _least_pairs, elementwise=False),
    "lookup": Opcode("lookup", 1, _lookup),
    "call": Opcode("call", None, _call),
}
"""Every opcode of the loop IR by name."""


@lru_cache(maxsize=4096, typed=True)
def result_type(opcode: str, types: Types, attribute: Any = None) -> VectorType:
    """The type `opcode` gives for operands of `types`. Raises VerifyError, naming the opcode."""
    known = OPCODES.get(opcode)
    if known is None:
        raise _fail(f"{opcode!r} is no opcode", f"one of {', '.join(sorted(OPCODES))}")
    if known.arity is not None and len(types) != known.arity:
        raise _fail(f"{opcode} takes {known.arity} operands, has {len(types)}")
    try:
        return known.rule(types, attribute)
    except VerifyError as error:
        raise VerifyError(f"{opcode}: {error}") from None


def check_constant(value: object, type: VectorType) -> None:
    """Raises VerifyError when `value` is no exact value of `type`."""
    dtype = type.dtype
    if dtype is DType.bool:
        fits = isinstance(value, bool)
    elif dtype.is_integer:
        limits = np.iinfo(dtype.numpy)
        fits = isinstance(value, int) and limits.min <= value <= limits.max
        fits = fits and not isinstance(value, bool)
    else:
        fits = isinstance(value, float) and (
            value != value or float(dtype.numpy.type(value)) == value
        )
    if not fits:
        raise _fail(f"const: {value!r} is no value of {type}", "LoopBuilder.const rounds it")


@lru_cache(maxsize=4096, typed=True)
def exact_constant(dtype: DType, value: float | int | bool, text: str) -> Any:
    """`value` rounded to the dtype, as a Python number. `text` is the value's, for the memo."""
    with np.errstate(over="ignore"):
        return dtype.numpy.type(value).item()
