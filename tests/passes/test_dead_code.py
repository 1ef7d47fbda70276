"""Dead-code elimination: what goes, what stays."""

from __future__ import annotations

from graphc.ir.parser import parse
from graphc.ir.verifier import verify
from graphc.passes.dead_code import dead_code


def test_nodes_without_a_path_to_an_output_go() -> None:
    before = parse("""
        graph g(%x: f32[2]) {
          %1 = exp(%x) : f32[2]
          %2 = neg(%x) : f32[2]
          %3 = add(%1, %2) : f32[2]
          return %2
        }""")
    expected = parse("""
        graph g(%x: f32[2]) {
          %1 = neg(%x) : f32[2]
          return %1
        }""")
    assert verify(dead_code(before)) == expected


def test_inputs_stay_with_their_aliases() -> None:
    graph = parse("""
        graph g(%x: f32[2], %unused: f32[], %y: f32[2]) {
          %1 = exp(%x) : f32[2]
          %2 = neg(%y) : f32[2]
          return %2 -> %y
        }""")
    after = verify(dead_code(graph))
    assert after.input_names == ("x", "unused", "y")
    assert after.aliases == ((0, 2),)
    assert len(after.nodes) == 4


def test_all_results_of_a_node_stay_while_one_is_read() -> None:
    graph = parse("""
        graph g(%s: i64[2]) {
          %1 = random_uniform(%s) dtype=f32 shape=[3] : f32[3], i64[2]
          return %1.1
        }""")
    assert dead_code(graph) == graph


def test_a_graph_without_outputs_keeps_its_inputs() -> None:
    graph = parse("graph g(%x: f32[2]) { %1 = exp(%x) : f32[2] return }")
    assert [node.op for node in dead_code(graph).nodes] == ["input"]


def test_what_a_rewrite_replaced_stays_for_dead_code() -> None:
    # -- declaration
    import graphc
    from graphc.passes.dead_code import dead_code
    from graphc.passes.simplify import simplify

    before = graphc.parse("""
        graph difference(%x: f32[2,3], %y: f32[2,3]) {
          %one = constant f32[2,3] splat 1.0
          %scaled = mul(%x, %one) : f32[2,3]
          %minus = neg(%y) : f32[2,3]
          %sum = add(%scaled, %minus) : f32[2,3]
          return %sum
        }""")
    after = graphc.parse("""
        graph difference(%x: f32[2,3], %y: f32[2,3]) {
          %z = sub(%x, %y) : f32[2,3]
          return %z
        }""")
    simpler = simplify(before)  # the constant and the neg are still there, without users
    assert simpler != after
    assert dead_code(simpler) == after
    # -- end
    assert [node.op for node in simpler.nodes[2:]] == ["constant", "neg", "sub"]
