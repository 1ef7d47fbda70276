"""What cannot be traced runs eagerly: the same results and effects, in order and number, nothing
left behind by the trace; and Modules below are compiled each for itself."""

from __future__ import annotations

import builtins
import collections
import importlib
import io
import itertools
import random
import sys
import threading
import time
import types
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn
from frontend.engine.compiled import compiler
from frontend.engine.tensors.state import STATE
from graphc.errors import LoweringError, MemoryLimitError, TraceError, VerifyError
from tests.fuzz import fallbacks

X = torch.arange(6.0).reshape(2, 3) * 0.5 - 1.0


@pytest.fixture
def quiet() -> Iterator[None]:
    """The warning is not the subject."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "compiled .* runs eagerly")
        yield


@pytest.fixture
def traces(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The functions that were traced."""
    seen: list[Any] = []
    run = compiler.run_trace

    def counted(function: Any, *arguments: Any) -> Any:
        seen.append(function)
        return run(function, *arguments)

    monkeypatch.setattr(compiler, "run_trace", counted)
    return seen


def same(one: Any, two: Any) -> bool:
    return bool(np.array_equal(one.detach().numpy(), two.detach().numpy(), equal_nan=True))


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x * 2
    return -x


class Branching(nn.Module):
    """Two layers and a branch between them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
        self.second = nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        h = self.first(x)
        return self.second(-h if h.sum() > 0 else h)


# -- drawn programs, one piece each --------------------------------------------------------------


@pytest.mark.sampled(24)
@pytest.mark.parametrize("piece", fallbacks.PIECES)
def test_a_piece_that_cannot_be_traced_does_as_in_eager_mode(piece: str) -> None:
    calls = ((2, 1, False, "pass"), (2, 3, True, "H.n = 7"), (4, 3, False, "log.clear()"),
             (2, 1, False, "pass"))  # fmt: skip
    fallbacks.check(fallbacks.Case((piece,), "y", calls))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("returned", fallbacks.RETURNS)
def test_what_is_returned_is_as_in_eager_mode(returned: str) -> None:
    calls = ((2, 1, False, "pass"), (2, 1, True, "pass"), (4, 3, False, "pass"))
    fallbacks.check(fallbacks.Case(("log.append(y.sum().item())",), returned, calls))


# -- the warning, and fullgraph -------------------------------------------------------------------


def test_one_warning_names_the_line_the_reason_and_what_to_write() -> None:
    compiled = torch.compile(branches)
    with pytest.warns(UserWarning, match="compiled branches runs eagerly") as told:
        assert same(compiled(X), branches(X))
    text = str(told[0].message)
    assert "bool() needs the value of a tensor bool[]" in text and "fullgraph=True" in text
    assert "test_fallback.py" in text and "in branches" in text
    assert "where() or cond for a choice between two, while_loop for a loop" in text
    assert told[0].filename == __file__
    compiled(X)  # no further one: warnings are errors here
    compiled(X[:1])


def test_a_value_is_hinted_to_be_returned() -> None:
    with pytest.warns(UserWarning, match=r"try: return it and use it outside"):
        torch.compile(lambda x: x * x.sum().item())(X)
    with pytest.warns(UserWarning, match=r"try: return it and read its value outside"):
        torch.compile(lambda x: x * float(x.sum()))(X)


def test_fullgraph_raises() -> None:
    compiled = torch.compile(branches, fullgraph=True)
    for _ in range(2):
        with pytest.raises(TraceError, match="while it is traced"):
            compiled(X)
    assert not compiled.refusals
    decorated = torch.compile(fullgraph=True)(lambda x: x.sum().item())
    with pytest.raises(TraceError, match="while it is traced"):
        decorated(X)
    with pytest.raises(TypeError, match="fullgraph must be True or False"):
        torch.compile(branches, fullgraph=1)


# -- only what cannot be traced -------------------------------------------------------------------


@pytest.mark.parametrize("kind", [VerifyError, LoweringError, MemoryLimitError, KeyboardInterrupt])
def test_other_errors_raise(kind: type[BaseException], monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*arguments: Any, **keywords: Any) -> Any:
        raise kind("of the compiler")

    monkeypatch.setattr("frontend.engine.compiled.program.compile_graph", fails)
    compiled = torch.compile(lambda x: x * 2)
    with pytest.raises(kind, match="of the compiler"):
        compiled(X)
    assert not compiled.refusals


def test_the_users_error_raises_once() -> None:
    ran: list[int] = []

    def fails(x: Any) -> Any:
        ran.append(1)
        raise ValueError("of the user")

    compiled = torch.compile(fails)
    with pytest.raises(ValueError, match="of the user"):
        compiled(X)
    assert not compiled.refusals and ran == []  # a call that raises has done nothing


def test_where_eager_code_runs_an_error_leaves_what_eager_mode_leaves(quiet: None) -> None:
    log: list[str] = []

    def fails(x: Any) -> Any:
        log.append("begun")
        if x.sum() < 100:
            raise KeyError("over")
        return x

    compiled = torch.compile(fails)
    for count in (1, 2):
        with pytest.raises(KeyError, match="over"):
            compiled(X)
        assert log == ["begun"] * count


# -- the trace leaves nothing behind --------------------------------------------------------------


class World:
    """State of every sort that a function may change."""

    count = 0

    def __init__(self) -> None:
        self.n, self.items, self.table = 0, [], {"a": 1}  # type: ignore[var-annotated]
        self.random, self.array = random.Random(1), np.zeros(3)
        self.space = types.SimpleNamespace(inner=0)

    def changed(self) -> None:
        self.n += 1
        self.new = self.n
        self.items.append(self.n)
        self.table["b"] = self.n
        self.random.random()
        self.array[0] += 1
        self.space.inner += 1
        World.count += 1
        random.random()
        np.random.rand()

    def state(self) -> Any:
        return (
            self.__dict__.get("new"), self.n, list(self.items), dict(self.table),
            self.random.getstate(), self.array.tolist(), self.space.inner, World.count,
            random.getstate(), np.random.get_state()[1].tolist(),
        )  # fmt: skip


@pytest.mark.parametrize("fullgraph", [True, False])
def test_a_trace_without_a_program_is_undone(fullgraph: bool, quiet: None) -> None:
    world, states = World(), []

    def f(x: Any) -> Any:
        world.changed()
        states.append(world.state())
        return x * float(x.sum())

    before = world.state()
    if fullgraph:
        with pytest.raises(TraceError, match="while it is traced"):
            torch.compile(f, fullgraph=True)(X)
        assert world.state() == before and not states
        return
    torch.compile(f)(X)
    once = world.state()
    assert len(states) == 1 and world.n == 1 and once == states[0]


@pytest.mark.parametrize("returned", [lambda new: new, lambda new: new + 1])
def test_a_module_below_that_assigns_a_buffer_hands_it_out(quiet: None, returned: Any) -> None:
    class Assigning(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kept", torch.zeros(2, 3))

        def forward(self, x: Any) -> Any:
            self.kept = x * 2
            return returned(self.kept)

    results = []
    for run in (lambda function: function, torch.compile):
        module = Assigning()

        def function(x: Any, module: Any = module) -> Any:
            y = module(x)
            return y if float(y.sum()) else -y

        step = run(function)
        for _ in range(2):
            y = step(X)
            y.add_(1)
        results.append((y.tolist(), module.kept.tolist()))
    assert results[0] == results[1]


def test_effects_happen_once_a_call(quiet: None, tmp_path: Any, capsys: Any) -> None:
    path, stream = tmp_path / "log", io.StringIO()

    def f(x: Any) -> Any:
        print("ahead")
        with open(path, "a") as file:
            file.write("line\n")
        stream.write("w")
        try:
            print(f"{x.sum().item():.1f}")
        except Exception:
            print("never")
        return x * 2

    compiled = torch.compile(f)
    for count in (1, 2, 3):
        assert same(compiled(X), X * 2)
        assert capsys.readouterr().out == "ahead\n1.5\n"
        assert path.read_text() == "line\n" * count and stream.getvalue() == "w" * count
    assert (
        builtins.open is io.open
        and type(sys.stdout).__module__ != "frontend.engine.tracing.effects"
    )


def test_a_clock_is_read_at_each_call(quiet: None) -> None:
    compiled = torch.compile(lambda x: (x * 2, time.perf_counter()))
    first, second = compiled(X)[1], compiled(X)[1]
    assert first < second and "perf_counter() in a traced function" in compiled.refusals[0].message
    assert time.perf_counter.__module__ == "time"


def test_a_module_that_is_imported_in_a_trace_may_keep_what_is_replaced(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (
        "import importlib.metadata, time\nfrom pathlib import Path\n"
        "Path(__file__).read_text(), time.time(), print('imported')\n"
        "importlib.metadata.version('numpy')\n"
        "class Reader:\n    opened, clock = open, time.monotonic\n"
    )
    (tmp_path / "imported_in_a_trace.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)

    def f(x: Any) -> Any:
        importlib.import_module("imported_in_a_trace")
        return x * 2

    assert same(torch.compile(f)(X), X * 2)
    reader = sys.modules.pop("imported_in_a_trace").Reader()
    with reader.opened(tmp_path / "imported_in_a_trace.py") as file:
        assert file.read() == text and reader.clock() > 0


def test_what_is_met_in_a_trace_relies_on_what_stands_outside_of_it() -> None:
    class Timed(nn.Module):
        timed = False

        def forward(self, x: Any) -> Any:
            if self.timed:
                print(time.perf_counter(), file=sys.stdout)
            return x * 2

    layer = Timed()
    reference = weakref.ref(layer)  # which is not followed

    def f(x: Any) -> Any:
        return reference()(x)

    compiled = torch.compile(f)
    for _ in range(2):
        assert same(compiled(X), X * 2)
    assert len(compiled.specializations) == 1 and not compiled.refusals


def test_other_threads_have_their_effects_while_a_trace_is_under_way(
    capsys: Any, quiet: None
) -> None:
    begun, said = threading.Event(), threading.Event()

    def speak() -> None:
        begun.wait(10)
        print("from a thread")
        said.set()

    def f(x: Any) -> Any:
        begun.set()
        said.wait(10)
        return x * 2

    thread = threading.Thread(target=speak)
    thread.start()
    torch.compile(f)(X)
    thread.join()
    assert capsys.readouterr().out == "from a thread\n"


def test_what_stands_for_print_is_gone_after_a_trace(quiet: None) -> None:
    before = builtins.print, builtins.open, sys.stdout
    for function in (branches, lambda x: (print("a"), x)[1], lambda x: x * 2):
        torch.compile(function)(X)
        assert (builtins.print, builtins.open, sys.stdout) == before and STATE.mode is None
    with pytest.raises(ZeroDivisionError, match="division"):
        torch.compile(lambda x: x / (1 // 0))(X)
    assert (builtins.print, builtins.open, sys.stdout) == before


def test_a_generator_is_made_anew_at_each_call(quiet: None) -> None:
    def rows(x: Any) -> Any:
        yield x[0]
        yield x[1] * 2

    compiled = torch.compile(rows)
    for _ in range(2):
        assert [y.tolist() for y in compiled(X)] == [X[0].tolist(), (X[1] * 2).tolist()]
    with pytest.raises(TraceError, match="rows returns a generator"):
        torch.compile(rows, fullgraph=True)(X)


# -- refusals are kept under what they rest on ----------------------------------------------------


def test_a_refusal_is_kept_for_as_long_as_what_it_rests_on(traces: list[Any], quiet: None) -> None:
    settings = {"branch": True}

    def f(x: Any) -> Any:
        return branches(x) if settings["branch"] else x + 1

    compiled = torch.compile(f, dynamic=False)
    for _ in range(3):
        assert same(compiled(X), f(X))
    assert len(traces) == 1 and compiled.refusals[0].calls == 3
    settings["branch"] = False
    for _ in range(3):
        assert same(compiled(X), X + 1)
    assert len(traces) == 2 and len(compiled.specializations) == 1
    settings["branch"] = True
    assert same(compiled(X), f(X)) and len(traces) == 2  # both are kept


class ScaledByValue(torch.autograd.Function):
    """The rule of its gradient asks for a value."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g / g.abs().max().item() if g.abs().max() > 1 else g


def test_a_refusal_in_the_rule_of_a_gradient_is_kept(traces: list[Any], quiet: None) -> None:
    """The trace has ended then, and the program of forward is there."""
    settings = {"scale": 3.0}

    def f(x: Any) -> Any:
        return ScaledByValue.apply(x).sin() * settings["scale"]

    compiled = torch.compile(f, dynamic=False)
    for scale in (3.0, 3.0, 3.0, 4.0):
        settings["scale"] = scale
        mine, eager = (X.clone().requires_grad_() for _ in range(2))
        results = compiled(mine), f(eager)
        for result in results:
            result.sum().backward()
        assert same(*results) and same(mine.grad, eager.grad)
    assert len(traces) == 2  # it rests on what the trace looked at
    with torch.no_grad():
        assert same(compiled(X), f(X))
    assert not compiled.refusals[0].serves(compiled.specializations[-1].signature, [X])


def test_what_the_function_changes_itself_is_no_reason_to_trace_again(
    traces: list[Any], quiet: None
) -> None:
    world = World()

    def f(x: Any) -> Any:
        world.changed()
        return x * world.n

    compiled = torch.compile(f, dynamic=False)
    for count in range(1, 5):
        assert same(compiled(X), X * count)
    assert len(traces) == 1


def test_refusals_of_several_modes_are_kept(traces: list[Any], quiet: None) -> None:
    model = nn.Sequential(Branching(), nn.Dropout(0.5))
    compiled = torch.compile(lambda x: branches(model[0](x)), dynamic=False)
    for _ in range(3):
        for training in (True, False):
            model.train(training)
            compiled(X)
    outer = [each for each in traces if not isinstance(each, nn.Module)]
    assert len(outer) == 2


def test_an_effect_of_the_first_call_alone_is_traced_again(
    traces: list[Any], quiet: None, tmp_path: Any
) -> None:
    (tmp_path / "scale").write_text("3.0")

    class Reading(nn.Module):
        scale: Any = None

        def forward(self, x: Any) -> Any:
            if self.scale is None:
                with open(tmp_path / "scale") as file:
                    self.scale = float(file.read())
            return x * self.scale

    once, always = torch.compile(Reading()), torch.compile(lambda x: (open(__file__).close(), x)[1])
    for _ in range(4):
        assert same(once(X), X * 3.0)
    assert len(traces) == 2 and len(once.specializations) == 1 and once.refusals[0].calls == 1
    for _ in range(4):
        always(X)
    assert len(traces) == 4 and not always.specializations


def test_the_number_of_refusals_is_bounded(traces: list[Any], quiet: None) -> None:
    compiled = torch.compile(branches, dynamic=False)
    for rows in range(1, 30):
        assert same(compiled(torch.ones(rows, 3)), torch.ones(rows, 3) * 2)
    assert len(compiled.refusals) == 2 and len(traces) == 2  # the second is for all sizes
    settings = {"n": 0}
    keyed = torch.compile(lambda x: branches(x) * settings["n"], dynamic=False)
    for n in range(30):
        settings["n"] = n
        assert same(keyed(X), branches(X) * n)
    assert len(keyed.refusals) <= 8 and len(traces) <= 2 + 8


# -- Modules below --------------------------------------------------------------------------------


def test_modules_below_are_compiled_the_largest_that_can_be(quiet: None) -> None:
    torch.manual_seed(0)
    model = Branching()
    compiled = torch.compile(model)
    for _ in range(3):
        assert same(compiled(X), model(X))
    text = compiled.explain()
    assert "runs eagerly: 3 calls, " in text and "bool() needs the value" in text
    assert "compiled below: 1 Sequential, " in text and "compiled below: 1 Linear, " in text
    outer = torch.compile(lambda x: branches(model(x)))
    outer(X)
    text = outer.explain()
    assert "not compiled below: Branching: bool() needs" in text and "1 Sequential" in text


def test_a_step_of_training_below_has_the_same_gradients(quiet: None) -> None:
    def trained(compile: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        model = Branching()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1)

        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(model(x)).square().mean()
            if loss.item() > 0.01:
                loss.backward()
                optimizer.step()
            return loss

        run = compile(step)
        return [run(X).item() for _ in range(5)] + [p.tolist() for p in model.parameters()]

    assert trained(torch.compile) == trained(lambda step: step)


def test_a_result_that_shares_memory_is_not_compiled(quiet: None) -> None:
    class Viewing(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.view(-1)

    class Halves(nn.Module):
        def forward(self, x: Any) -> Any:
            y = x * 2
            return y, y[0]

    viewing, halves = Viewing(), Halves()

    def f(x: Any) -> Any:
        x = x.clone()
        viewing(x).add_(1.0)
        y, first = halves(x)
        first.mul_(3.0)
        return branches(x), y

    compiled = torch.compile(f)
    for _ in range(2):
        assert all(map(same, compiled(X), f(X)))
    assert compiled.explain().count("shares memory with an argument, state") == 2


def test_modules_that_are_made_at_each_call_are_not_compiled(
    traces: list[Any], quiet: None
) -> None:
    compiled = torch.compile(lambda x: branches(nn.Linear(3, 3)(x)))
    for _ in range(4):
        compiled(X)
    assert len(traces) == 1


def test_a_module_with_a_call_of_its_own(quiet: None) -> None:
    class Doubled(nn.Linear):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) * 2

    class Called(Branching):
        def __call__(self, x: Any) -> Any:
            return super().__call__(x) + 1

    doubled, called = Doubled(3, 3), Called()
    below = torch.compile(lambda x: branches(doubled(x)))
    itself = torch.compile(called)
    for _ in range(3):
        assert same(below(X), branches(doubled(X)))
        assert same(itself(X), called(X))
    assert "compiled below: 1 Doubled" in below.explain()


def test_what_is_disabled_is_not_compiled(traces: list[Any], quiet: None) -> None:
    layer = torch.compiler.disable(nn.Linear(3, 3))
    compiled = torch.compile(lambda x: branches(layer(x)))
    for _ in range(2):
        compiled(X)
    assert len(traces) == 1


def test_hooks_of_modules_below_run_at_each_call(quiet: None) -> None:
    model, seen = Branching(), []
    model.second.register_forward_hook(lambda module, args, y: seen.append(float(y[0, 0])))
    compiled = torch.compile(model)
    for count in (1, 2, 3):
        result = compiled(X)
        assert len(seen) == count and seen[-1] == float(result[0, 0])


# -- values that are handed out -------------------------------------------------------------------


class Losses:
    """A training step that says what it lost in all ways."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.losses: list[Any] = []

    def step(self, x: Any, index: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        print("a", loss.item(), x.shape[1], sep="|", end=".")
        self.losses.append(loss.item())
        self.losses.append((2, loss.detach().tolist()))
        print(loss.detach())
        return {"loss": loss.item(), "row": x[index]}


def test_a_step_that_hands_out_values_is_one_call(capsys: Any) -> None:
    seen = []
    for compiled in (False, True):
        world = Losses()
        run = torch.compile(world.step) if compiled else world.step
        results = [run(X, torch.tensor([1])) for _ in range(4)]
        texts = capsys.readouterr().out
        weights = [p.tolist() for p in world.model.parameters()]
        values = [(type(r["loss"]), r["loss"], r["row"].tolist()) for r in results]
        seen.append((values, texts, world.losses, weights))
        if compiled:
            assert len(run.specializations) == 1 and not run.refusals
            assert run.specializations[0].calls == 4
    assert seen[0] == seen[1]


class History:
    """A training step that keeps what it lost in lists below dicts, lists and objects."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(3, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.05)
        self.history: dict[str, Any] = {"loss": [], "metrics": {"norm": [], "sum": []}, "lr": [0.1]}
        self.meter = types.SimpleNamespace(rows=[[], []])

    def step(self, x: Any) -> Any:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        self.history["loss"].append(loss.item())
        for name, value in (("norm", loss.sqrt()), ("sum", 2 * loss)):
            self.history["metrics"][name].append(value.item() if name == "norm" else value)
        self.meter.rows[1].extend([loss.item(), self.history["lr"][-1]])
        return loss

    def state(self) -> Any:
        sums = [each.tolist() for each in self.history["metrics"]["sum"]]
        norms = self.history["metrics"]["norm"]
        return self.history["loss"], norms, sums, self.meter.rows, self.model.weight.tolist()


def test_lists_below_dicts_lists_and_attributes_are_logs(quiet: None) -> None:
    seen = []
    for compiled in (False, True):
        world = History()
        run = torch.compile(world.step) if compiled else world.step
        for _ in range(3):
            run(X)
        world.history["loss"] = [world.history["loss"][-1]]
        for _ in range(2):
            run(X)
        seen.append(world.state())
        if compiled:
            assert not run.refusals
            assert [each.calls for each in run.specializations] == [2, 3]
    assert seen[0] == seen[1]


def test_numbers_that_each_call_counts_are_appended_and_printed(quiet: None, capsys: Any) -> None:
    seen = []
    for compiled in (False, True):
        world = types.SimpleNamespace(step=0, decay=0.5, log=[])

        def f(x: Any, k: int, world: Any = world) -> Any:
            world.step += 1
            world.decay *= 0.5
            world.log.append((world.step, k, world.decay))
            print(world.step + k, sep=";")
            return x * 2

        run = torch.compile(f) if compiled else f
        for k in range(6):
            run(X, 3 + k)
        seen.append((world.log, capsys.readouterr().out))
        assert [*map(type, world.log[-1])] == [int, int, float]
        if compiled:
            assert not run.refusals
            assert len({id(each.program) for each in run.specializations}) < 4
    assert seen[0] == seen[1]


@pytest.mark.parametrize(
    "uses", ["len(logs['loss'])", "sum(logs['loss'])", "logs['loss'][-1:]", "[*logs.values()]"]
)
def test_a_list_below_a_dict_that_is_read_is_no_log(quiet: None, uses: str) -> None:
    space: dict[str, Any] = {"logs": {"loss": [], "other": []}}
    text = f"def f(x):\n y = x.sum()\n logs['loss'].append(y.item())\n {uses}\n return y"
    exec(compile(text, "drawn.py", "exec"), space)
    compiled = torch.compile(space["f"])
    for _ in range(2):
        compiled(X)
    assert space["logs"]["loss"] == [float(X.sum())] * 2 and compiled.refusals


def test_a_list_that_a_default_dict_makes_is_a_log_from_the_next_call_on(quiet: None) -> None:
    logs: Any = collections.defaultdict(list)

    def f(x: Any) -> Any:
        logs["sum"].append(x.sum().item())
        return x * 2

    compiled = torch.compile(f)
    for _ in range(3):
        compiled(X)
    assert logs == {"sum": [float(X.sum())] * 3}
    assert [each.calls for each in compiled.specializations] == [2]


def test_a_tensor_is_printed_with_its_history(capsys: Any) -> None:
    leaf = torch.ones(2, requires_grad=True)

    def f(x: Any) -> Any:
        y = x * leaf.sum()
        print(y.mean(), leaf, x, y[0], y.detach(), sep="; ")
        y = y.square()
        return y

    f(X)
    want = capsys.readouterr().out
    assert "grad_fn=<MeanBackward0>" in want and "requires_grad=True" in want
    compiled = torch.compile(f)
    for _ in range(2):
        compiled(X).sum().backward()
        assert capsys.readouterr().out == want
    assert not compiled.refusals


def test_a_tensor_that_a_list_is_given_is_that_tensor(quiet: None) -> None:
    seen: list[Any] = []

    def f(x: Any) -> Any:
        y = x * 2
        seen.append(x)
        seen.append(y)
        return y

    compiled = torch.compile(f)
    for _ in range(2):
        y = compiled(X)
        assert seen[-2] is X and seen[-1] is y


def test_nothing_is_handed_out_where_a_call_raises(capsys: Any) -> None:
    world = Losses()
    run = torch.compile(world.step)
    for _ in range(2):
        with pytest.raises(IndexError, match="out of bounds"):
            run(X, torch.tensor([7]))
        assert capsys.readouterr().out == "" and not world.losses
    run(X, torch.tensor([0]))
    assert len(world.losses) == 2 and capsys.readouterr().out.startswith("a|")


@pytest.mark.parametrize(
    "use",
    [
        lambda v: v > 1, lambda v: v + 1, lambda v: f"{v}", lambda v: isinstance(v, float),
        lambda v: {v: 1}, lambda v: round(v), lambda v: [v] * int(v > 0),
        lambda v: np.array([v]).sum(), lambda v: v.is_integer(), lambda v: max(v, 0.0), bool,
        lambda v: torch.tensor(v).item(), lambda v: type(v) is float,
    ],
)  # fmt: skip
def test_what_is_more_than_handing_out_runs_eagerly(use: Any, quiet: None) -> None:
    def f(x: Any) -> Any:
        return x * 2, use(x.sum().item())

    compiled = torch.compile(f)
    for _ in range(2):
        assert compiled(X)[1] == f(X)[1]
    assert compiled.refusals and not compiled.specializations


@pytest.mark.slow
def test_a_value_that_is_kept_elsewhere_runs_eagerly(quiet: None) -> None:
    world = types.SimpleNamespace(last=None, table={})

    def f(x: Any) -> Any:
        world.last = x.sum().item()
        world.table["sum"] = x.sum().item()
        return x * 2

    compiled = torch.compile(f)
    for factor in (1.0, 2.0):
        compiled(X * factor)
        assert world.last == world.table["sum"] == 1.5 * factor


def test_a_value_is_that_of_its_place() -> None:
    def f(x: Any) -> Any:
        y = x * 1
        before = y.sum().item()
        y.add_(1.0)
        return before, y.sum().item(), y

    compiled = torch.compile(f)
    for _ in range(2):
        assert compiled(X)[:2] == f(X)[:2]
    assert not compiled.refusals


def test_a_value_known_while_tracing_is_a_number() -> None:
    compiled = torch.compile(lambda x: x * torch.tensor(3.0).item())
    assert same(compiled(X), X * 3.0) and not compiled.refusals


def test_values_with_gradients_outside() -> None:
    def f(x: Any) -> Any:
        loss = x.square().sum()
        return loss, loss.item()

    results = []
    for run in (f, torch.compile(f)):
        x = X.clone().requires_grad_()
        loss, value = run(x)
        loss.backward()
        results.append((value, x.grad.tolist()))
    assert results[0] == results[1]


def test_a_log_of_constants_grows_at_each_call() -> None:
    log: list[Any] = []

    def f(x: Any) -> Any:
        log.append("called")
        return x * 2

    compiled = torch.compile(f)
    for count in range(1, 4):
        compiled(X)
        assert log == ["called"] * count
    assert len(compiled.specializations) == 1


def test_open_sizes_and_numbers_stay_open_beside_what_is_printed(capsys: Any) -> None:
    def f(x: Any) -> Any:
        print("rows")
        return x.sum(0), x.mean().item()

    compiled = torch.compile(f)
    for rows in (2, 3, 4, 5):
        x = torch.ones(rows, 3) * rows
        total, mean = compiled(x)
        assert mean == rows and same(total, x.sum(0))
    assert capsys.readouterr().out == "rows\n" * 4 and not compiled.refusals
    assert compiled.explain().count("\ntraced") <= 2


def test_iterators_are_as_before(quiet: None) -> None:
    numbers = itertools.count(1)
    compiled = torch.compile(lambda x: x * next(numbers))
    assert [compiled(X)[0, 0].item() for _ in range(3)] == [-1.0, -2.0, -3.0]


class Picking(nn.Module):
    """How many rows go through a layer depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.all, self.few = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 4))

    def forward(self, x: Any) -> Any:
        rows = torch.nonzero(x[:, 0] > 0)[:, 0]
        return self.all(x).index_add(0, rows, self.few(x[rows]))


class Recomputing(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([Picking(), Picking()])

    def forward(self, x: Any) -> Any:
        for layer in self.layers:
            x = torch.utils.checkpoint.checkpoint(layer, x, use_reentrant=False)
        return x


def test_what_is_checkpointed_below_saves_the_same_in_both_runs(quiet: None) -> None:
    """Modules below are compiled from their second call on, and backward is such a call."""
    torch.manual_seed(0)
    model = Recomputing()
    compiled = torch.compile(model)
    for rows in (5, 5, 6):
        x, gradients = torch.randn(rows, 4), []
        for run in (model, compiled):
            model.zero_grad()
            run(x).sum().backward()
            gradients.append([p.grad.clone() for p in model.parameters()])
        assert all(map(same, *gradients))
