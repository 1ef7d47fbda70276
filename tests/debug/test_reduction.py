"""Reduction: what is left is small, still fails, and is always a graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from graphc.debug.reduction import reduced, size_of
from graphc.debug.reduction_check import CommandCheck
from graphc.errors import ArgumentError
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ir.verifier import verify
from graphc.ops.elementwise import exp, relu, tanh
from graphc.ops.reduce import sum


def ops_of(graph: Graph) -> list[str]:
    """All ops, those inside of loops too."""
    ops = []
    for node in graph.nodes:
        if node.op not in (INPUT, CONSTANT):
            ops.append(node.op)
        for region in node.regions:
            ops += ops_of(region)
    return ops


def has(*names: str) -> Any:
    return lambda graph: set(names) <= set(ops_of(verify(graph)))


def wide() -> Graph:
    g = graphc.GraphBuilder("wide")
    x, w, state = g.input("x", "f32[6,8]"), g.input("w", "f32[8,10]"), g.input("s", "f32[6,10]")
    y = relu(x @ w)
    z = exp(y * 0.5) + state
    return g.finish(sum(z, axes=(1,)), tanh(y), z, aliases=[(2, 2)])


def test_one_op_of_many_is_left_alone_with_one_element() -> None:
    for name in ("matmul", "relu", "exp", "sum", "tanh"):
        small = reduced(wide(), has(name))
        assert ops_of(small) == [name] and len(small.outputs) == 1
        assert all(dim == 1 for type in small.output_types for dim in type.shape)


def test_two_ops_keep_the_way_between_them() -> None:
    def follows(graph: Graph) -> bool:
        verify(graph)
        users = graph.users()
        return any(
            graph.nodes[user].op == "exp"
            for value, readers in users.items()
            for user in readers
            if graph.nodes[value.node].op == "mul"
        )

    assert ops_of(reduced(wide(), follows)) == ["mul", "exp"]


def test_an_update_stays_where_the_check_needs_it() -> None:
    small = reduced(wide(), lambda graph: bool(verify(graph).aliases))
    assert len(small.outputs) == 1 and small.aliases == ((0, 0),)


def test_what_fails_by_its_numbers_is_kept_failing() -> None:
    """A check that runs the graph: an exponential that overflows for arguments above 88."""
    g = graphc.GraphBuilder("overflow")
    x = g.input("x", "f32[5]")
    graph = g.finish(sum(exp(relu(x) + 90.0) * 2.0, axes=(0,)), tanh(x))

    def fails(candidate: Graph) -> bool:
        arrays = [np.zeros(t.shape, t.dtype.numpy) for t in candidate.input_types]
        return any(not np.isfinite(y).all() for y in graphc.run(candidate, *arrays))

    small = reduced(graph, fails)
    assert fails(small) and len(ops_of(small)) <= 2 and size_of(small) < size_of(graph)


def test_loops_are_reduced_inside() -> None:
    def looped(x: Any, w: Any) -> Any:
        def turn(h: Any, row: Any) -> Any:
            h = torch.tanh(h @ w + row).exp() * 0.5
            return h, h * 2

        return torch.scan(turn, x[0], x)[1]

    graph = torch.trace(looped, torch.zeros(4, 3, 3), torch.zeros(3, 3))
    small = reduced(graph, has("scan", "tanh"))
    assert set(ops_of(small)) == {"scan", "tanh"} and len(ops_of(small)) == 2
    assert size_of(small) < size_of(graph)


def test_progress_is_told_with_graphs_that_fail() -> None:
    seen: list[Graph] = []
    small = reduced(wide(), has("exp"), seen.append)
    assert seen and seen[-1] == small and all(has("exp")(graph) for graph in seen)
    sizes = [size_of(graph) for graph in seen]
    assert sizes == sorted(sizes, reverse=True)


def test_a_command_fails_by_the_exit_code_of_the_whole_graph() -> None:
    with CommandCheck("sh -c 'grep -q exp {} && exit 3; grep -q tanh {} && exit 4'", 20) as check:
        check.begin(wide())
        assert not check.fails(reduced(wide(), has("tanh")))  # another failure
        assert check.fails(reduced(wide(), has("exp"))) and check.runs == 3
    with pytest.raises(ArgumentError, match=r"takes more than 0\.2 s"):
        with CommandCheck("sh -c 'sleep 5'", 0.2) as check:
            check.begin(wide())
