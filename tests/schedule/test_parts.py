"""Values joined from parts: one kernel stores all parts where they belong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ops import composite, reduce
from graphc.ops import elementwise as e
from graphc.ops.movement import concat, slice_, transpose
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch

Array = np.ndarray[Any, Any]
Parts = Callable[[Any, Any], list[Any]]


def joined(parts: Parts, shape: str, axis: int, *, behind: bool = False) -> graphc.Graph:
    g = graphc.GraphBuilder("joined")
    x, y = g.input("x", shape), g.input("y", shape)
    whole = concat(*parts(x, y), axis=axis)
    return g.finish(*([whole, e.exp(whole)] if behind else [whole]))


def swapped_halves(x: Any, y: Any) -> list[Any]:
    """As in a rotary embedding."""
    half = (*x.shape[:-1], x.shape[-1] // 2)
    ones, start = (1,) * len(half), (*(0,) * (len(half) - 1), half[-1])
    return [e.neg(slice_(x, start=start, size=half, step=ones)) * slice_(
        y, start=(0,) * len(half), size=half, step=ones), slice_(
        x, start=(0,) * len(half), size=half, step=ones)]  # fmt: skip


CASES: dict[str, tuple[Parts, str, int]] = {
    "columns": (lambda x, y: [e.exp(x), x * y, y, e.tanh(x * y)], "f32[5,9]", 1),
    "rows": (lambda x, y: [e.exp(x), e.tanh(x) + y], "f32[5,9]", 0),
    "middle": (lambda x, y: [x - y, y - x, x], "f32[3,4,17]", 1),
    "halves": (swapped_halves, "f32[3,16]", 1),
    "turned": (lambda x, y: [transpose(v, permutation=(1, 0)) * 2 for v in (x, y)], "f32[9,5]", 1),
    "softmax": (lambda x, y: [composite.softmax(x, axis=1), y], "f32[4,24]", 1),
    "means": (
        lambda x, y: [x - reduce.spread(reduce.sum(x, axes=(1,)), (1,), x.shape), y],
        "f32[4,24]", 0,
    ),
    "empty": (lambda x, y: [e.exp(x), y], "f32[0,3]", 1),
    "twice": (lambda x, y: [x * y, x * y], "f32[4,8]", 1),
}  # fmt: skip


def arrays(graph: graphc.Graph) -> list[Array]:
    random = np.random.default_rng(0)
    contents = [np.float32(random.standard_normal(type.shape)) for type in graph.input_types]
    for array in contents:
        array.flat[:1] = np.nan
        array.flat[-1:] = -0.0
    return contents


@pytest.mark.sampled(6)
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_joined_values_have_the_bits_of_the_reference(case: str, behind: bool) -> None:
    graph = joined(*CASES[case], behind=behind)
    inputs = arrays(graph)
    alone = graphc.compile(graph, "none")(*inputs)
    for got, want in zip(graphc.compile(graph)(*inputs), alone, strict=True):
        np.testing.assert_array_equal(got, want)
    for got, want in zip(alone, graphc.run(graph, *inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_parts_of_a_large_value_are_the_same_on_several_threads(threads: int) -> None:
    graph = joined(CASES["columns"][0], "f32[700,700]", 1)
    inputs = arrays(graph)
    (got,) = graphc.compile(graph, threads=threads)(*inputs)
    (want,) = graphc.compile(graph, "none", threads=1)(*inputs)
    np.testing.assert_array_equal(got, want)


def launches(graph: graphc.Graph) -> list[Launch]:
    return [step for step in plan_graph(graph)[1].steps if isinstance(step, Launch)]


@pytest.mark.parametrize("case", ["columns", "rows", "middle", "halves", "turned"])
def test_one_kernel_computes_and_stores_all_parts(case: str) -> None:
    (launch,) = launches(joined(*CASES[case]))
    assert len(launch.writes) == 1


def test_gradient_of_gates_is_stored_by_the_kernel_that_computes_it() -> None:
    """As in the cell of an LSTM: the parts are not first stored by themselves."""
    g = graphc.GraphBuilder("gates")
    x, w = g.input("x", "f32[4,24]"), g.input("w", "f32[24,24]")
    gates = x @ w
    parts = [slice_(gates, start=(0, 8 * i), size=(4, 8), step=(1, 1)) for i in range(3)]
    out = e.sigmoid(parts[0]) * e.tanh(parts[1]) + parts[2] * parts[0]
    joint = graphc.joint(g.finish(out), ["w"])
    _, join, weight = launches(joint)
    assert "concat" in {node.op for node in join.kernel.body.nodes}
    # The result, and the gradient of all gates.
    assert {type.shape for type in join.kernel.body.output_types} == {(4, 8), (4, 24)}
    assert len(join.writes) == 2 and join.writes[1] in weight.reads


def test_what_products_read_is_joined_once() -> None:
    g = graphc.GraphBuilder("products")
    x, y = g.input("x", "f32[4,8]"), g.input("y", "f32[4,16]")
    w, v = g.input("w", "f32[24,5]"), g.input("v", "f32[24,5]")
    both = concat(x, y, axis=1)
    bodies = [launch.kernel.body for launch in launches(g.finish(both @ w, both @ v))]
    assert [sum(node.op == "concat" for node in body.nodes) for body in bodies] == [1, 0, 0]


def test_an_input_is_not_overwritten_by_parts_that_read_it_elsewhere() -> None:
    """y = [x's second half, its first], written in place of x."""
    g = graphc.GraphBuilder("swap")
    x = g.input("x", "f32[4,8]")
    halves = [slice_(x, start=(0, a), size=(4, 4), step=(1, 1)) * 2 for a in (4, 0)]
    graph = g.finish(concat(*halves, axis=1), aliases=[(0, 0)])
    (before,) = arrays(graph)
    now = before.copy()
    graphc.compile(graph)(now)
    np.testing.assert_array_equal(now, np.hstack([before[:, 4:], before[:, :4]]) * 2)
