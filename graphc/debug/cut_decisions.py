"""Where a graph is cut for exchanges with other processes, as decisions of the ledger.

in : a graph with `exchange` nodes, cut (`passes.split_exchanges`), and what is exchanged
out: a decision for each exchange, and for each value that goes from one native part to another
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.debug.ledger import Decision
from graphc.ir.nodes import Graph, Value
from graphc.passes.split_exchanges import ExchangeNode, ExchangeSplit


def cut_decisions(split: ExchangeSplit, names: Sequence[str] = ()) -> list[Decision]:
    """What the cut decided. `names[i]`: what exchange number i exchanges."""
    graph, decided = split.graph, []
    for each in split.exchanges:
        name = names[each.number] if names else "values"
        what, reader = f"exchange {each.number}, of {name}", _reader(split, each)
        why = f"part {each.part + 1} makes the last of it, part {reader} reads it first"
        place = graph.nodes[each.results[0].node].location
        numbers = {"values": len(each.operands)} | _bytes(graph, each.operands)
        decided.append(Decision("cut", what, why, place, (), numbers))
    for number in range(len(split.parts)):
        for value in split.crossing(number):
            node = graph.nodes[value.node]
            what = f"{node.op} : {graph.type_of(value)}"
            why = f"part {number + 1} reads what an earlier part computes"
            place, numbers = node.location, _bytes(graph, [value])
            decided.append(Decision("cut", what, why, place, (), numbers))
    return decided


def _reader(split: ExchangeSplit, exchange: ExchangeNode) -> int:
    """The first part that reads what was exchanged, from 1 on; the last where none does."""
    results = set(exchange.results)
    reading = [n for n, part in enumerate(split.parts) if results & set(part.reads)]
    return min(reading, default=len(split.parts) - 1) + 1


def _bytes(graph: Graph, values: Sequence[Value]) -> dict[str, int]:
    """Nothing where sizes are left open."""
    total = sum(graph.type_of(value).nbytes for value in values)
    return {"bytes": total} if isinstance(total, int) else {}
