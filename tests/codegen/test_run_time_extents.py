"""Kernels whose extents are known only when they are called: at every size the bits of the kernel
that was lowered for that size."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from graphc import ops
from graphc.codegen.llvm import jit
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.loop_ir.nodes import Kernel
from graphc.codegen.recipes.lower import lower
from graphc.codegen.target import Target, executable, named, running
from graphc.errors import LoweringError
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.dims import Extent, dim, evaluate
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType
from graphc.schedule.plan import KernelSpec

Array = np.ndarray[Any, Any]
Shape = tuple[Extent, ...]
Program = Callable[..., Var]

N, M = dim("n"), dim("m")
TARGETS = [named("x86-64-v2"), named("x86-64-v4")]


def body_of(program: Program, shapes: list[Shape]) -> Graph:
    builder = GraphBuilder("body")
    operands = [
        builder.input(f"x{i}", TensorType(DType.f32, shape))  # type: ignore[arg-type]
        for i, shape in enumerate(shapes)
    ]
    return builder.finish(program(*operands))


def lowered(body: Graph, target: Target) -> Kernel:
    contracts = any(node.op == "matmul" for node in body.nodes)
    return lower(KernelSpec("contract" if contracts else "nest", body), target)


def results_of(body: Graph, sizes: dict[str, int]) -> list[Array]:
    return [
        np.empty([evaluate(extent, sizes) for extent in type.shape], type.dtype.numpy)
        for type in body.output_types
    ]


def interpreted(
    kernel: Kernel, body: Graph, arrays: list[Array], sizes: dict[str, int]
) -> list[Array]:
    results = results_of(body, sizes)
    interpreter.run(kernel, [*arrays, *results], sizes=sizes, fills=True)
    return results


def native(
    kernel: Kernel, body: Graph, arrays: list[Array], sizes: dict[str, int], target: Target
) -> list[Array]:
    """In two parts, as threads share them."""
    results, extent = results_of(body, sizes), evaluate(kernel.extent, sizes)
    for begin, end in ((0, extent // 2), (extent // 2, extent)):
        if begin < end:
            jit.call_kernel(kernel, [*arrays, *results], begin, end, target, sizes)
    return results


def compare(
    program: Program, shapes: list[Shape], sizes: list[dict[str, int]], target: Target
) -> None:
    """One kernel at all sizes, interpreted and native, against the kernel of each."""
    symbolic = body_of(program, shapes)
    kernel = lowered(symbolic, target)
    for each in sizes:
        numbers = [tuple(evaluate(extent, each) for extent in shape) for shape in shapes]
        draw = np.random.default_rng(7)
        arrays = [draw.standard_normal(shape).astype(np.float32) for shape in numbers]
        fixed = body_of(program, list(numbers))
        expected = interpreted(lowered(fixed, target), fixed, arrays, {})
        runs = [interpreted(kernel, symbolic, arrays, each)]
        if target in executable():
            runs.append(native(kernel, symbolic, arrays, each, target))
        for found, wanted in [pair for run in runs for pair in zip(run, expected, strict=True)]:
            assert found.dtype == wanted.dtype
            same = found.tobytes() == wanted.tobytes()
            assert same, f"at {each}: {found} instead of {wanted}"


def along(*sizes: int) -> list[dict[str, int]]:
    return [{"n": n} for n in sizes]


both_targets = pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)


@both_targets
def test_elementwise_along_one_axis(target: Target) -> None:
    sizes = along(0, 1, 3, 4, 5, 15, 16, 17, 33)
    compare(lambda x, y: ops.exp(x) * y + x, [(N,), (N,)], sizes, target)


@both_targets
def test_elementwise_with_rows_and_columns(target: Target) -> None:
    pairs = [(0, 3), (3, 0), (1, 1), (1, 17), (17, 1), (5, 16), (4, 19)]
    sizes = [{"n": n, "m": m} for n, m in pairs]
    compare(
        lambda x, row: x * ops.broadcast(row, shape=x.type.shape), [(N, M), (M,)], sizes, target
    )
    compare(
        lambda x, y: ops.transpose(x, permutation=(1, 0)) - y, [(N, M), (M, N)], sizes, target
    )  # fmt: skip


@both_targets
@pytest.mark.parametrize("op", ["sum", "argmax"])
@pytest.mark.parametrize("rows", [True, False])
def test_reductions_along_rows_and_columns(op: str, rows: bool, target: Target) -> None:
    n, sizes = (N, along(0, 1, 17, 64, 273)) if op == "sum" else (dim("n", 1), along(1, 65))
    for shape in [(3, n), (n,)] if rows else [(n, 5), (n, 33)]:
        axes = (len(shape) - 1,) if rows else (0,)
        compare(lambda x, axes=axes: getattr(ops, op)(x, axes=axes), [shape], sizes, target)


def in_pieces(x: Array) -> Array:
    """The sum of a row as docs/arithmetic.md has it: 64 lanes over pieces of 65,536 elements."""
    lanes = np.zeros(64, np.float32)
    for first in range(0, x.size, 65536):
        piece = x[first : first + 65536]
        for row in np.concatenate([piece, np.zeros(-piece.size % 64, x.dtype)]).reshape(-1, 64):
            lanes = lanes + row
    while lanes.size > 1:
        lanes = lanes[: lanes.size // 2] + lanes[lanes.size // 2 :]
    return lanes[0]


@pytest.mark.parametrize("n", [65536, 65537, 131072, 200_001])
def test_a_long_run_is_cut_at_any_size(n: int) -> None:
    """The same bits behind 65,536 elements, native: the interpreter would take long."""
    x, target = np.random.default_rng(n).standard_normal(n).astype(np.float32), running()
    for extent in (n, N):
        body = body_of(lambda x: ops.sum(x, axes=(0,)), [(extent,)])
        (found,) = native(lowered(body, target), body, [x], {"n": n}, target)
        assert found.tobytes() == in_pieces(x).tobytes(), extent


def test_no_sum_of_f32_saturates() -> None:
    """2^20 and more equal numbers in one lane would no longer grow from 2^24 on."""
    count, target = 1 << 31, running()
    body = body_of(lambda x: ops.sum(ops.broadcast(x, shape=(count,)), axes=(0,)), [()])
    (found,) = native(lowered(body, target), body, [np.ones((), np.float32)], {}, target)
    assert found == count


@both_targets
def test_products_with_rows_and_batch(target: Target) -> None:
    def product(x: Var, w: Var, y: Var) -> Var:
        return ops.relu(ops.matmul(x, w)) - y

    sizes = along(0, 1, 5, 6, 7, 13)
    compare(product, [(N, 19), (19, 33), (N, 33)], sizes, target)
    compare(product, [(N, 3, 4), (N, 4, 5), (N, 3, 5)], along(0, 1, 3), target)
    few = dim("n", 0, 2)  # costs are compared within its bounds
    compare(product, [(few, 19), (19, 33), (few, 33)], along(0, 1, 2), target)
    none = dim("n", 0, 0)
    compare(product, [(none, 19), (19, 33), (none, 33)], along(0), target)
    compare(
        lambda x, w: ops.matmul(x, ops.transpose(w, permutation=(1, 0))),
        [(N, 19), (7, 19)], sizes, target,
    )  # fmt: skip


@both_targets
def test_products_over_a_size(target: Target) -> None:
    """As the gradient of a weight, over the batch: K blocks end where they do for the number."""

    def gradient(x: Var, g: Var) -> Var:
        return ops.matmul(ops.transpose(x, permutation=(1, 0)), g)

    compare(gradient, [(N, 3), (N, 5)], along(0, 1, 255, 256, 257, 600), target)


def test_what_needs_a_number_says_so() -> None:
    body = body_of(lambda x, w: ops.matmul(x, w), [(3, 4), (4, N)])
    with pytest.raises(LoweringError, match="columns and windows have to be numbers"):
        lowered(body, TARGETS[0])
