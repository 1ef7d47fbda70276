"""Elementwise kernels with a transposed input: blocks are transposed in registers."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.lower import lower
from graphc.codegen.llvm.jit import call_kernel
from graphc.codegen.loop_ir.interpreter import run
from graphc.codegen.target import Target, named
from graphc.ops import interpreter
from graphc.ops.elementwise import exp
from graphc.ops.movement import broadcast, reshape, slice_, transpose
from graphc.schedule.build import plan_graph

CASES = {
    "two axes": ((40, 24), (1, 0)),
    "tails": ((37, 21), (1, 0)),
    "rows behind": ((16, 19), (1, 0)),
    "batched": ((3, 17, 24), (0, 2, 1)),
    "channels last": ((2, 11, 3, 5), (0, 2, 3, 1)),
    "channels first": ((2, 3, 5, 11), (0, 3, 1, 2)),
    "reversed": ((9, 8, 10), (2, 1, 0)),
    "small": ((3, 2), (1, 0)),
}


def graph_of(shape: tuple[int, ...], permutation: tuple[int, ...], dtype: str) -> graphc.Graph:
    transposed = tuple(shape[axis] for axis in permutation)
    b = graphc.GraphBuilder("transposed")
    x = b.input("x", f"{dtype}[{','.join(map(str, shape))}]")
    y = b.input("y", f"{dtype}[{','.join(map(str, transposed))}]")
    moved = transpose(x, permutation=permutation)
    return b.finish(moved * y + moved)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32"])
@pytest.mark.parametrize("name", list(CASES))
def test_values_are_those_of_numpy(name: str, dtype: str) -> None:
    shape, permutation = CASES[name]
    graph = graph_of(shape, permutation, dtype)
    generator = np.random.default_rng(0)
    kind = {"f32": np.float32, "f64": np.float64, "i32": np.int32}[dtype]
    x = (generator.standard_normal(shape) * 10).astype(kind)
    moved = x.transpose(permutation)
    y = (generator.standard_normal(moved.shape) * 10).astype(kind)
    (result,) = graphc.compile(graph)(x, y)
    np.testing.assert_array_equal(result, moved * y + moved)


def repeated(x: Any, inner: bool) -> Any:
    """Every second column of a matrix, each twice, or all of them twice: what reads both this and
    the matrix reads one element twice at some columns."""
    rows, columns = x.shape
    half = slice_(x, start=(0, 0), size=(rows, columns // 2), step=(1, 2))
    unit = (rows, columns // 2, 1) if inner else (rows, 1, columns // 2)
    both = (rows, columns // 2, 2) if inner else (rows, 2, columns // 2)
    return reshape(broadcast(reshape(half, shape=unit), shape=both), shape=(rows, columns))


@pytest.mark.parametrize("seed", [4, *(pytest.param(i, marks=pytest.mark.slow) for i in range(60))])
def test_elements_that_are_read_twice_at_some_places(seed: int) -> None:
    random = np.random.default_rng(seed)
    dtype = str(random.choice(["f32", "f64"]))
    rows, columns = (int(each) for each in random.choice([4, 8, 16], 2))
    b = graphc.GraphBuilder("repeated")
    x, y, z = (b.input(name, f"{dtype}[{rows},{columns}]") for name in "xyz")
    u = x * y if random.random() < 0.5 else x + y
    terms = [u, repeated(u, True), repeated(u, False), z, repeated(z, True), x * z]
    chosen = [terms[i] for i in random.permutation(6)[: random.integers(2, 7)]]
    total = chosen[0]
    for term in chosen[1:]:
        total = total + term if random.random() < 0.6 else total - term
    graph = b.finish(transpose(total + x * y + z, permutation=(1, 0)))
    kind = {"f32": np.float32, "f64": np.float64}[dtype]
    arrays = [random.standard_normal((rows, columns)).astype(kind) for _ in range(3)]
    (result,) = graphc.compile(graph)(*arrays)
    (expected,) = interpreter.run(graph, *arrays)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "aarch64"])
def test_loops_read_blocks_and_do_not_gather(target: str) -> None:
    graph = graph_of((37, 40), (1, 0), "f32")
    (step,) = plan_graph(graph)[1].steps
    kernel = lower(step.kernel, named(target))
    text = str(kernel)
    assert "shuffle" in text
    generator = np.random.default_rng(1)
    x = generator.standard_normal((37, 40)).astype(np.float32)
    y = generator.standard_normal((40, 37)).astype(np.float32)
    result = np.zeros(40 * 37, np.float32)
    run(kernel, [x.reshape(-1), y.reshape(-1), result])
    np.testing.assert_array_equal(result.reshape(40, 37), x.T * y + x.T)


@pytest.mark.parametrize("parts", [2, 3])
def test_parts_give_the_whole(parts: int, native_target: Target) -> None:
    graph = graph_of((40, 61), (1, 0), "f32")
    (step,) = plan_graph(graph)[1].steps
    kernel = lower(step.kernel, native_target)
    generator = np.random.default_rng(2)
    x = generator.standard_normal((40, 61)).astype(np.float32)
    y = generator.standard_normal((61, 40)).astype(np.float32)
    result = np.zeros(40 * 61, np.float32)
    edges = np.linspace(0, kernel.extent, parts + 1).astype(int)
    for begin, end in pairwise(edges):
        call_kernel(
            kernel, [x.reshape(-1), y.reshape(-1), result], int(begin), int(end), native_target
        )
    np.testing.assert_array_equal(result.reshape(61, 40), x.T * y + x.T)


def test_functions_of_a_transposed_input() -> None:
    b = graphc.GraphBuilder("functions")
    x = b.input("x", "f32[24,40]")
    graph = b.finish(exp(transpose(x, permutation=(1, 0))))
    array = np.random.default_rng(3).standard_normal((24, 40)).astype(np.float32)
    (result,) = graphc.compile(graph)(array)
    np.testing.assert_allclose(result, np.exp(array.T), rtol=1e-6)


@pytest.mark.parametrize("size", [2, 15, 16, 17, 33, 64])
def test_every_second_element_is_read_by_vectors(size: int) -> None:
    b = graphc.GraphBuilder("halves")
    x = b.input("x", f"f32[3,{size}]")
    even = slice_(x, start=(0, 0), size=(3, -(-size // 2)), step=(1, 2))
    graph = b.finish(even * even)
    array = np.random.default_rng(size).standard_normal((3, size)).astype(np.float32)
    (result,) = graphc.compile(graph)(array)
    np.testing.assert_array_equal(result, array[:, ::2] ** 2)
