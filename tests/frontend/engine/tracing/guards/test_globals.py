"""What a compiled function reads by name from outside of itself: a change of it traces again."""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import frontend as torch
from frontend import nn
from frontend.engine.outside.bytecode import scan_bytecode
from graphc.errors import TraceError

ONE = torch.ones(2)
SCALE: Any = 2.0
MODEL: Any = None


def set_global(name: str, value: Any) -> None:
    globals()[name] = value


@pytest.fixture(autouse=True)
def restored() -> Any:
    yield
    set_global("SCALE", 2.0)


def scaled(x: Any) -> Any:
    return x * SCALE


class Scaled:
    """A callable object."""

    offset = 1

    def __init__(self, factor: Any) -> None:
        self.factor = factor

    def __call__(self, x: Any) -> Any:
        return self.times(x) + self.offset

    def times(self, x: Any) -> Any:
        return x * self.factor

    @property
    def twice(self) -> Any:
        return self.factor * 2


class Slotted:
    __slots__ = ("factor",)

    def __init__(self, factor: float) -> None:
        self.factor = factor


class Layer(nn.Module):
    offset = 1

    def __init__(self) -> None:
        super().__init__()
        self.state = torch.ones(2)
        self.activation: Any = torch.relu
        self.settings: dict[str, Any] = {"factor": 1, "more": SimpleNamespace(power=1)}
        self.factors = [1.0]

    def forward(self, x: Any) -> Any:
        return self.activation(x) * self.state + self.offset + self.shift()

    def shift(self) -> Any:
        factor = self.settings["factor"] * self.factors[0] * self.settings["more"].power
        return factor * SCALE


class Derived(Layer):
    def forward(self, x: Any) -> Any:
        return super().forward(x) * 2


# Each makes a function and what changes it reads: (function, change).
Case = Callable[[], tuple[Callable[[Any], Any], Callable[[], Any]]]


def of_object(change: Callable[[Any], None], make: Any = Scaled) -> Case:
    def case() -> Any:
        held = make(2)
        return (lambda x: x * held.factor), lambda: change(held)

    return case


def of_layer(change: Callable[[Any], Any]) -> Case:
    def case() -> Any:
        layer = Layer()
        return layer, lambda: change(layer)

    return case


def closure(first: Any, second: Any, use: Callable[[Any, Any], Any]) -> Case:
    def case() -> Any:
        held = first

        def change() -> None:
            nonlocal held
            held = second

        return (lambda x: use(held, x)), change

    return case


def items(held: Any, change: Callable[[Any], Any], use: Callable[[Any, Any], Any]) -> Case:
    return lambda: (lambda x: use(held, x), lambda: change(held))


def linear(weight: float) -> Any:
    layer = nn.Linear(2, 2)
    with torch.no_grad():
        layer.weight.fill_(weight)
        layer.bias.fill_(0)
    return layer


def of_weight() -> Any:
    layer = linear(1.0)
    return (lambda x: x @ layer.weight), lambda: setattr(layer, "weight", linear(2.0).weight)


def of_parameters() -> Any:
    layer = linear(1.0)
    total = lambda x: x * sum(p.sum() for p in layer.parameters())  # noqa: E731
    return total, lambda: setattr(layer, "more", nn.Parameter(torch.ones(1)))


def of_argument_function() -> Any:
    factor = 2

    def change() -> None:
        nonlocal factor
        factor = 3

    chosen = lambda x: x * factor  # noqa: E731
    return functools.partial(lambda function, x: function(x), chosen), change


def of_compiled() -> Any:
    inner = torch.compile(scaled)
    return (lambda x: inner(x)), change_scale


def of_property() -> Any:
    held = Scaled(2)
    return (lambda x: x * held.twice), lambda: setattr(held, "factor", 5)


def of_code() -> Any:
    def used(x: Any) -> Any:
        return x * 2

    return (lambda x: used(x)), lambda: setattr(used, "__code__", scaled_by_5.__code__)


def scaled_by_5(x: Any) -> Any:
    return x * 5


def change_scale() -> None:
    set_global("SCALE", 3.0)


CASES: dict[str, Case] = {
    "a global number": lambda: (lambda x: x * SCALE, change_scale),
    "a global tensor": lambda: (lambda x: x * SCALE, lambda: set_global("SCALE", ONE * 7)),
    "a global of a helper": lambda: (lambda x: scaled(x), change_scale),
    "a global of a partial": lambda: (functools.partial(scaled), change_scale),
    "a global of a decorated function": lambda: (torch.no_grad()(scaled), change_scale),
    "a global of a compiled function": of_compiled,
    "a closure's tensor": closure(ONE, ONE * 3, lambda held, x: held * x),
    "a closure's function": closure(torch.relu, torch.neg, lambda held, x: held(x)),
    "a closure's Module": closure(linear(1.0), linear(2.0), lambda held, x: held(x)),
    "a sign of zero": closure(0.0, -0.0, lambda held, x: 1 / torch.full((2,), held)),
    "an attribute": of_object(lambda held: setattr(held, "factor", 5)),
    "a slot": of_object(lambda held: setattr(held, "factor", 5), Slotted),
    "an attribute of a namespace": of_object(
        lambda held: setattr(held, "factor", 5), lambda n: SimpleNamespace(factor=n)
    ),
    "an attribute a method reads": lambda: (
        (held := Scaled(2)), lambda: setattr(held, "factor", 5)
    ),
    "an attribute of a bound method's object": lambda: (
        (held := Scaled(2)).times, lambda: setattr(held, "factor", 5)
    ),
    "an attribute a property reads": of_property,
    "a class attribute that is hidden": lambda: (
        (held := Scaled(2)), lambda: setattr(held, "offset", 5)
    ),
    "an item of a dict": items({"a": 2}, lambda d: d.update(a=3), lambda d, x: x * d["a"]),
    "an item of a list": items([2], lambda n: n.__setitem__(0, 3), lambda n, x: x * n[0]),
    "a list that grows": items([ONE], lambda n: n.append(ONE), lambda n, x: sum(w * x for w in n)),
    "a Module's weight that is read": of_weight,
    "a Module's parameters that are walked": of_parameters,
    "a variable of an argument's function": of_argument_function,
    "code that was loaded again": of_code,
    "a Module's tensor": of_layer(lambda layer: setattr(layer, "state", ONE * 2)),
    "a Module's function": of_layer(lambda layer: setattr(layer, "activation", torch.neg)),
    "a Module's forward": of_layer(lambda layer: setattr(layer, "forward", scaled)),
    "an item of a Module's dict": of_layer(lambda layer: layer.settings.update(factor=4)),
    "an item of a Module's list": of_layer(lambda layer: layer.factors.__setitem__(0, 4.0)),
    "an object in a Module's dict": of_layer(
        lambda layer: setattr(layer.settings["more"], "power", 3)
    ),
    "a global that a Module's method reads": of_layer(lambda layer: change_scale()),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_change_traces_again(name: str) -> None:
    function, change = CASES[name]()
    compiled = torch.compile(function)
    before = compiled(ONE).tolist()
    assert before == function(ONE).tolist() and compiled(ONE).tolist() == before
    assert len(compiled.specializations) == 1
    change()
    after = compiled(ONE).tolist()
    assert after == function(ONE).tolist() != before
    assert len(compiled.specializations) == 2


@pytest.mark.parametrize("kind", [Layer, Derived])
def test_a_class_attribute_of_a_module(kind: Any) -> None:
    layer = kind()
    compiled = torch.compile(layer)
    before = compiled(ONE)
    try:
        Layer.offset = 11
        assert compiled(ONE).tolist() == layer(ONE).tolist() != before.tolist()
    finally:
        Layer.offset = 1


def test_names_of_attributes_are_no_globals() -> None:
    """`SCALE` is an attribute here: that a global has this name traces nothing again."""
    held = SimpleNamespace(SCALE=2, count=0)
    compiled = torch.compile(lambda x: x * held.SCALE)
    for number in range(3):
        set_global("SCALE", number)
        held.count += 1
        compiled(ONE)
    assert len(compiled.specializations) == 1


def test_what_is_not_read_traces_nothing_again() -> None:
    class Trainer:
        def __init__(self) -> None:
            self.model = linear(1.0)
            self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
            self.step = 0
            self.log: list[float] = []
            self.compiled = torch.compile(self.run)

        def run(self, x: Any) -> Any:
            self.optimizer.zero_grad()
            loss = self.model(x).sum()
            loss.backward()
            self.optimizer.step()
            return loss

    trainer = Trainer()
    for _ in range(4):
        trainer.log.append(trainer.compiled(ONE[None]).item())
        trainer.step += 1
    assert len(trainer.compiled.specializations) == 1


def test_a_counter_of_pythons_is_assigned_by_each_call() -> None:
    counter = SimpleNamespace(step=0)

    def annealed(x: Any) -> Any:
        counter.step += 1
        return x * counter.step

    compiled = torch.compile(annealed, fullgraph=True)
    assert [compiled(ONE).tolist() for _ in range(3)] == [(ONE * k).tolist() for k in (1, 2, 3)]
    assert counter.step == 3


def test_an_iterator_is_refused() -> None:
    batches = iter([ONE, ONE * 2])
    with pytest.raises(TraceError, match="'batches' is an iterator"):
        torch.compile(lambda: next(batches) * 2, fullgraph=True)()
    with pytest.raises(TraceError, match="an argument is an iterator"):
        torch.compile(lambda x: next(x) * 2, fullgraph=True)(iter([ONE]))
    assert torch.equal(next(batches), ONE)


def test_a_log_may_grow() -> None:
    log: list[str] = []

    def logged(x: Any) -> Any:
        log.append("traced")
        return x * 2

    compiled = torch.compile(logged, fullgraph=True)
    for _ in range(3):
        compiled(ONE)
    assert log == ["traced"]
    compiled = torch.compile(logged)
    for _ in range(3):
        compiled(ONE)
    assert log == ["traced"] * 4 and len(compiled.specializations) == 1


def test_state_made_in_a_trace_is_refused() -> None:
    cache: dict[str, Any] = {}

    def summed(x: Any) -> Any:
        if "sum" not in cache:
            cache["sum"] = torch.zeros(2)
        return cache["sum"].add_(x)

    with pytest.raises(TraceError, match="'cache' keeps a tensor"):
        torch.compile(summed, fullgraph=True)(ONE)


def test_the_bytecode_scan() -> None:
    def function(self: Any, other: Any) -> Any:
        return SCALE.a.b + self.c.d() + other.e + (lambda: MODEL.f)()

    reads = scan_bytecode(function.__code__)
    assert {*reads.globals} == {"SCALE", "MODEL"}
    assert ("a", "b") in reads.globals["SCALE"] and ("f",) in reads.globals["MODEL"]
    assert ("c", "d") in reads.first and ("e",) in reads.loose


def test_items_are_parts_of_paths() -> None:
    def function(self: Any, key: str) -> Any:
        self.logs["loss"].append(1)
        SCALE["a"]["b"].add(SCALE[key].c)
        SCALE[len(key)].d = MODEL["x"]
        return key["y"].z  # type: ignore[index]

    reads = scan_bytecode(function.__code__)
    assert {("logs", "[loss]", "append"), ("logs",)} <= reads.first
    assert {("[a]", "[b]", "add"), ("[]", "c"), ("",)} <= reads.globals["SCALE"]
    assert reads.globals["MODEL"] == {("[x]",), ("[x]", "")}
    # Of what an item is, nothing is known.
    assert {("append",), ("add",), ("c",), ("d",), ("z",)} <= reads.loose


def test_attributes_of_items_are_followed() -> None:
    parts = {"scale": SimpleNamespace(by=2.0), "other": [SimpleNamespace(by=3.0)]}

    def scaled(x: Any) -> Any:
        return x * parts["scale"].by + parts["other"][0].by  # type: ignore[attr-defined,index]

    compiled = torch.compile(scaled, fullgraph=True)
    assert compiled(ONE).tolist() == [5, 5]
    parts["scale"].by = 4.0  # type: ignore[attr-defined]
    assert compiled(ONE).tolist() == [7, 7]
    parts["other"][0].by = 0.0  # type: ignore[index]
    assert compiled(ONE).tolist() == [4, 4]
    parts["scale"] = SimpleNamespace(by=1.0)
    assert compiled(ONE).tolist() == [1, 1]


def test_the_bytecode_scan_tells_captured_locals_from_closure_variables() -> None:
    outside = SimpleNamespace(a=1)

    def function(x: Any) -> Any:
        y = x.b

        def inner(outside: Any) -> Any:
            return [outside.e, y.c, (lambda: outside.f)()]

        return inner, y.d, outside.a

    reads = scan_bytecode(function.__code__)
    assert reads.cells.keys() == {"outside"}
    assert ("a",) in reads.cells["outside"] and not {("e",), ("f",)} & reads.cells["outside"]
    assert {("c",), ("d",), ("e",), ("f",)} <= reads.loose


def test_methods_of_locals_that_inner_functions_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    @torch.compile
    def function(x: Any) -> Any:
        y = x * 2
        z = sum([y * v for v in (1.0, 2.0)], y)
        return y.sigmoid() + (lambda: z.tanh())()

    function(ONE)
    monkeypatch.setattr(torch.Tensor, "sigmoid", lambda x: x * 5)
    assert function(ONE).tolist() == pytest.approx([11.0, 11.0], abs=1e-4)
    monkeypatch.setattr(torch.Tensor, "tanh", lambda x: x * 0)
    assert function(ONE).tolist() == [10.0, 10.0]


def test_items_of_large_containers_count_and_of_huge_ones_their_number() -> None:
    large, huge = {i: 1.0 for i in range(3000)}, [1.0] * 70_000
    compiled = torch.compile(lambda x: x * large[5])
    assert compiled(ONE).tolist() == [1.0, 1.0]
    large[5] = 4.0
    assert compiled(ONE).tolist() == [4.0, 4.0] and len(compiled.specializations) == 2
    compiled = torch.compile(lambda x: x * huge[5])
    with pytest.warns(UserWarning, match="variable 'huge' holds 70,000 items"):
        compiled(ONE)


def test_equal_items_in_place_of_others_trace_nothing_again() -> None:
    held = [float(i) for i in range(2000)]
    compiled = torch.compile(lambda x: x * held[5])
    for _ in range(3):
        held[:] = [float(i) for i in range(2000)]
        assert compiled(ONE).tolist() == [5.0, 5.0]
    assert len(compiled.specializations) == 1
