"""Sums in levels, as the runner of nests without products keeps them.

In: what the sums are of, and at places of results what a leaf says that it does with them. Out:
their values, with the bits of the nest's loops. Raises VerifyError, by the rules of verifier.py,
where elements are not added in order or a level that is joined is no block of what is below it
(N5), and where sums are not there (N6).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from graphc.codegen.nests.nest import Axis
from graphc.codegen.nests.visits import broken
from graphc.records import record

Array = np.ndarray[Any, Any]


@record
class Summed:
    """What one reduction of a nest with an axis of sums is of: elements along the axes of results,
    then that one, which `combine` makes one of, from `identity` on."""

    elements: Array
    combine: Callable[[Array, Array], Array]
    identity: Any


class LevelSums:
    """Those of all reductions, each at every level of the axis of sums."""

    def __init__(self, axis: Axis, summed: Mapping[str, Summed]) -> None:
        self._axis = axis
        self._summed = summed
        shape = next(iter(summed.values())).elements.shape[:-1]
        self._values = {
            name: np.zeros((axis.levels, *shape), each.elements.dtype)
            for name, each in summed.items()
        }
        self._added = np.full(shape, -1, np.int64)
        """Elements that are in the sums; -1 where there are none."""
        self._held = np.zeros((axis.levels, *shape), np.int64)
        """Sums of the level below, or elements, that each level holds."""

    def forget(self) -> None:
        self._added[...] = -1

    def clear(self, at: tuple[Array, ...]) -> None:
        for name, each in self._summed.items():
            for level in self._values[name]:
                level[at] = each.identity
        self._added[at] = 0
        for held in self._held:
            held[at] = 0

    def add(self, positions: range, at: tuple[Array, ...]) -> None:
        """Elements, one by one, to level 0."""
        self._check_there(at)
        if (self._added[at] != positions.start).any():
            said = f"elements {positions.start} to {positions.stop} along axis {self._axis.name}"
            raise broken("N5", f"{said} are not those that follow")
        for position in positions:
            for name, each in self._summed.items():
                level = self._values[name][0]
                level[at] = each.combine(level[at], each.elements[..., position][at])
        self._hold(0, len(positions), at)
        self._added[at] += len(positions)

    def join(self, level: int, at: tuple[Array, ...]) -> None:
        """What a level holds, to the next one."""
        self._check_there(at)
        if (self._held[level][at] != self._axis.block).any():
            said = f"level {level} along axis {self._axis.name} is joined, and no block of"
            raise broken("N5", f"{said} {self._axis.block}")
        for name, each in self._summed.items():
            below, above = self._values[name][level : level + 2]
            above[at] = each.combine(above[at], below[at])
            below[at] = each.identity
        self._held[level][at] = 0
        self._hold(level + 1, 1, at)

    def totals(self, count: int, at: tuple[Array, ...]) -> dict[str, Array]:
        """All levels together, of so many elements."""
        self._check_there(at)
        if (self._added[at] != count).any():
            raise broken("N6", f"sums of not all {count} along axis {self._axis.name} are taken")
        totals = {}
        for name, each in self._summed.items():
            lowest, *others = (level[at] for level in self._values[name])
            for level in others:
                lowest = each.combine(level, lowest)
            totals[name] = lowest
        return totals

    def _hold(self, level: int, more: int, at: tuple[Array, ...]) -> None:
        self._held[level][at] += more
        block = self._axis.block
        if block is not None and (self._held[level][at] > block).any():
            said = f"level {level} along axis {self._axis.name} has more than a block of {block}"
            raise broken("N5", said)

    def _check_there(self, at: tuple[Array, ...]) -> None:
        if (self._added[at] < 0).any():
            raise broken("N6", f"sums along axis {self._axis.name} are not zero before")
