"""Compiled graphs as folders of files, graphs and plans in DOT."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend import nn
from graphc.debug.cli import main
from graphc.debug.dot import graph_dot, plan_dot
from graphc.debug.dump_files import drawn, dumping, write_dump
from graphc.debug.summary import from_json
from graphc.errors import ArgumentError
from graphc.ir.nodes import Graph
from graphc.ops.elementwise import cast, tanh
from graphc.runtime.compile import compile
from graphc.schedule.build import plan_graph


def graph() -> Graph:
    """A layer that updates its state, with an input of each sort."""
    g = graphc.GraphBuilder("layer")
    x, w = g.input("x", "bf16[4,6]"), g.input("w", "f32[6,3]")
    flag, state = g.input("flag", "bool[]"), g.input("state", "f32[4,3]")
    y = tanh(cast(x, dtype=graphc.DType.f32) @ (w * 1.0))
    return g.finish(y, state + y, flag, aliases=[(1, 3)])


def ran(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-W", "ignore::DeprecationWarning", str(folder / "repro.py")]
    return subprocess.run(command, capture_output=True, text=True, timeout=100, cwd=folder.parent)


def test_a_folder_has_all_stages_and_its_program_gives_the_same_bits(tmp_path: Path) -> None:
    executable = compile(graph(), threads=1)
    folder = write_dump(tmp_path / "new", executable, "exact", threads=1)
    names = sorted(path.name for path in folder.iterdir())
    assert names[:2] == ["00_graph.graph", "01_canonicalize.graph"]
    assert {"ledger.txt", "ledger.json", "graph.dot", "plan.dot", "repro.py"} <= set(names)
    assert graphc.parse((folder / "00_graph.graph").read_text("utf-8")) == graph()
    (plan,) = folder.glob("*_plan.txt")
    assert plan.read_text("utf-8").strip() == str(executable.plan)
    assert from_json((folder / "ledger.json").read_text("utf-8")).decisions
    same = ran(folder)
    assert same.returncode == 0 and same.stdout == "the same bits\n", same.stderr
    again = write_dump(tmp_path / "new", executable, "exact", arrays=drawn(graph()))
    assert [folder.name, again.name] == ["000_layer", "001_layer"]
    assert (folder / "outputs.txt").read_text() == (again / "outputs.txt").read_text()


def test_what_fails_is_reproduced_as_well(tmp_path: Path) -> None:
    g = graphc.GraphBuilder("picks")
    x, i = g.input("x", "f32[4]"), g.input("i", "i64[2]")
    executable = compile(g.finish(graphc.ops.indexing.gather(x, i, axis=0)), threads=1)
    arrays = [np.ones(4, np.float32), np.array([0, 7])]
    folder = write_dump(tmp_path, executable, "exact", arrays=arrays)
    assert (folder / "outputs.txt").read_text() == "IndexRangeError"
    assert arrays[1].tolist() == [0, 7]


def test_with_the_setting_every_compiled_graph_is_written(tmp_path: Path) -> None:
    function = dumping(compile, str(tmp_path))
    x = np.ones((4, 3), np.float32)
    function(graph(), "none", threads=1)
    assert [path.name for path in tmp_path.iterdir()] == ["000_layer"]
    assert "'level': 'none'" in (tmp_path / "000_layer" / "repro.py").read_text("utf-8")
    assert function.__doc__ == compile.__doc__ and x.sum() == 12


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ArgumentError, match=r"file cannot be written"):
        write_dump(tmp_path / "file", compile(graph(), threads=1), "exact")


def test_a_compiled_function_is_dumped_with_its_state(tmp_path: Path) -> None:
    layer = nn.Linear(3, 2)
    compiled = torch.compile(layer)
    with pytest.raises(ArgumentError, match="nothing is compiled yet"):
        compiled.dump(tmp_path)
    with torch.no_grad():
        compiled(torch.ones(1, 3))
    before = layer.weight.detach().numpy().copy()
    folders = compiled.dump(tmp_path)
    kept = [np.load(folder / "inputs.npz") for folder in folders]
    assert before.tobytes() in [stored[name].tobytes() for stored in kept for name in stored.files]
    assert np.array_equal(layer.weight.detach().numpy(), before)


# -- DOT -------------------------------------------------------------------------------------------


def edges(text: str) -> list[tuple[str, str]]:
    return re.findall(r"^ *(\w+) -> (\w+)", text, re.MULTILINE)


def test_the_graph_in_dot_has_an_edge_for_each_operand() -> None:
    step_graph = graph()
    text = graph_dot(step_graph)
    operands = [(f"n{v.node}", f"n{i}") for i, n in enumerate(step_graph.nodes) for v in n.operands]
    outputs = [(f"n{value.node}", f"o{i}") for i, value in enumerate(step_graph.outputs)]
    assert sorted(edges(text)) == sorted(operands + outputs)
    assert "output 1 -> %state" in text and text.count("{") == text.count("}") == 1


def test_names_cannot_leave_their_label() -> None:
    g = graphc.GraphBuilder("g")
    with g.at(graphc.Location('a "quoted" \\ file\n.py', 3)):
        y = tanh(g.input("x", "f32[2]"))
    line = next(line for line in graph_dot(g.finish(y)).splitlines() if "tanh" in line)
    assert re.fullmatch(r'  n1 \[label="(?:[^"\\]|\\.)*"\];', line)


def test_the_plan_in_dot_goes_into_loops() -> None:
    scan = graphc.parse("""
        graph g(%h: f32[2,3], %xs: f32[5,2,3]) {
          %1 = scan(%h, %xs) carry=1 length=5 reverse=false sequences=1
            graph body(%h: f32[2,3], %x: f32[2,3]) {
              %2 = add(%h, %x) : f32[2,3]
              return %2
            } : f32[2,3]
          return %1
        }""")
    text = plan_dot(plan_graph(scan)[1])
    assert "subgraph cluster_" in text and text.count("{") == text.count("}")
    assert any(left.endswith("s0") for left, _ in edges(text))


def test_dot_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    source = (
        "import graphc\ng = graphc.GraphBuilder('g')\ng = g.finish(g.input('x', 'f32[2]') * 2.0)\n"
    )
    Path("made.py").write_text(source, "utf-8")
    for stage in ("graph", "plan"):
        assert main(["dump", "made.py:g", "--stage", stage, "--dot"]) == 0
        assert capsys.readouterr().out.startswith('digraph "g" {')
    assert main(["dump", "made.py:g", "--stage", "loops", "--dot"]) == 2
    assert "stage loops has no form in DOT" in capsys.readouterr().err
