"""Which tensor an argument is, where code tells tensors apart by that: guarded, also where nobody
reads the value of the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import frontend as torch
from frontend import nn

Compile = Callable[[Any], Any]


def _new() -> Any:
    return torch.ones(3)


class Holder(nn.Module):
    """Has a tensor as an attribute, a buffer, a parameter or an item."""

    def __init__(self, kind: str):
        super().__init__()
        self.kind, self.items = kind, [_new()]
        if kind == "buffer":
            self.register_buffer("last", _new())
        else:
            self.last: Any = nn.Parameter(_new()) if kind == "parameter" else _new()

    @property
    def held(self) -> Any:
        return self.items[0] if self.kind == "item" else self.last

    def forward(self, x: Any) -> Any:
        return x * (2 if x is (self.items[0] if self.kind == "item" else self.last) else 3)


class Keeps(nn.Module):
    """Keeps what it was called with."""

    last: Any

    def __init__(self) -> None:
        super().__init__()
        self.last = None

    def forward(self, x: Any) -> Any:
        y = x * (2 if x is self.last else 3)
        self.last = x
        return y


def _closure(compile: Compile) -> Iterator[Any]:
    w = _new()
    f = compile(lambda x: x * (2 if x is w else 3))
    yield from (f(_new()), f(w), f(_new()), f(w.detach()))


def _of_two(compile: Compile) -> Iterator[Any]:
    w = _new()
    f = compile(lambda x, y: x * (2 if y is not w else 3))
    yield from (f(_new(), _new()), f(_new(), w), f(w, _new()), f(w, w))


def _by_id(compile: Compile) -> Iterator[Any]:
    held = [_new(), _new()]
    f = compile(lambda x: x * (2 if id(x) in [id(w) for w in held] else 3))
    yield from (f(_new()), f(held[1]), f(_new()), f(held[0]))


def _by_key(compile: Compile) -> Iterator[Any]:
    w = _new()
    known = {w: 2.0}
    f = compile(lambda x: x * known.get(x, 3.0))
    yield from (f(_new()), f(w), f(_new()))


def _attribute(compile: Compile) -> Iterator[Any]:
    h = SimpleNamespace(t=_new())
    f = compile(lambda x: x * (2 if x is h.t else 3))
    yield from (f(_new()), f(h.t))
    before, h.t = h.t, _new()
    yield from (f(before), f(h.t))


def _held_by(kind: str) -> Callable[[Compile], Iterator[Any]]:
    def program(compile: Compile) -> Iterator[Any]:
        module = Holder(kind)
        f = compile(module)
        yield from (f(_new()), f(module.held), f(_new()))

    return program


def _kept(compile: Compile) -> Iterator[Any]:
    f = compile(Keeps())
    x, y = _new(), _new()
    yield from map(f, (x, x, y, y, x, x))


def _gradient(compile: Compile) -> Iterator[Any]:
    w = _new().requires_grad_()
    w.sum().backward()
    f = compile(lambda x: x * (2 if x is w.grad else 3))
    yield from (f(_new()), f(_new()))


KINDS = ("attribute", "buffer", "parameter", "item")
PROGRAMS = {
    "closure": _closure, "of two": _of_two, "id": _by_id, "key": _by_key, "object": _attribute,
    "kept": _kept, "gradient": _gradient, **{kind: _held_by(kind) for kind in KINDS},
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_is_asked_at_each_call(name: str) -> None:
    want, have = (
        [float(result[0]) for result in PROGRAMS[name](compile)]
        for compile in (lambda function: function, torch.compile)
    )
    assert want == have


def test_functions_that_do_not_ask_pay_nothing() -> None:
    w = _new()
    f = torch.compile(lambda x, y=None: x * w if y is None else y)
    f(_new())
    assert not f.specializations[0].program.call_guards
