"""What rests on answers to questions about sizes, kept with the guards that say for which others it
holds.

in : sizes of a call, and how to make something while an example answers
out: the thing, made before for others or now
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard, answered_by
from graphc.ir.symbols import symbols_of
from graphc.system import IMPORTING

T = TypeVar("T")

MOST = 8
"""How many are kept of one thing: the latest."""


class BySizes:
    """Things of one sort, each with the guards of its sizes: the first whose guards hold counts.
    Without sizes there is one."""

    def __init__(self) -> None:
        self._made: list[tuple[tuple[SizeGuard, ...], Any]] = []

    def get(self, sizes: Mapping[str, int]) -> Any:
        """One that serves these sizes; None where there is none."""
        for guards, value in self._made:
            if all([guard.holds(sizes) for guard in guards]):
                return value
        return None

    def add(self, guards: tuple[SizeGuard, ...], value: Any) -> None:
        """It serves the sizes for which these hold."""
        self._made = [(guards, value), *self._made][:MOST]

    @property
    def latest(self) -> Any:
        """The one made last; None where there is none."""
        return self._made[0][1] if self._made else None


def remembered_at(
    sizes: Mapping[str, int], purpose: str, graph: Graph, options: tuple[Any, ...],
    make: Callable[[], T], target: str | None = None,
) -> tuple[T, tuple[SizeGuard, ...]]:  # fmt: skip
    """What `make` gives for a graph where `sizes` answer what it asks, and the guards of that; from
    disk where it was made before (graphc.runtime.program.remembered)."""
    with IMPORTING:
        from graphc.runtime.program import remembered

    def noted() -> tuple[T, tuple[SizeGuard, ...]]:
        with answered_by(sizes) as answers:
            value = make()
        return value, answers.guards

    sizes = of_graph(sizes, graph)
    if not sizes:
        return remembered(purpose, graph, options, make, target), ()
    with answered_by(sizes) as answers:  # what comes from disk asks when it is put together
        value, guards = remembered(purpose, graph, (*options, tuple(sizes.items())), noted, target)
    return value, tuple(dict.fromkeys((*guards, *answers.guards)))


def of_graph(sizes: Mapping[str, int], graph: Graph) -> dict[str, int]:
    """The sizes that a graph depends on, of all that are left open."""
    names = {symbol.name for symbol in symbols_of(graph)} if sizes else ()
    return {name: size for name, size in sizes.items() if name in names}


def executable_at(executable: Any, sizes: Mapping[str, int]) -> Any:
    """The executable of these sizes. One whose graph has none serves all."""
    return executable.at(**sizes) if sizes and hasattr(executable, "at") else executable
