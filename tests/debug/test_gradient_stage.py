"""`graphc verify --gradients`: every rule of the table holds, and a wrong one is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.autodiff import sweep
from graphc.debug.cli import main
from graphc.debug.traced import CallOptions, TracedCall
from graphc.debug.verification import gradient_stage
from graphc.debug.verification.verifier import verify_call
from graphc.ir.builder import GraphBuilder
from graphc.ir.parser import parse
from graphc.ir.types import DType, TensorType
from graphc.schedule import memory

NET = """
from typing import Annotated, Any
import frontend as torch
from frontend import nn
net = nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3), nn.ReLU())
optimizer = torch.optim.SGD(net.parameters())
def function(x: Annotated[Any, "f32[6,5]"]): return net(x)
def step(x: Annotated[Any, "f32[6,5]"]):
    optimizer.zero_grad()
    loss = net(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss
"""


@pytest.fixture
def net(tmp_path: Path) -> str:
    (tmp_path / "net.py").write_text(NET)
    return str(tmp_path / "net.py")


def verified(text: str, *arrays: Any) -> Any:
    call = TracedCall(parse(text), tuple(arrays), CallOptions("exact", threads=1))
    return verify_call(call, gradients=True)


def test_every_rule_of_the_table_holds() -> None:
    from tests.test_op_table import as_dtype, samples_of

    counts = gradient_stage.Counts()
    for op in graphc.ops.table():
        samples = [s for s in samples_of(op) if s.differentiable and op.differentiable]
        narrow = next(filter(None, (as_dtype(each, DType.f32) for each in samples)), None)
        if narrow is None:
            continue
        builder = GraphBuilder(op.name)
        types = map(TensorType.of, narrow.operands)
        inputs = tuple(builder.input(f"x{i}", type) for i, type in enumerate(types))
        graph = builder.finish(*builder.apply(op, inputs, dict(narrow.attributes)))
        said = gradient_stage._rule_is_wrong(graph.nodes[-1], narrow.operands, counts)
        assert not said, f"{op.name}: {said}"
    assert counts.rules > 100 and counts.elements > 20_000
    assert counts.without == {"cond", "scan"}


@pytest.mark.parametrize("name", ["function", "step"])
def test_what_a_program_derives_holds(
    name: str, net: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["verify", f"{net}:{name}", "--gradients", "--threads", "1"]) == 0
    told = capsys.readouterr().out
    assert "ok    gradient rules: rules of " in told and "ok    gradients: " in told


def test_a_wrong_rule_of_tanh_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "g.graph"
    path.write_text("""graph g(%x: f32[6,5]) {
      %y = tanh(%x) : f32[6,5]  // net.py:6 in forward [net.1]
      %z = mul(%y, %x) : f32[6,5]
      return %z
    }""")
    monkeypatch.setattr(graphc.ops.tanh, "vjp", lambda g, out, x: (g * (1 - out),))
    assert main(["verify", str(path), "--threads", "1"]) == 0  # it is wrong everywhere alike
    assert main(["verify", str(path), "--gradients", "--threads", "1"]) == 1
    told = capsys.readouterr().out
    assert "blame: the gradient rule of op tanh" in told and "net.py:6 [net.1]" in told
    assert told.count("blame:") == 1


def test_a_rule_that_overflows_on_the_way_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def rule(g: Any, out: Any, x: Any) -> tuple[Any]:
        e = graphc.ops.exp(x)
        return (g * (e / ((1 + e) * (1 + e))),)

    text = "graph g(%x: f32[3]) {\n %y = sigmoid(%x) : f32[3]\n return %y\n}"
    x = np.zeros(3, np.float32)
    assert verified(text, x)
    monkeypatch.setattr(graphc.ops.sigmoid, "vjp", rule)
    verification = verified(text, x)
    assert not verification and "it gives nan" in verification.findings[0].what


def test_at_kinks_and_jumps_a_rule_may_choose() -> None:
    text = """graph g(%x: f32[4], %y: f32[4]) {
      %a = relu(%x) : f32[4]
      %b = floor(%a) : f32[4]
      %c = maximum(%b, %y) : f32[4]
      return %c
    }"""
    x = np.array([0.0, 1.0, -2.0, 3.0], np.float32)
    verification = verified(text, x, np.floor(np.maximum(x, 0)))
    assert verification, str(verification)
    assert "at kinks are not" in str(verification)


def test_a_sweep_that_loses_a_gradient_is_blamed(monkeypatch: pytest.MonkeyPatch) -> None:
    text = """graph g(%x: f32[5,4]) {
      %a = exp(%x) : f32[5,4]
      %b = mul(%a, %x) : f32[5,4]
      return %b
    }"""
    x = np.linspace(-1, 1, 20, dtype=np.float32).reshape(5, 4)
    assert verified(text, x)
    monkeypatch.setattr(sweep, "added", lambda left, right: left)
    finding = verified(text, x).findings[0]
    assert finding.blame == "the reverse sweep" and "by %x" in finding.what


@pytest.mark.parametrize("name", ["function", "step"])
def test_a_plan_of_a_traced_function_that_breaks_a_rule_is_told(
    name: str, net: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = memory.plan_offsets
    monkeypatch.setattr(
        memory, "plan_offsets", lambda sizes, lives: ([0] * len(sizes), plain(sizes, lives)[1])
    )
    assert main(["verify", f"{net}:{name}", "--threads", "1"]) == 1
    told = capsys.readouterr().out
    assert "rule P3: arena buffers lie inside the arena" in told and "ok    ops: " in told
