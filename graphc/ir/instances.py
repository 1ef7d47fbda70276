"""A graph with sizes known only at run time: which they are, at certain sizes, under other names.

In: a graph whose extents and attributes may be polynomials in named sizes, and what these stand
for, numbers or other polynomials.
Out: the same graph with those.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from graphc.ir.dims import Dim, Extent, Factor, Symbol, dim
from graphc.ir.nodes import Graph, Node
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.ir.undecided import granted
from graphc.records import replace


def substitute(extent: Extent, sizes: Mapping[str, Extent]) -> Extent:
    """The extent where each symbol stands for what `sizes` has under its name. Raises KeyError for
    one without."""
    if isinstance(extent, int):
        return extent
    total: Extent = extent.constant
    for monomial, coefficient in extent.terms:
        total = total + math.prod([_standing_for(f, sizes) for f in monomial]) * coefficient
    return total


def _standing_for(factor: Factor, sizes: Mapping[str, Extent]) -> Any:
    if isinstance(factor, Symbol):
        return sizes[factor.name]
    return substitute(factor.dividend, sizes) // substitute(factor.divisor, sizes)


def at_sizes(graph: Graph, sizes: Mapping[str, Extent]) -> Graph:
    """The graph where each symbol is what `sizes` has under its name. Raises KeyError for one
    without."""
    nodes = tuple(_node_at(node, sizes) for node in graph.nodes)
    return Graph(graph.name, nodes, graph.outputs, graph.aliases)


def with_own_names(graph: Graph) -> tuple[Graph, tuple[Extent, ...]]:
    """The graph with its sizes named s0, s1 … in order of appearance, so that graphs that differ
    in names alone are equal; and what they stood for."""
    symbols = symbols_of(graph)
    if not symbols:
        return graph, ()
    own = {s.name: dim(f"s{i}", s.least, s.most) for i, s in enumerate(symbols)}
    with granted():
        renamed = at_sizes(graph, own)
    return renamed, tuple(dim(s.name, s.least, s.most) for s in symbols)


def type_at(type: TensorType, sizes: Mapping[str, Extent]) -> TensorType:
    """The type at these sizes."""
    if not type.is_symbolic:
        return type
    return type.with_shape(tuple(substitute(extent, sizes) for extent in type.shape))  # type: ignore[misc]


def _node_at(node: Node, sizes: Mapping[str, Extent]) -> Node:
    return replace(
        node,
        attributes=tuple((name, _number_at(value, sizes)) for name, value in node.attributes),
        types=tuple(type_at(type, sizes) for type in node.types),
        regions=tuple(at_sizes(region, sizes) for region in node.regions),
    )


def _number_at(attribute: Any, sizes: Mapping[str, Extent]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_number_at(item, sizes) for item in attribute)
    return substitute(attribute, sizes) if isinstance(attribute, Dim) else attribute
