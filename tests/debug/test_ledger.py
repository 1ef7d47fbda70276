"""The ledger: which decisions are told, that they are those of the plan that runs, their forms."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphc
from graphc.autodiff.joint import derive_joint
from graphc.autodiff.partition import partition
from graphc.debug import ledger
from graphc.debug.cli import main
from graphc.debug.decisions import decisions, saved_between
from graphc.debug.graph_diff import graph_diff
from graphc.ir.builder import rebuilt
from graphc.ir.copying import copy_graph
from graphc.ir.nodes import BACKWARD, FORWARD, UPDATE, Graph, Location
from graphc.ops import composite, movement
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.passes.dead_code import dead_code
from graphc.passes.pipelines import within_saved_bytes
from graphc.passes.recorder import Recorder
from graphc.schedule import in_place, merging
from graphc.schedule.plan import kernels


def step() -> Graph:
    """A layer and a loss."""
    g = graphc.GraphBuilder("step")
    x, w = g.input("x", "f32[32,24]"), g.input("w", "f32[24,40]")
    with g.at(Location("model.py", 4, "forward", "fc")):
        y = e.tanh(x @ w)
    with g.at(Location("model.py", 5, "forward")):
        loss = r.sum(y * y, axes=(0, 1))
    return g.finish(loss)


def of_kind(entries: list[ledger.Decision], kind: str) -> list[ledger.Decision]:
    return [each for each in entries if each.kind == kind]


def updated(graph: Graph, by: str) -> Graph:
    """The step with its gradient and the update of `by`."""
    joint = graphc.joint(graph, wrt=[by])
    builder, inputs = rebuilt(joint)
    values = copy_graph(joint, inputs, builder.copied)
    loss, gradient = (values[output] for output in joint.outputs)
    position = joint.input_names.index(by)
    with builder.at(Location("train.py", 9, "step", by, UPDATE)):
        new = inputs[position] - gradient
    return builder.finish(loss, new, aliases=[(1, position)])


def test_the_plan_is_the_one_that_is_compiled() -> None:
    graph = updated(step(), "w")
    recorder = Recorder()
    decisions(graph, threads=1, recorder=recorder)
    executable = graphc.compile(graph, threads=1)
    assert recorder.plan == executable.plan
    assert recorder.passes[-1].after == executable.plan.graph


def test_the_plan_is_the_one_that_runs_on_threads() -> None:
    """Steps that are not split run concurrently: their order, and kernels' names, are others."""
    g = graphc.GraphBuilder("branches")
    inputs = g.input("x", "f32[2,16384]"), g.input("y", "f32[2,8192]")
    sums = [r.sum(e.tanh(inputs[i % 2] * float(i + 1)), axes=(0, 1)) for i in range(6)]
    graph = g.finish(*sums)
    for threads in (1, 2):
        executable = graphc.compile(graph, threads=threads)
        recorder = Recorder()
        entries = decisions(graph, threads=threads, recorder=recorder)
        assert recorder.plan == executable.plan
        names = list(kernels(executable.plan).values())
        assert [each.what for each in of_kind(entries, "strategy")] == names


def test_every_decision_says_where_and_why() -> None:
    entries = decisions(updated(step(), "w"), threads=2)
    assert {each.kind for each in entries} <= ledger.KINDS.keys()
    assert all(each.what and each.why for each in entries)
    (update,) = of_kind(entries, "in place")
    assert update.what == "%w" and update.location == Location("train.py", 9, "step", "w", UPDATE)
    products = [each for each in of_kind(entries, "strategy") if "matmul" in each.what]
    assert products and all(any("cost of" in name for name in p.numbers) for p in products)
    (weight,) = [each for each in of_kind(entries, "fused") if update.nodes[0] in each.nodes]
    assert weight.what.endswith("matmul, sub")
    assert weight.location == Location("model.py", 4, "forward", "fc", BACKWARD)
    assert {"rewritten", "not fused", "kept", "threads"} <= {each.kind for each in entries}


def test_a_refused_merge_names_the_condition_and_the_bytes() -> None:
    g = graphc.GraphBuilder("g")
    x, w, v = g.input("x", "f32[8,16]"), g.input("w", "f32[16,8]"), g.input("v", "f32[8,4]")
    graph = g.finish(e.tanh(x @ w) @ v)
    (edge,) = of_kind(decisions(graph), "not fused")
    assert edge.why == merging.OWN_ANCHOR and edge.numbers == {"bytes": 8 * 8 * 4}
    assert edge.location and edge.location.file == Path(__file__).name


@pytest.mark.parametrize("reason", ["returned", "later", "elsewhere"])
def test_an_update_that_is_copied_says_why(reason: str) -> None:
    g = graphc.GraphBuilder("g")
    w, x = g.input("w", "f32[8,8]"), g.input("x", "f32[8,8]")
    match reason:
        case "returned":
            new, outputs, why = w + 1.0, [w], in_place.RETURNED_TOO
        case "later":
            new = e.exp(w)
            outputs, why = [(new @ w) @ w], in_place.READ_LATER
        case _:
            new, outputs = x + movement.transpose(w, permutation=(1, 0)), []
            why = in_place.READ_ELSEWHERE
    graph = g.finish(new, *outputs, aliases=[(0, 0)])
    (update,) = of_kind(decisions(graph), "not in place")
    assert update.why == why and update.what == "%w"


def test_decisions_inside_of_loops_say_in_which() -> None:
    graph = graphc.parse("""
        graph g(%h: f32[2,3], %xs: f32[5,2,3], %w: f32[3,3]) {
          %1 = scan(%h, %xs, %w) carry=1 length=5 reverse=false sequences=1
            graph body(%h: f32[2,3], %x: f32[2,3], %w: f32[3,3]) {
              %1 = matmul(%h, %w) : f32[2,3]  // cell.py:3 in cell
              %2 = add(%1, %x) : f32[2,3]  // cell.py:3 in cell
              return %2
            } : f32[2,3]  // cell.py:9 in run
          return %1
        }""")
    entries = decisions(graph, threads=1)
    inside = [each for each in entries if each.within]
    assert {each.within for each in inside} == {"%3 body"}
    assert {str(each.location) for each in inside} == {"cell.py:3 in cell"}
    assert {"fused", "strategy"} <= {each.kind for each in inside}


def test_the_text_sums_up_what_is_said_again_and_again() -> None:
    place = Location("model.py", 3)
    many = [
        ledger.Decision("kept", f"add %{n}", "why", place, (n,), {"bytes": 8}) for n in range(3)
    ]
    one = ledger.Decision("check", "index", "why")
    lines = list(ledger.text([one, *many]))
    assert lines[1] == "  3 times: add %0: why (bytes 8)  // model.py:3"
    assert [line.partition(" (")[0] for line in lines[::2]] == ["kept", "check"]


# -- commands --------------------------------------------------------------------------------------

FILE = """
import graphc
from graphc.ops.elementwise import relu
g = graphc.GraphBuilder("one")
x, w = g.input("x", "f32[4,8]"), g.input("w", "f32[8,8]")
one = g.finish(relu(x @ w))
g = graphc.GraphBuilder("two")
x, w = g.input("x", "f32[4,8]"), g.input("w", "f32[8,8]")
two = g.finish(relu(x @ w) @ w)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "made.py").write_text(FILE, "utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_ledger_on_the_command_line(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ledger", "made.py:one"]) == 0
    assert "fused (1): nodes are computed by one kernel" in capsys.readouterr().out
    assert main(["ledger", "made.py:two", "--json", "--kind", "not fused"]) == 0
    (edge,) = json.loads(capsys.readouterr().out)["decisions"]
    assert edge["kind"] == "not fused" and edge["location"]["line"] == 9
    assert main(["ledger", "made.py:two", "--kind", "guessed"]) == 2
    assert "no decision is called 'guessed'" in capsys.readouterr().err


# -- graphs ----------------------------------------------------------------------------------------


def test_dead_code_that_removes_many_nodes_shows_as_many_lines() -> None:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[4]")
    dead = x
    for number in range(65):
        dead = e.tanh(dead) if number % 2 else e.exp(dead)
    graph = g.finish(e.tanh(x) * 2.0)
    lines = graph_diff(graph, dead_code(graph))
    assert len(lines) == 65 and all(line.startswith("- ") for line in lines)
    assert graph_diff(graph, graph) == []


def test_what_a_pass_adds_and_takes_is_told_by_meaning() -> None:
    before = graphc.parse("""
        graph g(%x: f32[2]) {
          %9 = exp(%x) : f32[2]  // m.py:1
          %3 = neg(%9) : f32[2]  // m.py:2
          return %3
        }""")
    after = graphc.parse("""
        graph g(%x: f32[2]) {
          %1 = exp(%x) : f32[2]  // m.py:1
          %2 = abs(%1) : f32[2]  // m.py:2
          return %2
        }""")
    assert graph_diff(before, after) == ["- neg : f32[2]  // m.py:2", "+ abs : f32[2]  // m.py:2"]


# -- what forward keeps ----------------------------------------------------------------------------


def test_what_is_saved_for_backward_and_what_is_computed_again() -> None:
    g = graphc.GraphBuilder("g")
    x, w = g.input("x", "f32[8,16]"), g.input("w", "f32[16,8]")
    with g.at(Location("model.py", 3, "forward")):
        y = e.exp(x @ w)
    with g.at(Location("model.py", 4, "forward")):
        z = (y + 1.0) * y
    joint = derive_joint(g.finish(z))
    parts = partition(joint)
    kept = saved_between(parts.forward, parts.backward, joint.outputs)
    saved, again = (of_kind(kept, kind) for kind in ("saved", "recomputed"))
    assert sum(each.numbers["bytes"] for each in saved) == parts.saved_bytes == 8 * 8 * 4
    assert [each.what.partition(" ")[0] for each in saved] == ["exp"]
    assert {str(each.location) for each in again} == {"model.py:4 in forward"}


def test_a_whole_step_within_a_budget_says_so_too() -> None:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[64]")
    with g.at(Location("model.py", 3, "forward")):
        y = e.exp(e.sin(e.exp(x)))
    graph = g.finish(r.sum(y, axes=(0,)))
    joint = graphc.joint(graph)
    start = next(i for i, n in enumerate(joint.nodes) if n.location and n.location.phase != FORWARD)
    fitted, _ = within_saved_bytes(joint, [(start, len(joint.nodes))], 0)
    again = of_kind(decisions(fitted, lowered=False), "recomputed")
    assert {each.what.partition(" ")[0] for each in again} == {"exp", "sin"}
    assert not of_kind(decisions(joint, lowered=False), "recomputed")


# -- what rounds differently -----------------------------------------------------------------------


def test_each_place_where_rounding_may_differ_is_listed() -> None:
    g = graphc.GraphBuilder("g")
    q, k, v = (g.input(name, "f32[2,2,8,16]") for name in "qkv")
    with g.at(Location("model.py", 3, "forward", "attn")):
        weights = composite.softmax(q @ movement.transpose(k, permutation=(0, 1, 3, 2)), axis=3)
        y = weights @ v
    graph = g.finish(y)
    exact, relaxed = (
        [d for d in decisions(graph, level, lowered=False) if "level relaxed" in d.why]
        for level in ("exact", "relaxed")
    )
    assert not exact
    (attention,) = relaxed
    assert attention.what.startswith("attention ") and str(attention.location).endswith("[attn]")
