"""Numbers and other plain values outside that a compiled function assigns: counters, schedules,
flags. Each call computes them and puts them there, as eager mode does, from as few programs as
there are ways through the code."""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from graphc.errors import TraceError

X = torch.arange(64).reshape(4, 16) / 7
STEPS = 0


class Counter:
    def __init__(self) -> None:
        self.t = 0
        self.rate = 0.5
        self.options = {"step": 0, "name": "a"}
        self.ready = False
        self.fails = False


class Guarded(Counter):
    """A class that has a say in what is assigned."""

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)


class Counting(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(16, 3)
        self.t = 0

    def forward(self, x: Any) -> Any:
        self.t += 1
        return self.linear(x) * 0.9**self.t


def traces(compiled: Any) -> int:
    return sum(line.startswith("traced ") for line in compiled.explain().splitlines())


def runs_as_eager(
    make: Callable[[], tuple[Callable[..., Any], Any]], expected: int, calls: int = 8
) -> Any:
    """Eager and compiled copies side by side: results and state of each call, and the traces."""
    function, state = make()
    eager, eager_state = make()
    compiled = torch.compile(function)
    for step in range(calls):
        result, reference = compiled(X), eager(X)
        assert result.detach().numpy().tobytes() == reference.detach().numpy().tobytes(), step
        assert repr(vars(state)) == repr(vars(eager_state)), step
    assert compiled.refusals == [], compiled.explain()
    assert traces(compiled) == expected, compiled.explain()
    return compiled


def with_counter(body: Callable[[Any, Any], Any]) -> Callable[[], tuple[Any, Any]]:
    def make() -> tuple[Any, Any]:
        counter = Counter()
        return (lambda x: body(counter, x)), counter

    return make


def test_a_counter_is_one_program_from_zero_on() -> None:
    def counts(counter: Any, x: Any) -> Any:
        counter.t += 1
        return x * (1 - 0.9**counter.t)

    compiled = runs_as_eager(with_counter(counts), 1)
    assert "assigned: attribute 't' of Counter = n + 1" in compiled.explain()


def test_one_that_is_only_counted() -> None:
    def counts(counter: Any, x: Any) -> Any:
        counter.t += 1
        return x * 2

    runs_as_eager(with_counter(counts), 1)


def test_an_item_of_a_dict_and_a_float() -> None:
    def counts(counter: Any, x: Any) -> Any:
        counter.options["step"] += 1
        counter.rate *= 0.75
        return x * counter.rate / counter.options["step"]

    runs_as_eager(with_counter(counts), 1)


def test_a_schedule_of_a_counter() -> None:
    def averages(counter: Any, x: Any) -> Any:
        counter.t += 1
        decay = min(0.5, (1 + counter.t) / (10 + counter.t))
        return x * decay

    compiled = runs_as_eager(with_counter(averages), 2, 14)
    assert len(compiled.specializations) == 2


def test_a_closure_variable() -> None:
    def make() -> tuple[Any, Any]:
        t = 0
        shown = Counter()

        def counts(x: Any) -> Any:
            nonlocal t
            t += 1
            return x * 0.9**t

        return counts, shown

    compiled = runs_as_eager(make, 1)
    assert compiled.function.__closure__[0].cell_contents == 8


def test_a_global() -> None:
    global STEPS

    def counts(x: Any) -> Any:
        global STEPS
        STEPS += 1
        return x * 0.9**STEPS

    compiled = torch.compile(counts)
    for step in range(1, 6):
        STEPS = step - 1 if step < 4 else step + 10
        expected = X * 0.9 ** (STEPS + 1)
        assert compiled(X).numpy().tobytes() == expected.numpy().tobytes()
    assert STEPS == 16
    assert traces(compiled) == 1


def test_a_module_with_gradients_and_without() -> None:
    torch.manual_seed(0)
    model, other = Counting(), Counting()
    other.load_state_dict(model.state_dict())
    compiled = torch.compile(model)
    for step in range(1, 7):
        for each, source in ((compiled, model), (other, other)):
            source.zero_grad()
            each(X).sum().backward()
            assert source.t == step
        for p, q in zip(model.parameters(), other.parameters()):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-5)
    assert traces(compiled) == 1
    with torch.no_grad():
        assert compiled(X).numpy().tobytes() == other(X).numpy().tobytes()
    assert model.t == other.t == 7


def test_branches_on_the_counter_are_programs() -> None:
    def alternates(counter: Any, x: Any) -> Any:
        counter.t += 1
        if counter.t % 2 == 0:
            return x * counter.t
        return x + counter.t

    runs_as_eager(with_counter(alternates), 2)

    def begins(counter: Any, x: Any) -> Any:
        scale = 3 if counter.t == 0 else counter.t
        counter.t += 1
        return x * scale

    runs_as_eager(with_counter(begins), 2)

    def reaches(counter: Any, x: Any) -> Any:
        counter.t += 1
        return x * 3 if counter.t == 5 else x * counter.t

    runs_as_eager(with_counter(reaches), 2, 12)


def test_flags_and_what_is_not_there_yet() -> None:
    def initialises(counter: Any, x: Any) -> Any:
        if not counter.ready:
            counter.ready = True
            counter.options["name"] = "b"
            return x * 3
        return x

    runs_as_eager(with_counter(initialises), 2)

    def makes(counter: Any, x: Any) -> Any:
        if not hasattr(counter, "calls"):
            counter.calls = 0
        counter.calls += 1
        return x * counter.calls

    runs_as_eager(with_counter(makes), 2)


def test_a_number_that_is_needed_as_it_is_runs_eagerly_in_the_end() -> None:
    counter = Counter()

    def needs(x: Any) -> Any:
        counter.t += 1
        return x * math.cos(counter.t)

    compiled = torch.compile(needs)
    with pytest.warns(UserWarning, match="there is code for each of its values"):
        for step in range(1, 12):
            np.testing.assert_array_equal(compiled(X).numpy(), (X * math.cos(step)).numpy())
            assert counter.t == step
    assert traces(compiled) < 8


def test_as_a_position_it_is_one_program() -> None:
    class Cache(Counter):
        def __init__(self) -> None:
            super().__init__()
            self.rows = torch.zeros(16, 3)

    def make() -> tuple[Any, Any]:
        cache = Cache()

        def writes(x: Any) -> Any:
            cache.rows[cache.t] = x[0, :3]
            cache.t += 1
            return cache.rows[: cache.t].sum() + x.sum()

        return writes, cache

    runs_as_eager(make, 1)


def test_returned_it_is_that_of_the_call() -> None:
    counter = Counter()

    def counts(x: Any) -> Any:
        counter.t += 1
        return x * 2, counter.t, counter.options

    compiled = torch.compile(counts)
    for step in range(1, 6):
        _, t, options = compiled(X)
        assert (t, type(t)) == (step, int)
        assert options == counter.options
    assert traces(compiled) == 1


def test_a_call_that_raises_assigns_nothing() -> None:
    counter, table = Counter(), torch.arange(4)

    def looks_up(x: Any, at: Any) -> Any:
        counter.t += 1
        if counter.fails:
            raise OSError("now")
        return table[at] * counter.t

    compiled = torch.compile(looks_up)
    good, bad = torch.tensor([1, 2]), torch.tensor([1, 9])
    with pytest.raises(IndexError, match="out of"):
        compiled(X, bad)
    assert counter.t == 0
    for step in range(1, 4):
        assert compiled(X, good).tolist() == [step, 2 * step]
        with pytest.raises(IndexError, match="out of"):
            compiled(X, bad)
        assert counter.t == step and type(counter.t) is int
    counter.fails = True
    with pytest.raises(OSError, match="now"):
        compiled(X, good)
    assert counter.t == 3 and type(counter.t) is int


def test_in_the_body_of_a_loop_it_is_refused() -> None:
    counter, model = Counter(), Counting()

    def body(i: Any, x: Any) -> Any:
        counter.t += 1
        return i + 1, x * 2

    def loops(x: Any) -> Any:
        return torch.while_loop(lambda i, x: i < 3, body, (torch.tensor(0), x))[1]

    with pytest.raises(TraceError, match="'t' of Counter in the body"):
        torch.compile(loops, fullgraph=True)(X)

    def branches(x: Any) -> Any:
        return torch.cond(x.sum() > 0, model, lambda x: x[:, :3], (x,))

    with pytest.raises(TraceError, match=r"Counting\.t in the body"):
        torch.compile(branches, fullgraph=True)(X)
    assert (counter.t, model.t) == (0, 0)


def test_a_class_with_its_own_setattr_runs_eagerly() -> None:
    counter = Guarded()

    def counts(x: Any) -> Any:
        counter.t += 1
        return x * counter.t

    with pytest.raises(TraceError, match="'t' of Guarded"):
        torch.compile(counts, fullgraph=True)(X)
    assert counter.t == 0
    compiled = torch.compile(counts)
    with pytest.warns(UserWarning, match="'t' of Guarded"):
        for step in range(1, 4):
            assert compiled(X).numpy().tobytes() == (X * step).numpy().tobytes()
    assert counter.t == 3


def test_the_tools_leave_it_alone() -> None:
    counter = Counter()

    def counts(x: Any) -> Any:
        counter.t += 1
        return x * counter.t

    compiled = torch.compile(counts)
    compiled(X)
    compiled(X)
    assert compiled.verify(X)
    assert counter.t == 2
    torch.trace(counts, X)


def test_another_thread_counts_too() -> None:
    counter = Counter()

    def counts(x: Any) -> Any:
        counter.t += 1
        return x * counter.t

    compiled = torch.compile(counts)
    thread = threading.Thread(target=lambda: [compiled(X) for _ in range(3)])
    thread.start()
    thread.join()
    compiled(X)
    assert counter.t == 4


def test_as_many_steps_as_there_are_parameters_share_a_number() -> None:
    class Momentum:
        def __init__(self, parameters: Any) -> None:
            self.parameters = list(parameters)
            self.state = [{"step": 0, "m": torch.zeros_like(p)} for p in self.parameters]

        @torch.no_grad()
        def step(self) -> None:
            for p, state in zip(self.parameters, self.state):
                state["step"] += 1
                state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.sub_(state["m"] * (0.1 / (1 - 0.9 ** state["step"])))

    def run(compile: Any) -> tuple[Any, Any]:
        torch.manual_seed(0)
        model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(40)])
        optimizer = Momentum(model.parameters())
        for p in model.parameters():
            p.grad = torch.zeros_like(p)

        def step(x: Any) -> Any:
            for p in optimizer.parameters:
                p.grad.zero_()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        function = compile(step)
        losses = [function(X).item() for _ in range(3)]
        assert [state["step"] for state in optimizer.state] == [3] * 80
        return losses, function

    expected, _ = run(lambda step: step)
    losses, compiled = run(torch.compile)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert traces(compiled) == 1
    assert len(compiled.specializations[0].program.numbers.expressions) <= 2


class Lazy(torch.optim.Optimizer):
    """State of Python's, made at the first step."""

    def __init__(self, parameters: Any) -> None:
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"], state["m"] = 0, torch.zeros_like(p)
                state["step"] += 1
                state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
                p.sub_(state["m"] * (group["lr"] / (1 - 0.9 ** state["step"])))


class LazyPlain:
    """The same of one's own."""

    def __init__(self, parameters: Any) -> None:
        self.parameters = list(parameters)
        self.state: dict[Any, Any] = {}

    @torch.no_grad()
    def step(self) -> None:
        for i, p in enumerate(self.parameters):
            state = self.state.setdefault(i, {"step": 0, "m": torch.zeros_like(p)})
            state["step"] += 1
            state["m"].mul_(0.9).add_(p.grad, alpha=0.1)
            p.sub_(state["m"] * (0.1 / (1 - 0.9 ** state["step"])))


@pytest.mark.parametrize("kind", [Lazy, LazyPlain])
@pytest.mark.filterwarnings("ignore:compiled step runs eagerly")
def test_state_that_the_first_step_makes(kind: Any) -> None:
    def run(compile: Any) -> Any:
        torch.manual_seed(0)
        model = nn.Linear(16, 3)
        optimizer = kind(model.parameters())

        def step(x: Any) -> Any:
            model.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        function = compile(step)
        losses = [function(X).item() for _ in range(5)]
        assert [each["step"] for each in optimizer.state.values()] == [5, 5]
        return losses, function

    expected, _ = run(lambda step: step)
    losses, compiled = run(torch.compile)
    np.testing.assert_allclose(losses, expected, rtol=1e-4)
    assert traces(compiled) == 1  # the first call ran eagerly


def test_items_of_lists_and_keys_that_are_given() -> None:
    def counts(counter: Any, x: Any) -> Any:
        counter.options["sizes"][1] += 1
        return x * counter.options["sizes"][1]

    def make() -> tuple[Any, Any]:
        counter = Counter()
        counter.options["sizes"] = [5, 0]
        return (lambda x: counts(counter, x)), counter

    runs_as_eager(make, 1)

    def gives(counter: Any, x: Any) -> Any:
        counter.options["calls"] = counter.options.get("calls", 0) + 1
        kept = counter.options.setdefault("kept", {"n": 0, "all": []})
        kept["n"] += 1
        return x * counter.options["calls"] * kept["n"]

    runs_as_eager(with_counter(gives), 2)

    def once(counter: Any, x: Any) -> Any:
        if "done" in counter.options:
            return x
        counter.options["done"] = True
        return x * 3

    runs_as_eager(with_counter(once), 2)


@pytest.mark.parametrize("kept", ["an element", "a key", "an object", "an object of a set"])
def test_what_is_done_for_the_first_time_of_each(kept: str) -> None:
    """A set remembers what was seen; eager code and compiled do the same the second time."""

    def make() -> tuple[Any, Any]:
        seen: Any = set() if kept in ("an element", "an object of a set") else {}

        def step(x: Any, key: Any) -> Any:
            if kept == "an object of a set":
                seen.add(Counter())
                return x * len(seen)
            if key in seen:
                return x
            if kept == "an element":
                seen.add(key)
            else:
                seen[key] = True if kept == "a key" else Counter()
            return x * 2

        return step, seen

    (eager, expected), (function, seen) = make(), make()
    compiled = torch.compile(function)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a call that keeps an object runs eagerly
        for key in (1, 1, 2, 2, 1, 3, 3, "a", "a", None, 1, 1, 2):
            if key is None:
                expected.clear()
                seen.clear()
            assert compiled(X, key).tolist() == eager(X, key).tolist(), key
            assert len(seen) == len(expected), key
    plain = kept in ("an element", "a key")
    assert plain == (compiled.refusals == []), compiled.explain()


def test_a_buffer_that_the_first_call_registers() -> None:
    class Biased(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("w", torch.ones(16))

        def forward(self, x: Any) -> Any:
            if not hasattr(self, "bias"):
                self.register_buffer("bias", self.w * 2, persistent=False)
            return x * self.bias

    model = Biased()
    compiled = torch.compile(model)
    with pytest.warns(UserWarning, match=r"Biased\.bias is assigned"):
        results = [compiled(X) for _ in range(3)]
    assert all(result.tolist() == (X * 2).tolist() for result in results)
    assert traces(compiled) == 1 and "bias" in model._buffers
    assert list(model.state_dict()) == ["w"]
