"""Arguments that were computed outside and require gradients: `backward()` inside goes on into
their history, as eagerly, whichever sort comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

Compile = Callable[[Any], Any]


def _leaf(value: float = 1.0, rows: int = 3) -> Any:
    return torch.full((rows,), value).requires_grad_()


def _gradients(*tensors: Any) -> list[Any]:
    return [None if x.grad is None else x.grad.tolist() for x in tensors]


def _step(x: Any) -> None:
    (x * x * 2).sum().backward()


def _leaf_first(compile: Compile) -> list[Any]:
    f, a, b = compile(_step), _leaf(), _leaf()
    for x in (_leaf(), a * 5, a * 3 + 1, b):
        f(x)
    return _gradients(a, b)


def _computed_first(compile: Compile) -> list[Any]:
    f, a, b = compile(_step), _leaf(), _leaf()
    for x in (a * 5, b, a.exp()):
        f(x)
    return _gradients(a, b)


def _one_history(compile: Compile) -> list[Any]:
    f, a = compile(lambda x, y: (x * y).sum().backward()), _leaf(2.0)
    h = a * 3
    f(h + 1, h.exp())
    return _gradients(a)


def _captured(compile: Compile) -> list[Any]:
    a = _leaf()
    h = a * 4
    f = compile(lambda x: (x * h).sum().backward(retain_graph=True))
    f(torch.ones(3))
    f(torch.ones(3))
    return _gradients(a)


def _hooked(compile: Compile) -> list[Any]:
    f, a = compile(_step), _leaf()
    h = a * 2
    h.retain_grad()
    h.register_hook(lambda gradient: gradient * 10)
    f(h)
    return _gradients(a, h)


def _freed(compile: Compile) -> list[Any]:
    f, a = compile(_step), _leaf()
    h = a.exp()
    f(h)
    with pytest.raises(RuntimeError, match="a second time"):
        f(h)
    return _gradients(a)


def _several_times(compile: Compile) -> list[Any]:
    def step(h: Any) -> None:
        (h * 2).sum().backward(retain_graph=True)
        (h * 3).sum().backward()

    f, a = compile(step), _leaf()
    f(a.exp())
    f(a.exp())
    return _gradients(a)


def _sizes(compile: Compile) -> list[Any]:
    f, gradients = compile(_step), []
    for rows in (3, 4, 5, 6):
        a = _leaf(rows=rows)
        f(a * 2)
        f(a)
        gradients += _gradients(a)
    return gradients


def _told(compile: Compile) -> list[Any]:
    f, a = compile(lambda x: x * (2 if x.is_leaf else 3)), _leaf()
    return [f(x).tolist() for x in (a, a * 1, torch.ones(3), a)]


def _head(compile: Compile) -> list[Any]:
    """A step of the head inside, of what is before it outside."""
    encoder, head = nn.Linear(3, 3), nn.Linear(3, 1)
    for parameter in (*encoder.parameters(), *head.parameters()):
        nn.init.constant_(parameter, 0.3)
    outer, inner = (torch.optim.SGD(m.parameters(), lr=0.1) for m in (encoder, head))

    def step(h: Any) -> Any:
        inner.zero_grad()
        loss = head(h).square().mean()
        loss.backward()
        inner.step()
        return loss

    f, losses = compile(step), []
    for i in range(3):
        outer.zero_grad()
        losses.append(f(encoder(torch.ones(2, 3) * (i + 1))).item())
        outer.step()
    return [*losses, *[p.tolist() for p in (*encoder.parameters(), *head.parameters())]]


PROGRAMS = [_leaf_first, _computed_first, _one_history, _captured, _hooked, _freed, _several_times,
            _sizes, _told, _head]  # fmt: skip


@pytest.mark.parametrize("program", PROGRAMS)
def test_gradients_arrive_as_eagerly(program: Callable[[Compile], list[Any]]) -> None:
    assert program(torch.compile) == program(lambda function: function)


def test_what_would_need_them_before_the_call_is_over_is_refused() -> None:
    a = _leaf()
    optimizer = torch.optim.SGD([a], lr=0.1)

    def reads(h: Any) -> Any:
        h.sum().backward()
        optimizer.step()

    def asks(h: Any) -> Any:
        return torch.autograd.grad(h.sum(), [a], allow_unused=True)[0]

    def again(h: Any) -> None:
        h.exp().sum().backward(create_graph=True)

    for function in (reads, asks, again):
        with pytest.raises(TraceError, match="computed outside"):
            torch.compile(function, fullgraph=True)(a * 3)
        assert a.grad is None and a.tolist() == [1.0] * 3

    def direct(h: Any) -> None:
        (h * a).sum().backward()

    compiled, b = torch.compile(direct, fullgraph=True), _leaf()
    compiled(b * 3)  # what is behind the argument is another leaf
    assert _gradients(a, b) == [[3.0] * 3, [1.0 * 3] * 3]
    with pytest.raises(TraceError, match="computed outside"):
        compiled(a * 2)


def test_one_changed_in_place_is_refused() -> None:
    def function(h: Any) -> Any:
        h.mul_(2)
        return h.sum()

    with pytest.raises(TraceError, match="changed in place"):
        torch.compile(function, fullgraph=True)(_leaf() * 3)


def test_an_argument_that_the_same_weights_made() -> None:
    """A layer that is applied again to what it gave: what is behind the argument is not reached by
    the backward of the call."""
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 3)
        run = torch.compile(layer, fullgraph=True) if compiled else layer
        x = torch.ones(2, 3)
        for _ in range(2):
            run(run(x) * 2.0).sum().backward()
        results.append([p.grad.tolist() for p in layer.parameters()])
        y = run(run(_leaf()[None].expand(2, 3)) * 2.0).square().sum()
        first = torch.autograd.grad(y, list(layer.parameters()), create_graph=True)
        sum(g.sum() for g in first).backward()
        results[-1] += [p.grad.tolist() for p in layer.parameters()]
    assert results[0] == results[1]
