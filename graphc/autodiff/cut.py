"""Rematerialisation: what an early part of a graph hands to a later one, and what that one computes
again.

in : a graph, its early nodes, the values that what comes later reads, perhaps a budget in bytes
out: the values to keep in between: the cheapest choice, by a minimum cut

Keeping a value costs its bytes, computing a node again its additions (graphc.ops.work). A byte that
is stored and loaded again costs about as much as an addition, so a float is worth four of them:
sums and products are computed again, exponentials are kept. With a budget a byte costs as much more
as is needed to stay within it: at the limit everything but branches and loops is computed again.
All ops are functions of their operands, random draws too (of the generator's state), so what is
computed again has the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Set

from graphc.autodiff.bottlenecks import Bottlenecks
from graphc.errors import MemoryLimitError
from graphc.ir.dims import Extent
from graphc.ir.graph_queries import cheapest_cut
from graphc.ir.nodes import INPUT, Graph, Value
from graphc.ir.size_guards import typical
from graphc.ops.work import additions
from graphc.records import record, replace

PRICES = tuple(4.0**power for power in range(1, 16))
"""What a byte is tried to be worth, in additions, where a budget asks for more than 1."""
ANY_PRICE = 1e7
"""What a byte is worth where work counts for next to nothing."""
MOST_SEGMENTS = 16
"""Segments that are computed again one by one."""
REFINEMENTS = 3
"""How often the price is bisected."""


@record
class Cut:
    """The values kept, the bytes of those that are kept for the later part's sake alone: of sizes
    known only at run time an extent, while a cut is looked for those of typical sizes."""

    kept: frozenset[Value]
    bytes: Extent


def minimum_cut(
    graph: Graph, early: Set[int], read: Iterable[Value], free: Set[Value],
    budget: int | None = None,
) -> Cut:  # fmt: skip
    """What to keep so that the values `read` are there, or can be computed from what is there.
    Nodes that are not `early` are there anyway, `free` values cost nothing. Raises
    MemoryLimitError where no choice keeps within `budget` bytes."""
    kept = _within(graph, early, read, free, budget).kept
    return Cut(kept, sum(graph.type_of(value).nbytes for value in kept - free))


def _within(
    graph: Graph, early: Set[int], read: Iterable[Value], free: Set[Value], budget: int | None
) -> Cut:
    problem = _Problem(graph, early, frozenset(read), frozenset(free))
    cut = problem.at(1.0)
    if budget is None or cut.bytes <= budget:
        return cut
    least = typical(problem.at(math.inf).bytes)
    if least > budget:
        raise MemoryLimitError(
            f"{graph.name} saves at least {least:,} bytes for backward, saved_bytes is {budget:,}",
            hint="a smaller batch, or a larger budget",
        )
    borders = _borders(problem, cut, budget - least)
    inside = replace(problem, free=problem.free | borders)
    kept = _priced(inside, budget - _bytes(graph, borders)).kept | borders
    return Cut(kept, _bytes(graph, kept - problem.free))


def _borders(problem: _Problem, cut: Cut, budget: int) -> frozenset[Value]:
    """Values between segments, so many that what is kept and the largest segment that is computed
    again are least."""
    bottlenecks = Bottlenecks(problem.graph, problem.early, problem.free)
    along = [value for value in cut.kept if value not in problem.free]
    best, least = frozenset[Value](), cut.bytes
    for count in range(2, MOST_SEGMENTS + 1):
        borders, largest = bottlenecks.segments(along, count)
        held = _bytes(problem.graph, borders)
        if held <= budget and held + largest < least:
            best, least = frozenset(borders), held + largest
    return best


def _bytes(graph: Graph, values: Iterable[Value]) -> int:
    return sum(typical(graph.type_of(value).nbytes) for value in values)


def _priced(problem: _Problem, budget: int) -> Cut:
    """The cut within a budget that can be kept to, at the lowest price of a byte that was tried
    and does."""
    cut = problem.at(1.0)
    low, over = 1.0, cut
    if cut.bytes <= budget:
        return cut
    for high in (*PRICES, math.inf):
        cut = problem.at(high)
        if cut.bytes <= budget:
            break
        low, over = high, cut
    for _ in range(0 if high == math.inf else REFINEMENTS):
        middle = math.sqrt(low * high)
        tried = problem.at(middle)
        if tried.bytes <= budget:
            cut, high = tried, middle
        else:
            low, over = middle, tried
    return problem.filled(cut, over, budget)


@record
class _Problem:
    graph: Graph
    early: Set[int]
    read: frozenset[Value]
    free: frozenset[Value]

    def at(self, price: float) -> Cut:
        """The minimum cut where a byte is worth `price` additions."""
        nodes = self.graph.nodes

        def work(identity: int) -> float:
            again = math.inf if nodes[identity].op == INPUT else self._additions(identity)
            # At any price what is free is rather kept than computed again.
            return min(again, 2) if math.isinf(price) and not math.isinf(again) else again

        def worth(value: Value) -> int:
            if value in self.free:
                return 1  # not for nothing, so that little of it is taken
            per_byte = ANY_PRICE if math.isinf(price) else price
            return math.ceil(typical(self.graph.type_of(value).nbytes) * per_byte) + 1

        kept = frozenset(cheapest_cut(self.graph, self.early, self.read, work, worth))
        return Cut(kept, _bytes(self.graph, kept - self.free))

    def filled(self, cut: Cut, over: Cut, budget: int) -> Cut:
        """A cut within the budget, with what else fits of one that is over it: the values that
        are most work for their bytes first, and of equal ones the last, which backward needs first.
        A price of a byte cannot tell those apart."""

        def worth(value: Value) -> tuple[float, int]:
            size = max(typical(self.graph.type_of(value).nbytes), 1)
            return self._additions(value.node) / size, value.node

        kept, total = set(cut.kept), cut.bytes
        for value in sorted(over.kept - cut.kept, key=worth, reverse=True):
            size = typical(self.graph.type_of(value).nbytes)
            if value not in self.free and total + size <= budget:
                kept.add(value)
                total += size
        return Cut(frozenset(kept), total)

    def _additions(self, identity: int) -> float:
        return additions(self.graph, self.graph.nodes[identity])
