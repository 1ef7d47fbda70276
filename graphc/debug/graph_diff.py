"""What sets two graphs apart, by meaning.

in : a graph before a pass and after it, or any two
out: lines: the nodes that are gone (-), those that are new (+)

A node is what it computes and where it stems from: op, attributes, types, line. Its number is not,
so dead code that removes 65 nodes shows 65 lines, whatever is renumbered behind them; nor is the
order of nodes.
"""

from __future__ import annotations

from collections import Counter

from graphc.ir.nodes import INPUT, Graph, Node
from graphc.ir.printer import attribute_text, print_graph


def graph_diff(before: Graph, after: Graph) -> list[str]:
    """The lines, those of `before` in its order, then those of `after`."""
    old, new = ([_meaning(node) for node in graph.nodes] for graph in (before, after))
    gone, new_lines = Counter(old) - Counter(new), Counter(new) - Counter(old)
    return [*_signed("-", old, gone), *_signed("+", new, new_lines)]


def _signed(sign: str, lines: list[str], left: Counter[str]) -> list[str]:
    """Of equal lines the last ones: the first of equal nodes stays."""
    signed = []
    for line in reversed(lines):
        if left[line] > 0:
            left[line] -= 1
            signed.append(f"{sign} {line}")
    return signed[::-1]


def _meaning(node: Node) -> str:
    types = ", ".join(map(str, node.types))
    if node.op == INPUT:
        return f"input %{node.attribute('name')} : {types}"
    listed = "".join(f" {name}={attribute_text(value)}" for name, value in node.attributes)
    regions = "".join(f" {print_graph(region, locations=False)}" for region in node.regions)
    place = f"  // {node.location}" if node.location else ""
    return f"{node.op}{listed}{regions} : {types}{place}"
