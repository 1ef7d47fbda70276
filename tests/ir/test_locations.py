"""Where nodes stem from: lines, modules, phases; their text, and what keeps it."""

from __future__ import annotations

import pytest

import graphc
from graphc.ir.nodes import BACKWARD, UPDATE, Location
from graphc.ops import elementwise as e
from graphc.records import replace
from graphc.schedule.build import plan_graph
from graphc.schedule.plan import Launch

LOCATIONS = {
    "model.py:12": Location("/project/model.py", 12),
    "model.py:12 in forward": Location("model.py", 12, "forward"),
    "model.py:12 in <lambda> [blocks.0]": Location("a/model.py", 12, "<lambda>", "blocks.0"),
    "model.py:12 in forward backward": Location("model.py", 12, "forward", "", BACKWARD),
    "train.py:3 in step [head.weight] update": Location(
        "c:\\code\\train.py", 3, "step", "head.weight", UPDATE
    ),
    "[blocks.0.attn]": Location("", 0, "", "blocks.0.attn"),
    "[blocks.0] backward": Location("", 0, "", "blocks.0", BACKWARD),
    "a name in a file:7": Location("a name in a file", 7),
    "<stdin>:1 in <module>": Location("<stdin>", 1, "<module>"),
}  # fmt: skip


@pytest.mark.parametrize("text", LOCATIONS)
def test_the_text_of_a_location_is_read_back(text: str) -> None:
    location = LOCATIONS[text]
    assert str(location) == text
    assert Location.parse(text) == replace(location, path=location.file)


@pytest.mark.parametrize(
    "text", ["", "model.py", "no location", "x" + ":1" * 3000 + " ", "x:" + "1" * 5000]
)
def test_other_texts_are_none(text: str) -> None:
    assert Location.parse(text) is None


def test_a_file_of_any_name_stays_on_its_line() -> None:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[2]")
    with g.at(Location("a\n}\nb.py", 3)):
        y = e.neg(x)
    graph = g.finish(y)
    assert graphc.parse(str(graph)) == graph


def test_parse_keeps_locations_also_in_regions_and_of_constants() -> None:
    text = """
        graph g(%x: f32[2], %p: bool[]) {
          %1 = constant f32[2] splat 1.0  // model.py:3 in forward [fc]
          %2 = cond(%p, %x, %1) graph a(%x0: f32[2], %x1: f32[2]) {
            %9 = add(%x0, %x1) : f32[2]  // model.py:5 in then
            return %9
          } graph b(%x0: f32[2], %x1: f32[2]) {
            // this line says nothing of a node
            return %x0
          } : f32[2]  // model.py:4 in forward [fc] backward
          %3 = neg(%2) : f32[2]  // and this is no location
          %4 = neg(%3) : f32[2]
          // other.py:1
          return %4
        }"""
    graph = graphc.parse(text)
    constant, branch, first, second = graph.nodes[2:]
    assert constant.location == Location("model.py", 3, "forward", "fc")
    assert branch.location == Location("model.py", 4, "forward", "fc", BACKWARD)
    assert branch.regions[0].nodes[2].location == Location("model.py", 5, "then")
    assert first.location is None and second.location is None
    assert str(graphc.parse(str(graph))) == str(graph)


def test_gradients_carry_the_line_of_what_they_are_of_and_say_so() -> None:
    g = graphc.GraphBuilder("g")
    x, w = g.input("x", "f32[2,3]"), g.input("w", "f32[3,4]")
    with g.at(Location("model.py", 3, "forward", "fc")):
        y = x @ w
    with g.at(Location("model.py", 4, "forward")):
        loss = graphc.ops.reduce.sum(e.tanh(y), axes=(0, 1))
    joint = graphc.joint(g.finish(loss), wrt=["w"])
    added = joint.nodes[5:]
    products = [n.location for n in joint.nodes if n.op == "matmul"]
    assert products == [
        Location("model.py", 3, "forward", "fc"), Location("model.py", 3, "forward", "fc", BACKWARD)
    ]  # fmt: skip
    assert all(node.location and node.location.phase == BACKWARD for node in added)


def test_a_launch_knows_its_nodes_and_a_fused_one_all_its_lines() -> None:
    g = graphc.GraphBuilder("g")
    x, w = g.input("x", "f32[2,3]"), g.input("w", "f32[3,4]")
    with g.at(Location("model.py", 3, "forward", "fc", BACKWARD)):
        gradient = graphc.ops.movement.transpose(x, permutation=(1, 0)) @ (x @ w)
    with g.at(Location("train.py", 9, "step", "fc.weight", UPDATE)):
        new = w - gradient
    graph = g.finish(new, aliases=[(0, 1)])
    _, plan = plan_graph(graph)
    assert plan.graph is not None
    *_, last = plan.steps
    assert isinstance(last, Launch)
    ops = [plan.graph.nodes[node].op for node in last.nodes]
    assert ops == [node.op for node in last.kernel.body.nodes[len(last.reads) :]]
    assert "matmul" in ops and "sub" in ops
    shown = "model.py:3 in forward [fc] backward; train.py:9 in step [fc.weight] update"
    assert str(plan).splitlines()[-3].endswith(shown)
