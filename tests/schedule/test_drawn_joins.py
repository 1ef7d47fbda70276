"""Drawn programs of joins, and those that broke something once (tests/fuzz/joins.py draws them)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc import ops
from graphc.errors import VerifyError
from graphc.ir.registry import lookup
from graphc.schedule.build import make_plan
from graphc.schedule.plan import Plan
from graphc.schedule.plan_verifier import verify_plan
from tests.fuzz.joins import Drawer, hold


@pytest.mark.sampled(3)
@pytest.mark.parametrize("first", range(0, 200, 20))
def test_drawn_programs(first: int, same_bits: Callable[..., None]) -> None:
    for seed in range(first, first + 20):
        hold(Drawer(seed).program(), same_bits, native=seed == first)


def of_a_token(builder: graphc.GraphBuilder) -> Any:
    """A join whose first part, and whose others, are read by one value each."""
    a, h = builder.input("a", "f32[1,4]"), builder.input("h", "f32[3,4]")
    joined = lookup("concat")(ops.elementwise.exp(a), a, a, axis=0) + h
    head = lookup("slice")(joined, start=(0, 0), size=(1, 4), step=(1, 1))
    tail = lookup("slice")(joined, start=(1, 0), size=(2, 4), step=(1, 1))
    return head, tail


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_what_reads_nothing_of_a_group_is_no_part_of_it(
    order: tuple[int, int], same_bits: Callable[..., None]
) -> None:
    builder = graphc.GraphBuilder("token")
    results = of_a_token(builder)
    graph = builder.finish(*(results[i] for i in order))
    arrays = [np.full((1, 4), 0.5, np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)]
    hold((graph, arrays), same_bits, native=True)


@pytest.mark.parametrize("batch", [(1, 1), (2, 3)])
def test_an_epilogue_stores_only_values_of_the_product_s_shape(
    batch: tuple[int, int], same_bits: Callable[..., None]
) -> None:
    """A mask's cast, kept because it is returned, has fewer axes than the scores it is added to."""
    n, m = batch
    builder = graphc.GraphBuilder("masked")
    mask = lookup("cast")(builder.input("mask", f"bf16[{n},{m}]"), dtype=graphc.DType.f32)
    x, y = builder.input("x", f"f32[{n},{m},1,4]"), builder.input("y", f"f32[{n},{m},4,1]")
    scores = lookup("matmul")(x, y) + lookup("reshape")(mask, shape=(n, m, 1, 1))
    row = lookup("reshape")(scores, shape=(n * m, 1))
    graph = builder.finish(mask, scores, ops.elementwise.exp(row - row * row))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(t.shape).astype(t.dtype.numpy) for t in graph.input_types]
    hold((graph, arrays), same_bits, native=True)


def test_a_nest_over_two_domains_breaks_p7() -> None:
    builder = graphc.GraphBuilder("apart")
    x, y = builder.input("x", "f32[1,4]"), builder.input("y", "f32[3,4]")
    plan = make_plan(builder.finish(-x, -y))
    (first, second) = plan.steps
    body = graphc.parse(
        "graph kernel(%x0: f32[1,4], %x1: f32[3,4]) {\n  %2 = neg(%x0) : f32[1,4]\n"
        "  %3 = neg(%x1) : f32[3,4]\n  return %2, %3\n}"
    )
    both = _joined(plan, first, second, body)
    with pytest.raises(VerifyError, match="P7"):
        verify_plan(both)


def _joined(plan: Plan, first: Any, second: Any, body: graphc.Graph) -> Plan:
    from graphc.records import replace

    kernel = replace(first.kernel, body=body)
    step = replace(
        first, kernel=kernel, reads=first.reads + second.reads, writes=first.writes + second.writes
    )
    return replace(plan, steps=(step,))
