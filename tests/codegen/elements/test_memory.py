"""Where values stand: one that is handed back as it was found stays in its block."""

from __future__ import annotations

import numpy as np
import pytest

import graphc
from graphc.ir.registry import lookup
from graphc.ir.types import DType
from graphc.ops import interpreter


@pytest.mark.parametrize("how", ["argmax", "max", "slice"])
def test_a_position_that_is_itself_the_element(how: str) -> None:
    """An element of `iota` at a loaded position is that position, also in what follows a loop in
    which it was read first."""
    b = graphc.GraphBuilder("positions")
    x = b.input("x", "i64[3]")
    if how == "slice":
        one = lookup("slice")(x, start=(1,), size=(1,), step=(1,))
        position = lookup("reshape")(one, shape=())
    else:
        position = lookup(how)(x, axes=(0,))
    attributes = {"shape": (3, 3, 3), "axis": 0, "dtype": DType.i64}
    (table,) = b.apply(lookup("iota"), (), attributes)
    graph = b.finish(lookup("take")(table, position, axis=0))
    given = np.asarray([0, 1, 2])
    (result,) = graphc.compile(graph)(given)
    np.testing.assert_array_equal(result, interpreter.run(graph, given)[0])
