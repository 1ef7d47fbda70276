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
from graphc.codegen.target import Target, executable, named
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.dims import Dim, Extent, dim, evaluate
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


def compare(program: Program, shapes: list[Shape], sizes: dict[str, int], target: Target) -> None:
    symbolic = body_of(program, shapes)
    kernel = lowered(symbolic, target)
    numbers = [tuple(evaluate(extent, sizes) for extent in shape) for shape in shapes]
    draw = np.random.default_rng(7)
    arrays = [draw.standard_normal(shape).astype(np.float32) for shape in numbers]
    fixed = body_of(program, list(numbers))
    expected = interpreted(lowered(fixed, target), fixed, arrays, {})
    runs = [interpreted(kernel, symbolic, arrays, sizes)]
    if target in executable():
        runs.append(native(kernel, symbolic, arrays, sizes, target))
    for found, wanted in [pair for run in runs for pair in zip(run, expected, strict=True)]:
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(
            found.reshape(-1).view(np.uint8), wanted.reshape(-1).view(np.uint8), err_msg=str(sizes)
        )


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("n", [0, 1, 3, 4, 5, 15, 16, 17, 33])
def test_elementwise_along_one_axis(n: int, target: Target) -> None:
    compare(lambda x, y: ops.exp(x) * y + x, [(N,), (N,)], {"n": n}, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (1, 1), (1, 17), (17, 1), (5, 16), (4, 19)])
def test_elementwise_with_rows_and_columns(sizes: tuple[int, int], target: Target) -> None:
    n, m = sizes

    def program(x: Var, row: Var) -> Var:
        shape = x.type.shape
        return x * ops.broadcast(row, shape=shape)

    compare(program, [(N, M), (M,)], {"n": n, "m": m}, target)
    compare(lambda x, y: ops.transpose(x, permutation=(1, 0)) - y, [(N, M), (M, N)],
            {"n": n, "m": m}, target)  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("n", [0, 1, 15, 16, 17, 63, 64, 65, 130, 273])
@pytest.mark.parametrize("op", ["sum", "max", "argmax"])
def test_reductions_along_rows_and_columns(op: str, n: int, target: Target) -> None:
    if op != "sum" and n == 0:
        pytest.skip("needs elements")
    for shape, axes in (((3, N), (1,)), ((N, 5), (0,)), ((N, 33), (0,)), ((N,), (0,))):
        bounded = tuple(dim("n", 1) if isinstance(e, Dim) and op != "sum" else e for e in shape)
        compare(lambda x, axes=axes: getattr(ops, op)(x, axes=axes), [bounded], {"n": n}, target)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("n", [0, 1, 5, 6, 7, 13, 40])
def test_products_with_rows_and_batch(n: int, target: Target) -> None:
    def product(x: Var, w: Var, y: Var) -> Var:
        return ops.relu(ops.matmul(x, w)) - y

    compare(product, [(N, 19), (19, 33), (N, 33)], {"n": n}, target)
    compare(product, [(N, 3, 4), (N, 4, 5), (N, 3, 5)], {"n": n}, target)
    compare(
        lambda x, w: ops.matmul(x, ops.transpose(w, permutation=(1, 0))),
        [(N, 19), (7, 19)], {"n": n}, target,
    )  # fmt: skip


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
@pytest.mark.parametrize("n", [0, 1, 17, 255, 256, 257, 600])
def test_products_over_a_size(n: int, target: Target) -> None:
    """As the gradient of a weight, over the batch: K blocks end where they do for the number."""

    def gradient(x: Var, g: Var) -> Var:
        return ops.matmul(ops.transpose(x, permutation=(1, 0)), g)

    compare(gradient, [(N, 3), (N, 5)], {"n": n}, target)
