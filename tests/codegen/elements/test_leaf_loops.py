"""Loops of leaves: each position once, in order, by indices that know the loop's variable."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.codegen.elements.addresses import Addresses
from graphc.codegen.elements.leaf_loops import each, fold
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import LoopValue
from graphc.codegen.loop_ir.verifier import verify
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Expr, Variable


@pytest.mark.parametrize("step", [1, 3])
def test_values_are_carried_from_position_to_position(step: int) -> None:
    b = LoopBuilder("fold")
    x, y = b.buffer("x", DType.f64, 10, "read"), b.buffer("y", DType.f64, 1, "write")
    addresses = Addresses(b)

    def body(at: Expr, values: list[LoopValue]) -> list[LoopValue]:
        index, _ = addresses.offset(at)
        return [b.fma(values[0], b.const(DType.f64, 3.0), b.load(x, index))]

    start = [b.const(DType.f64, 1.0)]
    (total,) = fold(addresses, Variable("at", 10), (2, 9), "at", start, body, step)
    b.store(y, 0, total)
    kernel, elements, result = b.finish(1), np.arange(10.0), np.zeros(1)
    verify(kernel)
    interpreter.run(kernel, [elements, result])
    expected = 1.0
    for element in elements[2:9:step]:
        expected = expected * 3 + element
    assert result[0] == expected


def test_each_position_of_those_within_bounds() -> None:
    b = LoopBuilder("each")
    y = b.buffer("y", DType.f64, 8, "readwrite")
    addresses = Addresses(b)

    def body(at: Expr) -> None:
        index, _ = addresses.offset(at)
        b.store(y, index, b.add(b.load(y, index), b.const(DType.f64, 1.0)))

    bounds = b.const(DType.i64, 3), 6
    each(addresses, Variable("at", 8), bounds, "at", body)
    kernel, counts = b.finish(1), np.zeros(8)
    verify(kernel)
    interpreter.run(kernel, [counts])
    assert counts.tolist() == [0, 0, 0, 1, 1, 1, 0, 0]
