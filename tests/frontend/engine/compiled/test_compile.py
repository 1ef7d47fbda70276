"""Compiled functions: the same numbers as eager, gradients, state, guards, errors."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import frontend as torch
import graphc
from frontend import nn
from frontend.nn import functional as F

T = torch.tensor


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a.detach(), b.detach(), rtol=1e-4, atol=1e-6)


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))


def train(compiled: bool, make: object, **options: object) -> tuple:
    net = model()
    optimizer = make(net.parameters())

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    run = torch.compile(step, **options) if compiled else step
    torch.manual_seed(3)
    losses = []
    for number in range(5):
        if number == 3:
            optimizer.param_groups[0]["lr"] *= 0.5
        losses.append(run(torch.randn(5, 8), torch.randint(0, 4, (5,))).item())
    return losses, list(net.parameters()), run


OPTIMIZERS = [
    lambda p: torch.optim.Adam(p, lr=1e-2),
    lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=1e-3, nesterov=True),
]


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_a_training_step_is_one_entry_with_the_same_numbers(make: object) -> None:
    losses, parameters, _ = train(False, make)
    again, compiled, run = train(True, make)
    assert np.allclose(losses, again, rtol=1e-5)
    for p, q in zip(parameters, compiled, strict=True):
        assert close(p, q) and close(p.grad, q.grad)
    (specialization,) = (
        run.specializations
    )  # a new learning rate is no new trace, nor is the first .grad
    assert specialization.program.trains and specialization.calls == 5
    assert "lr" in specialization.program.inputs.names and "0.weight" in " ".join(
        specialization.program.inputs.names
    )


def test_gradients_need_not_be_kept() -> None:
    losses, _, _ = train(False, OPTIMIZERS[0])
    again, parameters, _ = train(True, OPTIMIZERS[0], keep_grads=False)
    assert np.allclose(losses, again, rtol=1e-5)
    with pytest.raises(RuntimeError, match="keep_grads=False"):
        _ = parameters[0].grad
    parameters[0].grad = None
    assert parameters[0].grad is None


def test_gradients_flow_through_a_compiled_module() -> None:
    net = model().eval()
    compiled = torch.compile(net)
    x = torch.randn(5, 8, requires_grad=True)
    gradients = []
    for run in (net, compiled):
        x.grad = None
        net.zero_grad()
        run(x * 2).square().sum().backward()
        gradients.append([x.grad, *(p.grad for p in net.parameters())])
    assert all(close(a, b) for a, b in zip(*gradients, strict=True))
    assert compiled.specializations[0].function is not None
    assert len(list(compiled.parameters())) == 4 and compiled.training is False


def test_forwards_own_their_saved_values() -> None:
    net = nn.Linear(3, 2)
    compiled = torch.compile(net)
    a, b = torch.randn(2, 3), torch.randn(2, 3)
    first, second = compiled(a), compiled(b)
    (first.square().sum() + second.exp().sum()).backward()
    expected = torch.autograd.grad(net(a).square().sum() + net(b).exp().sum(), net.weight)[0]
    assert close(net.weight.grad, expected)
    out = compiled(a).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        out.backward()


def test_any_order_of_gradients() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return (x**3).sum() * x.detach().sum()

    results = []
    for run in (function, torch.compile(function)):
        x = T([1.0, -2.0, 0.5], requires_grad=True)
        (g,) = torch.autograd.grad(run(x), x, create_graph=True)
        (h,) = torch.autograd.grad((g * g).sum(), x, create_graph=True)
        (k,) = torch.autograd.grad(h.sum(), x)
        results.append((g, h, k))
    assert all(close(a, b) for a, b in zip(*results, strict=True))


def test_inputs_may_be_called_anything() -> None:
    """Cotangents are inputs of the graphs that are compiled too, and are told by position."""

    def f(cotangent_0: Any, seed_4_0: Any, further1: Any, _cotangent_0: Any) -> Any:
        return (cotangent_0 * seed_4_0.exp() + further1 * _cotangent_0).sin() * cotangent_0

    compiled = torch.compile(f)
    torch.manual_seed(0)
    for order in (1, 2, 3):
        results = []
        for function in (f, compiled):
            torch.manual_seed(order)
            inputs = [torch.randn(3, requires_grad=True) for _ in range(4)]
            value = function(*inputs)
            for _ in range(order):
                grads = torch.autograd.grad(value.sum(), inputs, create_graph=True)
                value = sum(grads[1:], grads[0])
            results.append(value)
        assert close(*results)


def test_detached_paths_stay_cut() -> None:
    @torch.compile
    def run(x: torch.Tensor) -> tuple:
        with torch.no_grad():
            scale = x.sum()
        return x * scale, scale

    x = T([1.0, 2.0], requires_grad=True)
    out, scale = run(x)
    assert not scale.requires_grad
    out.sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_changed_inputs_between_forward_and_backward() -> None:
    w = torch.ones(2, 2, requires_grad=True)
    x = torch.ones(2, 2, requires_grad=True)
    run = torch.compile(lambda x: x @ w)
    out = run(x)
    with torch.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_forward_that_changes_what_backward_reads() -> None:
    scale = torch.full((2,), 3.0)

    def function(x: torch.Tensor) -> torch.Tensor:
        out = (x * scale.clone()).sum()
        scale.add_(1)
        return out

    run = torch.compile(function)
    for expected in (3, 4):
        x = torch.ones(2, requires_grad=True)
        run(x).backward()
        assert x.grad.tolist() == [expected, expected]
    assert scale.tolist() == [5, 5]


def test_state_and_random_numbers_advance() -> None:
    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(2))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x)
            return self.total * 2

    net = Running()
    run = torch.compile(net)
    assert run(torch.ones(2)).tolist() == [2, 2] and run(torch.ones(2)).tolist() == [4, 4]
    assert net.total.tolist() == [2, 2] and net.total._version == 2
    net.load_state_dict({"total": T([10.0, 10.0])})
    assert run(torch.ones(2)).tolist() == [22, 22]
    draw = torch.compile(lambda: torch.rand(4))
    torch.manual_seed(1)
    eager = [torch.rand(4), torch.rand(4)]
    torch.manual_seed(1)
    assert all(torch.equal(draw(), e) for e in eager)


def test_accumulating_gradients_across_calls() -> None:
    w = torch.ones(2, requires_grad=True)
    run = torch.compile(lambda x: (w * x).sum().backward())
    for expected in (1, 2, 3):
        run(torch.ones(2))
        assert w.grad.tolist() == [expected, expected]
    assert len(run.specializations) == 2 and "a .grad was None" in run.explain()


def test_guards_trace_again_and_say_why() -> None:
    net = nn.Dropout(0.5)
    run = torch.compile(net)
    x = torch.ones(100)
    assert 0 < (run(x) == 0).sum().item() < 100
    net.eval()
    assert torch.equal(run(x), x)
    net.train()
    run(x)
    assert len(run.specializations) == 2
    assert "Dropout.training was True, is False" in run.explain()
    w = nn.Parameter(torch.ones(3))
    scaled = torch.compile(lambda x: x * w)
    assert scaled(torch.ones(3)).requires_grad
    w.requires_grad_(False)
    assert not scaled(torch.ones(3)).requires_grad
    factor = 2
    multiply = torch.compile(lambda x: x * factor)
    assert multiply(torch.ones(1)).tolist() == [2]
    factor = 5
    assert multiply(torch.ones(1)).tolist() == [5]
    assert "variable 'factor' was 2, is 5" in multiply.explain()


def test_signatures() -> None:
    run = torch.compile(lambda x, y, k=1: x + y * k)
    x = torch.ones(2)
    assert run(x, x).tolist() == [2, 2] and run(x, torch.ones(2)).tolist() == [2, 2]
    assert run(x, x, k=3).tolist() == [4, 4] and run(x, x, k=3.0).tolist() == [4, 4]
    run(torch.ones(3), torch.ones(3))
    assert len(run.specializations) == 5
    run(x, x)
    assert len(run.specializations) == 5


def test_inputs_changed_in_place() -> None:
    run = torch.compile(lambda x: x.mul_(2))
    x = torch.ones(4)
    assert run(x) is x and x.tolist() == [2, 2, 2, 2] and x._version == 1
    run(x[1:3])
    assert x.tolist() == [2, 4, 4, 2]
    base = torch.ones(4)
    overlapping = torch.compile(lambda a, b: a.add_(b).sum())
    with pytest.raises(graphc.ArgumentError, match="shares memory"):
        overlapping(base[:3], base[1:])
    assert base.tolist() == [1, 1, 1, 1]


def test_taps_and_structures() -> None:
    seen: list = []

    @torch.compile
    def run(x: torch.Tensor) -> dict:
        y = x * 2
        torch.tap(y, lambda value: seen.append(value.tolist()))
        return {"y": y, "same": x, "more": (y.sum(), "text", [None, 3])}

    x = torch.ones(2)
    out = run(x)
    run(x * 3)
    assert seen == [[2, 2], [6, 6]]
    assert out["same"] is x and out["more"][1:] == ("text", [None, 3])


def test_level_none_and_decorator_forms() -> None:
    @torch.compile(level="none")
    def run(x: torch.Tensor) -> torch.Tensor:
        """Doubles."""
        return x.exp() * 2

    x = torch.randn(3)
    assert close(run(x), x.exp() * 2) and run.__doc__ == "Doubles."
    with pytest.raises(ValueError, match="level must be one of"):
        torch.compile(level="fast")
    with pytest.raises(TypeError, match="takes a function or Module"):
        torch.compile(3)


def test_errors_leave_state_alone() -> None:
    table = torch.zeros(3, 2)
    count = torch.zeros(())

    def function(i: torch.Tensor) -> torch.Tensor:
        count.add_(1)
        return F.embedding(i, table)

    run = torch.compile(function)
    run(T([1]))
    with pytest.raises(IndexError, match="index out of range in self: 5 is not in"):
        run(T([5]))
    assert count.item() == 1
    with pytest.raises(TypeError, match="content may change"):
        run(np.ones(20_000))
    assert count.item() == 1


def test_compiled_inside_compiled_and_inside_a_trace() -> None:
    inner = torch.compile(lambda x: x * 2)
    outer = torch.compile(lambda x: inner(x) + 1)
    assert outer(torch.ones(2)).tolist() == [3, 3]
    assert not inner.specializations
    assert torch.trace(inner, torch.ones(2)).output_types[0].shape == (2,)


def test_tracing_again_is_said(caplog: pytest.LogCaptureFixture) -> None:
    layer = nn.Linear(2, 2)
    layer.factor = 0
    run = torch.compile(lambda x: layer(x) * layer.factor, dynamic=False)
    with caplog.at_level("INFO", logger="frontend.compile"):
        run(torch.ones(1, 2))
        layer.factor = 1
        run(torch.ones(1, 2))
    assert ["first call" in caplog.text, "again: " in caplog.text] == [True, True]
    with pytest.warns(UserWarning, match="traced 8 times for one signature"):
        for factor in range(2, 8):
            layer.factor = factor
            run(torch.ones(1, 2))


def test_what_is_marked_to_run_eagerly_is_left_alone() -> None:
    seen: list[float] = []

    @torch.compiler.disable
    def looks(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.sum().item())
        return x * 2

    assert torch.compile(looks, fullgraph=True) is looks
    assert torch.compile(looks, fullgraph=True)(torch.ones(2)).tolist() == [2, 2] and seen == [2.0]
    with pytest.raises(graphc.GraphError, match="looks is marked to run eagerly"):
        torch.compile(lambda x: looks(x) + 1, fullgraph=True)(torch.ones(2))
    model = torch.nn.Linear(2, 2)
    assert torch.compile(model, disable=True, fullgraph=True) is model
    assert torch.compile(torch.compiler.disable(model), fullgraph=True) is model
    assert not torch.compiler.is_compiling()
    kept = torch.compile(lambda x: x * (2 if torch.compiler.is_compiling() else 3), fullgraph=True)
    assert kept(torch.ones(1)).item() == 2


def test_a_result_whose_history_a_gradient_freed_is_returned_and_backward_raises() -> None:
    w = torch.randn(3, requires_grad=True)

    def f(x: Any) -> Any:
        h = w * w
        (gradient,) = torch.autograd.grad((h * x).sum(), [w])
        return h, w * 3, gradient

    for function in (f, torch.compile(f)):
        h, other, gradient = function(torch.ones(3))
        assert gradient.tolist() == (2 * w).tolist() and h.requires_grad
        w.grad = None
        other.sum().backward()
        assert w.grad.tolist() == [3.0, 3.0, 3.0]
        with pytest.raises(RuntimeError, match="backward through the graph a second time"):
            h.sum().backward()


def test_collection_of_cycles_is_as_the_traced_function_leaves_it() -> None:
    thresholds = gc.get_threshold()
    seen: list[tuple[bool, int]] = []

    @torch.compile(fullgraph=True)
    def step(x: torch.Tensor) -> torch.Tensor:
        seen.append((gc.isenabled(), gc.get_threshold()[0]))
        gc.disable()
        return x + 1.0

    gc.enable()
    try:
        step(torch.ones(3))
        assert seen == [(True, 0)] and not gc.isenabled()
        assert gc.get_threshold() == thresholds
    finally:
        gc.enable()
