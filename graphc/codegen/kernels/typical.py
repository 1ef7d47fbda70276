"""Numbers for sizes that are known only at run time, to compare costs of plans for."""

from __future__ import annotations

from graphc.ir.dims import Extent, evaluate
from graphc.ir.size_guards import UNKNOWN, nearest

ROWS, IMAGES = UNKNOWN, 32
"""Typical sizes: rows of a matrix; images of a batch, where each is a plane."""
DOUBLED = 16
"""How often a typical size is doubled."""


def typical(extent: Extent, size: int = ROWS) -> int:
    """The extent where each size is a typical one, or its nearest bound; where there would be none
    of it (positions of windows that are longer), sizes are doubled until there is. No example is
    asked: a kernel is one for all programs that have it."""
    if isinstance(extent, int):
        return extent
    for factor in range(DOUBLED):
        sizes = {s.name: nearest(s, size << factor) for s in extent.symbols()}
        if (number := evaluate(extent, sizes)) > 0:
            return number
    return 0
