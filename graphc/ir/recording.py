"""What passes tell of themselves while they run, where somebody asked for it.

in : copies of nodes and rewrite rules, as they happen
out: calls of the notes under way, if there are any

Passes are functions from graph to graph and stay that. What becomes of a node is known to the one
copier (`graphc.ir.copying`), and which rule fired to the one driver of rules; both look here.
`NOTES` is asked once for each copy of a graph and each walk of rules; it is None unless a recorder
(`graphc.passes.recorder`) is at work in this context.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Protocol

from graphc.ir.nodes import Graph, Node, Value


class Notes(Protocol):
    """What is told."""

    def copied(self, nodes: Sequence[Node], values: Mapping[Value, Any]) -> None:
        """Of these nodes of a graph, what became of their values: those of another graph."""
        ...

    def fires(
        self, rule: str, draft: Any, graph: Graph, node: int, before: Node, after: Node | Value
    ) -> bool:
        """A rule would put `after` in place of `before`, both on values of `draft`, on behalf of a
        node of `graph`. Whether it may."""
        ...


NOTES: ContextVar[Notes | None] = ContextVar("notes", default=None)
