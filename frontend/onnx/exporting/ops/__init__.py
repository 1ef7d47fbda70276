"""How ops of graphs are written as operators of ONNX, a file per family; importing this folder
fills the table.

- elementwise: one element at a time
- movement: shapes, slices, joins, what is made of a shape
- reductions: over axes, along an axis, places of extremes, order
- layers: products, convolutions, pooling, norms, attention
- indexing: gather and scatter
- regions: branches and loops
"""

from frontend.onnx.exporting.declarations import declared_ops, rule_of
from frontend.onnx.exporting.ops import (
    elementwise,
    indexing,
    layers,
    movement,
    reductions,
    regions,
)

__all__ = [
    "declared_ops", "elementwise", "indexing", "layers", "movement", "reductions", "regions",
    "rule_of",
]  # fmt: skip
