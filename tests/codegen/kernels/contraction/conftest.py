"""What the tests of contractions share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from graphc.codegen.kernels.contraction.problem.problem import ContractionProblem
from graphc.codegen.kernels.contraction.strategies import table as strategies
from graphc.codegen.kernels.contraction.strategies.table import Strategy, StrategyPlan
from graphc.codegen.program import link
from graphc.codegen.target import Target
from graphc.records import replace

Priced = Callable[..., AbstractContextManager[None]]


@dataclass(frozen=True)
class _PricedStrategy:
    strategy: Strategy
    cost: float

    def candidates(
        self, problem: ContractionProblem, target: Target, limit: float = math.inf
    ) -> Iterator[StrategyPlan]:
        for plan in self.strategy.candidates(problem, target):
            changed: Any = plan
            yield replace(changed, cost=self.cost)


@contextmanager
def _priced(strategy: Strategy, cost: float = 0.0) -> Iterator[None]:
    """The plans of a strategy of the table are taken wherever there are any; with a great `cost`
    nowhere."""
    table, native = strategies.STRATEGIES, dict(link._native)
    changed = _PricedStrategy(strategy, cost)
    link._native.clear()
    assert strategy in table
    strategies.STRATEGIES = tuple(changed if each is strategy else each for each in table)
    try:
        yield
    finally:
        strategies.STRATEGIES = table
        link._native.clear()
        link._native.update(native)


@pytest.fixture(scope="session")
def priced() -> Priced:
    return _priced
