"""Which module, phase and parameter the nodes of a trace stem from."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from frontend.engine.compiled.tracers import trace
from graphc.ir.nodes import BACKWARD, FORWARD, UPDATE, Graph


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.Tanh())
        self.layers = nn.ModuleList([nn.Linear(4, 4)])

    def forward(self, x: Any) -> Any:
        return self.layers[0](self.inner(x)) * 2.0


model = Block()


def places(graph: Graph, op: str) -> list[tuple[str, str]]:
    return [
        (node.location.module, node.location.phase)
        for node in graph.nodes
        if node.op == op and node.location
    ]


def test_modules_are_called_by_their_path_from_the_variable_that_is_named() -> None:
    graph = trace(lambda x: model(x).exp(), torch.ones(2, 4))
    products = ["model.inner.0", "model.layers.0"]
    assert places(graph, "addmm") == [(path, FORWARD) for path in products]
    assert places(graph, "tanh") == [("model.inner.1", FORWARD)]
    assert places(graph, "mul") == [("model", FORWARD)]
    assert places(graph, "exp") == [("", FORWARD)]
    assert {node.location.path for node in graph.nodes if node.location} == {__file__}


def test_a_module_that_is_traced_itself_has_no_name() -> None:
    graph = trace(model, torch.ones(2, 4))
    assert places(graph, "tanh") == [("inner.1", FORWARD)]
    assert places(graph, "mul") == [("", FORWARD)]


def test_modules_of_the_object_whose_method_is_traced_and_modules_that_are_not_found() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.net = Block()

        def run(self, x: Any, other: Any) -> Any:
            return other[0](self.net(x)).exp()

    graph = trace(Trainer().run, torch.ones(2, 4), [Block()])
    assert places(graph, "tanh") == [("net.inner.1", FORWARD), ("Block.inner.1", FORWARD)]


def test_a_step_has_phases_and_updates_name_their_parameter() -> None:
    opt = torch.optim.AdamW(model.parameters(), lr=0.1)

    def step(x: Any, y: Any) -> Any:
        loss = F.mse_loss(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss

    graph = trace(step, torch.ones(2, 4), torch.ones(2, 4))
    assert ("model.inner.1", BACKWARD) in places(graph, "mul")
    assert places(graph, "matmul")[-1] == ("model.inner.0", BACKWARD)
    updates = {module for module, phase in places(graph, "sqrt") if phase == UPDATE}
    # Of no parameter alone is what all of one count of steps share.
    assert updates - {""} == {f"model.{name}" for name, _ in model.named_parameters()}
    assert {phase for _, phase in places(graph, "div")} == {BACKWARD, UPDATE}


@pytest.mark.parametrize("kind", ["SGD", "Adam", "Adagrad", "RMSprop", "Rprop", "NAdam", "ASGD"])
def test_every_optimizer_names_the_parameter(kind: str) -> None:
    layer = nn.Linear(2, 2)
    opt = getattr(torch.optim, kind)(layer.parameters(), lr=0.1)

    def step(x: Any) -> None:
        opt.zero_grad()
        layer(x).sum().backward()
        opt.step()

    graph = trace(step, torch.ones(1, 2))
    written = [graph.nodes[value.node].location for value in graph.outputs]
    named = {location.module for location in written if location and location.phase == UPDATE}
    assert {"layer.weight", "layer.bias"} <= named


def test_a_derived_backward_is_the_phase_of_gradients() -> None:
    compiled = torch.compile(model)
    compiled(torch.ones(2, 4, requires_grad=True)).sum().backward()
    forward, backward = compiled.specializations[0].executables
    assert {phase for _, phase in places(forward.graph, "tanh")} == {FORWARD}
    assert ("inner.1", BACKWARD) in places(backward.graph, "mul")


def test_nothing_is_invented_for_a_module_that_no_line_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from graphc.debug.load import load_graph
    from graphc.ir.types import TensorType

    monkeypatch.chdir(tmp_path)
    text = "from frontend import nn\nlayer = nn.Sequential(nn.Linear(4, 2), nn.ReLU())\n"
    Path("built_in.py").write_text(text, "utf-8")
    graph = load_graph("built_in.py:layer", [TensorType.parse("f32[3,4]")])
    (place,) = [str(node.location) for node in graph.nodes if node.op == "relu"]
    assert place.endswith(" [1]")  # the line is that which had it loaded
    assert ":0" not in str(graph)


def test_after_an_error_in_a_module_the_trace_is_back_where_it_was() -> None:
    class Fails(nn.Module):
        def forward(self, x: Any) -> Any:
            raise ValueError("no")

    fails = Fails()

    def function(x: Any) -> Any:
        with contextlib.suppress(ValueError):
            fails(x)
        return x.exp()

    assert places(trace(function, torch.ones(2)), "exp") == [("", FORWARD)]
