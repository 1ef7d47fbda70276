"""Numbers for sizes that are known only at run time, to compare costs of plans for."""

from __future__ import annotations

from graphc.ir.dims import Extent, evaluate, symbols_in
from graphc.ir.size_guards import UNKNOWN, nearest

ROWS, IMAGES = UNKNOWN, 32
"""Typical sizes: rows of a matrix; images of a batch, where each is a plane."""
DOUBLED = 16
"""How often a typical size may be doubled where it leaves nothing to compute."""


def typical(extent: Extent, size: int = ROWS) -> int:
    """The extent where each size is a typical one, or its nearest bound. No example is asked: a
    kernel is one for all programs that have it."""
    return evaluate(extent, {symbol.name: nearest(symbol, size) for symbol in symbols_in(extent)})
