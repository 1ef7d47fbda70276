"""What a recorder notes: passes, what became of nodes, rules that fired; and how it holds them."""

from __future__ import annotations

import graphc
from graphc.ir.nodes import Location
from graphc.passes.pipelines import LEVELS, optimize
from graphc.passes.recorder import PassRecord, Recorder
from graphc.schedule.build import plan_graph

TEXT = """
    graph g(%x: f32[2,3], %y: f32[2,3]) {
      %dead = exp(%y) : f32[2,3]
      %1 = transpose(%x) permutation=[1, 0] : f32[3,2]  // model.py:3 in forward
      %2 = transpose(%1) permutation=[1, 0] : f32[2,3]  // model.py:4 in forward
      %3 = add(%2, %y) : f32[2,3]
      %4 = add(%y, %2) : f32[2,3]  // model.py:6 in forward
      %5 = mul(%3, %4) : f32[2,3]
      return %5
    }"""


def test_each_pass_has_its_graphs_and_what_became_of_nodes() -> None:
    graph = graphc.parse(TEXT)
    recorder = Recorder()
    after = optimize(graph, "exact", recorder)
    assert [each.name for each in recorder.passes] == [each.name for each in LEVELS["exact"]]
    assert recorder.passes[0].before is graph and recorder.passes[-1].after is after
    for one, two in zip(recorder.passes, recorder.passes[1:]):
        assert one.after is two.before
    dead = recorder.passes[0]
    assert 2 not in dead.became and dead.became[3] == (2,)
    canonical = next(each for each in recorder.passes if each.name == "canonicalize")
    # Both transposes are the input again, and the two sums one node.
    ops = {i: canonical.before.nodes[i].op for i in canonical.became}
    new = {i: [canonical.after.nodes[n].op for n in canonical.became[i]] for i in ops}
    assert [new[i] for i in ops if ops[i] == "add"] == [["add"], ["add"]]
    assert len({canonical.became[i] for i in ops if ops[i] == "add"}) == 1
    assert ["input"] in [new[i] for i in ops if ops[i] == "transpose"]


def test_each_firing_has_its_rule_its_line_and_both_texts() -> None:
    recorder = Recorder()
    optimize(graphc.parse(TEXT), "exact", recorder)
    fired = [firing for each in recorder.passes for firing in each.firings]
    assert [firing.number for firing in fired] == list(range(recorder.fired))
    turned = next(firing for firing in fired if "transpose" in firing.rule)
    assert turned.location == Location("model.py", 4, "forward")
    before, after = turned.texts()
    assert before.count("transpose(") == 2 and after.count("transpose(") == 1
    assert any(firing.rule == "equal nodes are one" for firing in fired)


def test_a_limit_holds_the_rules_that_would_fire_later() -> None:
    graph = graphc.parse(TEXT)
    everything = Recorder()
    wanted = optimize(graph, "exact", everything)
    sizes = []
    for limit in range(everything.fired + 1):
        recorder = Recorder(limit)
        after = optimize(graph, "exact", recorder)
        assert recorder.fired == limit
        sizes.append(len(after.nodes))
    assert after == wanted and sizes[0] > sizes[-1]
    assert sizes == sorted(sizes, reverse=True)


def test_what_is_scheduled_is_recorded_too() -> None:
    seen: list[str] = []

    class Watching(Recorder):
        def passed(self, record: PassRecord) -> None:
            seen.append(record.name)

    recorder = Watching()
    _, plan = plan_graph(graphc.parse(TEXT), "exact", recorder)
    assert seen == [each.name for each in recorder.passes]
    assert seen[-2:] == ["output_layouts", "content_checks"]
    assert recorder.plan is plan and recorder.passes[-1].after is plan.graph


def test_without_a_recorder_nothing_is_noted_even_inside_of_another() -> None:
    class Nesting(Recorder):
        def passed(self, record: PassRecord) -> None:
            optimize(graphc.parse(TEXT))

    recorder = Nesting()
    optimize(graphc.parse(TEXT), "exact", recorder)
    assert len(recorder.passes) == len(LEVELS["exact"])


def test_what_becomes_of_loops_is_told_too() -> None:
    graph = graphc.parse("""
        graph g(%h: f32[2,3], %xs: f32[5,2,3], %w: f32[3,3]) {
          %1 = exp(%w) : f32[3,3]
          %2 = scan(%h, %xs, %w) carry=1 length=5 reverse=false sequences=1
            graph body(%h: f32[2,3], %x: f32[2,3], %w: f32[3,3]) {
              %1 = transpose(%w) permutation=[1, 0] : f32[3,3]
              %2 = matmul(%h, %1) : f32[2,3]
              %3 = add(%2, %x) : f32[2,3]
              return %3
            } : f32[2,3]
          return %2
        }""")
    recorder = Recorder()
    optimize(graph, "exact", recorder)
    hoisted = next(each for each in recorder.passes if each.name == "simplify_regions")
    (scan,) = (i for i, node in enumerate(hoisted.before.nodes) if node.op == "scan")
    (new,) = hoisted.became[scan]
    assert hoisted.after.nodes[new].op == "scan" and new > scan
