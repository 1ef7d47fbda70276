"""Extents as LLVM: polynomials in sizes, their quotients rounded down as Python's."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from graphc.ir.dims import DimQuotient, Extent, always_le, ordered_terms

Emit = Callable[[str], str]
"""Takes an instruction of LLVM, gives the name of its value."""


def extent_text(extent: Extent, values: Mapping[str, str], emit: Emit) -> str:
    """The i64 value of an extent, where symbols have these values. `emit` takes the instructions
    ahead of it."""
    if isinstance(extent, int):
        return str(extent)
    total = str(extent.constant)
    for monomial, coefficient in ordered_terms(extent):
        term = str(coefficient)
        for factor in monomial:
            quotient = isinstance(factor, DimQuotient)
            value = _quotient(factor, values, emit) if quotient else values[factor.name]
            term = emit(f"mul i64 {term}, {value}")
        total = emit(f"add i64 {total}, {term}")
    return total


def _quotient(factor: DimQuotient, values: Mapping[str, str], emit: Emit) -> str:
    """Rounded down, of a divisor above 0. A dividend may be negative: half of n, rounded up, is
    -(-n // 2)."""
    dividend, divisor = (
        extent_text(part, values, emit) for part in (factor.dividend, factor.divisor)
    )
    quotient = emit(f"sdiv i64 {dividend}, {divisor}")
    if always_le(0, factor.dividend):
        return quotient
    rest = emit(f"srem i64 {dividend}, {divisor}")
    below = emit(f"icmp slt i64 {rest}, 0")
    return emit(f"add i64 {quotient}, {emit(f'sext i1 {below} to i64')}")
