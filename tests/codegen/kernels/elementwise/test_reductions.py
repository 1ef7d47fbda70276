"""Reductions have one order, that of docs/arithmetic.md, whatever the kernel looks like."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.target import Target, running
from graphc.ops import movement, reduce
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec
from graphc.schedule.run_plan import run_plan

Array = np.ndarray[Any, Any]
Graph = graphc.Graph


def run_on(graph: Graph, arrays: list[Array], target: Target | None = None) -> tuple[Array, ...]:
    """The graph's kernels, native for `target`."""

    def run_kernel(kernel: KernelSpec, reads: list[Array], writes: list[Array]) -> None:
        chosen = running(target)
        jit.call_kernel(lower(kernel, chosen), [*reads, *writes], target=chosen)

    _, plan = plan_graph(graph)
    return run_plan(plan, tuple(arrays), run_kernel)


def bits(array: Array) -> Array:
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "f" else array


def normal(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def listed(shape: tuple[int, ...]) -> str:
    return "[" + ",".join(map(str, shape)) + "]"


LENGTHS = [0, 1, 2, 16, 17, 63, 64, 65, 130]


def in_lanes(x: Array, combine: Any, identity: Any) -> Array:
    """The 64-lane tree over the last axis, written out."""
    lanes = [np.full(x.shape[:-1], identity, x.dtype) for _ in range(64)]
    for position in range(x.shape[-1]):
        lanes[position % 64] = combine(lanes[position % 64], x[..., position])
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [combine(lanes[i], lanes[i + half]) for i in range(half)]
    return lanes[0]


def in_blocks(x: Array, combine: Any, identity: Any) -> Array:
    """Blocks of 16 along the first axis, their results in blocks of 16, …, written out."""
    parts = list(x)
    while True:
        blocks = [parts[i : i + 16] for i in range(0, len(parts), 16)] or [[]]
        parts = []
        for block in blocks:
            parts.append(np.full(x.shape[1:], identity, x.dtype))
            for item in block:
                parts[-1] = combine(parts[-1], item)
        if len(parts) == 1:
            return parts[0]


@pytest.mark.sampled(32)
@pytest.mark.parametrize("length", [*LENGTHS, 256, 257, 289, 4113])
@pytest.mark.parametrize("kept", [1, 2, 5, 8, 19, 37, 130])
@pytest.mark.parametrize("transposed", [False, True])
def test_sums_over_leading_axes_run_in_blocks(length: int, kept: int, transposed: bool) -> None:
    x = normal(length, length, kept)
    g = graphc.GraphBuilder("sums")
    content = np.ascontiguousarray(x.T) if transposed else x
    v = g.input("x", "f32" + listed(content.shape))
    v = movement.transpose(v, permutation=(1, 0)) if transposed else v
    (result,) = run_on(g.finish(reduce.sum(v, axes=(0,))), [content])
    np.testing.assert_array_equal(bits(result), bits(in_blocks(x, np.add, 0)))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("outer", [1, 3, 37])
def test_sums_have_one_order(length: int, outer: int) -> None:
    """Along rows, also behind a transpose: the same bits, those of the definition."""
    x = normal(length, outer, length)
    expected = in_lanes(x, np.add, 0)

    def along(*, transposed: bool) -> Array:
        g = graphc.GraphBuilder("sums")
        shape = (length, outer) if transposed else (outer, length)
        v = g.input("x", "f32" + listed(shape))
        v = movement.transpose(v, permutation=(1, 0)) if transposed else v
        content = np.ascontiguousarray(x if shape == (outer, length) else x.T)
        (result,) = run_on(g.finish(reduce.sum(v, axes=(1,))), [content])
        return result

    for transposed in (False, True):
        actual = along(transposed=transposed)
        # x + 0 and padding lanes may turn -0 into 0; no sum here is zero by chance.
        np.testing.assert_array_equal(bits(actual), bits(expected), err_msg=f"{transposed}")


@pytest.mark.sampled(8)
@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("op", ["prod", "max", "min", "argmax", "argmin", "any", "all"])
def test_other_reductions_along_rows_and_columns(op: str, length: int) -> None:
    if length == 0 and op in ("max", "min", "argmax", "argmin"):
        pytest.skip("needs elements")
    random = np.random.default_rng(length)
    x = random.integers(-3, 4, (5, length)).astype(np.float32)  # with ties
    if op == "prod":
        x = random.uniform(0.5, 1.5, (5, length)).astype(np.float32)
    if op in ("any", "all"):
        x = random.integers(0, 20, (5, length)) > (18 if op == "any" else 0)
    results = []
    for axis, content in ((1, x), (0, np.ascontiguousarray(x.T))):
        g = graphc.GraphBuilder("reduced")
        v = g.input("x", str(graphc.TensorType.of(content)))
        (result,) = run_on(g.finish(getattr(graphc.ops, op)(v, axes=(axis,))), [content])
        results.append(result)
    if op == "prod":
        np.testing.assert_array_equal(results[0], in_lanes(x, np.multiply, 1))
        np.testing.assert_array_equal(results[1], in_blocks(x.T, np.multiply, 1))
        return
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], getattr(np, op)(x, axis=1))


def lanes_in_blocks(x: Array) -> Array:
    """The sum of [outer, kept, run] over the first and last axes, written out: lanes along the
    run, each in blocks of 16 outer indices."""
    outer, kept, run = x.shape
    parts = []
    for first in range(0, outer, 16):
        lanes = np.zeros((64, kept), np.float32)
        for o, t in itertools.product(range(first, min(first + 16, outer)), range(run)):
            lanes[t % 64] += x[o, :, t]
        parts.append(lanes)
    lanes = in_blocks(np.stack(parts), np.add, 0)
    return in_lanes(np.ascontiguousarray(lanes.T), np.add, 0)


@pytest.mark.sampled(16)
@pytest.mark.parametrize("outer", [2, 16, 17, 35, 290])
@pytest.mark.parametrize("run", [(3,), (4, 4), (7, 7), (65,), (130,)])
@pytest.mark.parametrize("kept", [1, 4, 9])
@pytest.mark.parametrize("transposed", [False, True])
def test_sums_over_outer_axes_and_a_run(
    outer: int, run: tuple[int, ...], kept: int, transposed: bool
) -> None:
    """As for the channels of images. Turned: the kept axis is the contiguous one in memory."""
    x = normal(outer, outer, kept, *run)
    g = graphc.GraphBuilder("several")
    content = np.ascontiguousarray(np.moveaxis(x, 1, -1)) if transposed else x
    v = g.input("x", "f32" + listed(content.shape))
    last = content.ndim - 1
    v = movement.transpose(v, permutation=(0, last, *range(1, last))) if transposed else v
    axes = (0, *range(2, x.ndim))
    (result,) = run_on(g.finish(reduce.sum(v, axes=axes)), [content])
    flat = x.reshape(outer, kept, -1)
    np.testing.assert_array_equal(bits(result), bits(lanes_in_blocks(flat)))


@pytest.mark.parametrize("length", [3, 65, 130])
def test_a_total_runs_row_major(length: int) -> None:
    x = normal(length, 3, 4, length)
    g = graphc.GraphBuilder("total")
    v = g.input("x", "f32" + listed(x.shape))
    (total,) = run_on(g.finish(reduce.sum(v, axes=(0, 1, 2))), [x])
    np.testing.assert_array_equal(total, in_lanes(x.reshape(-1), np.add, 0))


@pytest.mark.parametrize("axes", [(0,), (1,), (0, 2)])
def test_errors_grow_slowly(axes: tuple[int, ...]) -> None:
    """Of 40000 equal numbers a plain chain would lose three digits."""
    shape = {(0,): (40000, 3), (1,): (3, 40000), (0, 2): (10000, 3, 4)}[axes]
    x = np.full(shape, 0.1, np.float32)
    g = graphc.GraphBuilder("long")
    (result,) = run_on(g.finish(reduce.sum(g.input("x", "f32" + listed(shape)), axes=axes)), [x])
    exact = 40000 * float(np.float32(0.1))
    chain = {(0,): 64, (1,): 40000 / 64 + 6, (0, 2): 64}[axes]  # at most 16 for each of 4 levels
    assert np.abs(result.astype(float) - exact).max() <= chain * 2.0**-24 * exact
