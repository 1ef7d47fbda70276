"""`set_num_threads`: how many threads calls of compiled functions may have, and nothing else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import pytest

import frontend as torch
from frontend.engine.tensors.threads import THREADS
from graphc.runtime.processors import MOST_THREADS


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(THREADS, "asked", None)
    yield


def large(x: Any) -> Any:
    return (x.exp() + x).tanh()


def threads_of(function: Any) -> list[int]:
    """Of each of its native codes, the latest first."""
    return [e.schedule.threads for each in function.specializations for e in each.executables]


X = torch.linspace(-1, 1, 1 << 18)


def test_it_acts_from_the_next_call_on() -> None:
    function = torch.compile(large)
    torch.set_num_threads(2)
    assert torch.get_num_threads() == 2
    results = [function(X)]
    assert threads_of(function) == [2]
    torch.set_num_threads(1)
    results.append(function(X))
    assert sorted(threads_of(function)) == [1, 2]
    assert "threads: 2 became 1" in str(function.explain())
    torch.set_num_threads(2)
    results.append(function(X))
    assert sorted(threads_of(function)) == [1, 2], "what was compiled for two serves again"
    assert all(torch.equal(result, results[0]) for result in results)


def test_what_was_asked_for_is_kept() -> None:
    function = torch.compile(large, threads=2)
    function(X)
    torch.set_num_threads(1)
    function(X)
    assert threads_of(function) == [2]


def test_it_is_of_the_process() -> None:
    torch.set_num_threads(1)
    function, seen = torch.compile(large), []

    def run() -> None:
        function(X)
        seen.append(torch.get_num_threads())

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [1] and threads_of(function) == [1]


def test_as_many_as_may_be_asked_for() -> None:
    assert 1 <= torch.get_num_threads() <= MOST_THREADS
    torch.set_num_threads(10**6)
    assert torch.get_num_threads() == MOST_THREADS
    for wrong, words in ((0, "positive"), (-2, "positive"), (1.5, "an int"), (True, "an int")):
        with pytest.raises(RuntimeError, match=f"set_num_threads expects .*{words}"):
            torch.set_num_threads(wrong)  # type: ignore[arg-type]
    assert torch.get_num_threads() == MOST_THREADS


def test_sizes_stay_open() -> None:
    torch.set_num_threads(1)
    function = torch.compile(large)
    for size in (70_000, 80_000, 90_000, 100_000):
        assert torch.equal(function(X[:size]), large(X[:size]))
    programs = {id(each.program) for each in function.specializations}
    torch.set_num_threads(2)
    for size in (70_000, 80_000, 90_000, 100_000):
        assert torch.equal(function(X[:size]), large(X[:size]))
    assert len(programs) == 2
    assert len({id(each.program) for each in function.specializations}) <= 4
