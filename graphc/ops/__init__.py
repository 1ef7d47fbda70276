"""The op table. Importing this package declares every op: `graphc.ops.table()` lists them, and
`graphc.ops.NAME` is each, unless a file of declarations has that name.

Files directly in this folder are the families that the others are made of, mostly one for each kind
of kinds/: elementwise, reduce (summaries), movement (parts, strided, windows), contract
(paired_convolution), indexing, order, generate, mersenne_twister, composite (complex_numbers,
fourier), control, exchange; and what serves all: batching, conversion,
interpreter, work. Folders are those
built on them: scalar_functions, linear_algebra, nn, and layouts, which only passes put in.
"""

from typing import Any

from graphc.errors import GraphError
from graphc.ir.registry import all_ops as table
from graphc.ir.registry import lookup
from graphc.ops import (
    complex_numbers,
    composite,
    contract,
    control,
    elementwise,
    exchange,
    fourier,
    generate,
    indexing,
    layouts,
    linear_algebra,
    mersenne_twister,
    movement,
    nn,
    order,
    paired_convolution,
    parts,
    reduce,
    scalar_functions,
    strided,
    summaries,
)


def __getattr__(name: str) -> Any:
    """`graphc.ops.relu` is the op named `relu`."""
    try:
        return lookup(name)
    except GraphError as error:
        raise AttributeError(str(error)) from None


__all__ = [
    "complex_numbers",
    "composite",
    "contract",
    "control",
    "elementwise",
    "exchange",
    "fourier",
    "generate",
    "indexing",
    "layouts",
    "linear_algebra",
    "mersenne_twister",
    "movement",
    "nn",
    "order",
    "paired_convolution",
    "parts",
    "reduce",
    "scalar_functions",
    "strided",
    "summaries",
    "table",
]
