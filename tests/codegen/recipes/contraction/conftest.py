"""What the tests of contractions share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any

import pytest

from graphc.codegen.program import link
from graphc.codegen.recipes.contraction import cost_model

Priced = Callable[..., AbstractContextManager[None]]


@contextmanager
def _priced(candidates: str, cost: float = 0.0) -> Iterator[None]:
    """The candidates of one function of the cost model are taken wherever there are any; with a
    great `cost` nowhere."""
    listed = getattr(cost_model, candidates)

    def priced(*arguments: Any) -> Iterator[Any]:
        for choice in listed(*arguments):
            yield replace(choice, cost=cost)

    kept = dict(link._native)
    link._native.clear()
    setattr(cost_model, candidates, priced)
    try:
        yield
    finally:
        setattr(cost_model, candidates, listed)
        link._native.clear()
        link._native.update(kept)


@pytest.fixture(scope="session")
def priced() -> Priced:
    return _priced
