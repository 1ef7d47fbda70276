"""A kernel over [0, extent) may be split anywhere: its parts, run in any order, give its bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.jit import call_kernel
from graphc.codegen.target import Target
from graphc.ops import composite, indexing, order, reduce
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch

FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "flat": (lambda x: graphc.ops.exp(x) + x, ("f32[7,13]",)),
    "rows": (lambda x: composite.softmax(x, axis=1), ("f32[9,37]",)),
    "columns": (lambda x: reduce.sum(x, axes=(0,)), ("f32[130,29]",)),
    "columns_and_tail": (lambda x: reduce.sum(x, axes=(0,)), ("f32[37,1101]",)),
    "middle_columns": (lambda x: reduce.sum(x, axes=(1,)), ("f32[3,40,29]",)),
    "channels": (lambda x: reduce.sum(x, axes=(0, 2)), ("f32[20,6,49]",)),
    "transposed": (lambda x: graphc.ops.transpose(x, permutation=(1, 0)) * 2, ("f32[9,21]",)),
    "batched": (lambda x, y: x @ y, ("f32[5,6,7]", "f32[5,7,18]")),
    "scan_rows": (lambda x: order.cumsum(x, axis=1), ("f32[9,37]",)),
    "scan_columns": (lambda x: order.cumprod(x, axis=1), ("f32[3,7,29]",)),
    "sort": (lambda x: order.argsort(x, axis=1), ("f32[3,37,4]",)),
    "selection": (lambda x: order.argtopk(x, axis=1, count=5), ("f32[3,37,4]",)),
    "scatter_to_rows": (
        lambda x, at, d: indexing.index_add(x, at, d, axis=0),
        ("f32[5,37]", "i64[40]", "f32[40,37]"),
    ),
    "scatter_set": (
        lambda x, at, d: indexing.index_set(x, at, d, axis=0), ("f32[5,35]", "i32[9]", "f32[9,35]")
    ),
    "scatter_in_batches": (
        lambda x, at, d: indexing.index_add(x, at, d, axis=1),
        ("f32[3,5,20]", "i64[9]", "f32[3,9,20]"),
    ),
    "scatter_in_rows": (
        lambda x, at, d: indexing.scatter_add(x, at, d, axis=1),
        ("f32[5,18]", "i64[5,30]", "f32[5,30]"),
    ),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_parts_of_a_range_give_the_whole(name: str, native_target: Target) -> None:
    function, types = FUNCTIONS[name]
    builder = graphc.GraphBuilder(name)
    graph = builder.finish(
        function(*(builder.input(f"x{i}", type) for i, type in enumerate(types)))
    )
    _, plan = plan_graph(graph)
    *_, launch = [step for step in plan.steps if isinstance(step, Launch)]
    kernel = lower(launch.kernel, native_target)
    assert kernel.extent > 1
    random = np.random.default_rng(0)
    inputs = [
        random.standard_normal(b.size).astype(np.float32) if b.dtype.is_float
        else random.integers(0, 5, b.size).astype(b.dtype.numpy)
        for b in kernel.buffers[:-1]
    ]  # fmt: skip
    place = kernel.buffers[-1]
    unset = np.nan if place.dtype.is_float else -1
    whole = np.full(place.size, unset, place.dtype.numpy)
    call_kernel(kernel, [*inputs, whole], target=native_target)
    assert not np.isnan(whole).any() and (whole != -1).all()
    for pieces in (2, 3, kernel.extent):
        split = np.full_like(whole, unset)
        edges = np.linspace(0, kernel.extent, pieces + 1).astype(int)
        for part in reversed(range(pieces)):
            begin, end = int(edges[part]), int(edges[part + 1])
            call_kernel(kernel, [*inputs, split], begin, end, native_target)
        np.testing.assert_array_equal(split, whole)
