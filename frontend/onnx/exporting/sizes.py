"""Extents as operators on shapes: a polynomial with floor quotients becomes Mul, Add and Div."""

from __future__ import annotations

from typing import Any

from graphc.errors import GraphError
from graphc.ir.dims import Dim, Extent, Symbol


def size_value(writer: Any, extent: Extent) -> str:
    """The name of int64[1] with an extent's value. Sizes are not negative, so Div rounds down."""
    if not isinstance(extent, Dim):
        return str(writer.constant([extent]))
    text = str(extent)
    if text not in writer.sizes:
        writer.sizes[text] = _computed(writer, extent)
    return str(writer.sizes[text])


def _computed(writer: Any, extent: Dim) -> str:
    total: str | None = writer.constant([extent.constant]) if extent.constant else None
    for monomial, coefficient in extent.terms:
        product = writer.constant([coefficient]) if coefficient != 1 else None
        for factor in monomial:
            name = _factor(writer, factor)
            product = name if product is None else writer.add("Mul", [product, name])
        total = product if total is None else writer.add("Add", [total, product])
    assert total is not None
    return total


def _factor(writer: Any, factor: Any) -> str:
    if isinstance(factor, Symbol):
        if factor.name not in writer.sizes:
            raise GraphError(f"size {factor.name} is that of no input")
        return str(writer.sizes[factor.name])
    parts = [size_value(writer, factor.dividend), size_value(writer, factor.divisor)]
    return str(writer.add("Div", parts))
