"""Extents as LLVM: polynomials in a kernel's sizes, computed where a function begins."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.llvm.function_text import FunctionText
from graphc.ir.dims import DimQuotient, Extent, Symbol, ordered_terms


def extent_text(function: FunctionText, extent: Extent, sizes: Mapping[str, str]) -> str:
    """The i64 value of an extent; `sizes` has the text of each symbol's value. What is divided is
    not negative."""
    if isinstance(extent, int):
        return str(extent)
    total = str(extent.constant)
    for monomial, coefficient in ordered_terms(extent):
        term = str(coefficient)
        for factor in monomial:
            value = _factor_text(function, factor, sizes)
            term = function.temporary(f"mul i64 {term}, {value}")
        total = function.temporary(f"add i64 {total}, {term}")
    return total


def _factor_text(
    function: FunctionText, factor: Symbol | DimQuotient, sizes: Mapping[str, str]
) -> str:
    if isinstance(factor, Symbol):
        return sizes[factor.name]
    dividend, divisor = (
        extent_text(function, part, sizes) for part in (factor.dividend, factor.divisor)
    )
    return function.temporary(f"sdiv i64 {dividend}, {divisor}")
