"""Loops over ranges cut into tiles: each element once and in order, whether or not tiles divide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

import graphc.codegen
from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.elements.loop_cut import LoopCut
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import For, Kernel, LoopValue, walk
from graphc.codegen.loop_ir.verifier import verify
from graphc.errors import UndecidedSizeError
from graphc.ir.dims import dim
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr

TILE = 4
EXTENTS = (0, 1, TILE - 1, TILE, TILE + 1, 2 * TILE, 3 * TILE + 2)


def folded(extent: int) -> Kernel:
    """y[0] = 3·(3·(1 + x[0]) + x[1]) + …: what the order changes."""
    b = LoopBuilder("fold")
    x, y = b.buffer("x", DType.f64, max(extent, 1), "read"), b.buffer("y", DType.f64, 1, "write")
    addresses = Addresses(b)

    def body(tile: Expr, count: int, values: Sequence[LoopValue]) -> list[LoopValue]:
        (total,) = values
        for i in range(count):
            index, _ = addresses.offset(tile * TILE + i)
            total = b.fma(total, b.const(DType.f64, 3.0), b.load(x, index))
        return [total]

    start = [b.const(DType.f64, 1.0)]
    (total,) = LoopCut(extent, TILE).fold(addresses, "tile", start, body)
    b.store(y, 0, total)
    return b.finish(1)


@pytest.mark.parametrize("extent", EXTENTS)
def test_values_are_carried_through_the_tiles_in_order(extent: int) -> None:
    kernel = folded(extent)
    verify(kernel)
    x, y = np.arange(1.0, max(extent, 1) + 1), np.zeros(1)
    interpreter.run(kernel, [x, y])
    expected = 1.0
    for element in x[:extent]:
        expected = expected * 3 + element
    assert y[0] == expected
    loops = [statement for statement in walk(kernel.body) if isinstance(statement, For)]
    assert len(loops) == (extent >= TILE), "one loop over whole tiles, whatever is left"


@pytest.mark.parametrize("extent", EXTENTS)
def test_each_element_is_in_one_tile(extent: int) -> None:
    b = LoopBuilder("each")
    y = b.buffer("y", DType.f64, max(extent, 1), "readwrite")
    addresses = Addresses(b)

    def body(tile: Expr, count: int) -> None:
        for i in range(count):
            index, _ = addresses.offset(tile * TILE + i)
            b.store(y, index, b.add(b.load(y, index), b.const(DType.f64, 1.0)))

    cut = LoopCut(extent, TILE)
    cut.each(addresses, "tile", body)
    kernel = b.finish(1)
    verify(kernel)
    counts = np.zeros(max(extent, 1))
    interpreter.run(kernel, [counts])
    assert (counts == (extent > 0)).all()
    assert (cut.whole, cut.rest, cut.tiles) == (extent // TILE, extent % TILE, -(-extent // TILE))


def test_what_is_left_has_to_be_a_number_where_it_is_written_out() -> None:
    assert LoopCut(TILE * dim("n") + 3, TILE).left == 3
    with pytest.raises(UndecidedSizeError, match="has to be a number"):
        LoopCut(dim("n"), TILE).each(Addresses(LoopBuilder("each")), "tile", lambda *_: None)


NO_LOOPS = {
    "elements/combination.py": "a lane's number is a place in a run",
    "kernels/attention/parts.py": "a number of a tile's sums is a row and a vector",
}


def test_ranges_of_loops_are_cut_in_one_place() -> None:
    """What else divides with a remainder cuts no loop."""
    root = Path(graphc.codegen.__file__).parent
    paths = {path.relative_to(root).as_posix(): path for path in root.rglob("*.py")}
    dividing = {name for name, path in paths.items() if "divmod(" in path.read_text("utf-8")}
    assert dividing == NO_LOOPS.keys()
