"""The joint fixed point of constant folding, algebra, shapes, products that are added, and sharing.

in : a graph
out: the graph to which none of these passes applies any more

These enable one another: a folded constant makes a `mul` by one, a dropped transpose makes two
nodes the same, and the same node twice makes `where(p, x, x)`. Running the passes in turn until
nothing changes would replay the graph many times, and a fixed number of turns would be a guess. So
their rules are one rule set of one walk, which ends in the fixed point of all: see
graphc.passes.rewrite.
"""

from __future__ import annotations

from graphc.ir.nodes import Graph
from graphc.passes import fold_constants, simplify, simplify_shapes, tree_products
from graphc.passes.rewrite import rewrite

RULES = fold_constants.RULES + simplify.RULES + simplify_shapes.RULES + tree_products.RULES


def canonicalize(graph: Graph) -> Graph:
    """Fold constants, simplify, and merge equal nodes, until none of it applies.

        %1 = transpose(%x) permutation=[1, 0]  =>   %1 = add(%x, %x) : f32[2,2]
        %2 = transpose(%1) permutation=[1, 0]
        %3 = constant f32[2,2] splat -1.0
        %4 = mul(%x, %3) : f32[2,2]
        %5 = sub(%2, %4) : f32[2,2]

    Nodes that lose their last user stay for `dead_code`.
    """
    return rewrite(graph, RULES, share=True)
