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
