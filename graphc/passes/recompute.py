"""Rematerialisation in a whole step, which then keeps less between forward and backward.

in : a graph with forward and backward in one, where each backward starts and ends, a budget
out: a graph of the same bits, in which backward computes again what does not fit into the budget

What to keep is a minimum cut (graphc.autodiff.cut). What is computed again stands just before the
first node that needs it, so that it lies in memory as late as possible. It reads kept values
through the op `saved`, which hands its operand on: without it the nodes would be those of forward,
and become one with them.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.autodiff.cut import Cut, minimum_cut
from graphc.ir.copying import copy_nodes
from graphc.ir.draft import Draft, Values
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value

Span = tuple[int, int]


def within_budget(graph: Graph, backwards: Sequence[Span], budget: int) -> tuple[Graph, list[Cut]]:
    """The graph, and what each backward keeps. `backwards`: where each starts and ends, by the
    number of nodes before that. The budget holds for each backward by itself, for what was computed
    since the one before ended; values that the graph returns are kept anyway. Raises
    MemoryLimitError."""
    cuts = []
    early: dict[int, int] = {}  # a node of a forward part: which one
    outputs = set(graph.outputs)
    end_before = 0
    for number, (start, end) in enumerate(backwards):
        part = {
            identity for identity in range(end_before, start)
            if graph.nodes[identity].op not in (INPUT, CONSTANT)
        }  # fmt: skip
        later = [v for node in graph.nodes[start:] for v in node.operands]
        early.update(dict.fromkeys(part, number))
        cuts.append(minimum_cut(graph, part, [v for v in later if v.node in part], outputs, budget))
        end_before = end
    starts = [start for start, _ in backwards]
    return _Recomputing(graph, starts, cuts, early).run(), cuts


class _Recomputing:
    """One replay of the graph."""

    def __init__(
        self, graph: Graph, starts: Sequence[int], cuts: Sequence[Cut], early: dict[int, int]
    ) -> None:
        self.graph = graph
        self.starts = starts
        self.cuts = cuts
        self.early = early
        self.draft = Draft()
        self.replayed: dict[Value, Value] = {}
        self.rematerialised: dict[Value, Value] = {}

    def run(self) -> Graph:
        nodes = self.graph.nodes
        copy_nodes(nodes, range(len(nodes)), self.replayed, self.draft.add_moved, self._operand)
        outputs = [self.replayed[value] for value in self.graph.outputs]
        return self.draft.graph(self.graph.name, outputs, self.graph.aliases)

    def _is_there(self, value: Value) -> bool:
        """Whether a value lies in memory when backward runs."""
        part = self.early.get(value.node)
        return part is None or value in self.cuts[part].kept

    def _operand(self, value: Value, reader: int) -> Value:
        """What node `reader` reads for a value: backward reads what is kept, or computed again."""
        part = self.early.get(value.node)
        if part is None or reader < self.starts[part] or self._is_there(value):
            return self.replayed[value]
        missing = self._missing(value)
        copy_nodes(self.graph.nodes, missing, self.rematerialised, self._rematerialise, self._again)
        return self.rematerialised[value]

    def _missing(self, value: Value) -> list[int]:
        """The nodes to compute again for a value, in order."""

        def known(value: Value) -> bool:
            return value in self.rematerialised or self._is_there(value)

        return sorted(ancestors(self.graph.nodes, [value], known))

    def _again(self, value: Value, reader: int) -> Value:
        """What a node that is computed again reads."""
        return self.replayed[value] if self._is_there(value) else self.rematerialised[value]

    def _rematerialise(self, node: Node, operands: Values) -> Values:
        if operands and all(map(self._is_there, node.operands)):
            # One operand tells the node from forward's: no input, if there is another, since
            # products read weights in layouts of their own.
            nodes = self.graph.nodes
            computed = [i for i, v in enumerate(node.operands) if nodes[v.node].op != INPUT]
            position = computed[0] if computed else 0
            self.draft.location = node.location
            (saved,) = self.draft.add(self.draft.make("saved", operands[position]))
            operands = (*operands[:position], saved, *operands[position + 1 :])
        return self.draft.add_moved(node, operands)
