"""Ladders: what the rungs compute and count, never how long something took."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from dataclasses import fields
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import frontend as torch
import graphc
from frontend import nn, optim
from graphc.debug.cli import main
from graphc.debug.compare import ladder as ladders
from graphc.debug.compare import worker
from graphc.debug.compare.op_kernels_plan import is_view, op_number, plan_of_ops
from graphc.debug.compare.phase_parts import CallsInTurn, phase_parts
from graphc.debug.compare.rung_compiler import RungCompiler
from graphc.debug.compare.rungs import rungs
from graphc.debug.compare.svg import svg, time_text
from graphc.debug.compare.text import table
from graphc.debug.dump_files import drawn
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.passes.pipelines import optimize
from graphc.schedule.plan import Launch

ROOT = Path(__file__).parents[2]


class Net(nn.Module):
    """A convolution, a normalisation with state of its own, a linear layer."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.head = nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.Linear(12, 4)

    def forward(self, x: Any) -> Any:
        return self.head(torch.relu(self.norm(self.conv(x))).flatten(1))


@pytest.fixture(scope="module")
def step() -> Any:
    torch.manual_seed(0)
    net = Net()
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)

    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.fixture(scope="module")
def graph(step: Any) -> Graph:
    images, labels = torch.randn(5, 1, 4, 4), torch.tensor([0, 1, 2, 3, 0])
    return torch.trace(step, images, labels)  # type: ignore[no-any-return]


@pytest.fixture(scope="module")
def expected(graph: Graph) -> Any:
    return graphc.compile(graph, threads=1)(*drawn(graph))


# -- parts -----------------------------------------------------------------------------------------


def test_a_step_is_a_forward_a_backward_and_an_update(graph: Graph) -> None:
    parts = phase_parts(graph)
    assert [part.graph.name for part in parts] == [
        "step_forward", "step_backward", "step_update",
    ]  # fmt: skip
    told = [{n.location.phase for n in part.graph.nodes if n.location} for part in parts]
    assert "update" in told[2] and "update" not in told[0] | told[1] and "backward" in told[1]
    assert sorted(p for part in parts for p in part.positions) == list(range(len(graph.outputs)))


def test_parts_in_turn_give_the_bits_of_the_whole(
    graph: Graph, expected: Any, same_bits: Any
) -> None:
    arrays = drawn(graph)
    parts = phase_parts(graph)
    runs = [graphc.compile(part.graph, threads=1).run for part in parts]
    outputs = CallsInTurn(graph, parts, runs).run(list(arrays))
    same_bits(outputs, expected)
    for output, target in graph.aliases:
        assert outputs[output] is arrays[target]


def test_an_input_that_is_read_later_is_updated_later(same_bits: Any) -> None:
    """Forward computes the new state, backward still reads the old one."""
    text = """graph g(%x: f32[3], %s: f32[3]) {
      %2 = add(%x, %s) : f32[3]
      %3 = mul(%2, %s) : f32[3]  // a.py:1 backward
      %4 = sub(%3, %s) : f32[3]  // a.py:2 update
      return %4, %2 -> %s
    }"""
    graph = graphc.parse(text)
    parts = phase_parts(graph)
    assert [part.positions for part in parts] == [(), (), (0, 1)]
    runs = [graphc.compile(part.graph, threads=1).run for part in parts]
    same_bits(CallsInTurn(graph, parts, runs).run(drawn(graph)), graphc.run(graph, *drawn(graph)))


def test_one_phase_is_one_part() -> None:
    graph = torch.trace(nn.Linear(3, 2), torch.zeros(4, 3))
    assert len(phase_parts(graph)) == 1


# -- a kernel for each op --------------------------------------------------------------------------


@pytest.mark.parametrize("passes", [False, True])
def test_ops_of_the_program_are_kernels_and_views_are_none(graph: Graph, passes: bool) -> None:
    optimised, plan = plan_of_ops(graph, passes)
    assert len(optimised.nodes) > len(graph.inputs)
    launches = [step for step in plan.steps if isinstance(step, Launch)]
    ops = [n for n in graph.nodes if n.op not in (INPUT, CONSTANT) and not is_view(n)]
    for launch in launches:
        nodes = [plan.graph.nodes[i] for i in launch.nodes]
        computing = {op_number(n) for n in nodes if n.op != CONSTANT and not is_view(n)}
        assert len(computing) <= 1, launch
    alone = [s for s in launches if all(n.op in VIEWS for n in s.kernel.body.nodes[1:])]
    # Results are arrays of their own: what a gradient is a view of is copied for that alone.
    assert len(alone) <= len(graph.outputs)
    unfused = [n for n in optimize(graph, "none").nodes if n.op not in (INPUT, CONSTANT)]
    assert len(launches) < len(unfused)
    if not passes:
        assert len(launches) <= 2 * len(ops)


VIEWS = {"transpose", "reshape", "broadcast", "slice"}


def test_all_compiled_rungs_give_the_same_bits(graph: Graph, expected: Any, same_bits: Any) -> None:
    for rung in rungs(2):
        if rung.compiled and rung.keep_grads:
            compiler = RungCompiler(rung)
            same_bits(compiler(graph).run(drawn(graph)), expected)
            facts = compiler.facts()
            assert facts["calls"] == (1 if rung.whole else 3) and facts["moved_bytes"] > 0


def test_loops_are_made_of_ops_too(same_bits: Any) -> None:
    def looped(x: Any, w: Any) -> Any:
        def turn(h: Any, row: Any) -> Any:
            h = torch.tanh(h @ w + row)
            return h, h * 2

        return torch.scan(turn, x[0], x)[1]

    graph = torch.trace(looped, torch.zeros(4, 3, 3), torch.zeros(3, 3))
    static, fused = (RungCompiler(rungs(1)[number]) for number in (3, 5))
    arrays = drawn(graph)
    same_bits(static(graph).run(list(arrays)), fused(graph).run(list(arrays)))
    assert static.facts()["launches"] > fused.facts()["launches"]


def test_each_rung_is_one_change() -> None:
    ladder = rungs(4)
    for before, after in pairwise(ladder):
        changed = [
            f.name for f in fields(after)
            if f.name not in ("name", "trains_only")
            and getattr(before, f.name) != getattr(after, f.name)
        ]  # fmt: skip
        # Recording is a change of many names: no backend, and nothing of what follows yet.
        assert len(changed) == 1 or after.name == "static graph", (after.name, changed)
    assert "threads" not in ladder[-2].name and ladder[-1].threads == 4
    assert len(rungs(1)) == len(ladder) - 1


# -- measuring -------------------------------------------------------------------------------------

STEP = """
from typing import Annotated, Any
import frontend as torch
from frontend import nn, optim

net = nn.Linear(6, 3)
optimizer = optim.SGD(net.parameters(), lr=0.1)
print("imported")

def step(x: Annotated[Any, "f32[4,6]"]) -> Any:
    loss = net(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


def test_each_rung_says_what_it_is_and_takes_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "train.py").write_text(STEP, "utf-8")
    monkeypatch.setattr(worker, "_stay_on", lambda processors: None)
    values, backend = {}, torch.get_eager_backend()
    for number, rung in enumerate(rungs(1)):
        said: list[dict[str, Any]] = []
        torch.manual_seed(0)
        task = worker.Task(f"{tmp_path / 'train.py'}:step", (), number, 1)
        try:
            worker.serve(worker.Task.parse(task.text()), io.StringIO("turn 0\n"), said.append)
        finally:
            torch.set_eager_backend(backend)
        facts, turn = said
        values[rung.name] = facts["value"]
        assert turn["steps"] == 2 and turn["min_us"] <= turn["median_us"]
        assert facts["launches"] > 0 and facts["allocated_bytes"] >= 0
        assert ("compile_s" in facts) == rung.compiled
    assert max(values.values()) - min(values.values()) <= 1e-5 * max(values.values()), values


def test_a_ladder_is_a_table_a_picture_and_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a graph, so that processes start fast; the first two rungs."""
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[8]")
    (tmp_path / "g.graph").write_text(str(g.finish(x * 2.0 + 1.0)), "utf-8")
    monkeypatch.setattr(ladders, "rungs", lambda processors: rungs(processors)[:2])
    monkeypatch.chdir(tmp_path)
    arguments = ["compare", "g.graph", "--rounds", "1", "--seconds", "0.001"]
    assert main([*arguments, "--json", "l.json", "--svg", "l.svg"]) == 0
    printed = capsys.readouterr().out
    assert "eager, NumPy" in printed and "figures in l.json" in printed
    figures = json.loads((tmp_path / "l.json").read_text("utf-8"))
    assert list(figures["rungs"]) == ["eager, NumPy", "+ freed memory kept"]
    assert figures["surroundings"]["blas"] and figures["wrong"] == []
    picture = (tmp_path / "l.svg").read_text("utf-8")
    assert picture == svg(figures) and picture.count("<rect") == 2


def test_what_is_off_or_disturbed_or_missing_is_told() -> None:
    around = {"processor": "<p>", "code_for": "x", "python": "3", "numpy": "2", "blas": "b"}
    rung = {
        "us": 100.0, "median_us": 101.0, "value": 1.0, "on_processor": 1.0, "launches": 3,
        "calls": 1, "first_s": 0.1, "arena_bytes": 0, "allocated_bytes": 10, "moved_bytes": 10,
    }  # fmt: skip
    ladder: dict[str, Any] = {
        "title": "a & b", "rounds": 2,
        "surroundings": around | {"load": 3.0, "load_after": 4.0},
        "rungs": {
            "one": dict(rung), "two": dict(rung, us=50.0, median_us=90.0),
            "three": dict(rung, value=2.0), "four": dict(rung, on_processor=0.5),
            "five": {"missing": "no <reason>"},
        },
    }  # fmt: skip
    ladders._judge(ladder)
    assert ladder["rungs"]["two"]["gain"] == 2.0 and not ladder["quiet"]
    lines = list(table(ladder))
    assert any("load 3.0, then 4.0" in line and line.endswith("for two, four") for line in lines)
    assert any(line.startswith("WRONG: three") for line in lines)
    assert any("not available: no <reason>" in line for line in lines)
    assert "a &amp; b" in svg(ladder) and "&lt;p&gt;" in svg(ladder)
    assert [time_text(t) for t in (12.3, 1234.0, 2.5e6)] == ["12 µs", "1.23 ms", "2.50 s"]


# -- the page --------------------------------------------------------------------------------------


@pytest.fixture
def ladder_page(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "benchmarks" / "ladder_page.py"
    spec = importlib.util.spec_from_file_location("ladder_page", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "ladder_page", module)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_what_the_stored_figures_give(ladder_page: Any) -> None:
    figures = json.loads((ROOT / "docs" / ladder_page.FIGURES).read_text("utf-8"))
    shown = (ROOT / "docs" / ladder_page.PAGE).read_text("utf-8")
    hint = "python benchmarks/ladder.py --page docs writes it anew"
    assert ladder_page.page(figures, shown) == shown, hint
    for name, picture in ladder_page.pictures(figures).items():
        assert (ROOT / "docs" / name).read_text("utf-8") == picture, hint


def test_a_figure_that_is_not_there_is_an_error(ladder_page: Any) -> None:
    with pytest.raises(graphc.ArgumentError, match="no figures of 'cnn_step'"):
        ladder_page.page({})
