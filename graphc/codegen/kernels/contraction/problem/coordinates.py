"""The coordinates of a contraction, and which of them a strategy may find open.

Open is what has sizes among its extents that are known only at run time. In: what a strategy says
above its `candidates`. Out: `open_to`, which gives it no other problems.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from enum import Flag, auto
from typing import Protocol, TypeVar

from graphc.codegen.target import Target


class Coordinates(Flag):
    """Kinds of coordinates of a contraction: rows (m), columns (n), `DEPTH`, the first that is
    summed over, and `TAPS`, those behind it; of the batch the first (images), and its others."""

    NONE = 0
    IMAGES = auto()
    GROUPS = auto()
    ROWS = auto()
    COLUMNS = auto()
    DEPTH = auto()
    TAPS = auto()
    BATCH = IMAGES | GROUPS
    SUM = DEPTH | TAPS
    ANY = BATCH | ROWS | COLUMNS | SUM


class Asked(Protocol):
    """What a strategy is asked about."""

    @property
    def open(self) -> Coordinates:
        """Those among whose extents are sizes known only at run time."""


Plan = TypeVar("Plan")
Candidates = Callable[..., Iterator[Plan]]
"""`candidates` of a strategy, for a problem, a target, and a limit of cost."""


def open_to(
    these: Coordinates, needs: Coordinates = Coordinates.NONE
) -> Callable[[Candidates[Plan]], Candidates[Plan]]:
    """A strategy's `candidates`, for problems of which no coordinates are open but these, and,
    where it `needs` it, one of those is. All others have no plans."""

    def decorate(candidates: Candidates[Plan]) -> Candidates[Plan]:
        @functools.wraps(candidates)
        def of_open(problem: Asked, target: Target, limit: float = math.inf) -> Iterator[Plan]:
            is_open = problem.open
            if is_open in these and (not needs or is_open & needs):
                yield from candidates(problem, target, limit)

        return of_open

    return decorate
