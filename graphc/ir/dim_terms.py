"""The terms of an extent: their order and their text."""

from __future__ import annotations

from typing import Any


def ordered_terms(extent: Any) -> list[tuple[Any, int]]:
    """Monomials and coefficients in an order that depends on nothing else."""
    return sorted(extent.terms, key=_by_degree)


def _by_degree(term: tuple[Any, int]) -> tuple[Any, ...]:
    """Monomials of most factors first, then by their texts."""
    return -len(term[0]), *map(str, term[0])


def term_text(monomial: Any, coefficient: int) -> str:
    text = "*".join(map(str, monomial))
    if abs(coefficient) == 1:
        return text if coefficient == 1 else f"-{text}"
    return f"{coefficient}*{text}"


def same_terms(left: Any, right: Any) -> bool:
    """Whether two extents, or an extent and anything else, are written alike."""
    terms, others = getattr(left, "terms", None), getattr(right, "terms", None)
    if terms is None and others is None:
        return bool(left == right)
    return terms == others and left.constant == right.constant
