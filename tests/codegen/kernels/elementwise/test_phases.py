"""Kernels whose addresses hold quotients of the position: cells of as many neighbours as these
repeat after are written phase by phase."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.jit import call_kernel
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import Target, named
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.types import TensorType
from graphc.ops import elementwise as e
from graphc.ops import movement
from graphc.ops.nn import pooling
from graphc.ops.nn.normalization import group_norm
from graphc.schedule.build import plan_graph

Array = np.ndarray[Any, Any]
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]


def repeated(x: Any, *times: int) -> Any:
    """Each element `times` times along each axis."""
    unit = movement.reshape(x, shape=tuple(n for dim in x.shape for n in (dim, 1)))
    spread = tuple(n for pair in zip(x.shape, times, strict=True) for n in pair)
    whole = tuple(dim * n for dim, n in zip(x.shape, times, strict=True))
    return movement.reshape(movement.broadcast(unit, shape=spread), shape=whole)


def gradient_of_pool(**window: Any) -> Callable[[Any, Any], Any]:
    def rule(x: Any, g: Any) -> Any:
        (gradient,) = pooling.max_pool.vjp(g, None, x, overhang=(), **window)
        return gradient

    return rule


def window(kernel: int, stride: int, padding: int, axes: int = 2) -> dict[str, tuple[int, ...]]:
    return {
        "kernel": (kernel,) * axes, "stride": (stride,) * axes, "padding": (padding,) * axes,
        "dilation": (1,) * axes,
    }  # fmt: skip


def by_groups(x: Any, mean: Any) -> Any:
    """Less a number of each group of channels; what computes it has the shape of channels."""
    grouped = movement.reshape(x, shape=(*mean.shape, math.prod(x.shape) // math.prod(mean.shape)))
    spread = movement.broadcast(movement.reshape(mean, shape=(*mean.shape, 1)), shape=grouped.shape)
    return movement.reshape(grouped - spread, shape=x.shape) * 2


CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "twice": (lambda x: repeated(x, 1, 2) + 1, [(5, 13)]),
    "three times": (lambda x: repeated(x, 1, 3) + 1, [(5, 9)]),
    "four times": (lambda x: repeated(x, 1, 4) + 1, [(5, 8)]),
    "both axes": (lambda x: repeated(x, 2, 2) * 2, [(7, 12)]),
    "with its whole": (lambda x, y: repeated(x, 2, 2) * y + y, [(3, 21), (6, 42)]),
    "by two and by four": (lambda x, y: repeated(x, 1, 2) + repeated(y, 1, 4), [(3, 22), (3, 11)]),
    "gaps": (lambda x: movement.pad(x, x.context.constant(np.float32(7)), low=(0, 0), high=(1, 1),
                                    interior=(1, 2)), [(6, 17)]),
    "one cell over": (lambda x: movement.pad(repeated(x, 1, 2), x.context.constant(np.float32(7)),
                                             low=(0, 0), high=(0, 1), interior=(0, 0)), [(3, 10)]),
    "few": (lambda x: repeated(x, 1, 2) + 1, [(3, 3)]),
    "one left": (lambda x: repeated(x, 1, 2) + 1, [(3, 9)]),
    "one axis": (lambda x: repeated(x, 2) + 1, [(37,)]),
    "max_pool 2": (gradient_of_pool(**window(2, 2, 0)), [(2, 3, 12, 28), (2, 3, 6, 14)]),
    "max_pool 2, a rest": (gradient_of_pool(**window(2, 2, 0)), [(2, 3, 7, 29), (2, 3, 3, 14)]),
    "max_pool 3/2": (gradient_of_pool(**window(3, 2, 0)), [(1, 3, 9, 35), (1, 3, 4, 17)]),
    "max_pool 3/2, padded": (gradient_of_pool(**window(3, 2, 1)), [(2, 2, 8, 20), (2, 2, 4, 10)]),
    "max_pool 3/3": (gradient_of_pool(**window(3, 3, 0)), [(2, 2, 9, 27), (2, 2, 3, 9)]),
}  # fmt: skip


def built(name: str) -> tuple[graphc.Graph, list[Array]]:
    function, shapes = CASES[name]
    b = graphc.GraphBuilder("phases")
    arguments = [
        b.input(f"x{i}", "f32[" + ",".join(map(str, s)) + "]") for i, s in enumerate(shapes)
    ]
    random = np.random.default_rng(len(name))
    # Few numbers, so that maxima are often equal.
    arrays = [random.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    return b.finish(function(*arguments)), arrays


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", list(CASES))
def test_native_and_interpreted_loops_give_the_definition(name: str) -> None:
    graph, arrays = built(name)
    (expected,) = graphc.run(graph, *arrays)
    (actual,) = graphc.compile(graph)(*arrays)
    np.testing.assert_array_equal(actual, expected)
    graph, plan = plan_graph(graph)
    if len(plan.steps) > 1:
        return
    (step,) = plan.steps
    for target in TARGETS:
        actual = np.full(expected.size, np.float32(np.nan))
        interpreter.run(
            lower(step.kernel, named(target)), [a.reshape(-1) for a in arrays] + [actual]
        )
        np.testing.assert_array_equal(actual.reshape(expected.shape), expected, err_msg=target)


def last_kernel(graph: graphc.Graph, target: str) -> str:
    return str(lower(plan_graph(graph)[1].steps[-1].kernel, named(target)))


@pytest.mark.parametrize("name", [name for name in CASES if name != "one cell over"])
def test_no_lane_is_gathered_or_divided(name: str) -> None:
    text = last_kernel(built(name)[0], "x86-64-v3")
    assert "shuffle" in text
    assert "gather" not in text
    assert "scatter" not in text
    assert not re.search(r"x[48] = (div|floordiv|mod|rem) ", text)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("parts", [2, 3])
def test_parts_give_the_whole(parts: int, native_target: Target) -> None:
    for name in ("twice", "both axes", "one axis", "gaps"):
        graph, arrays = built(name)
        (step,) = plan_graph(graph)[1].steps
        kernel = lower(step.kernel, native_target)
        (expected,) = graphc.run(graph, *arrays)
        actual = np.zeros(expected.size, np.float32)
        edges = np.linspace(0, kernel.extent, parts + 1).astype(int)
        for begin, end in pairwise(edges):
            buffers = [*(array.reshape(-1) for array in arrays), actual]
            call_kernel(kernel, buffers, int(begin), int(end), native_target)
        np.testing.assert_array_equal(actual.reshape(expected.shape), expected, err_msg=name)


def test_a_result_may_take_the_place_of_an_operand() -> None:
    """A state that is updated from what lies at half of its size, in place."""
    b = graphc.GraphBuilder("update")
    state, small = b.input("state", "f32[6,36]"), b.input("small", "f32[3,18]")
    graph = b.finish(state * 2 + repeated(small, 2, 2), aliases=[(0, 0)])
    random = np.random.default_rng(0)
    x = random.standard_normal((6, 36)).astype(np.float32)
    y = random.standard_normal((3, 18)).astype(np.float32)
    expected = x * 2 + y.repeat(2, 0).repeat(2, 1)
    graphc.compile(graph)(x, y)
    np.testing.assert_array_equal(x, expected)


def test_cells_that_would_be_too_long_stay_a_plain_nest() -> None:
    b = graphc.GraphBuilder("long")
    graph = b.finish(repeated(b.input("x", "f32[3,9]"), 1, 5) + 1)
    assert "gather" in last_kernel(graph, "x86-64-v3")
    x = np.arange(27, dtype=np.float32).reshape(3, 9)
    np.testing.assert_array_equal(graphc.compile(graph)(x)[0], x.repeat(5, 1) + 1)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_every_element_is_written_of_rows_shorter_than_the_period(columns: int) -> None:
    """Groups of two channels: what a group is read with repeats after more columns than a row may
    have, so that a cell would reach into the next row."""
    b = graphc.GraphBuilder("groups")
    graph = b.finish(by_groups(b.input("x", f"f32[2,4,{columns}]"), b.input("mean", "f32[2,2]")))
    x = np.arange(8 * columns, dtype=np.float32).reshape(2, 4, columns)
    mean = np.array([[1, 2], [3, 4]], np.float32)
    expected = (x - mean.repeat(2, 1)[:, :, None]) * 2
    (step,) = plan_graph(graph)[1].steps
    for target in TARGETS:
        result = np.empty_like(x)
        interpreter.run(lower(step.kernel, named(target)), [x, mean, result], fills=True)
        np.testing.assert_array_equal(result, expected)


def test_a_mask_of_relu_is_part_of_the_gradient() -> None:
    b = graphc.GraphBuilder("masked")
    x, g = b.input("x", "f32[2,3,8,20]"), b.input("g", "f32[2,3,4,10]")
    (by_pool,) = pooling.max_pool.vjp(g, None, x, overhang=(), **window(2, 2, 0))
    zero = movement.broadcast(x.context.constant(np.float32(0)), shape=x.shape)
    graph = b.finish(e.where(e.le(x, zero), zero, by_pool))
    first, _ = plan_graph(graph)[1].steps
    assert [node.op for node in first.kernel.body.nodes][-1] == "argmax"
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(s).astype(np.float32) for s in ((2, 3, 8, 20), (2, 3, 4, 10))]
    actual, expected = graphc.compile(graph)(*arrays)[0], graphc.run(graph, *arrays)[0]
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_is_read_behind_a_last_cell_that_is_cut_off(target: str) -> None:
    """One cell is left behind whole vectors, and the row ends inside it."""
    length = 2 * named(target).lanes(graphc.DType.f32) + 1
    g = graphc.GraphBuilder("spread")
    x, mask = g.input("x", f"f32[2,{length}]"), g.input("mask", f"bool[2,{length}]")
    half = movement.slice_(x, start=(0, 0), size=(2, length // 2), step=(1, 1))
    edges: Any = {"low": (0, 1), "high": (0, 1), "interior": (0, 1)}
    spread = movement.pad(half, g.constant(np.float32(0)), **edges)
    graph = g.finish(e.where(mask, spread, x))
    random = np.random.default_rng(0)
    arrays = [random.random((2, length), np.float32), random.random((2, length)) < 0.5]
    (launch,) = plan_graph(graph)[1].steps
    result = np.empty_like(arrays[0])
    interpreter.run(lower(launch.kernel, named(target)), [*arrays, result])
    np.testing.assert_array_equal(result, graphc.run(graph, *arrays)[0])


def test_an_address_may_grow_with_a_size() -> None:
    """Rows of groups that are as long as a size known only at run time."""
    n = dim("n", 2)
    g = graphc.GraphBuilder("normal")
    x, w = g.input("x", TensorType(graphc.DType.f32, (2, 4, n))), g.input("w", "f32[4]")
    graph = g.finish(group_norm(x, w, w, groups=2))
    executable = graphc.compile(graph, threads=1, example={"n": 5})
    for size in (2, 5, 16):
        arrays = [np.random.default_rng(size).random(s, np.float32) for s in ((2, 4, size), 4)]
        expected = graphc.run(at_sizes(graph, {"n": size}), *arrays)[0]
        np.testing.assert_allclose(executable(*arrays)[0], expected, atol=1e-5)
