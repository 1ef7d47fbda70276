"""Index expressions as values: of which integers positions are, how many lanes they have."""

from __future__ import annotations

import pytest

from graphc.codegen.elements.addresses import Addresses, position_type
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.errors import UndecidedSizeError
from graphc.ir.dims import dim
from graphc.ir.types import DType
from graphc.ops.kinds.index_expr import Variable, of

MOST = (1 << 31) - 1


def test_positions_have_as_few_bits_as_hold_them() -> None:
    assert position_type(of(MOST)) is DType.i32 and position_type(of(MOST + 1)) is DType.i64
    assert position_type(of(dim("n", 0, MOST))) is DType.i32
    assert position_type(of(dim("n"))) is DType.i64, "nothing bounds it"
    at = of(Variable("at", MOST + 1))
    assert position_type(at) is DType.i32 and position_type(at + 1) is DType.i64
    assert position_type(of(-MOST - 1)) is DType.i32 and position_type(of(-MOST - 2)) is DType.i64


def test_lanes_are_a_number() -> None:
    addresses = Addresses(LoopBuilder("kernel"))
    lane, rest, size = Variable("lane", 8), Variable("rest", 3), Variable("size", dim("n"))
    addresses.bind_lane(lane, addresses.root)
    addresses.bind_lane(rest, addresses.root, lane)
    addresses.bind_lane(size, addresses.root)
    assert addresses.lanes_of(of(lane) + 5) == addresses.lanes_of(of(rest)) == 8
    assert addresses.lanes_of(of(5)) == 1
    with pytest.raises(UndecidedSizeError, match="n has to be a number"):
        addresses.lanes_of(of(size))
