"""Extents as LLVM: polynomials in sizes, their quotients rounded down as Python's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.ir.dims import Extent, Symbol, lowered
from graphc.records import record

Emit = Callable[[str], str]
"""Takes an instruction of LLVM, gives the name of its value."""


def extent_text(extent: Extent, values: Mapping[str, str], emit: Emit) -> str:
    """The i64 value of an extent, where symbols have these values. `emit` takes the instructions
    ahead of it."""
    return lowered(extent, _Instructions(values, emit))


@record
class _Instructions:
    """Sizes as i64 values of LLVM."""

    values: Mapping[str, str]
    emit: Emit

    def number(self, value: int) -> str:
        return str(value)

    def symbol(self, symbol: Symbol) -> str:
        return self.values[symbol.name]

    def add(self, x: str, y: str) -> str:
        return self.emit(f"add i64 {x}, {y}")

    def mul(self, x: str, y: str) -> str:
        return self.emit(f"mul i64 {x}, {y}")

    def floordiv(self, x: str, y: str, may_be_negative: bool) -> str:
        """A dividend may be negative: half of n, rounded up, is -(-n // 2)."""
        quotient = self.emit(f"sdiv i64 {x}, {y}")
        if not may_be_negative:
            return quotient
        rest = self.emit(f"srem i64 {x}, {y}")
        below = self.emit(f"icmp slt i64 {rest}, 0")
        return self.emit(f"add i64 {quotient}, {self.emit(f'sext i1 {below} to i64')}")
