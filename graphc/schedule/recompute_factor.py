"""The recompute factor: how often the elements of a value are computed where each of its readers
computes it: each once, several times (behind a broadcast), or only some (behind a gather)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import Graph, Value
from graphc.ir.size_guards import typical

Users = Mapping[Value, Sequence[int]]


def widens(graph: Graph, kinds: Sequence[str], users: Users, identity: int, reader: int) -> bool:
    """Whether a reader's index map, or one behind it, repeats the node's elements. `kinds[i]` is
    the kind of node i."""
    maps = reachable(
        [reader], lambda i: users[Value(i)] if kinds[i] == "movement" else ()
    )  # and what reads the last of them
    elements = typical(graph.nodes[identity].types[0].numel)
    return any(
        kinds[i] == "movement" and typical(graph.nodes[i].types[0].numel) > elements for i in maps
    )


def only_picked(graph: Graph, kinds: Sequence[str], users: Users) -> set[int]:
    """Nodes of which only the elements that gathers pick are computed, as the losses of a
    cross-entropy out of all scores."""
    picked: set[int] = set()
    outputs = {output.node for output in graph.outputs}
    for identity in reversed(range(len(graph.nodes))):
        if kinds[identity] not in ("elementwise", "movement") or identity in outputs:
            continue
        size = typical(graph.nodes[identity].types[0].numel)
        readers = users[Value(identity)]
        if readers and all(
            i in picked or (kinds[i] == "gather" and typical(graph.nodes[i].types[0].numel) < size)
            for i in readers
        ):
            picked.add(identity)
    return picked
