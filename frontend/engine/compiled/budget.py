"""What forward keeps for backward, within a budget of bytes: of a training step.

in : the graph of a step, where each backward starts and ends in it, the budget
out: the graph that keeps no more, what it keeps, and for which sizes this is so
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frontend.engine.sizes.sized_memo import remembered_at
from graphc.ir.dims import Dim, Extent
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard
from graphc.system import IMPORTING


def keep_less(
    graph: Graph, positions: Sequence[int], budget: int, sizes: Mapping[str, int]
) -> tuple[Graph, list[Extent], tuple[SizeGuard, ...]]:
    """`positions`: where each backward starts and ends. Raises MemoryLimitError where the budget
    cannot be kept to."""
    spans = tuple(zip(positions[::2], positions[1::2]))
    (fitted, saved), guards = remembered_at(
        sizes, "recompute", graph, (spans, budget), lambda: _fitted(graph, spans, budget)
    )
    for extent in saved:
        guards += within(extent, budget)
    return fitted, saved, guards


def within(saved_bytes: Extent, budget: int | None) -> tuple[SizeGuard, ...]:
    """The guard that sizes keep what is saved within the budget, where there are any."""
    if budget is None or not isinstance(saved_bytes, Dim):
        return ()
    return (SizeGuard(saved_bytes, "<=", budget),)


def _fitted(graph: Graph, spans: Any, budget: int) -> tuple[Graph, list[Extent]]:
    with IMPORTING:
        from graphc.passes.pipelines import within_saved_bytes

    fitted, cuts = within_saved_bytes(graph, spans, budget)
    return fitted, [cut.bytes for cut in cuts]
