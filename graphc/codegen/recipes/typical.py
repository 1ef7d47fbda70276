"""Numbers for sizes that are known only at run time, to compare costs of plans for."""

from __future__ import annotations

from graphc.ir.dims import Extent, Symbol, evaluate

ROWS, IMAGES = 1024, 32
"""Typical sizes: rows of a matrix; images of a batch, where each is a plane."""


def typical(extent: Extent, size: int = ROWS) -> int:
    """The extent where each size is a typical one, within its bounds."""
    if isinstance(extent, int):
        return extent
    return evaluate(extent, {symbol.name: _within(symbol, size) for symbol in extent.symbols()})


def at_least(extent: Extent, least: int) -> Extent:
    """The extent of a variable that stands for any position: `least` where it is a number below
    that, so that the variable does not vanish from index expressions."""
    return max(extent, least) if isinstance(extent, int) else extent


def _within(symbol: Symbol, size: int) -> int:
    return max(symbol.least, size if symbol.most is None else min(size, symbol.most))
