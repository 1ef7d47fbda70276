"""A slice that is assigned to is stored where it lies, and nothing else of its tensor is."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from graphc import ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import named
from graphc.schedule.box_updates import box_update
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch, Plan

TARGETS = [named(name) for name in ("x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64")]


def changed(low: tuple[int, ...], size: tuple[int, ...], shape: tuple[int, ...]) -> graphc.Graph:
    """x with 2v + 1 in a box of it, in place."""
    b = graphc.GraphBuilder("changed")
    listed = ",".join(map(str, shape))
    x, v = b.input("x", f"f32[{listed}]"), b.input("v", f"f32[{','.join(map(str, size))}]")
    high = tuple(n - at - m for n, at, m in zip(shape, low, size, strict=True))
    geometry: dict[str, Any] = {"low": low, "high": high, "interior": (0,) * len(shape)}
    inside = ops.broadcast(b.constant(np.array(True)), shape=size)
    no, none = b.constant(np.array(False)), b.constant(np.array(0, np.float32))
    mask = ops.pad(inside, no, **geometry)
    placed = ops.pad(v * 2.0 + 1.0, none, **geometry)
    return b.finish(ops.where(mask, placed, x), aliases=[(0, 0)])


def launches(plan: Plan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


BOXES = [
    ((0, 3, 0), (4, 1, 40), (4, 40, 40)), ((1, 2, 3), (2, 3, 4), (9, 22, 30)),
    ((5,), (20,), (5000,)), ((2, 0), (1, 333), (15, 333)), ((0, 4), (900, 1), (900, 5)),
    ((0, 3), (70, 65), (70, 70)),
]  # fmt: skip
"""From where on, of which size, in a tensor of which shape: small masks would be constants."""


@pytest.mark.parametrize("box", BOXES, ids=str)
def test_only_the_box_is_stored(box: tuple[Any, Any, Any]) -> None:
    low, size, shape = box
    graph = changed(*box)
    _, plan = plan_graph(graph)
    (launch,) = launches(plan)
    assert launch.kernel.recipe == "update"
    update = box_update(launch.kernel.body)
    assert update is not None and update.low == low
    random = np.random.default_rng(1)
    x, v = (random.standard_normal(each).astype(np.float32) for each in (shape, size))
    want = x.copy()
    want[tuple(slice(at, at + n) for at, n in zip(low, size, strict=True))] = v * 2 + 1
    inputs = {"x": x, "v": v}
    for target in TARGETS:
        memory = x.copy()
        kernel = lower(KernelSpec("update", launch.kernel.body), target)
        reads = [inputs["x" if i == update.kept else "v"].copy() for i in range(2)]
        reads[update.kept] = memory
        run(kernel, [*reads, memory])
        assert (memory == want).all(), target.name
    state = x.copy()
    graphc.compile(graph)(state, v)
    assert (state == want).all()


@pytest.mark.parametrize("dtype", ["f16", "bf16", "u8"])
def test_a_box_of_a_storage_type_is_stored_as_it_is(dtype: str) -> None:
    """What it is chosen in, f32 or i32, is cast there and back: neither is done outside the box."""
    kind = graphc.DType[dtype]
    b = graphc.GraphBuilder("changed")
    x, v = b.input("x", f"{dtype}[900,5]"), b.input("v", f"{dtype}[900,1]")
    geometry: dict[str, Any] = {"low": (0, 3), "high": (0, 1), "interior": (0, 0)}
    inside = ops.broadcast(b.constant(np.array(True)), shape=(900, 1))
    mask = ops.pad(inside, b.constant(np.array(False)), **geometry)
    placed = ops.pad(v, b.constant(np.zeros((), kind.numpy)), **geometry)
    chosen = ops.where(mask, *(ops.cast(each, dtype=kind.computes_as) for each in (placed, x)))
    graph = b.finish(ops.cast(chosen, dtype=kind), aliases=[(0, 0)])
    (launch,) = launches(plan_graph(graph)[1])
    assert launch.kernel.recipe == "update"
    random = np.random.default_rng(1)
    state, new = (random.integers(0, 99, each).astype(kind.numpy) for each in ((900, 5), (900, 1)))
    want = state.copy()
    want[:, 3:4] = new
    for target in TARGETS:
        memory = state.copy()
        update = box_update(launch.kernel.body)
        assert update is not None
        reads = [memory if i == update.kept else new.copy() for i in range(2)]
        run(lower(KernelSpec("update", launch.kernel.body), target), [*reads, memory])
        assert (memory == want).all(), target.name
    graphc.compile(graph)(state, new)
    assert (state == want).all()


def test_a_kernel_of_its_own_memory_writes_all() -> None:
    """Where the result is not the input's memory, all of it is stored."""
    graph = changed((1, 0), (1, 4), (3, 4))
    apart = graphc.Graph(graph.name, graph.nodes, graph.outputs, ())
    _, plan = plan_graph(apart)
    assert [step.kernel.recipe for step in launches(plan)] == ["nest"]


def test_a_cache_is_written_row_by_row_at_open_positions() -> None:
    def step(cache: Any, row: Any, pos: int) -> Any:
        cache[:, :, pos] = row * 2
        return cache[:, :, : pos + 1].sum()

    def compared(function: Any) -> None:
        cache, expected = torch.zeros(1, 4, 16, 8), torch.zeros(1, 4, 16, 8)
        for pos in range(1, 12):
            row = torch.randn(1, 4, 8)
            assert torch.equal(function(cache, row, pos), step(expected, row, pos))
        assert torch.equal(cache, expected)

    torch.manual_seed(0)
    with torch.no_grad():
        function = torch.compile(step)
        compared(function)
        cache = torch.zeros(1, 4, 16, 8)
        assert function.verify(cache, torch.ones(1, 4, 8), 5)


def test_a_row_that_others_are_read_for_is_right() -> None:
    def step(x: Any, pos: int) -> None:
        x[pos] = x[pos - 1] + x[pos + 1]

    x, expected = torch.arange(40.0).reshape(8, 5), torch.arange(40.0).reshape(8, 5)
    function = torch.compile(step)
    for pos in (1, 2, 3, 5):
        function(x, pos)
        step(expected, pos)
    assert torch.equal(x, expected)
