"""What sets two graphs apart, by meaning.

in : a graph before a pass and after it, or any two
out: the nodes that are gone (-), those that are new (+), by number or as lines

A node is what it computes and where it stems from: op, attributes, types, line. Its number is not,
so dead code that removes 65 nodes shows 65 lines, whatever is renumbered behind them; nor is the
order of nodes.
"""

from __future__ import annotations

from collections import Counter

from graphc.ir.nodes import INPUT, Graph, Node
from graphc.ir.printer import attribute_text, print_graph
from graphc.records import record


@record
class GraphChange:
    """`gone` are numbers of nodes of the graph before, `new` of the one after, in order; of equal
    nodes the last ones: the first of them stays."""

    gone: list[int]
    new: list[int]


def graph_diff(before: Graph, after: Graph) -> list[str]:
    """The lines, those of `before` in its order, then those of `after`."""
    change = graph_change(before, after)
    sides = (("-", before, change.gone), ("+", after, change.new))
    return [
        f"{sign} {_meaning(graph.nodes[node])}" for sign, graph, nodes in sides for node in nodes
    ]


def graph_change(before: Graph, after: Graph) -> GraphChange:
    """The same by number."""
    old, new = ([_meaning(node) for node in graph.nodes] for graph in (before, after))
    gone, fresh = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return GraphChange(_last(old, gone), _last(new, fresh))


def _last(meanings: list[str], left: Counter[str]) -> list[int]:
    """The positions of so many of each meaning, from the end."""
    chosen = []
    for position in reversed(range(len(meanings))):
        if left[meanings[position]] > 0:
            left[meanings[position]] -= 1
            chosen.append(position)
    return chosen[::-1]


def _meaning(node: Node) -> str:
    types = ", ".join(map(str, node.types))
    if node.op == INPUT:
        return f"input %{node.attribute('name')} : {types}"
    listed = "".join(f" {name}={attribute_text(value)}" for name, value in node.attributes)
    regions = "".join(f" {print_graph(region, locations=False)}" for region in node.regions)
    place = f"  // {node.location}" if node.location else ""
    return f"{node.op}{listed}{regions} : {types}{place}"
