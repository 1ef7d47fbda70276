"""Copies of nodes: what is replaced, what a reader reads, the order nodes stand in."""

from __future__ import annotations

import graphc
from graphc.ir.copying import copy_graph, copy_nodes, extract, inlined, replayed
from graphc.ir.draft import Draft, Values
from graphc.ir.nodes import Graph, Node, Value
from graphc.ir.parser import parse


def diamond() -> Graph:
    return parse("""
        graph g(%x: f32[2], %y: f32[2]) {
          %2 = exp(%x) : f32[2]
          %3 = neg(%2) : f32[2]
          %4 = mul(%2, %y) : f32[2]
          %5 = add(%3, %4) : f32[2]
          return %5, %4 -> %y
        }""")


def test_a_copy_in_a_builder_is_the_same_graph() -> None:
    graph = diamond()
    g = graphc.GraphBuilder("g")
    inputs = [g.input(name, type) for name, type in zip(graph.input_names, graph.input_types)]
    values = copy_graph(graph, inputs, g.copied)
    assert g.finish(*(values[v] for v in graph.outputs), aliases=graph.aliases) == graph


def test_a_replaced_value_is_read_by_the_copies() -> None:
    graph = diamond()
    g = graphc.GraphBuilder("g")
    x, y, other = (g.input(name, "f32[2]") for name in ("x", "y", "other"))
    values = {Value(0): x, Value(1): y, Value(2): other}
    copy_nodes(graph.nodes, [3, 4, 5], values, g.copied)
    assert values[Value(2)] is other
    assert g.finish(values[Value(5)]) == parse(
        """
        graph g(%x: f32[2], %y: f32[2], %o: f32[2]) {
          %3 = neg(%o) : f32[2]
          %4 = mul(%o, %y) : f32[2]
          %5 = add(%3, %4) : f32[2]
          return %5
        }""".replace("%o", "%other")
    )


def test_a_reader_may_read_something_else() -> None:
    graph, draft = diamond(), Draft()
    values: dict[Value, Value] = {}

    def read(value: Value, reader: int) -> Value:
        return values[Value(1)] if (value, reader) == (Value(2), 3) else values[value]

    copy_nodes(graph.nodes, range(6), values, draft.add_moved, read)
    assert [node.operands for node in draft.nodes[3:5]] == [
        (Value(1),), (Value(2), Value(1)),
    ]  # fmt: skip


def test_replayed_skips_what_is_not_live_and_keeps_inputs() -> None:
    graph = diamond()
    draft = Draft()
    part = Graph("g", graph.nodes, (Value(3),))

    def visit(node: Node, operands: Values) -> Values:
        return draft.add_moved(node, operands)

    after = replayed(part, draft, visit, {0, 2, 3})
    assert [node.op for node in after.nodes] == ["input", "input", "exp", "neg"]


def test_inlined_nodes_and_their_regions() -> None:
    inner = parse("""
        graph b(%a: f32[2]) {
          %1 = neg(%a) : f32[2]
          return %1
        }""")
    g = graphc.GraphBuilder("outer")
    predicate, x = g.input("p", "bool[]"), g.input("x", "f32[2]")
    graph = g.finish(graphc.ops.cond(predicate, x, then=inner, otherwise=inner))
    draft = Draft()
    values = tuple(draft.add(node)[0] for node in graph.nodes[:2])
    assert draft.graph("outer", inlined(graph, draft, values)) == graph


def test_what_is_not_late_stands_just_before_what_needs_it() -> None:
    graph = parse("""
        graph g(%x: f32[2], %c: f32[2]) {
          %2 = exp(%x) : f32[2]
          %3 = neg(%x) : f32[2]
          %4 = mul(%c, %3) : f32[2]
          %5 = mul(%4, %2) : f32[2]
          return %5
        }""")
    part = extract(graph, "part", [Value(0), Value(1)], [Value(5)], late={4, 5})
    assert [node.op for node in part.nodes[2:]] == ["neg", "mul", "exp", "mul"]
