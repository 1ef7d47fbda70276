"""Guards, and numbers that a graph takes of the sizes and numbers of a call, as LLVM IR.

Their values are those of Python: sums, products and quotients of f64 are the same operations, a
power is the C library's `pow`, as Python's is. Where Python raises (a division by zero, a power
beyond all floats) `wrong` holds. What Python alone computes is not `is_native`.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from graphc.build.function_lines import FunctionLines
from graphc.codegen.program.size_expressions import llvm_value
from graphc.errors import LoweringError
from graphc.ir.dims import Dim
from graphc.ir.size_floats import ARGUMENT, SizeFloat, text_of
from graphc.ir.size_guards import SizeGuard
from graphc.ir.types import DType

_ARITHMETIC = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_FLOAT_SIGNS = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "une"}
_SIGNS = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne", "is": "eq"}
_STORED = {DType.f64: "double", DType.f32: "float", DType.i64: "i64", DType.i32: "i32"}
_FAR = 1 << 62
"""Beside a constant from here on a size may lie beyond i64."""
INTRINSICS = "declare double @llvm.fabs.f64(double)\n"
POWER = "declare double @pow(double, double)\n"


def is_native(expression: Any, dtype: DType) -> bool:
    """Whether a number can be computed without Python, and stored as this dtype."""
    return dtype in _STORED and (
        _has_operations(expression) and not (_is_float(expression) and dtype.is_integer)
    )


def _has_operations(expression: Any) -> bool:
    if not isinstance(expression, SizeFloat) or expression.name == ARGUMENT:
        return True
    known = expression.name in (*_ARITHMETIC, "pow", "abs", "float")
    return known and all(_has_operations(part) for part in expression.parts)


def _is_float(expression: Any) -> bool:
    return type(expression) is SizeFloat or type(expression) is float


def takes_power(expression: Any) -> bool:
    """Whether `pow` is called for it."""
    if type(expression) is not SizeFloat:
        return False
    return expression.name == "pow" or any(takes_power(part) for part in expression.parts)


class NumberText:
    """Writes into a function, where names of sizes and numbers have these values: i64, and double
    for those in `floats`."""

    def __init__(self, function: FunctionLines, values: Mapping[str, str]):
        self.function = function
        self.values = values
        self.wrong: list[str] = []  # where Python raises

    def number(self, expression: Any) -> tuple[str, bool]:
        """The value of a number, and whether it is a double."""
        if type(expression) is not SizeFloat:
            if type(expression) is float:
                return double_text(expression), True
            assert isinstance(expression, int | Dim)
            return llvm_value(expression, self.values, self.function.emit), False
        if expression.name == ARGUMENT:
            return self.values[expression.left], True
        return self._operated(expression), True

    def _operated(self, expression: SizeFloat) -> str:
        if not _has_operations(expression):
            raise LoweringError(f"Python alone computes {text_of(expression)}")
        emit = self.function.emit
        parts = [self.double(part) for part in expression.parts]
        if expression.name == "float":
            return parts[0]
        if expression.name == "abs":
            return emit(f"call double @llvm.fabs.f64(double {parts[0]})")
        if expression.name == "pow":
            return self._power(*parts)
        if expression.name == "div":
            self.wrong.append(emit(f"fcmp oeq double {parts[1]}, 0.0"))
        return emit(f"{_ARITHMETIC[expression.name]} double {parts[0]}, {parts[1]}")

    def _power(self, base: str, exponent: str) -> str:
        emit = self.function.emit
        power = emit(f"call double @pow(double {base}, double {exponent})")
        # Of finite numbers: overflow, 0 to a negative power, a complex number.
        finite = [self._is_finite(value) for value in (base, exponent)]
        of_finite = emit(f"and i1 {finite[0]}, {finite[1]}")
        none = emit(f"xor i1 {self._is_finite(power)}, true")
        self.wrong.append(emit(f"and i1 {of_finite}, {none}"))
        return power

    def _is_finite(self, value: str) -> str:
        size = self.function.emit(f"call double @llvm.fabs.f64(double {value})")
        return self.function.emit(f"fcmp olt double {size}, 0x7FF0000000000000")

    def double(self, expression: Any) -> str:
        """The value of a number as a double."""
        value, is_float = self.number(expression)
        return value if is_float else self.function.emit(f"sitofp i64 {value} to double")

    def stored(self, expression: Any, dtype: DType) -> tuple[str, str]:
        """The type and the value of a number in a dtype."""
        value, is_float = self.number(expression)
        kind, own = _STORED[dtype], "double" if is_float else "i64"
        if kind == own:
            return kind, value
        if dtype.is_integer:
            return kind, self.function.emit(f"trunc i64 {value} to {kind}")
        how = "fptrunc" if is_float else "sitofp"
        return kind, self.function.emit(f"{how} {own} {value} to {kind}")

    def holds(self, guard: SizeGuard) -> str:
        """Whether a guard holds, as an i1; where Python raises it does not."""
        emit = self.function.emit
        sign = guard.sign.removeprefix("not ")
        before, self.wrong = self.wrong, []
        if _is_float(guard.left) or _is_float(guard.right):
            sides = [self.double(side) for side in (guard.left, guard.right)]
            if sign == "is":
                holds = self._has_same_bits(*sides)
            else:
                holds = emit(f"fcmp {_FLOAT_SIGNS[sign]} double {sides[0]}, {sides[1]}")
        else:
            sides = [self.number(side)[0] for side in _without_wrap(guard.left, guard.right)]
            holds = emit(f"icmp {_SIGNS[sign]} i64 {sides[0]}, {sides[1]}")
        if sign != guard.sign:
            holds = emit(f"xor i1 {holds}, true")
        for wrong in self.wrong:
            fine = emit(f"xor i1 {wrong}, true")
            holds = emit(f"and i1 {holds}, {fine}")
        self.wrong = before
        return holds

    def _has_same_bits(self, left: str, right: str) -> str:
        """Of doubles; no NaN differs from another."""
        emit = self.function.emit
        bits = [emit(f"bitcast double {side} to i64") for side in (left, right)]
        same = emit(f"icmp eq i64 {bits[0]}, {bits[1]}")
        nans = [emit(f"fcmp uno double {side}, {side}") for side in (left, right)]
        both = emit(f"and i1 {nans[0]}, {nans[1]}")
        return emit(f"or i1 {same}, {both}")


def _without_wrap(left: Any, right: Any) -> tuple[Any, Any]:
    """The sides of a comparison of whole numbers, as i64 compares them: a constant near the ends of
    i64 goes to the other side, `n + 2**63 - 2 > 2**63 - 1` is `n > 1`, and where it lies beyond
    them no i64 reaches it."""
    constants = [side.constant if isinstance(side, Dim) else side for side in (left, right)]
    if max(map(abs, constants)) < _FAR:
        return left, right
    difference = left - right
    constant = difference.constant if isinstance(difference, Dim) else difference
    if -(1 << 63) <= -constant < 1 << 63:
        return difference - constant, -constant
    return 0, -1 if constant > 0 else 1


def double_text(number: float) -> str:
    """A number as LLVM writes it, to the bit."""
    return f"0x{struct.unpack('<Q', struct.pack('<d', number))[0]:016X}"
