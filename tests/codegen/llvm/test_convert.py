"""Conversions of vectors, natively: the bits of the reference, at the limits too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.kernel import emit_modules
from graphc.codegen.target import named
from graphc.ir.types import DType
from graphc.ops.interpreter import evaluate
from graphc.schedule.plan import KernelSpec

INTEGERS = [DType.i32, DType.i64, DType.i8, DType.u8, DType.i16, DType.u16, DType.u32, DType.u64]


def cast_of(source: str, integer: DType) -> graphc.Graph:
    b = graphc.GraphBuilder("cast")
    return b.finish(ops.cast(b.input("x", f"{source}[75]"), dtype=integer))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("integer", INTEGERS, ids=str)
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_vectors_of_floats_saturate_as_scalars_do(
    source: str, integer: DType, native_target: Any
) -> None:
    graph = cast_of(source, integer)
    powers = [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64, 100)]
    near = [np.nextafter(p, q, dtype=graph.input_types[0].dtype.numpy) for p in powers
            for q in (0, np.inf)]  # fmt: skip
    numbers = np.array([0.0, 0.5, 1.9, 127.9, np.inf, np.nan, *powers, *near])
    x = np.zeros(75, graph.input_types[0].dtype.numpy)
    x[: 2 * numbers.size] = [*numbers, *-numbers]
    (got,) = graphc.compile(graph, target=native_target)(x)
    (want,) = evaluate(graph, (x,), reference=True)
    np.testing.assert_array_equal(got, want)


def test_no_vector_is_cut_into_its_lanes_for_x86() -> None:
    for name, cut in (("x86-64-v3", False), ("x86-64-v4", False), ("aarch64", True)):
        kernel = lower(KernelSpec("nest", cast_of("f32", DType.i32)), named(name))
        (text, *_) = emit_modules(kernel, "cast", named(name))
        assert ("fptosi.sat.v" in text) == cut


def halves_of_floats(function: str) -> graphc.Graph:
    b = graphc.GraphBuilder("halves")
    x, y = b.input("x", "bf16[65536]"), b.input("y", "bf16[]")
    wide = ops.cast(x, dtype=DType.f32)
    if function == "relu":
        return b.finish(ops.cast(ops.relu(wide), dtype=DType.bf16))
    one = ops.cast(ops.broadcast(ops.reshape(y, shape=(1,)), shape=(65536,)), dtype=DType.f32)
    return b.finish(ops.cast(wide * one, dtype=DType.bf16))


@pytest.mark.parametrize("function", ["relu", "product"])
def test_numbers_that_bf16_has_are_not_rounded_again(function: str, native_target: Any) -> None:
    """All of them, and products with one that fills all lanes."""
    graph = halves_of_floats(function)
    x = np.arange(65536).astype(np.uint16).view(graph.input_types[0].dtype.numpy)
    y = np.array(-3.140625, x.dtype)
    with np.errstate(all="ignore"):
        (got,) = graphc.compile(graph, target=native_target)(x, y)
        (want,) = evaluate(graph, (x, y), reference=True)
    numbers = ~np.isnan(want.astype(np.float32))
    assert (np.isnan(got.astype(np.float32)) == ~numbers).all()
    np.testing.assert_array_equal(got.view(np.uint16)[numbers], want.view(np.uint16)[numbers])


@pytest.mark.parametrize(("function", "roundings"), [("relu", 0), ("product", 1)])
def test_a_rounding_is_left_out_where_nothing_is_rounded(function: str, roundings: int) -> None:
    kernel = lower(KernelSpec("nest", halves_of_floats(function)), named("x86-64-v3"))
    (text, *_) = emit_modules(kernel, "halves", named("x86-64-v3"))
    assert bool(text.count("32767")) == bool(roundings)
    assert ("<16 x i16>" in text) == (function == "product"), "broadcast as two to a lane"
