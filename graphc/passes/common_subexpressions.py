"""Common-subexpression elimination.

in : a graph
out: the graph in which no two nodes compute the same
"""

from __future__ import annotations

from graphc.ir.nodes import Graph
from graphc.passes.rewrite import RuleSet, rewrite

NO_RULES = RuleSet()


def common_subexpressions(graph: Graph) -> Graph:
    """Merge nodes of the same op, operands, attributes and regions; constants by content.

        %1 = exp(%x) : f32[2]                  =>   %1 = exp(%x) : f32[2]
        %2 = exp(%x) : f32[2]                       %2 = mul(%1, %1) : f32[2]
        %3 = mul(%1, %2) : f32[2]

    The first node stays, with its location. Random ops merge as others do: they are functions of
    their state operand, so two that share it draw the same numbers.
    """
    return rewrite(graph, NO_RULES, share=True)
