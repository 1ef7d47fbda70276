"""Numbers for sizes that are known only at run time, to compare costs of plans for."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.dims import Extent, evaluate, symbols_in
from graphc.ir.size_guards import UNKNOWN, nearest

ROWS, IMAGES = UNKNOWN, 32
"""Typical sizes: rows of a matrix; images of a batch, where each is a plane."""
DOUBLED = 16
"""How often a typical size may be doubled where it leaves nothing to compute."""


def typical(extent: Extent, size: int = ROWS, at_least: int = 0) -> int:
    """The extent where each size is a typical one, or its nearest bound, and no less than
    `at_least`; a number as it is. No example is asked: a kernel is one for all programs that have
    it."""
    symbols = symbols_in(extent)
    sizes = {symbol.name: nearest(symbol, size) for symbol in symbols}
    return max(evaluate(extent, sizes), at_least if symbols else 0)


def typical_size(extents: Sequence[Extent], size: int) -> int:
    """What is typical of each size in the extents of results: `size`, doubled while that leaves
    none, of positions of windows that are longer than that."""
    doubled = (size << times for times in range(DOUBLED))
    return next((n for n in doubled if all(typical(each, n) > 0 for each in extents)), size)
