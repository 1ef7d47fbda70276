"""How the end of a row is stored: in pieces, never under a mask, and nothing behind it."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.elements.evaluator import Evaluator
from graphc.codegen.kernels.contraction.emission.tile_results import store_tile
from graphc.codegen.kernels.lower import lower
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.builder import LoopBuilder
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.target import named
from graphc.ir.types import DType
from graphc.ops import contract
from graphc.ops.kinds.index_expr import Variable, flatten, of
from graphc.schedule.build import plan_graph

Array = np.ndarray[Any, Any]
MASKED_STORE = re.compile(r"^ *store .* mask ", re.MULTILINE)
TARGETS = ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"]


def interpreted(graph: graphc.Graph, value: list[Array], target: str) -> Array:
    """The result of a graph of one kernel, none of whose stores is masked."""
    _, plan = plan_graph(graph)
    (step,) = plan.steps
    kernel = lower(step.kernel, named(target))
    assert not MASKED_STORE.search(str(kernel))
    (type,) = graph.output_types
    result = np.zeros(type.numel, type.dtype.numpy)
    reads = [value[plan.buffers[i].slot].reshape(-1) for i in step.reads]
    interpreter.run(kernel, [*reads, result])
    return result.reshape(type.shape)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("length", [1, 3, 7, 9, 13, 15, 16, 22, 31])
def test_rows_of_any_length(length: int, target: str) -> None:
    b = graphc.GraphBuilder("rows")
    # Read column by column, so that rows stay loops of their own.
    x, y = b.input("x", f"f32[3,{length}]"), b.input("y", "f32[3]")
    graph = b.finish(x * graphc.ops.broadcast(graphc.ops.reshape(y, shape=(3, 1)), shape=x.shape))
    random = np.random.default_rng(length)
    arguments = [random.standard_normal(shape).astype(np.float32) for shape in ((3, length), (3,))]
    expected = arguments[0] * arguments[1][:, None]
    np.testing.assert_array_equal(interpreted(graph, arguments, target), expected)
    np.testing.assert_array_equal(graphc.compile(graph)(*arguments)[0], expected)


@pytest.mark.parametrize("dtype", ["f64", "i32", "i64", "bool", "bf16", "u8"])
def test_rows_of_other_dtypes(dtype: str) -> None:
    b = graphc.GraphBuilder("rows")
    x = b.input("x", f"{dtype}[3,13]")
    kind = graphc.DType(dtype)
    rows = graphc.ops.reshape(x, shape=(3, 1, 13))
    graph = b.finish(graphc.ops.broadcast(rows, shape=(3, 2, 13)))
    content = (np.random.default_rng(0).random((3, 13)) * 3).astype(kind.numpy)
    expected = np.broadcast_to(content[:, None], (3, 2, 13))
    np.testing.assert_array_equal(graphc.compile(graph)(content)[0], expected)


def convolution(width: int) -> graphc.Graph:
    b = graphc.GraphBuilder("conv")
    x, w = b.input("x", f"f32[1,2,7,{width + 2}]"), b.input("w", "f32[6,2,3,3]")
    plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    return b.finish(contract.conv(x, w, **plain))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["x86-64-v3", "aarch64"])
@pytest.mark.parametrize("width", [10, 14, 20, 28])
def test_of_several_vectors_the_last_is_told_from_the_others(width: int, target: str) -> None:
    """Which vector of a row a tile holds is known when it runs: the end of a row is a branch."""
    graph = convolution(width)
    random = np.random.default_rng(width)
    arguments = [
        random.standard_normal(type.shape).astype(np.float32) for type in graph.input_types
    ]
    (expected,) = graphc.compile(graph)(*arguments)
    reference = graphc.run(graph, *arguments)[0]
    np.testing.assert_allclose(expected, reference, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(interpreted(graph, arguments, target), expected)


SWAPPED = [(10, 16), (7, 8), (5, 12), (3, 24)]


def channels_along_vectors(side: int, channels: int) -> graphc.Graph:
    b = graphc.GraphBuilder("conv")
    x, w = b.input("x", f"f32[2,2,{side + 4},{side + 4}]"), b.input("w", f"f32[{channels},2,5,5]")
    bias = b.input("bias", f"f32[2,{channels},{side},{side}]")
    plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    return b.finish(contract.conv(x, w, **plain) + bias)


@pytest.mark.sampled(30)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "aarch64"])
@pytest.mark.parametrize(("side", "channels"), SWAPPED)
def test_vectors_along_output_channels(side: int, channels: int, target: str) -> None:
    """Channels lie an image apart; so does what is added."""
    graph = channels_along_vectors(side, channels)
    random = np.random.default_rng(side)
    arguments = [
        random.standard_normal(type.shape).astype(np.float32) for type in graph.input_types
    ]
    (expected,) = graphc.compile(graph)(*arguments)
    np.testing.assert_allclose(expected, graphc.run(graph, *arguments)[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_array_equal(interpreted(graph, arguments, target), expected)


def test_a_tile_of_neighbouring_rows_is_transposed_not_scattered() -> None:
    (step,) = plan_graph(channels_along_vectors(10, 16))[1].steps
    text = str(lower(step.kernel, named("x86-64-v3")))
    assert "conv swapped" in text
    assert "scatter y" not in text
    assert "gather x" not in text


def stored_tile(rows: int, vectors: int) -> tuple[Kernel, tuple[int, int]]:
    """A tile of 10 * row + column for each result, whose rows are neighbours in memory; and the
    shape of what it stores."""
    lanes = 4
    shape = (lanes * vectors, rows)
    builder = LoopBuilder("tile")
    y = builder.buffer("y", DType.f32, lanes * vectors * rows, "write")
    graph = graphc.GraphBuilder("empty")
    evaluator = Evaluator(builder, graph.finish(graph.input("x", "f32[1]")), [], lanes)
    with builder.loop(builder.begin, builder.end):
        lane = Variable("column", lanes)
        evaluator.addresses.bind_lane(lane, builder.block)
        iota = builder.convert(builder.iota(DType.i32, lanes), DType.f32)
        sums = [
            [
                builder.add(iota, builder.const(DType.f32, 10 * r + lanes * v))
                for v in range(vectors)
            ]
            for r in range(rows)
        ]
        store_tile(
            builder, evaluator.addresses, shape,
            lambda row, vector, column: ((column + vector * lanes, row), ()), of(lane), sums,
            lambda at, guards, value: evaluator.store(y, flatten(at, shape), value, guards),
            functools.cache(lambda dtype, count: builder.scratch(f"tile{count}", dtype, count)),
        )  # fmt: skip
    return builder.finish(1), shape


@pytest.mark.parametrize("vectors", [1, 3])
@pytest.mark.parametrize("rows", [1, 2, 5, 8, 9, 14])
def test_tiles_of_any_number_of_rows(rows: int, vectors: int) -> None:
    """A row that is left over by itself has nothing to be transposed with."""
    kernel, shape = stored_tile(rows, vectors)
    actual = np.zeros(shape[0] * rows, np.float32)
    interpreter.run(kernel, [actual])
    expected = np.arange(shape[0])[:, None] + 10 * np.arange(rows)
    np.testing.assert_array_equal(actual.reshape(shape), expected)


def test_what_is_computed_of_a_tile_is_written_once_for_all_its_vectors() -> None:
    stores = [str(stored_tile(4, vectors)[0]).count("store y[") for vectors in (1, 2, 3)]
    assert stores == [4, 4, 4]


def test_the_update_of_a_weight_is_written_once_for_all_vectors_of_a_tile() -> None:
    """Else it is most of the kernel's code, and of the time that LLVM takes."""
    b = graphc.GraphBuilder("update")
    x, y = b.input("x", "f32[2,192,14,14]"), b.input("y", "f32[2,64,14,14]")
    w, momentum = b.input("w", "f32[64,192,1,1]"), b.input("momentum", "f32[64,192,1,1]")
    plain = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1}
    moved = momentum * 0.5 + contract.conv_weight_grad(x, y, kernel=(1, 1), **plain)
    graph = b.finish(moved, w - moved * 0.5)
    (step,) = plan_graph(graph)[1].steps
    text = str(lower(step.kernel, named("x86-64-v4")))
    assert "conv_weight_grad swapped" in text and "for %vector" in text
    random = np.random.default_rng(0)
    arguments = [
        random.integers(-4, 5, type.shape).astype(np.float32) for type in graph.input_types
    ]
    # Of whole numbers, whose sums are exact in any order.
    expected = graphc.run(graph, *arguments)
    for result, reference in zip(graphc.compile(graph)(*arguments), expected, strict=True):
        np.testing.assert_array_equal(result, reference)
