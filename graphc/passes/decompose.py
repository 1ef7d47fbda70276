"""Expansion of composites.

in : a graph
out: the graph without composite ops, down to ops that the lowering knows; or with those left that
     have a kernel recipe of their own
"""

from __future__ import annotations

from typing import Any

from graphc.ir.copying import inlined, replayed
from graphc.ir.draft import Draft, Values, moved
from graphc.ir.nodes import CONSTANT, Graph, Node
from graphc.ir.registry import lookup
from graphc.ops.kinds.composite import Composite
from graphc.records import replace


def decompose(graph: Graph) -> Graph:
    """Put a composite's definition in its place, recursively, also inside regions.

        %1 = mean(%x) axes=[1] : f32[3]        =>   %1 = sum(%x) axes=[1] : f32[3]
                                                    %2 = constant f32[] [5.0]
                                                    %3 = broadcast(%2) shape=[3] : f32[3]
                                                    %4 = div(%1, %3) : f32[3]

    The nodes carry the composite's location. Where a composite checks the content of an operand,
    the operand goes through `check_index`, so that the check stays.
    """
    return _expanded(graph, {}, keep_recipes=False)


def decompose_to_recipes(graph: Graph) -> Graph:
    """The same, but composites that have a kernel of their own stay.

    %1 = attention(%q, %k, %v)             =>   %1 = attention(%q, %k, %v)
    %2 = mean(%1.1) axes=[0] : f32[..]          %2 = sum(%1.1) axes=[0] : f32[..]
                                                ...
    """
    return _expanded(graph, {}, keep_recipes=True)


Expansions = dict[int, tuple[Graph, Graph]]
"""Definitions and what they were expanded to, by the identity of the definition: it is held here,
so that no other graph gets that identity while this lasts."""


def _expanded(graph: Graph, expansions: Expansions, keep_recipes: bool) -> Graph:
    """`graph` without composites. `expansions` are those made before."""
    draft = Draft()

    def visit(node: Node, operands: Values) -> Values:
        if node.regions:
            regions = tuple(_expanded(region, expansions, keep_recipes) for region in node.regions)
            node = replace(node, regions=regions)
        op = None if node.op == CONSTANT else lookup(node.op)
        types = tuple(draft.type(value) for value in operands)
        if not isinstance(op, Composite) or (keep_recipes and op.has_kernel(types)):
            return draft.add(moved(node, operands))
        attributes = dict(node.attributes)
        definition = op.definition(types, attributes)
        if id(definition) not in expansions:
            expanded = _expanded(definition, expansions, keep_recipes)
            expansions[id(definition)] = definition, expanded
        operands = _checked(op, attributes, operands, draft)
        return inlined(expansions[id(definition)][1], draft, operands)

    return replayed(graph, draft, visit)


def _checked(op: Composite, attributes: dict[str, Any], operands: Values, draft: Draft) -> Values:
    """The operands, those that `op` checks behind a `check_index`."""
    types = tuple(draft.type(value) for value in operands)
    checked = list(operands)
    for check in op.checks(types, attributes):
        node = draft.make(
            "check_index", checked[check.operand], bound=check.bound, message=check.message
        )
        (checked[check.operand],) = draft.add(node)
    return tuple(checked)
