"""Ladders: what the rungs compute and count, never how long something took."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
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
from graphc.debug.compare import peers, worker
from graphc.debug.compare.op_kernels_plan import is_view, op_number, plan_of_ops
from graphc.debug.compare.page import compiled_calls, page
from graphc.debug.compare.phase_parts import CallsInTurn, phase_parts
from graphc.debug.compare.rung_compiler import RungCompiler
from graphc.debug.compare.rungs import rungs
from graphc.debug.compare.svg import svg, time_text
from graphc.debug.compare.text import table
from graphc.debug.dump_files import drawn
from graphc.debug.program import AS_IT_IS
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.passes.pipelines import optimize
from graphc.records import fields
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
        assert turn["steps"] == 2 and turn["min_us"] <= turn["median_us"] <= turn["p99_us"]
        assert facts["launches"] > 0 and facts["allocated_bytes"] >= 0
        assert ("compile_s" in facts) == rung.compiled
        assert ("tape" in facts) == (rung.backend == "native")
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


# -- peers, sizes, what cannot be traced -----------------------------------------------------------


def test_a_file_of_the_frontend_runs_by_what_stands_in_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As it does by PyTorch, where that is installed (tests/frontend/peers)."""
    (tmp_path / "train.py").write_text(f"{STEP}\nassert torch.__name__ == 'other', torch", "utf-8")
    package = ModuleType("other")
    vars(package).update(
        {name: value for name, value in vars(torch).items() if not name.startswith("__")},
        set_num_threads=lambda count: None, manual_seed=lambda seed: None,
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "other", package)
    for part in ("nn", "optim"):
        monkeypatch.setitem(sys.modules, f"other.{part}", getattr(torch, part))
    monkeypatch.setattr(peers.importlib, "import_module", _other)
    with peers.peer_run("torch", f"{tmp_path / 'train.py'}:step", (), AS_IT_IS, 1) as run:
        first, second = (run.read(run.step())[0] for _ in range(2))
    assert first.shape == () and second < first
    assert sys.modules["frontend"] is torch and torch.__name__ == "frontend"


def _other(name: str, real: Any = importlib.import_module) -> Any:
    return real("other" if name == "torch" else name)


def test_a_peer_that_is_not_there_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    g = graphc.GraphBuilder("g")
    x = g.input("x", "f32[8]")
    (tmp_path / "g.graph").write_text(str(g.finish(x * 2.0 + 1.0)), "utf-8")
    monkeypatch.chdir(tmp_path)
    assert main(["compare", "g.graph", "--peers", "theano"]) == 2
    assert "no peer is named theano" in capsys.readouterr().err
    assert main(["compare", "g.graph", "--sizes", "1,x"]) == 2
    assert "--sizes 1,x: numbers with commas between them" in capsys.readouterr().err
    monkeypatch.setattr(ladders, "rungs", lambda processors: rungs(processors)[:1])
    few = ["--rounds", "1", "--seconds", "0.001"]
    assert main(["compare", "g.graph", "--peers", "jax", "--sizes", "4", *few]) == 0
    told = capsys.readouterr().out
    assert "jax " in told and "not available: " in told
    assert "sizes: not available: LoadError: sizes are swept over for functions" in told


def test_a_sweep_shows_which_sizes_are_traced(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEP, "utf-8")
    said: list[dict[str, Any]] = []
    task = worker.Task(f"{tmp_path / 'train.py'}:step", (), 0, 1, sizes=(4, 1, 7, 9))
    worker.serve(worker.Task.parse(task.text()), io.StringIO("turn 0\n"), said.append)
    rows = said[0]["sizes"]
    assert [row["shapes"] for row in rows] == [[[n, 6]] for n in (4, 1, 7, 9)]
    assert [row["traces"] for row in rows] == [1, 2, 3, 3]
    assert rows[0]["why"] == ["first call (f32[4,6])"] and rows[3]["why"] == []
    assert all(row["eager_us"] > 0 and row["compiled_us"] > 0 for row in rows)


def test_what_cannot_be_traced_has_eager_rungs_and_the_line_that_breaks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = STEP.replace(
        "    optimizer.zero_grad()", "    if loss > 3: return loss\n    optimizer.zero_grad()"
    )
    (tmp_path / "train.py").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ladders, "rungs", lambda processors: rungs(processors)[:4])
    few = ["--rounds", "1", "--seconds", "0.001", "--html", "page.html"]
    assert main(["compare", "train.py:step", "--input", "f32[4,6]", *few]) == 0
    told = capsys.readouterr().out
    assert "eager, native kernels" in told and "static graph" not in told
    assert "BROKEN: step cannot be traced" in told and "if loss > 3: return loss" in told
    shown = (tmp_path / "page.html").read_text("utf-8")
    assert "if loss &gt; 3: return loss" in shown and "eager, native kernels: ops" in shown


def test_the_page_has_both_timelines_the_tape_and_the_graph(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(STEP, "utf-8")
    reference = f"{tmp_path / 'train.py'}:step"
    compiled = compiled_calls(ladders.Measured(reference), 0.01)
    assert [call.name for call in compiled] == ["step"] and compiled[0].launches
    run = {"us": 100.0, "median_us": 110.0, "p99_us": 130.0, "value": 1.0, "on_processor": 1.0}
    run |= {"first_s": 0.001, "allocated_bytes": 10}
    eager = run | {"launches": 2, "calls": 2, "moved_bytes": 8, "arena_bytes": 0}
    tape = [("matmul", "f32[4,6]", 0, 5000, 96), ("<mean>", "", 6000, 9000, 4)]
    ladder: dict[str, Any] = {
        "title": "t & u", "rounds": 1,
        "surroundings": dict.fromkeys(
            ("processor", "code_for", "python", "numpy", "blas", "load", "load_after"), "x"),
        "rungs": {
            "eager, native kernels": eager | {"tape": tape},
            "+ one call": eager | {"us": 10.0, "median_us": 10.5, "first_s": 0.5, "compile_s": 0.4},
            "torch": run | {"us": 50.0, "median_us": 51.0, "value": 2.0},
            "jax": {"missing": "no <jax>"},
        },
        "peers": ["torch", "jax"], "broken": "",
        "sizes": {"sizes": [{
            "shapes": [[4, 6]], "eager_first_us": 1.0, "eager_us": 1.0, "compiled_first_us": 2e6,
            "compiled_us": 1.0, "traces": 1, "why": ["first <call>"]}]},
    }  # fmt: skip
    ladders._judge(ladder)
    # 0.499 s that a compiled step takes longer at first, over 90 and 40 us that each call gains.
    assert ladder["even"] == {"eager, native kernels": 5545, "torch": 12475}
    assert ladder["wrong"] == [] and ladder["rungs"]["torch"]["gain"] == 2.0
    shown = page(ladder, compiled)
    assert "t &amp; u" in shown and "no &lt;jax&gt;" in shown and "first &lt;call&gt;" in shown
    assert shown.count('<svg class="line"') >= 2 and shown.count('class="line memory"') >= 2
    assert "matmul(f32[4,6])\n&lt;mean&gt;()" in shown and "return " in shown
    assert "made up for after 12,475 calls of torch" in shown
    assert "<script" not in shown and "http" not in shown.replace("http://www.w3.org/2000/svg", "")


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
