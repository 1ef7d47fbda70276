"""The op table. Importing this package declares every op: `graphc.ops.table()` lists them, and
`graphc.ops.NAME` is each, unless a file of declarations has that name."""

from typing import Any

from graphc.errors import GraphError
from graphc.ir.registry import all_ops as table
from graphc.ir.registry import lookup
from graphc.ops import (
    airy,
    bessel,
    bitwise,
    composite,
    contract,
    control,
    elementwise,
    generate,
    indexing,
    linear_algebra,
    movement,
    nn,
    norms,
    number_functions,
    order,
    packing,
    parts,
    quantiles,
    reduce,
    special,
    strided,
    trigonometric,
    winograd,
)


def __getattr__(name: str) -> Any:
    """`graphc.ops.relu` is the op named `relu`."""
    try:
        return lookup(name)
    except GraphError as error:
        raise AttributeError(str(error)) from None


__all__ = [
    "airy",
    "bessel",
    "bitwise",
    "composite",
    "contract",
    "control",
    "elementwise",
    "generate",
    "indexing",
    "linear_algebra",
    "movement",
    "nn",
    "norms",
    "number_functions",
    "order",
    "packing",
    "parts",
    "quantiles",
    "reduce",
    "special",
    "strided",
    "table",
    "trigonometric",
    "winograd",
]
