"""Numbers for sizes that are known only at run time, to compare costs of plans for."""

from __future__ import annotations

from graphc.ir.dims import Extent, evaluate
from graphc.ir.size_guards import UNKNOWN, nearest

ROWS, IMAGES = UNKNOWN, 32
"""Typical sizes: rows of a matrix; images of a batch, where each is a plane."""


def typical(extent: Extent, size: int = ROWS) -> int:
    """The extent where each size is a typical one, or its nearest bound. No example is asked: a
    kernel is one for all programs that have it."""
    if isinstance(extent, int):
        return extent
    return evaluate(extent, {symbol.name: nearest(symbol, size) for symbol in extent.symbols()})


def at_least(extent: Extent, least: int) -> Extent:
    """The extent of a variable that stands for any position: `least` where it is a number below
    that, so that the variable does not vanish from index expressions."""
    return max(extent, least) if isinstance(extent, int) else extent


def at_most(extent: Extent, most: int) -> int:
    """The extent, where it is a number below `most`."""
    return min(extent, most) if isinstance(extent, int) else most
