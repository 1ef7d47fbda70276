"""What a trace keeps outside of numbers that are left open: memos, logs, caches hold numbers."""

from __future__ import annotations

import functools
from collections import OrderedDict, deque, namedtuple
from collections.abc import Callable
from typing import Any

import pytest

import frontend as torch

Pair = namedtuple("Pair", "count shape")
RATE = 2.0
MEMO: dict[str, Any] = {}


Item = Callable[[Any], Any]


def logging(held: Any, item: Item) -> Callable[[Any], Any]:
    """A list is only written: one that is read and grows is refused."""

    def function(x: Any) -> Any:
        held.append(item(x))
        return x * 2

    return function


def collecting(held: Any, item: Item) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        held.add(item(x))
        return x * 2

    return function


def by_name(held: Any, item: Item) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        held[f"item {len(held)}"] = item(x)
        return x * 2

    return function


KEEPING = {list: logging, deque: logging, set: collecting, dict: by_name, OrderedDict: by_name}


def plain(value: Any) -> bool:
    """Whether all numbers inside are Python's."""
    if isinstance(value, dict):
        return plain([*value, *value.values()])
    if isinstance(value, (tuple, list, set, deque)):
        return all(map(plain, value)) and len(value) > 0
    return type(value) in (int, float, str)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", KEEPING)
@pytest.mark.parametrize(
    "item",
    [lambda x: x.shape[0], lambda x: x.shape[0] / 2, lambda x: Pair(x.shape[0], x.shape)],
    ids=["int", "float", "inside"],
)
def test_a_container_is_given_sizes(kind: Any, item: Item) -> None:
    held = kind()
    compiled = torch.compile(KEEPING[kind](held, item), dynamic=True)
    for n in (3, 4):
        assert compiled(torch.ones(n)).tolist() == [2.0] * n
    assert plain(held) and len(held) == 2
    first = next(iter(held.values() if isinstance(held, dict) else sorted(held)))
    assert first == item(torch.ones(3))


def test_lists_in_dicts_and_keys() -> None:
    held: dict[Any, Any] = {}

    def function(x: Any) -> Any:
        held[x.shape[0]] = [x.shape[0], {"next": x.shape[0] + 1}]
        return x

    compiled = torch.compile(function, dynamic=True)
    compiled(torch.ones(3))
    compiled(torch.ones(5))
    assert held == {3: [3, {"next": 4}], 5: [5, {"next": 6}]}
    assert plain(held)


def scaled(x: Any) -> Any:
    """By the rate that was there when it was first asked for."""
    if "rate" not in MEMO:
        MEMO["rate"] = RATE
    return x * MEMO["rate"]


def test_a_memo_of_a_number_that_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    def outcome(function: Any) -> list[Any]:
        MEMO.clear()
        results = []
        for rate in (2.0, 3.0, None, 4.0, None, 5.0):
            if rate is None:
                MEMO.clear()
            else:
                monkeypatch.setitem(globals(), "RATE", rate)
            results.append((function(torch.ones(2)).tolist(), dict(MEMO)))
            assert plain(MEMO)
        return results

    assert outcome(torch.compile(scaled)) == outcome(scaled)


def test_a_memo_of_a_size() -> None:
    """The first size counts from then on, as eagerly."""
    held: dict[str, Any] = {}

    def function(x: Any) -> Any:
        if "size" not in held:
            held["size"] = x.shape[0]
        return x * held["size"]

    compiled = torch.compile(function, dynamic=True)
    assert [compiled(torch.ones(n)).tolist() for n in (3, 4, 5)] == [[3.0] * n for n in (3, 4, 5)]


@functools.lru_cache
def doubled() -> float:
    return RATE * 2


def test_a_cache_holds_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = torch.compile(lambda x: x * doubled())
    doubled.cache_clear()
    for rate in (2.0, 3.0, 4.0):
        monkeypatch.setitem(globals(), "RATE", rate)
        assert compiled(torch.ones(1)).tolist() == [4.0]
    doubled.cache_clear()
    assert compiled(torch.ones(1)).tolist() == [8.0]
    assert plain(doubled())
