"""A whole step that keeps less between forward and backward: same bits, less memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import graphc
from graphc.errors import MemoryLimitError
from graphc.ops import elementwise as e
from graphc.ops.control import scan
from graphc.passes.recompute import within_budget
from graphc.schedule.build import plan_graph

Array = np.ndarray[Any, Any]
LAYERS, ROWS, WIDTH = 8, 64, 16
ONE = ROWS * WIDTH * 4


def step() -> tuple[graphc.Graph, tuple[int, int], list[Array]]:
    """Forward and backward of a chain of layers; where backward starts and ends; arrays."""
    g = graphc.GraphBuilder("chain")
    x = g.input("x", f"f32[{ROWS},{WIDTH}]")
    weights = [g.input(f"w{i}", f"f32[{WIDTH},{WIDTH}]") for i in range(LAYERS)]
    value = x
    for w in weights:
        value = e.tanh(value @ w)
    forward = g.finish(graphc.ops.sum(value * value, axes=(0, 1)))
    joint = graphc.joint(forward, wrt=[f"w{i}" for i in range(LAYERS)])
    random = np.random.default_rng(0)
    arrays = [np.float32(random.standard_normal(t.shape) / 4) for t in joint.input_types]
    return joint, (joint.outputs[0].node + 1, len(joint.nodes)), arrays


def ran(graph: graphc.Graph, arrays: list[Array]) -> list[Array]:
    return list(graphc.compile(graph)(*arrays))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("budget", [LAYERS * ONE, 3 * ONE, ONE, 0])
def test_with_any_budget_a_step_has_the_same_bits(budget: int) -> None:
    graph, span, arrays = step()
    recomputed, (cut,) = within_budget(graph, [span], budget)
    graphc.verify(recomputed)
    assert cut.bytes <= budget
    for got, want in zip(ran(recomputed, arrays), ran(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_with_less_kept_the_arena_is_smaller() -> None:
    graph, span, _ = step()
    arenas = [
        plan_graph(within_budget(graph, [span], layers * ONE)[0])[1].arena_bytes
        for layers in (LAYERS, 3)
    ]
    assert arenas[1] <= arenas[0] - 2 * ONE


def test_what_fits_is_kept_and_nothing_is_computed_again() -> None:
    graph, span, _ = step()
    recomputed, (cut,) = within_budget(graph, [span], 1 << 30)
    assert cut.bytes <= LAYERS * ONE
    assert [node.op for node in recomputed.nodes].count("tanh") == LAYERS
    assert "saved" not in [node.op for node in recomputed.nodes]


def test_text_of_a_small_step() -> None:
    """The exponential is computed again from the kept product's operands."""
    g = graphc.GraphBuilder("small")
    x = g.input("x", "f32[4]")
    y = e.exp(x)
    z = e.sin(y)
    graph = g.finish(z, z * y)
    recomputed, (cut,) = within_budget(graph, [(len(graph.nodes) - 1, len(graph.nodes))], 0)
    assert cut.bytes == 0
    assert [node.op for node in recomputed.nodes] == ["input", "exp", "sin", "saved", "exp", "mul"]


def test_a_loop_is_not_run_again() -> None:
    body = graphc.GraphBuilder("body")
    with body.at(None):
        c = body.input("c", "f32[4]")
        inner = body.finish(e.exp(c))
    g = graphc.GraphBuilder("looped")
    x = g.input("x", "f32[4]")
    y = scan(x, carry=1, sequences=0, length=3, body=inner)
    graph = g.finish(e.sin(y), y * y)
    span = (len(graph.nodes) - 1, len(graph.nodes))
    with pytest.raises(MemoryLimitError, match=r"at least 16 bytes.*saved_bytes is 15"):
        within_budget(graph, [span], 15)
    assert within_budget(graph, [span], 16)[1][0].bytes == 16


def test_what_a_step_returns_is_read_not_computed_again() -> None:
    """A weight that was updated between two backwards lies in memory anyway."""
    g = graphc.GraphBuilder("two")
    w, x = g.input("w", "f32[4]"), g.input("x", "f32[4]")
    updated = w - e.exp(x)
    y = e.sin(updated * x)
    graph = g.finish(y * updated, updated, aliases=[(1, 0)])
    span = (len(graph.nodes) - 1, len(graph.nodes))
    recomputed, (_, cut) = within_budget(graph, [(0, 0), span], 0)
    assert cut.bytes == 0
    assert [node.op for node in recomputed.nodes].count("exp") == 1
