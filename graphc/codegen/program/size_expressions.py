"""What a table of sizes is computed by: extents, and sums, maxima and whole units of them.

One declaration, two forms: an expression of Python, for the process (size_table), and LLVM IR, for
an object that runs without it (standalone).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.codegen.llvm.size_text import Emit, extent_text
from graphc.ir.dims import Dim
from graphc.ir.extent_text import as_python
from graphc.records import record


@record(eq=False)
class NamedSize:
    """The value of a line ahead."""

    name: str


@record(eq=False)
class GreatestSize:
    """The greatest of these."""

    parts: tuple[SizeExpression, ...]


@record(eq=False)
class SizeSum:
    """These added up."""

    parts: tuple[SizeExpression, ...]


@record(eq=False)
class WholeUnits:
    """A number of bytes, rounded up to whole units."""

    part: SizeExpression
    unit: int


SizeExpression = int | Dim | NamedSize | GreatestSize | SizeSum | WholeUnits


def literal(expression: SizeExpression) -> int | None:
    """The number that the expression is; None where it is known at a call alone."""
    return expression if isinstance(expression, int) else None


def greatest(parts: Sequence[SizeExpression]) -> GreatestSize:
    """The greatest of these, the numbers among them as one."""
    numbers = [number for number in map(literal, parts) if number is not None]
    others = [part for part in parts if literal(part) is None]
    return GreatestSize((*((max(numbers),) if numbers else ()), *others))


def python_text(expression: SizeExpression) -> str:
    """The expression as Python writes it."""
    match expression:
        case NamedSize():
            return expression.name
        case GreatestSize():
            texts = list(dict.fromkeys(map(python_text, expression.parts)))
            return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"
        case SizeSum():
            return " + ".join(map(python_text, expression.parts))
        case WholeUnits():
            return f"-(-({python_text(expression.part)}) // {expression.unit}) * {expression.unit}"
    return as_python(str(expression))


def llvm_value(expression: SizeExpression, values: Mapping[str, str], emit: Emit) -> str:
    """The i64 value of the expression, where names have these values. `emit` takes the instructions
    ahead of it. Quotients are rounded down, as Python's."""
    match expression:
        case NamedSize():
            return values[expression.name]
        case GreatestSize():
            value = llvm_value(expression.parts[0], values, emit)
            for part in expression.parts[1:]:
                other = llvm_value(part, values, emit)
                above = emit(f"icmp sgt i64 {other}, {value}")
                value = emit(f"select i1 {above}, i64 {other}, i64 {value}")
            return value
        case SizeSum():
            value = llvm_value(expression.parts[0], values, emit)
            for part in expression.parts[1:]:
                value = emit(f"add i64 {value}, {llvm_value(part, values, emit)}")
            return value
        case WholeUnits():
            return rounded_up(llvm_value(expression.part, values, emit), expression.unit, emit)
        case _:
            return extent_text(expression, values, emit)


def rounded_up(value: str, unit: int, emit: Emit) -> str:
    """A value that is not negative, rounded up to whole units."""
    above = emit(f"add i64 {value}, {unit - 1}")
    return emit(f"mul i64 {emit(f'udiv i64 {above}, {unit}')}, {unit}")
