"""Dead-code elimination.

in : a graph
out: the graph without nodes that no output depends on
"""

from __future__ import annotations

from graphc.ir.copying import replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.graph_queries import live_nodes
from graphc.ir.nodes import Graph, Node
from graphc.records import replace


def dead_code(graph: Graph) -> Graph:
    """Remove nodes no output depends on, also inside regions. Inputs stay, as does their order.

        graph g(%x: f32[2]) {                       graph g(%x: f32[2]) {
          %1 = exp(%x) : f32[2]                =>     %1 = neg(%x) : f32[2]
          %2 = neg(%x) : f32[2]                       return %1
          return %2                                 }
        }

    A check of an operand's content (an index in range) goes with its node: it guards a result, and
    nobody reads that result.
    """
    draft = Draft()

    def visit(node: Node, operands: Values) -> Values:
        if node.regions:
            node = replace(node, regions=tuple(dead_code(region) for region in node.regions))
        return draft.add(moved(node, operands))

    return replayed(graph, draft, visit, live_nodes(graph))
