"""Numbers that are known where a kernel is written, or computed when it runs.

in : a number (an int), a size of the call or a polynomial of sizes (a Dim), or a value of the
     kernel (a LoopValue)
out: `Numbers`, arithmetic on them: done here where both sides are known and what comes out is, an
     operation of the kernel elsewhere

What writes loops asks no number what it is: it adds, multiplies, divides, compares, and takes the
result for a bound, an offset or a value. A polynomial becomes a value ahead of all statements, once
in a kernel (LoopBuilder.size).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, Protocol, TypeGuard

from graphc.codegen.loop_ir.nodes import Index, LoopValue
from graphc.ir.dims import Extent, always_lt, greatest, known_number, least

Number = LoopValue | Extent
Bound = LoopValue | int
"""A number as loops take it: polynomials are values by then."""


class Writer(Protocol):
    """What writes operations of a kernel."""

    def op(self, opcode: str, *operands: LoopValue, attribute: Any = None) -> LoopValue: ...

    def size(self, extent: Extent) -> LoopValue: ...


def is_known(number: Number) -> TypeGuard[Extent]:
    """Whether it is known where it is written, if only as a polynomial of the call's sizes."""
    return not isinstance(number, LoopValue)


def known_range(begin: Number, end: Number, step: int = 1) -> range | None:
    """The positions of a loop, where they are known where it is written; else None."""
    first, behind = known_number(begin), known_number(end)
    return None if first is None or behind is None else range(first, behind, step)


def _bits(x: Extent, y: Extent) -> Extent | None:
    return x & y if isinstance(x, int) and isinstance(y, int) else None


_FOLDED: dict[str, Callable[[Extent, Extent], Extent | None]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.floordiv,
    "floordiv": operator.floordiv, "and": _bits, "minimum": least, "maximum": greatest,
}  # fmt: skip


class Numbers:
    """Arithmetic of i64 numbers in one kernel."""

    def __init__(self, writer: Writer):
        self._writer = writer

    def value(self, number: Number) -> LoopValue:
        """A number as a value."""
        return number if isinstance(number, LoopValue) else self._writer.size(number)

    def bound(self, number: Number) -> Bound:
        """A number as the bound of a loop."""
        return number if isinstance(number, int | LoopValue) else self._writer.size(number)

    def add(self, x: Number, y: Number) -> Number:
        return self._computed("add", x, y)

    def sub(self, x: Number, y: Number) -> Number:
        return self._computed("sub", x, y)

    def mul(self, x: Number, y: Number) -> Number:
        return self._computed("mul", x, y)

    def div(self, x: Number, y: Number) -> Number:
        """Of numbers that are not negative, rounded down."""
        return self._computed("div", x, y)

    def floordiv(self, x: Number, y: Number) -> Number:
        """Rounded down, whatever the signs."""
        return self._computed("floordiv", x, y)

    def bits(self, x: Number, y: Number) -> Number:
        """The bits that both have."""
        return self._computed("and", x, y)

    def minimum(self, x: Number, y: Number) -> Number:
        return self._computed("minimum", x, y)

    def maximum(self, x: Number, y: Number) -> Number:
        return self._computed("maximum", x, y)

    def tile_end(self, first: Number, size: int, end: Number) -> Number:
        """Where the tile of `size` ends whose first position is `first`, one of those that tiles
        of a range up to `end` begin with."""
        behind = self.add(first, size)
        return behind if is_known(end) and end % size == 0 else self.minimum(behind, end)

    def compare(self, sign: str, x: Number, y: Number) -> LoopValue:
        """`sign` is one of eq ne lt le gt ge."""
        return self._writer.op(sign, self.value(x), self.value(y))

    def nonzero(self, number: Number) -> LoopValue | None:
        """The test that a number, which is not negative, is not 0; None where that is known."""
        if is_known(number) and always_lt(0, number):
            return None
        return self.compare("ne", number, 0)

    def index(self, *terms: tuple[Number, Extent]) -> Index:
        """The offset Σ factor · number."""
        constant: Extent = 0
        moving: list[tuple[LoopValue, int]] = []
        for number, factor in terms:
            if is_known(number):
                constant = constant + number * factor
            elif isinstance(factor, int):
                moving.append((number, factor))  # type: ignore[arg-type]
            else:
                moving.append((self.value(self.mul(number, factor)), 1))
        if isinstance(constant, int):
            return Index.of(constant, *moving)
        return Index.of(0, *moving, self.value(constant))

    def _computed(self, opcode: str, x: Number, y: Number) -> Number:
        known = _FOLDED[opcode](x, y) if is_known(x) and is_known(y) else None
        if known is not None:
            return known
        return self._writer.op(opcode, self.value(x), self.value(y))
