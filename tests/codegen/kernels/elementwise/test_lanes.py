"""How wide the vectors of a kernel are."""

from __future__ import annotations

import graphc
from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.target import named
from graphc.ir.types import DType
from graphc.ops.elementwise import cast
from graphc.ops.movement import broadcast

V3 = named("x86-64-v3")


def test_a_single_f64_halves_no_width() -> None:
    """An optimizer's epilogue reads its learning rate as an f64: the product keeps full vectors."""
    g = graphc.GraphBuilder("update")
    x, w, rate = g.input("x", "f32[8,64]"), g.input("w", "f32[64,32]"), g.input("rate", "f64[]")
    body = g.finish((x @ w) * broadcast(cast(rate, dtype=DType.f32), shape=(8, 32)))
    assert lanes_for(body, V3) == V3.lanes(DType.f32)


def test_many_f64_count() -> None:
    g = graphc.GraphBuilder("wide")
    x = g.input("x", "f64[8,64]")
    body = g.finish(cast(x, dtype=DType.f32))
    assert lanes_for(body, V3) == V3.lanes(DType.f64)


def test_a_kernel_of_single_elements_goes_by_them() -> None:
    g = graphc.GraphBuilder("single")
    x = g.input("x", "f64[]")
    assert lanes_for(g.finish(x + x), V3) == V3.lanes(DType.f64)
