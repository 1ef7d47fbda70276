"""The report: what the page holds, that it is whole in itself, that nothing breaks out of it. What
a browser makes of it is tested in tests/debug/browser."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from graphc.debug.cli import main
from graphc.debug.decisions import decisions
from graphc.debug.graph_diff import graph_change
from graphc.debug.ledger import IMPORTANCE, chosen
from graphc.debug.load import loaded_calls
from graphc.debug.profile import machine as machines
from graphc.debug.profile.machine import Machine, MemoryLevel
from graphc.debug.report.packing import packed, spared
from graphc.debug.report.page import SCRIPTS, page
from graphc.debug.traced import DrawnInput
from graphc.passes.recorder import Recorder

HOSTILE = "</script><img src=x onerror=alert(1)>"
STEP = f"""
import frontend as torch

w = torch.ones(8, 4)

def step(x):
    def turn(h, row):
        h = torch.tanh(h @ w @ w.T + row)  # {HOSTILE}
        return h, h
    return torch.scan(turn, x[0], x)[1] @ w / 4
"""
FAKE = Machine("a <b>", 1e9, 1e9, (MemoryLevel("L1", 1000, 4e9), MemoryLevel("DRAM", None, 1e9)))


@pytest.fixture(autouse=True)
def known_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    machines.machine.cache_clear()
    monkeypatch.setattr(machines, "_read", lambda: FAKE)


def unpacked(text: str, name: str) -> Any:
    """A part of a page."""
    match = re.search(rf'"{name}": "([A-Za-z0-9+/=]*)"', text)
    assert match is not None
    return json.loads(zlib.decompress(base64.b64decode(match[1])))


def test_the_page_is_whole_and_holds_the_call(tmp_path: Path) -> None:
    file = tmp_path / "st<b>ep.py"
    file.write_text(STEP, "utf-8")
    with loaded_calls(f"{file}:step", [DrawnInput.parse("f32[5,3,8]")], None, 1) as calls:
        text = page(calls, 1e-3)
    assert HOSTILE not in text and "<b>" not in text
    for outside in ("http:", "https:", "src=", "@import", "url(h"):
        assert outside not in text.replace("http://www.w3.org/2000/svg", "")
    assert "default-src 'none'" in text and len(text) < 600_000
    document, kernels = unpacked(text, "head"), unpacked(text, "0 kernels")
    (call,) = document["calls"]
    launches = [step for step in call["steps"] if step["kind"] == "launch"]
    assert {step["name"] for step in launches} == kernels.keys()
    assert any(step["within"] and step["runs"] == 5 for step in launches)
    assert all(step["bound"] and step["module"] == "" for step in launches)
    assert any(texts["nest"].startswith("nest ") for texts in kernels.values())
    for texts in kernels.values():
        assert texts["body"].startswith("graph ") and "kernel" in texts["loops"]
        assert texts["nest"].startswith(("nest ", "// "))
        assert "define" in texts["llvm"] and texts["assembly"]
    assert call["passes"] and call["events"][0]
    (source,) = document["files"].values()
    assert source["name"] == "st<b>ep.py"
    assert any(HOSTILE in line for _, line in source["lines"])


def test_scripts_of_a_page_declare_each_name_once() -> None:
    """They are one script there: a name that two of them declare is a syntax error of all."""
    names: Counter[str] = Counter()
    for script in SCRIPTS:
        text = (Path(page.__code__.co_filename).parent / script).read_text("utf-8")
        names.update(
            re.findall(r"^(?:const|let|var|class|(?:async )?function\*?) (\w+)", text, re.M)
        )
    assert len(names) > 50 and {name for name, count in names.items() if count > 1} == set()


def test_every_decision_is_there_and_leads_to_its_launches(tmp_path: Path) -> None:
    """Also those inside of loops, and rules that fired for what a launch computes at the end."""
    file = tmp_path / "step.py"
    file.write_text(STEP, "utf-8")
    with loaded_calls(f"{file}:step", [DrawnInput.parse("f32[5,3,8]")], None, 1) as calls:
        text = page(calls, 1e-3)
        (call,) = calls
        expected = decisions(call.graph, call.options.level, threads=1)
    head = unpacked(text, "head")["calls"][0]
    assert head["ledger"] == Counter(each.kind for each in expected)
    assert [kind for kind in IMPORTANCE if kind in head["ledger"]] == list(head["ledger"])
    launches = {step["n"]: step["name"] for step in head["steps"] if step["kind"] == "launch"}
    for kind in head["ledger"]:
        columns, of_kind = unpacked(text, f"0 ledger {kind}"), chosen(expected, [kind])
        told = [columns["texts"][number] for number in columns["what"]]
        assert told == [each.what for each in of_kind]
        for decision, steps in zip(of_kind, columns["steps"], strict=True):
            names = {launches[step] for step in steps}
            if kind == "strategy":
                assert names == {decision.what}
            elif kind == "fused":
                assert names == {decision.what.partition(":")[0]}
            elif kind == "not fused":
                assert names
    assert any(unpacked(text, "0 ledger rewritten")["steps"])


def operands_of(columns: Any) -> list[list[int]]:
    """What a page makes of the operands of a stage."""
    coded, last, listed = iter(columns["operands"]), dict[tuple[int, int], int](), []
    for node, (op, arity) in enumerate(zip(columns["op"], columns["arity"], strict=True)):
        operands = []
        for position in range(arity):
            code = next(coded)
            if code % 2 == 0:
                operands.append(node - code // 2)
                continue
            moved = -(code // 2 + 1) // 2 if code // 2 % 2 else code // 4
            last[op, position] = last.get((op, position), 0) + moved
            operands.append(last[op, position])
        listed.append(operands)
    return listed


def test_the_graph_is_there_at_every_stage(tmp_path: Path) -> None:
    """Nodes, operands near and far, what each became, what is new and gone; bodies of loops."""
    file = tmp_path / "step.py"
    file.write_text(STEP.replace("/ 4", "/ 4 + x.sum() * 0 " + "+ x[0, 0, 0]" * 40), "utf-8")
    with loaded_calls(f"{file}:step", [DrawnInput.parse("f32[5,3,8]")], None, 1) as calls:
        text = page(calls, 1e-3)
        graph = calls[0].graph
    recorder = Recorder()
    decisions(graph, threads=1, recorder=recorder)
    changed = [each for each in recorder.passes if each.before != each.after]
    head, texts = unpacked(text, "head")["calls"][0], unpacked(text, "0 graph texts")
    assert [name for name, _ in head["stages"]][1:] == [each.name for each in changed]
    graphs = [graph, *(each.after for each in changed)]
    far = 0
    for number, expected in enumerate(graphs):
        columns, count = unpacked(text, f"0 graph {number}"), len(expected.nodes)
        assert len(columns["op"]) == head["stages"][number][1] > count  # the body of the loop
        assert [texts["ops"][op] for op in columns["op"]][:count] == [n.op for n in expected.nodes]
        listed = [[value.node for value in node.operands] for node in expected.nodes]
        assert operands_of(columns)[:count] == listed
        first, _, owner, name = columns["parts"][1]
        assert (first, name) == (count, "body") and expected.nodes[owner].op == "scan"
        assert all(operand >= first for each in operands_of(columns)[first:] for operand in each)
        far += sum(code % 2 for code in columns["operands"])
        if number < len(changed):
            after = {k: v for k, v in changed[number].became.items() if v}
            last, images = 0, {}
            for node, moved in enumerate(columns["became"]):
                own = tuple(last + each for each in (moved if isinstance(moved, list) else [moved]))
                last = own[0] if own else last
                images |= {node: own} if own else {}
            assert images == after
            change = graph_change(expected, graphs[number + 1])
            assert list(accumulate(columns["gone"])) == change.gone
            assert list(accumulate(unpacked(text, f"0 graph {number + 1}")["new"])) == change.new
    assert far > 20


def test_texts_of_the_cheapest_kernels_go_first_where_there_is_no_room() -> None:
    noise = np.random.default_rng(0)
    kernels = {
        f"k{i}": {"body": "b", "loops": noise.bytes(400).hex(), "llvm": noise.bytes(400).hex()}
        for i in range(9)
    }
    everything = len(packed(kernels))
    kept = spared(kernels, everything - 300)
    assert "llvm" in kept["k0"] and "llvm" not in kept["k8"] and "body" in kept["k8"]
    assert len(packed(spared(kernels, 400))) <= 400


def test_the_command_and_the_method(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, html = tmp_path / "step.py", tmp_path / "step.html"
    file.write_text("def step(x):\n    return x * 2\n", "utf-8")
    command = ["report", f"{file}:step", "--input", "f32[3]", "--seconds", "0.001"]
    assert main([*command, "-o", str(html)]) == 0
    assert capsys.readouterr().out == f"report in {html}\n"
    assert unpacked(html.read_text("utf-8"), "head")["calls"][0]["name"] == "step"
    assert main([*command, "-o", str(tmp_path / "no" / "step.html")]) == 2
    assert "cannot write the report" in capsys.readouterr().err
    fn = torch.compile(lambda x: x + 1, threads=1)
    fn(torch.zeros(4))
    fn.report(html, seconds=1e-3)  # on arguments like those of the last call
    assert unpacked(html.read_text("utf-8"), "head")["calls"][0]["steps"]
