"""Frozen weights that are cast for a product of one row: they stay as narrow as they are, and are
cast where they are read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.target import named
from graphc.ir.types import DType
from graphc.passes.pipelines import without_frozen
from graphc.schedule.build import make_plan
from graphc.schedule.plan import kernels

TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]
K, N = 300, 70


def product(dtype: str, rows: int, turned: bool) -> graphc.Graph:
    """x wᵀ · scale."""
    b = graphc.GraphBuilder("product")
    x, scale = b.input("x", f"f32[{rows},{K}]"), b.input("scale", f"f32[{N}]")
    w = b.input("w", f"{dtype}[{N},{K}]" if turned else f"{dtype}[{K},{N}]")
    wide = ops.cast(w, dtype=DType.f32)
    wide = ops.transpose(wide, permutation=(1, 0)) if turned else wide
    return b.finish(ops.matmul(x, wide) * ops.broadcast(scale, shape=(rows, N)))


def drawn(graph: graphc.Graph) -> list[Any]:
    random = np.random.default_rng(7)
    return [
        (random.standard_normal(type.shape) * (40 if type.dtype.is_integer else 1)).astype(
            type.dtype.numpy
        )
        for type in graph.input_types
    ]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("dtype", ["i8", "u8", "bf16"])
@pytest.mark.parametrize("turned", [True, False])
def test_they_are_kept_and_read_narrow(dtype: str, turned: bool, target: Any) -> None:
    graph = product(dtype, 1, turned)
    split = without_frozen(graph, "exact", [2], 2, preferred_layouts(target))
    if split is None:  # it lies as one row reads it
        assert not turned
        return
    assert turned
    assert [str(type.dtype.value) for type in split.constants.output_types] == [dtype]
    (kernel,) = kernels(make_plan(split.graph))
    assert kernel.recipe == "contract"
    assert "vector operand packed" not in lower(kernel, target).note


@pytest.mark.sampled(12)
@pytest.mark.parametrize("dtype", ["i8", "u8", "bf16"])
@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("turned", [True, False])
def test_bits_are_those_of_the_cast_weight(
    dtype: str, rows: int, turned: bool, native_target: Any
) -> None:
    graph = product(dtype, rows, turned)
    x, scale, w = drawn(graph)
    wide = w.astype(np.float32).T if turned else w.astype(np.float32)
    split = without_frozen(graph, "exact", [2], 2, preferred_layouts(native_target))
    (plain,) = graphc.compile(graph, target=native_target)(x, scale, w)
    exact = (x.astype(np.float64) @ wide) * scale
    bound = 2.0**-24 * (K + 3) * (np.abs(x).astype(np.float64) @ np.abs(wide)) * np.abs(scale)
    assert (np.abs(plain - exact) <= bound).all()
    if split is not None:
        kept = graphc.run(split.constants, w)
        (got,) = graphc.compile(split.graph, target=native_target)(x, scale, *kept, w)
        np.testing.assert_array_equal(got, plain)


def test_several_rows_read_them_cast_ahead() -> None:
    target = named("x86-64-v3")
    split = without_frozen(product("i8", 20, True), "exact", [2], 2, preferred_layouts(target))
    assert split is not None
    assert [type.dtype for type in split.constants.output_types] == [DType.f32]
