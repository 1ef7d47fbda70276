"""The recipe `winograd`: one kernel with what stands behind it, and the bits of the definition, for
any sizes, paddings and targets, in parts and beside memory that must not be touched."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import graphc
from graphc import ShapeError, ops
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.target import Target, named, running
from graphc.ir.types import TensorType
from graphc.ops.movement import broadcast, reshape, transpose
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import KernelSpec, Launch

Array = np.ndarray[Any, Any]
winograd = ops.winograd


def drawn(
    images: int, channels: int, outputs: int, size: tuple[int, int], dtype: str = "f32"
) -> list[Array]:
    random = np.random.default_rng(images + channels + outputs + sum(size))
    shapes = (images, channels, *size), (16, outputs, channels)
    return [random.standard_normal(shape).astype(graphc.DType[dtype].numpy) for shape in shapes]


def built(arrays: list[Array], padding: tuple[int, int], transposed: bool = False) -> graphc.Graph:
    """`transposed`: the weights come as [16, C, O] and are read through a transpose."""
    g = graphc.GraphBuilder("g")
    x, u = (g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate(arrays))
    if transposed:
        u = transpose(u, permutation=(0, 2, 1))
    return g.finish(winograd(x, u, padding=padding))


def specs(graph: graphc.Graph) -> list[KernelSpec]:
    _, plan = plan_graph(graph)
    return [step.kernel for step in plan.steps if isinstance(step, Launch)]


def results(graph: graphc.Graph, arrays: list[Array], target: Target | None = None) -> list[Array]:
    """The results of the one kernel that the graph becomes, as native code for a target."""
    (spec,) = specs(graph)
    result = [np.full(type.shape, np.nan, type.dtype.numpy) for type in graph.output_types]
    chosen = running(target)
    buffers = [array.ravel() for array in (*arrays, *result)]
    jit.call_kernel(lower(spec, chosen), buffers, target=chosen)
    return result


sizes = st.tuples(st.integers(1, 19), st.integers(1, 37))


@pytest.mark.slow
@settings(max_examples=6, deadline=None, derandomize=True, database=None)
@given(
    st.integers(1, 4), st.integers(1, 9), st.integers(1, 9), sizes,
    st.tuples(st.integers(0, 2), st.integers(0, 2)), st.sampled_from(["f32", "f64"]), st.booleans(),
)  # fmt: skip
def test_any_sizes_give_the_bits_of_the_definition(
    images: int, channels: int, outputs: int, size: tuple[int, int], padding: tuple[int, int],
    dtype: str, transposed: bool,
) -> None:  # fmt: skip
    size = tuple(max(dim, 3 - 2 * by) for dim, by in zip(size, padding, strict=True))
    x, u = drawn(images, channels, outputs, size, dtype)
    u = np.ascontiguousarray(u.transpose(0, 2, 1)) if transposed else u
    graph = built([x, u], padding, transposed)
    (expected,) = graphc.compile(graph, "none")(x, u)
    np.testing.assert_array_equal(graphc.compile(graph)(x, u)[0], expected)


@pytest.mark.parametrize("sizes", [(1, 513, 5), (1, 3, 131)])
def test_long_sums_and_many_rows_give_the_bits_of_the_definition(
    sizes: tuple[int, int, int],
) -> None:
    x, u = drawn(*sizes, (6, 9))
    graph = built([x, u], (1, 1))
    (expected,) = graphc.compile(graph, "none")(x, u)
    np.testing.assert_array_equal(graphc.compile(graph)(x, u)[0], expected)


def test_native_code_has_the_same_bits_on_every_target(native_target: Target) -> None:
    x, u = drawn(2, 6, 9, (7, 21))
    graph = built([x, u], (1, 1))
    (expected,) = graphc.compile(graph, "none")(x, u)
    np.testing.assert_array_equal(results(graph, [x, u], native_target)[0], expected)


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_loops_interpreted(target: str) -> None:
    x, u = drawn(1, 2, 5, (3, 6))
    graph = built([x, u], (1, 2))
    (expected,) = graphc.compile(graph, "none")(x, u)
    (spec,) = specs(graph)
    actual = np.full(expected.size, np.nan, np.float32)
    interpreter.run(lower(spec, named(target)), [x.ravel(), u.ravel(), actual])
    np.testing.assert_array_equal(actual.reshape(expected.shape), expected)


def test_what_stands_behind_it_is_in_its_kernel() -> None:
    x, u = drawn(2, 3, 5, (6, 7))
    bias = np.linspace(-1, 1, 5, dtype=np.float32)
    g = graphc.GraphBuilder("g")
    handles = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate((x, u, bias))]
    product = winograd(handles[0], handles[1], padding=(1, 1))
    spread = broadcast(reshape(handles[2], shape=(5, 1, 1)), shape=product.shape)
    before = product + spread
    graph = g.finish(ops.relu(before), before)
    assert [spec.recipe for spec in specs(graph)] == ["winograd"]
    actual = graphc.compile(graph)(x, u, bias)
    expected = graphc.compile(graph, "none")(x, u, bias)
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_operands_are_read_through_index_maps() -> None:
    x, u = drawn(2, 3, 4, (5, 7))
    transposed = np.ascontiguousarray(x.transpose(0, 2, 3, 1))
    g = graphc.GraphBuilder("g")
    handles = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate((transposed, u))]
    view = transpose(handles[0], permutation=(0, 3, 1, 2))
    graph = g.finish(winograd(view, handles[1], padding=(1, 1)))
    (result,) = results(graph, [transposed, u])
    np.testing.assert_array_equal(result, results(built([x, u], (1, 1)), [x, u])[0])


def test_another_kernel_s_result_is_read_from_memory() -> None:
    x, u = drawn(1, 2, 3, (5, 5))
    g = graphc.GraphBuilder("g")
    handles = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate((x, u))]
    graph = g.finish(winograd(ops.exp(handles[0]), handles[1], padding=(1, 1)))
    assert [spec.recipe for spec in specs(graph)] == ["nest", "winograd"]
    (result,) = graphc.compile(graph)(x, u)
    np.testing.assert_array_equal(result, graphc.compile(graph, "none")(x, u)[0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_parts_of_a_kernel_give_the_bits_of_the_whole(parts: int, native_target: Target) -> None:
    x, u = drawn(11, 3, 6, (9, 14))
    graph = built([x, u], (1, 1))
    (whole,) = results(graph, [x, u])
    (spec,) = specs(graph)
    kernel = lower(spec, native_target)
    assert kernel.extent > 3
    split = np.full_like(whole, np.nan)
    edges = np.linspace(0, kernel.extent, parts + 1).astype(int)
    for part in reversed(range(parts)):
        buffers = [x.ravel(), u.ravel(), split.ravel()]
        jit.call_kernel(kernel, buffers, int(edges[part]), int(edges[part + 1]), native_target)
    np.testing.assert_array_equal(split, whole)


class Guarded:
    """Arrays that begin or end where a page does whose neighbour must not be touched."""

    def __init__(self) -> None:
        self.libc = ctypes.CDLL(None, use_errno=True)
        self.blocks: list[Any] = []

    def copy(self, content: Array, at_end: bool) -> Array:
        page = mmap.PAGESIZE
        size = -(-content.nbytes // page) * page
        block = mmap.mmap(-1, size + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(block))
        for guard in (first, first + page + size):
            assert self.libc.mprotect(ctypes.c_void_p(guard), page, 0) == 0
        self.blocks.append(block)
        start = page + (size - content.nbytes if at_end else 0)
        array = np.frombuffer(block, content.dtype, content.size, start)
        array[...] = content.ravel()
        return array


@pytest.mark.sampled(6)
@pytest.mark.parametrize("at_end", [False, True])
@pytest.mark.parametrize(
    "sizes", [(1, 1, 1, (1, 1)), (2, 3, 5, (7, 9)), (1, 4, 3, (4, 33)), (3, 2, 9, (1, 16))]
)
def test_nothing_beside_a_buffer_is_touched(
    sizes: tuple[Any, ...], at_end: bool, native_target: Target
) -> None:
    x, u = drawn(*sizes)
    residual = np.ones((sizes[0], sizes[2], *sizes[3]), np.float32)
    g = graphc.GraphBuilder("g")
    handles = [g.input(f"x{i}", TensorType.of(array)) for i, array in enumerate((x, u, residual))]
    graph = g.finish(winograd(handles[0], handles[1], padding=(1, 1)) + handles[2])
    (expected,) = results(graph, [x, u, residual])
    (spec,) = specs(graph)
    memory = Guarded()
    arrays = (x, u, residual, np.zeros_like(expected))
    buffers = [memory.copy(array, at_end) for array in arrays]
    jit.call_kernel(lower(spec, native_target), buffers, target=native_target)
    np.testing.assert_array_equal(buffers[3].reshape(expected.shape), expected)


def test_equal_kernels_have_equal_loops_whatever_was_lowered_before() -> None:
    x, u = drawn(2, 3, 4, (6, 6))
    texts = [str(lower(specs(built([x, u], (1, 1)))[0], named("x86-64-v3"))) for _ in range(2)]
    assert texts[0] == texts[1]


def test_operands_without_elements_take_the_definition() -> None:
    x, u = np.zeros((0, 2, 4, 4), np.float32), np.zeros((16, 3, 2), np.float32)
    graph = built([x, u], (1, 1))
    assert graphc.compile(graph)(x, u)[0].shape == (0, 3, 4, 4)
    x, u = np.zeros((1, 0, 4, 4), np.float32), np.zeros((16, 3, 0), np.float32)
    np.testing.assert_array_equal(graphc.compile(built([x, u], (1, 1)))(x, u)[0], 0)


@pytest.mark.parametrize(
    ("x", "u", "padding"),
    [
        ((1, 2, 4, 4), (16, 3, 3), (1, 1)), ((1, 2, 4, 4), (9, 3, 2), (1, 1)),
        ((1, 2, 4, 2), (16, 3, 2), (1, 0)), ((2, 4, 4), (16, 3, 2), (1, 1)),
        ((1, 2, 4, 4), (16, 3, 2), (1, -1)),
    ],
)  # fmt: skip
def test_operands_that_do_not_fit_are_errors(
    x: tuple[int, ...], u: tuple[int, ...], padding: tuple[int, int]
) -> None:
    with pytest.raises(ShapeError, match="winograd"):
        built([np.zeros(x, np.float32), np.zeros(u, np.float32)], padding)
