"""Expansion of composites: nesting, locations, checks of content."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest

from graphc.errors import IndexRangeError
from graphc.ir.builder import GraphBuilder
from graphc.ir.nodes import Graph, Location
from graphc.ir.parser import parse
from graphc.ir.registry import lookup
from graphc.ir.verifier import verify
from graphc.ops.composite import var
from graphc.ops.interpreter import run
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import Types
from graphc.passes.decompose import decompose, decompose_to_recipes

HERE = Location("model.py", 12, "forward")


def test_a_composite_becomes_its_definition() -> None:
    before = parse("""
        graph g(%x: f32[3,5]) {
          %1 = mean(%x) axes=[1] : f32[3]
          %2 = neg(%1) : f32[3]
          return %2
        }""")
    expected = parse("""
        graph g(%x: f32[3,5]) {
          %1 = sum(%x) axes=[1] : f32[3]
          %2 = constant f32[] [5.0]
          %3 = broadcast(%2) shape=[3] : f32[3]
          %4 = div(%1, %3) : f32[3]
          %5 = neg(%4) : f32[3]
          return %5
        }""")
    assert verify(decompose(before)) == expected


def test_composites_with_a_kernel_of_their_own_stay_where_it_pays() -> None:
    text = """
        graph g(%q: f32[2,ROWS,3], %k: f32[2,7,3]) {
          %2 = attention(%q, %k, %k) causal=false scale=1.0 : f32[2,ROWS,3], f32[2,ROWS]
          %3 = mean(%2.1) axes=[1] : f32[2]
          return %2, %3
        }"""
    for rows, stays in ((5, True), (1, False), (0, False)):
        graph = parse(text.replace("ROWS", str(rows)))
        left = {node.op for node in verify(decompose_to_recipes(graph)).nodes}
        assert ("attention" in left, "mean" in left) == (stays, False)
        assert "attention" not in {node.op for node in decompose(graph).nodes}


def test_composites_inside_composites_are_expanded_and_keep_the_outer_location() -> None:
    builder = GraphBuilder()
    x, w = builder.input("x", "f32[4,6]"), builder.input("w", "f32[6]")
    with builder.at(HERE):
        y = lookup("layer_norm")(x, w, w)
        z = lookup("layer_norm")(y, w, w)
    after = verify(decompose(builder.finish(z)))
    assert {lookup(node.op).kind for node in after.nodes if node.operands}.isdisjoint({"composite"})
    nodes = [node for node in after.nodes if node.op != "input"]
    assert len(nodes) > 20
    assert {node.location for node in nodes} == {HERE}


def test_the_check_of_a_composite_stays() -> None:
    graph = decompose(
        parse("""
        graph g(%x: i64[3]) {
          %1 = one_hot(%x) classes=4 : i64[3,4]
          return %1
        }""")
    )
    assert [node.op for node in graph.nodes if node.op == "check_index"] == ["check_index"]
    assert (run(graph, np.array([0, 3, 1]))[0] == np.eye(4, dtype=np.int64)[[0, 3, 1]]).all()
    with pytest.raises(IndexRangeError, match="class values must be below classes: 4"):
        run(graph, np.array([0, 4, 1]))


def test_a_definition_that_its_op_drops_stays_while_its_expansion_is_looked_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is looked up by identity: another graph must not get that."""
    made: list[Graph] = []

    def definition(op: Composite, types: Types, attributes: dict[str, Any]) -> Graph:
        dropped = [graph for graph in made if sys.getrefcount(graph) <= 3]
        assert not dropped, "held by this test alone"
        builder = GraphBuilder(op.name)
        inputs = [builder.input(f"x{i}", type) for i, type in enumerate(types)]
        graph = builder.finish(op.define(*inputs, **attributes))
        if sys._getframe(1).f_code.co_name != "infer":
            made.append(graph)
        return graph

    builder = GraphBuilder("g")
    inputs = [builder.input(f"x{rows}", f"f32[{rows},5]") for rows in range(2, 6)]
    before = builder.finish(*(var(x, axes=(1,)) for x in inputs))
    monkeypatch.setattr(Composite, "definition", definition)
    decompose(before)
    assert len(made) > len(inputs)
