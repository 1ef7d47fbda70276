"""The op table. Importing this package declares every op; `graphc.ops.table()` lists them."""

from graphc.ir.registry import all_ops as table
from graphc.ops import composite, contract, elementwise, generate, indexing, movement, reduce

__all__ = [
    "composite",
    "contract",
    "elementwise",
    "generate",
    "indexing",
    "movement",
    "reduce",
    "table",
]
