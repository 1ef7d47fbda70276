"""Tracing: names, state, gradients, views, and what cannot be traced."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend import nn
from frontend.engine.compiled import tracers
from graphc.ir.types import TensorType

T = torch.tensor


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc1(x).relu()


def test_a_module_has_its_parameters_as_named_inputs() -> None:
    model, x = Net(), torch.randn(4, 3)
    graph = torch.trace(model, x)
    assert graph.input_names == ("x", "fc1.weight", "fc1.bias")
    (out,) = graphc.run(graph, x.numpy(), *(p.detach().numpy() for p in model.parameters()))
    assert np.allclose(out, model(x).detach().numpy(), atol=1e-6)
    assert graphc.parse(str(graph)) == graph
    assert any("test_trace.py" in str(node.location) for node in graph.nodes)


def test_results_are_flattened_and_arguments_named() -> None:
    def function(pair: tuple, scale: float, **more: torch.Tensor) -> dict:
        left, right = pair
        return {"sum": left + right, "rest": [left * scale, more["z"]]}

    graph = torch.trace(function, (torch.ones(2), torch.ones(2)), 3.0, z=torch.ones(1))
    assert graph.input_names == ("pair_0", "pair_1", "z")
    assert [str(t) for t in graph.output_types] == ["f32[2]", "f32[2]", "f32[1]"]


def test_changed_state_is_an_aliased_output() -> None:
    counter = torch.zeros(())

    def count(x: torch.Tensor) -> torch.Tensor:
        counter.add_(1)
        return x * counter

    graph = torch.trace(count, torch.ones(2))
    assert graph.input_names == ("x", "counter")
    assert graph.aliases == ((1, 1),)
    assert counter.item() == 0 and counter._version == 0
    random = torch.trace(lambda: torch.rand(3))
    assert random.input_names == ("rng_words",) and random.aliases == ((1, 0),)


def test_a_training_step_is_one_graph() -> None:
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    before = [p.detach().clone() for p in model.parameters()]
    graph = torch.trace(step, torch.randn(4, 3))
    assert graph.input_names[:3] == ("x", "fc1.weight", "fc1.bias") and "lr" in graph.input_names
    assert len(graph.aliases) == 4  # two parameters, two momenta
    for p, value in zip(model.parameters(), before):
        assert torch.equal(p, value) and p.grad is None and p.is_leaf


def test_everything_is_restored_when_the_function_raises() -> None:
    w = T([1.0, 2.0], requires_grad=True)
    w.grad = torch.ones(2)
    version, grad = w._version, w.grad

    def fails(x: torch.Tensor) -> None:
        with torch.no_grad():
            w.mul_(2)
        w.grad = None
        (w * x).sum().backward()
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        torch.trace(fails, torch.ones(2))
    assert w.tolist() == [1, 2] and w.grad is grad and w._version == version
    assert isinstance(w._value, np.ndarray)
    assert (w + 1).tolist() == [2, 3]


@pytest.mark.parametrize(
    ("use", "name"),
    [
        (lambda x: 1 if x.sum() > 0 else 2, "bool\\(\\)"),
        (lambda x: x.sum().item(), ".item\\(\\)"),
        (lambda x: int(x.sum()), "int\\(\\)"),
        (lambda x: float(x.sum()), "float\\(\\)"),
        (lambda x: x.numpy(), ".numpy\\(\\)"),
        (lambda x: x.tolist(), ".tolist\\(\\)"),
        (lambda x: str(x), "printing"),
        (lambda x: f"{x}", "printing"),
        (lambda x: x[x > 0], "bool mask"),
        (lambda x: torch.allclose(x, x), "bool\\(\\)"),
    ],
)
def test_python_cannot_have_the_value(use: object, name: str) -> None:
    with pytest.raises(graphc.TraceError, match=rf"(?s){name}.*try: .*test_trace\.py"):
        torch.trace(use, torch.ones(2))


def test_a_value_from_outside_is_not_frozen_silently() -> None:
    limit = T(3.0)
    with pytest.raises(graphc.TraceError, match="float\\(\\)"):
        torch.trace(lambda x: x * float(limit), torch.ones(2))


def test_a_traced_tensor_must_not_outlive_its_trace() -> None:
    kept = SimpleNamespace()
    torch.trace(lambda x: setattr(kept, "x", x * 2), torch.ones(2))
    for use in (lambda: kept.x + 1, lambda: repr(kept.x), lambda: kept.x.tolist()):
        with pytest.raises(graphc.TraceError, match=r"trace has ended(?s:.*)frontend\.tap"):
            use()
    with pytest.raises(graphc.TraceError, match="trace has ended"):
        torch.trace(lambda x: x + kept.x, torch.ones(2))


def test_a_list_that_is_given_a_traced_tensor_is_an_error() -> None:
    kept: list = []
    with pytest.raises(graphc.TraceError, match="'kept' keeps a tensor f32\\[2\\] that is being"):
        torch.trace(lambda x: kept.append(x * 2), torch.ones(2))


def test_writes_to_modules_are_refused() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x

    model = Counting()
    with pytest.raises(graphc.TraceError, match=r"Counting\.calls is assigned while tracing"):
        torch.trace(model, torch.ones(1))
    assert model.calls == 0
    model(torch.ones(1))
    assert model.calls == 1


def test_requires_grad_is_not_changed_inside() -> None:
    w = T([1.0])
    with pytest.raises(graphc.TraceError, match="requires_grad"):
        torch.trace(lambda x: x * w.requires_grad_(), torch.ones(1))
    assert not w.requires_grad


def mutate(x: torch.Tensor) -> tuple:
    y = x.clone()
    flat = y.view(-1)
    flat[1:3] = 7
    y[0].mul_(2)
    turned = y.t()
    y.add_(1)
    y.unsqueeze(0)[0, 1, ::2].zero_()
    turned.detach()[0, 0] = 100
    return y, flat, turned


def test_mutation_through_views_reaches_the_base() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    eager = mutate(x)
    traced = graphc.run(torch.trace(mutate, x), x.numpy())
    for a, b in zip(eager, traced, strict=True):
        assert a.tolist() == b.tolist()
    with pytest.raises(graphc.TraceError, match="share memory"):
        torch.trace(lambda x: x.expand(3, 2).add_(1), torch.ones(2))


def test_entry_point_of_the_command_line() -> None:
    types = [TensorType.parse("f32[4,3]")]
    traced = tracers.trace_callable(Net(), types)
    assert traced is not None and traced.graph.input_types[0] == types[0]
    assert tracers.trace_callable(lambda x: x + 1, types) is not None
    assert tracers.trace_callable(3, types) is None


def test_shape_errors_come_from_the_users_line() -> None:
    with pytest.raises(graphc.ShapeError, match=r"test_trace\.py"):
        torch.trace(lambda x: x @ x, torch.ones(2, 3))


def test_a_generator_that_is_imported_meanwhile_was_not_drawn_from(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def imports(x: torch.Tensor) -> torch.Tensor:
        import random  # as networkx does, which the compiler may need first in backward

        return x * len(random.__name__)

    monkeypatch.delitem(sys.modules, "random")
    assert torch.compile(imports)(torch.ones(1)).item() == 6.0
