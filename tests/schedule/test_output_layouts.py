"""Attention's results are stored where the index maps behind it put them: same bits, no copies."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.codegen.program.run_plan import run_plan_by_loops
from graphc.ops import elementwise as e
from graphc.ops import reduce
from graphc.ops.movement import concat, reshape, slice_, transpose
from graphc.ops.nn.attention import attention
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch, Plan

Array = np.ndarray[Any, Any]


def heads_of(x: Any, batch: int, time: int, heads: int, depth: int) -> Any:
    return transpose(reshape(x, shape=(batch, time, heads, depth)), permutation=(0, 2, 1, 3))


def block(batch: int, time: int, heads: int, depth: int) -> graphc.Graph:
    """Self-attention of a transformer: one product for q, k and v, one behind the heads."""
    width = heads * depth
    g = graphc.GraphBuilder("block")
    x = g.input("x", f"f32[{batch * time},{width}]")
    w, out = g.input("w", f"f32[{width},{3 * width}]"), g.input("out", f"f32[{width},{width}]")
    qkv = reshape(x @ w, shape=(batch, time, 3 * width))
    parts = graphc.ops.split(qkv, sizes=(width,) * 3, axis=2)
    q, k, v = (heads_of(part, batch, time, heads, depth) for part in parts)
    y, _ = attention(q, k, v, scale=0.5, causal=True)
    rows = reshape(transpose(y, permutation=(0, 2, 1, 3)), shape=(batch * time, width))
    return g.finish(e.tanh(rows @ out))


SHAPES = [(2, 16, 3, 8), (1, 21, 2, 5), (3, 16, 1, 12), (1, 67, 2, 8)]


def arrays(graph: graphc.Graph) -> list[Array]:
    random = np.random.default_rng(0)
    return [np.float32(random.standard_normal(t.shape)) for t in graph.input_types]


def launches(plan: Plan) -> list[Launch]:
    return [step for step in plan.steps if isinstance(step, Launch)]


def only_moves(launch: Launch) -> bool:
    ops = {node.op for node in launch.kernel.body.nodes} - {"input", "constant"}
    return ops <= {"transpose", "reshape", "concat", "slice", "pad"}


@pytest.mark.sampled(36)
@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_block_has_the_same_bits_and_copies_nothing(
    shape: tuple[int, ...], backward: bool, same_bits: Any
) -> None:
    graph = block(*shape)
    graph = graphc.joint(graph) if backward else graph
    inputs = arrays(graph)
    wanted = graphc.compile(graph, "none", threads=1)(*inputs)
    for threads in (1, 2):
        same_bits(graphc.compile(graph, threads=threads)(*inputs), wanted)
    plan = plan_graph(graph)[1]
    same_bits(run_plan_by_loops(plan, tuple(inputs)), wanted)
    if any(node.op == "attention" for step in launches(plan) for node in step.kernel.body.nodes):
        assert not any(map(only_moves, launches(plan)))


def test_the_product_behind_attention_reads_a_matrix() -> None:
    plan = plan_graph(graphc.joint(block(2, 16, 3, 8)))[1]
    (result,) = [
        launch for launch in launches(plan)
        if any(node.op == "attention" for node in launch.kernel.body.nodes)
    ]  # fmt: skip
    shapes = [plan.buffers[i].type.shape for i in result.writes]
    assert (32, 24) in shapes and (2, 3, 16, 8) not in shapes
    (grad,) = [
        launch for launch in launches(plan)
        if any(node.op == "attention_grad" for node in launch.kernel.body.nodes)
    ]  # fmt: skip
    assert [plan.buffers[i].type.numel for i in grad.writes] == [32 * 72]


def test_a_result_that_is_read_before_the_product_is_stored_both_ways(same_bits: Any) -> None:
    g = graphc.GraphBuilder("both")
    q, k, v = (g.input(name, "f32[2,3,16,8]") for name in "qkv")
    w = g.input("w", "f32[24,5]")
    y, _ = attention(q, k, v, scale=1.0, causal=False)
    total = reduce.sum(y * y, axes=(3,))
    rows = reshape(transpose(y, permutation=(0, 2, 1, 3)), shape=(32, 24))
    graph = g.finish(total, rows @ w, y)
    inputs = arrays(graph)
    same_bits(graphc.compile(graph)(*inputs), graphc.compile(graph, "none")(*inputs))


def test_what_is_not_in_rows_is_not_moved(same_bits: Any) -> None:
    """Columns ahead of rows, parts of unequal shapes, and one result joined with another value."""
    g = graphc.GraphBuilder("turned")
    q, k, v = (g.input(name, "f32[2,16,8]") for name in "qkv")
    y, _ = attention(q, k, v, scale=1.0, causal=False)
    turned = reshape(transpose(y, permutation=(0, 2, 1)), shape=(16, 16))
    joined = concat(y, q, axis=2)
    half = slice_(y, start=(0, 0, 0), size=(2, 16, 4), step=(1, 1, 1))
    graph = g.finish(turned @ turned, joined, concat(half, y, axis=2))
    inputs = arrays(graph)
    same_bits(graphc.compile(graph)(*inputs), graphc.compile(graph, "none")(*inputs))
