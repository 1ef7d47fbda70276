"""Nests run as they stand: every plan of every strategy gives NumPy's results, in any number of
parts, and the bits of its loops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.kernels.common import lanes_for
from graphc.codegen.kernels.contraction.arrays import by_roles, products_of
from graphc.codegen.kernels.contraction.problem.problem import problems
from graphc.codegen.kernels.contraction.recipe import plan_kernel
from graphc.codegen.kernels.contraction.strategies.grouped import GroupedPlan
from graphc.codegen.kernels.contraction.strategies.table import STRATEGIES, StrategyPlan
from graphc.codegen.loop_ir import interpreter
from graphc.codegen.nests.nest import all_splits
from graphc.codegen.nests.runner import run_nest
from graphc.codegen.target import Target, named
from graphc.ir.dims import dim
from graphc.ir.instances import at_sizes
from graphc.ir.symbols import symbols_of
from graphc.ops.interpreter import evaluate
from graphc.records import replace
from tests.codegen.kernels.contraction.problems import body_of, convolution, product

Array = np.ndarray[Any, Any]
Graph = graphc.Graph

TARGET = named("x86-64-v2")
SMALL_CACHES = replace(TARGET, l1_bytes=1024, l2_bytes=4096)
"""So that blocks of rows are worth their while in a product of a few hundred elements."""
N = dim("n", 2)
NUMBERS: dict[str, Graph] = {
    "product": product(5, 19, 7),
    "one result": product(1, 1, 3),
    "deep product": product(7, 12, 300),
    "deeper product": product(5, 6, 520),
    "blocks of rows": product(24, 20, 60, columns_first=True),
    "no products": product(3, 5, 0),
    "one row": product(1, 12, 300),
    "one row, columns first": product(1, 12, 300, columns_first=True),
    "columns first": product(7, 18, 40, columns_first=True),
    "forward": convolution("forward", (4, 29, 3, 3), (7, 29, 3, 3)),
    "by x": convolution("by x", (5, 3, 4, 4), (6, 3, 3, 3)),
    "by w": convolution("by w", (4, 6, 4, 4), (5, 6, 3, 3)),
    "stride 2": convolution("forward", (2, 3, 9, 7), (5, 3, 3, 3), stride=2),
    "stride 2 by x": convolution("by x", (2, 3, 8, 8), (5, 3, 3, 3), stride=2),
    "1x1 of stride 2 by x": convolution("by x", (2, 3, 5, 5), (4, 3, 1, 1), stride=2),
    "large planes by w": convolution("by w", (3, 4, 7, 7), (5, 4, 3, 3)),
    "groups": convolution("forward", (2, 4, 5, 6), (6, 2, 3, 3), groups=2),
    "depthwise by w": convolution("by w", (3, 6, 6, 6), (6, 1, 3, 3), groups=6),
    "depthwise by w of one tap": convolution("by w", (3, 6, 4, 4), (6, 1, 1, 1), groups=6),
    "channels last": convolution("forward", (1, 29, 4, 5), (9, 29, 3, 3), channels_last=True),
    "one axis": convolution("forward", (2, 5, 17), (7, 5, 4)),
}
OPEN: dict[str, Graph] = {
    "rows": product(N, 9, 40),
    "rows, columns first": product(N, 9, 40, columns_first=True),
    "columns": product(6, N, 11),
    "depth": product(6, 9, N),
    "all": product(N, N, N),
    "images": convolution("forward", (N, 3, 4, 4), (5, 3, 3, 3)),
    "images of lanes": convolution("forward", (dim("n", 4), 29, 3, 3), (3, 29, 3, 3)),
    "images by x": convolution("by x", (N, 3, 6, 6), (4, 3, 3, 3), stride=2),
    "images by w": convolution("by w", (N, 4, 7, 7), (3, 4, 3, 3)),
    "depthwise by w": convolution("by w", (N, 6, 6, 6), (6, 1, 3, 3), groups=6),
}
SIZES = (4, 9)


def plans(graph: Graph, target: Target) -> Iterator[StrategyPlan]:
    """All that strategies would do, once each."""
    body = body_of(graph)
    for problem in problems(body, lanes_for(body, target)):
        for strategy in STRATEGIES:
            yield from {plan.reason: plan for plan in strategy.candidates(problem, target)}.values()


def whole_numbers(body: Graph) -> tuple[Array, ...]:
    """Whose sums are exact in any order."""
    random = np.random.default_rng(0)
    return tuple(random.integers(-4, 5, t.shape).astype(t.dtype.numpy) for t in body.input_types)


def values_of(body: Graph, plan: StrategyPlan, arrays: tuple[Array, ...]) -> tuple[Any, Array]:
    """The plan's products, and what the op's reference makes of them."""
    view = plan.problem.view
    outputs = (*view.node.operands, view.anchor)
    *operands, result = evaluate(Graph(body.name, body.nodes, outputs, ()), arrays, reference=True)
    products = products_of(body, view.swapped, tuple(operands))
    return products, by_roles(body, view.swapped, result)


def check(plan: StrategyPlan, body: Graph, sizes: dict[str, int], parts: int) -> None:
    products, expected = values_of(body, plan, whole_numbers(body))
    actual = run_nest(plan.nest(), products, sizes, parts)
    assert np.array_equal(actual, expected), plan.reason


@pytest.mark.sampled(36)
@pytest.mark.parametrize("target", [TARGET, SMALL_CACHES], ids=["", "small caches"])
@pytest.mark.parametrize("name", NUMBERS)
def test_every_plan_gives_what_numpy_gives(name: str, target: Target) -> None:
    body = body_of(NUMBERS[name])
    for number, plan in enumerate(plans(NUMBERS[name], target)):
        check(plan, body, {}, parts=1 + number % 3)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", OPEN)
def test_with_sizes_left_open(name: str, size: int) -> None:
    body = body_of(OPEN[name])
    (symbol,) = symbols_of(body)
    at = at_sizes(body, {symbol.name: size})
    for number, plan in enumerate(plans(OPEN[name], TARGET)):
        check(plan, at, {symbol.name: size}, parts=1 + number % 3)


def test_all_strategies_and_shapes_of_nests_are_among_these() -> None:
    every = [plan for graph in NUMBERS.values() for plan in plans(graph, TARGET)]
    every += [plan for graph in OPEN.values() for plan in plans(graph, TARGET)]
    of_bytes = GroupedPlan  # integers: see kernels/contraction/test_int_matmul.py
    assert {type(plan) for plan in every} == set(STRATEGIES) - {of_bytes}
    texts = [plan.nest() for plan in plans(NUMBERS["blocks of rows"], SMALL_CACHES)]
    splits = {split.name for nest in texts for split in all_splits(nest)}
    assert {"row_blocks", "all_columns"} <= splits


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NUMBERS)
def test_the_bits_are_those_of_the_loops(name: str) -> None:
    """Of the first plan of each strategy: the order of sums in the value is that of the code."""
    body, random = body_of(NUMBERS[name]), np.random.default_rng(1)
    arrays = tuple(random.standard_normal(t.shape).astype(np.float32) for t in body.input_types)
    seen = set()
    for plan in plans(NUMBERS[name], TARGET):
        if type(plan) in seen:
            continue
        seen.add(type(plan))
        view = plan.problem.view
        results = run_nest(plan.nest(), values_of(body, plan, arrays)[0])
        kernel = plan_kernel("k", plan, plan.problem.lanes)
        buffers = [array.ravel() for array in arrays]
        buffers.append(np.full(body.output_types[0].numel, np.nan, np.float32))
        interpreter.run(kernel, buffers)
        assert body.outputs == (view.anchor,)
        by_loops = by_roles(body, view.swapped, buffers[-1])
        assert np.array_equal(results, by_loops), plan.reason
