"""Which calls share a trace: by shapes and values, not by what an argument's own `==` says; and
what a compiled function does with arguments that it changes."""

from __future__ import annotations

import dataclasses
import enum
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.engine.compiled.trace_history import MANY_SIGNATURES, MOST_SPECIALIZATIONS
from graphc.errors import TraceError

X = torch.ones(2)


@dataclasses.dataclass(frozen=True)
class Partial:
    factor: int
    shift: int = dataclasses.field(compare=False, default=0)


@dataclasses.dataclass(frozen=True)
class Whole:
    factor: int
    sizes: tuple[int, ...] = ()


class AlwaysEqual:
    def __init__(self, factor: int):
        self.factor = factor

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 1


class Number(int):
    factor: int


class Kind(enum.Enum):
    ONE = 1
    TWO = 2


def number(factor: int) -> Number:
    scaled = Number(3)
    scaled.factor = factor
    return scaled


def test_objects_that_call_themselves_equal_are_told_apart() -> None:
    step = torch.compile(lambda x, c: x * c.factor)
    for first, second in (
        (AlwaysEqual(1), AlwaysEqual(3)),
        (number(2), number(5)),
        (SimpleNamespace(factor=2), SimpleNamespace(factor=7)),
    ):
        assert step(X, first).tolist() == [first.factor] * 2
        assert step(X, second).tolist() == [second.factor] * 2
    shifted = torch.compile(lambda x, c: x * c.factor + c.shift)
    assert shifted(X, Partial(2, 1)).tolist() == [3, 3]
    assert shifted(X, Partial(2, 5)).tolist() == [7, 7]


def test_equal_values_share_a_trace() -> None:
    step = torch.compile(lambda x, c, kind: x * c.factor * kind.value)
    for _ in range(3):
        step(X, Whole(2, (1, 2)), Kind.TWO)
    assert len(step.specializations) == 1
    assert step(X, Whole(2, (1, 2)), Kind.ONE).tolist() == [2, 2]
    assert step(X, Whole(2, (1, 3)), Kind.ONE).tolist() == [2, 2]
    assert len(step.specializations) == 3


def test_slices_are_arguments() -> None:
    step = torch.compile(lambda x, part: x[part])
    x = torch.arange(5)
    for part in (slice(0, 2), slice(1, None), slice(None, None, 2), slice(0, 2)):
        assert step(x, part).tolist() == x[part].tolist()
    assert len(step.specializations) == 3


def test_arrays_sets_and_namespaces_count_by_content() -> None:
    step = torch.compile(lambda x, a: x * float(a.sum()))
    array = np.ones(3)
    assert step(X, array).tolist() == [3, 3]
    array[0] = 5
    assert step(X, array).tolist() == [7, 7]
    chosen = torch.compile(lambda x, names: x * 2 if "double" in names else x)
    names = {"double"}
    assert chosen(X, names).tolist() == [2, 2]
    names.clear()
    assert chosen(X, names).tolist() == [1, 1]
    scaled = torch.compile(lambda x, n: x * n.factor + n.y)
    space = SimpleNamespace(factor=2, y=X)
    assert scaled(X, space).tolist() == [3, 3]
    space.factor = 3
    assert scaled(X, space).tolist() == [4, 4]
    with pytest.raises(TypeError, match="bytearray"):
        step(X, bytearray(b"12"))


def test_keywords_and_positions_share_a_trace() -> None:
    @torch.compile
    def step(x: Any, k: int = 1, *, other: int = 0) -> Any:
        return x * k + other

    assert step(X, 4).tolist() == step(X, k=4).tolist() == step(x=X, k=4).tolist()
    assert len(step.specializations) == 1
    assert step(k=4, x=X, other=1).tolist() == [5, 5]
    assert len(step.specializations) == 2
    with pytest.raises(TypeError, match="k"):
        step(X, 4, k=4)


def appended(values: list[Any]) -> Any:
    values.append(values[0] * 2)
    return values[0]


def replaced(values: list[Any]) -> Any:
    values[0] = values[0] + 1
    return values[0]


def extended(values: dict[str, Any]) -> Any:
    values["y"] = values["x"] * 2
    return values["x"]


@pytest.mark.parametrize("function", [appended, replaced, extended])
def test_a_container_that_is_changed_is_an_error(function: Any) -> None:
    argument = {"x": X} if function is extended else [X]
    with pytest.raises(TraceError, match="changes a list or dict"):
        torch.compile(function, fullgraph=True)(argument)
    assert len(argument) == 1 and X.tolist() == [1, 1]


def test_specializations_are_bounded_and_counted() -> None:
    step = torch.compile(lambda x, k: x + k, level="none", dynamic=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for k in range(MOST_SPECIALIZATIONS + 3):
            assert step(X, k).tolist() == [1 + k] * 2
            step(X, 0)  # used again and again, so it stays
    assert sum(f"{MANY_SIGNATURES} signatures" in str(w.message) for w in caught) == 1
    assert len(step.specializations) == MOST_SPECIALIZATIONS
    calls = [each.calls for each in step.specializations]
    assert max(calls) == MOST_SPECIALIZATIONS + 4
    assert step(X, 1).tolist() == [2, 2]  # dropped, and made again
