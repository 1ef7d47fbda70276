"""What sets two compiled programs apart: by meaning, totals first, equal layers as one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import graphc
from graphc.debug.cli import main
from graphc.debug.summary import TOTALS, as_json, from_json, summary
from graphc.debug.summary_diff import difference
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.ops import elementwise as e
from graphc.records import replace

PROGRAM = """
import frontend as torch
from frontend import nn, optim

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))

model = nn.Sequential(*(Block() for _ in range(3)))
optimizer = optim.Adam(model.parameters())

def step(x):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def diff(capsys: pytest.CaptureFixture[str], *references: str) -> list[str]:
    assert main(["diff", *references, "--input", "f32[4,8]"]) == 0
    return capsys.readouterr().out.splitlines()


def test_a_copy_under_other_names_is_the_same(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another file, other lines, another function, another variable for the module."""
    (folder / "one.py").write_text(PROGRAM, "utf-8")
    copy = PROGRAM
    others = {"model": "net", "Block": "Layer", "step(x)": "turn(x)", "optimizer": "adam"}
    for name, other in others.items():
        copy = copy.replace(name, other)
    (folder / "two.py").write_text(f"# A copy.\n\n{copy}", "utf-8")
    (line,) = diff(capsys, "one.py:step", "two.py:turn")
    assert line.startswith("compiled alike: ") and "launches of a call" in line


def test_what_changed_in_every_layer_is_told_once(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "one.py").write_text(PROGRAM, "utf-8")
    (folder / "two.py").write_text(PROGRAM.replace("gelu(", "relu("), "utf-8")
    lines = diff(capsys, "one.py:step", "two.py:step")
    assert [line.split("  ")[0].strip() for line in lines[1 : 1 + len(TOTALS)]] == [
        *TOTALS.values()
    ]
    (told,) = [line for line in lines if "gelu -> relu" in line]
    assert told == "  model.0-2 (3 layers): gelu -> relu  // two.py:11"
    assert any("(3 layers)" in line for line in lines[lines.index("what is computed:") + 2 :])
    assert len(lines) < 40
    (folder / "three.py").write_text(PROGRAM.replace("Linear(8, 16)", "Linear(8, 24)").replace(
        "Linear(16, 8)", "Linear(24, 8)"), "utf-8")  # fmt: skip
    lines = diff(capsys, "one.py:step", "three.py:step")
    assert any("model.0-2.up (3 layers): " in line and "f32[4,24]" in line for line in lines)


def test_one_layer_that_differs_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "one.py").write_text(PROGRAM, "utf-8")
    other = PROGRAM.replace("optimizer =", "model[1].norm = nn.Identity()\noptimizer =")
    (folder / "two.py").write_text(other, "utf-8")
    lines = diff(capsys, "one.py:step", "two.py:step")
    computed = lines[lines.index("what is computed:") + 1]
    assert computed.startswith("  model.1.norm: layer_norm -> nothing")


# -- graphs, JSON ----------------------------------------------------------------------------------


def small(last: bool = False) -> Graph:
    g = graphc.GraphBuilder("step")
    x, w = g.input("x", "f32[32,24]"), g.input("w", "f32[24,24]")
    y = e.tanh(x @ w)
    return g.finish(y @ w if last else y)


def test_the_totals_are_those_of_the_plan() -> None:
    totals = summary(small(last=True), threads=1).totals
    plan = graphc.compile(small(last=True), threads=1).plan
    assert totals["arena"] == plan.arena_bytes and totals["launches"] == len(plan.steps) == 2
    matrix, square = 32 * 24 * 4, 24 * 24 * 4
    assert totals["bytes"] == 4 * matrix + 2 * square


def test_launches_in_loops_count_as_often_as_they_run() -> None:
    text = """
        graph g(%h: f32[2,3], %xs: f32[5,2,3]) {{
          %1 = scan(%h, %xs) carry=1 length={0} reverse=false sequences=1
            graph body(%h: f32[2,3], %x: f32[2,3]) {{
              %2 = add(%h, %x) : f32[2,3]
              return %2
            }} : f32[2,3]
          return %1
        }}"""
    five, ten = (graphc.parse(text.format(n).replace("[5,", f"[{n},")) for n in (5, 10))
    counts = [summary(graph, threads=1).totals["launches"] for graph in (five, ten)]
    assert counts[1] - counts[0] == 5


def test_what_is_decided_otherwise_about_the_same_graph_is_told() -> None:
    old = summary(small(True))
    (alike,) = difference(old, summary(small(True)))
    assert alike.startswith("compiled alike")
    lines = list(difference(old, summary(small(True), fusion=False)))
    assert any("without fusion each node has a kernel" in line for line in lines)
    assert "what is computed:" not in lines


def test_json_and_back(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = summary(small(), threads=1)
    again = from_json(as_json(old))
    assert (again.totals, again.operations) == (old.totals, old.operations)
    assert again.decisions == [replace(d, numbers=dict(d.numbers)) for d in old.decisions]
    Path("one.json").write_text(as_json(old), "utf-8")
    Path("two.graph").write_text(str(small()), "utf-8")
    assert main(["diff", "one.json", "two.graph"]) == 0
    assert capsys.readouterr().out.startswith("compiled alike")
    whole = json.loads(as_json(old))
    wrong = [{**whole, "operations": [[1]]}, {**whole, "decisions": [{"kind": "kept"}]}]
    for bad in ("[", "[1]", "{}", *map(json.dumps, wrong)):
        with pytest.raises(ArgumentError, match="this is no ledger"):
            from_json(bad)
    Path("bad.json").write_text("nothing", "utf-8")
    for missing in ("bad.json", "missing.json"):
        assert main(["diff", missing, "two.graph"]) == 2
        assert capsys.readouterr().err
