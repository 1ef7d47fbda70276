"""Guards: where a value lives, what must hold of it, the check of a call made of them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from pathlib import Path
from types import CellType
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend import nn, optim
from frontend.engine.compiled.deciders import check_of
from frontend.engine.compiled.specializations import DECIDERS
from frontend.engine.outside.check import (
    Apart,
    Equals,
    Identical,
    Is,
    One,
    Same,
    SameItems,
    ValueCheck,
    Values,
)
from frontend.engine.outside.constants import Constants
from frontend.engine.outside.guard import (
    Guard,
    lines_of,
    module_guard,
    tensors_guard,
    types_guard,
)
from frontend.engine.outside.items import Items, array_guard
from frontend.engine.outside.source import (
    MISSING,
    ArgumentSource,
    Call,
    CapturedSource,
    CellSource,
    GradSource,
    HostSource,
    ItemSource,
    LookupSource,
    MemorySource,
    PartSource,
    PlaceInMemorySource,
    Source,
    TogetherSource,
    ValueSource,
)
from frontend.engine.tensors.epoch import changed
from frontend.engine.tensors.state import STATE
from frontend.nn.modules.global_hooks import global_hooks_guard
from frontend.optim.groups import optimizer_guard, option_guard
from graphc.ir.types import DType

X, Y = torch.ones(2, 3), torch.zeros(2)
W = torch.ones(2, requires_grad=True)
W.grad = torch.zeros(2)
NUMBERS: dict[object, object] = {"lr": 0.5, "betas": (0.9, 0.99)}
MODEL = nn.Linear(2, 2)
ADAM = optim.Adam(MODEL.parameters(), lr=0.1)
ARGUMENT, CAPTURED = ArgumentSource(1), CapturedSource(W)
SOURCES: list[Source[Any]] = [
    ARGUMENT,
    CAPTURED,
    GradSource(W, CAPTURED),
    MemorySource(ARGUMENT, (2, 0)),
    HostSource(LookupSource(NUMBERS.__getitem__, "betas", "betas"), 1, DType.f64),
    LookupSource(NUMBERS.__contains__, "lr", "lr"),
    ItemSource(NUMBERS, "lr", "lr"),
    ItemSource(NUMBERS, "momentum", "momentum"),
    CellSource(CellType(3), "variable 'k'"),
    CellSource(CellType(), "variable 'k'"),
    PartSource(ARGUMENT, operator.attrgetter("is_leaf")),
    PartSource(GradSource(W, CAPTURED), operator.attrgetter("requires_grad")),
    TogetherSource([ARGUMENT, CAPTURED]),
    TogetherSource([ARGUMENT]),
    PlaceInMemorySource(ARGUMENT),
    ValueSource(X),
    *[
        guard.source
        for guard in (
            module_guard(MODEL),
            tensors_guard([X, W]),
            types_guard([X]),
            global_hooks_guard(),
            optimizer_guard(ADAM),
            option_guard(ADAM.param_groups[0], "amsgrad", bool),
            Items({"a": 1}, "d").guard,
            array_guard(np.zeros(2), "an array"),
        )
    ],
]
CHECKS: list[tuple[ValueCheck[Any], Any, Any]] = [
    (Same(2.0), 2.0, 2),
    (Same(-0.0), -0.0, 0.0),
    (Equals([1, 2], "why"), [1, 2], [2, 1]),
    (Is(True, "why"), True, 1),
    (Identical([X, Y], "why"), [X, Y], [X]),
    (SameItems({"a": 1}, "why"), {"a": 1}, {"a": 1.0}),
    (One(), (X, X), (X, Y)),
    (Apart([W]), (X, Y), (W, Y)),
    (Apart([]), (X, Y), (X, X)),
    (Values(np.ones(2)), np.ones(2), np.zeros(2)),
]


def run(text: str, constants: Constants, **names: object) -> Any:
    return eval(text, {**constants.names, **names})


def is_same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray):
        return isinstance(right, np.ndarray) and bool(np.array_equal(left, right))
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(is_same, left, right))
    return left is right or (not isinstance(left, torch.Tensor) and bool(left == right))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: type(source).__name__)
def test_code_reads_what_a_source_reads(source: Source[Any]) -> None:
    constants, call = Constants(), (X, Y)
    assert is_same(run(source.code(constants), constants, call=call), source.read(call))


@pytest.mark.parametrize("check, good, bad", CHECKS, ids=lambda x: type(x).__name__)
def test_code_checks_what_a_check_does(check: ValueCheck[Any], good: Any, bad: Any) -> None:
    for value, holds in ((good, True), (bad, False)):
        constants = Constants()
        assert bool(run(check.code("now", constants), constants, now=value)) is holds
        assert bool(check.holds(value)) is holds
    assert check.reason("it", bad)


def check_alone(guards: list[Guard]) -> Callable[[Call], bool]:
    """The lines of some guards as a function."""
    constants = Constants()
    lines = ["def check(call):", *[f"    {line}" for line in lines_of(guards, constants)]]
    names = constants.names
    exec("\n".join([*lines, "    return True"]), names)
    found: Any = names["check"]
    return lambda call: bool(found(call))


def test_lines_say_what_the_guards_say_whichever_is_broken() -> None:
    space: dict[object, object] = {"a": 1, "b": 2, "c": 3}

    def source(name: str) -> Guard:
        return Guard(ItemSource(space, name, name), Same(space[name]))

    guards = [source("a"), source("b"), Guard(ArgumentSource(0), Is(X, "why")), source("c")]
    check = check_alone(guards)
    assert check((X,)) and not check((Y,))
    for name in ("a", "b", "c"):
        kept = space.pop(name)
        assert not check((X,)) and [g.holds((X,)) for g in guards].count(False) == 1
        space[name] = kept
    assert check((X,))


def test_a_variable_that_is_emptied_does_not_hold() -> None:
    cell = CellType(3)
    guard = Guard(CellSource(cell, "variable 'k'"), Same(3))
    check = check_alone([guard])
    assert check(())
    del cell.cell_contents
    assert not check(()) and guard.reason() == "variable 'k' was deleted"


# -- when they are looked at -----------------------------------------------------------------------


class Told(Source[object]):
    """A value whose writes begin an epoch, if the writer says so."""

    by_epoch = True
    label = "a setting"

    def __init__(self, value: object):
        self.value = value
        self.reads = 0
        self.during: Callable[[], None] = lambda: None

    def read(self, call: Call = ()) -> object:
        self.reads += 1
        value = self.value
        self.during()
        return value


class Untold(Told):
    """One that nobody tells of."""

    by_epoch = False


class Holder:
    """What a check is of."""

    def __init__(self) -> None:
        self.epoch: object = None
        self.bound = 0

    def bind(self) -> None:
        self.bound += 1


def test_what_begins_an_epoch_is_read_once_in_each_and_the_rest_at_every_call() -> None:
    told, untold, of_call, holder = Told(1), Untold(1), Untold(1), Holder()
    guards = [Guard(untold, Same(1)), Guard(told, Same(1))]
    check = check_of(guards, [Guard(of_call, Same(1))])
    assert [check(holder, ()) for _ in range(3)] == [True] * 3
    assert (told.reads, untold.reads, of_call.reads, holder.bound) == (1, 3, 3, 1)
    changed()
    assert check(holder, ()) and (told.reads, holder.bound) == (2, 2)
    untold.value = 2
    assert not check(holder, ())
    untold.value, of_call.value = 1, 2
    assert not check(holder, ())
    of_call.value, told.value = 1, 2
    assert check(holder, ()), "nobody told"
    changed()
    assert not check(holder, ()) and not check(holder, ()), "the epoch is not taken for one"


def test_a_write_while_guards_are_looked_at_is_seen_by_the_next_call() -> None:
    """The epoch is read ahead of what counts for as long as it lasts."""
    told, holder = Told(1), Holder()
    check = check_of([Guard(told, Same(1))], [])

    def write() -> None:  # by another thread, behind the read
        told.during = lambda: None
        told.value = 2
        changed()

    told.during = write
    assert check(holder, ()), "it was 1 when it was read"
    assert not check(holder, ())


def test_the_deciders_are_told_in_the_order_they_run() -> None:
    page = (Path(__file__).parents[5] / "docs" / "engine.md").read_text("utf-8")
    rows = [f"| {each.name} | {each.of} | {each.cost} |" for each in DECIDERS]
    places = [page.find(row) for row in rows]
    assert len(rows) == 8 and -1 not in places, rows
    assert places == sorted(places)


# -- a new kind of outside value -------------------------------------------------------------------


class FileSource(Source[object]):
    """The text of a file."""

    __slots__ = ("label", "path")

    def __init__(self, path: Path):
        self.path = path
        self.label = f"file {path.name!r}"

    def read(self, call: Call = ()) -> object:
        return self.path.read_text("utf-8") if self.path.exists() else MISSING


def written(path: Path) -> float:
    """What a library may do that keeps a number in a file."""
    source = FileSource(path)
    if STATE.mode is not None:
        STATE.mode.guard(("file", path), lambda: Guard(source, Same(source.read())))
    return float(str(source.read()))


def test_a_guard_on_a_new_kind_of_value_takes_one_source(tmp_path: Path) -> None:
    path = tmp_path / "scale"
    path.write_text("2.0", "utf-8")
    compiled = torch.compile(lambda x: x * written(path), fullgraph=True)
    assert compiled(X).tolist() == (X * 2).tolist() and compiled(X).tolist() == (X * 2).tolist()
    assert len(compiled.trace_reasons) == 1
    assert "frozen: file 'scale'='2.0'" in compiled.explain()
    path.write_text("3.0", "utf-8")
    assert compiled(X).tolist() == (X * 3).tolist()
    assert "again: file 'scale' was '2.0', is '3.0'" in compiled.trace_reasons[1]
    path.write_text("2.0", "utf-8")
    assert compiled(X).tolist() == (X * 2).tolist() and len(compiled.trace_reasons) == 2
    path.unlink()
    with pytest.raises(ValueError, match="could not convert"):
        compiled(X)
