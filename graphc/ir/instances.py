"""A graph with sizes known only at run time, at certain sizes.

In: a graph whose extents and attributes may be polynomials in named sizes, and numbers for these.
Out: the same graph with numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from graphc.ir.dims import Dim, Extent, Symbol, evaluate
from graphc.ir.nodes import Graph, Node
from graphc.ir.types import TensorType


def symbols_of(graph: Graph) -> frozenset[Symbol]:
    """The sizes that extents of the graph's values depend on."""
    extents: set[Extent] = {e for node in graph.nodes for type in node.types for e in type.shape}
    dims = [extent for extent in extents if isinstance(extent, Dim)]
    return frozenset(symbol for extent in dims for symbol in extent.symbols())


def at_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """The graph where each symbol has the size of its name. Raises KeyError for one without."""
    nodes = tuple(_node_at(node, sizes) for node in graph.nodes)
    return Graph(graph.name, nodes, graph.outputs, graph.aliases)


def _node_at(node: Node, sizes: Mapping[str, int]) -> Node:
    return replace(
        node,
        attributes=tuple((name, _number_at(value, sizes)) for name, value in node.attributes),
        types=tuple(_type_at(type, sizes) for type in node.types),
        regions=tuple(at_sizes(region, sizes) for region in node.regions),
    )


def _type_at(type: TensorType, sizes: Mapping[str, int]) -> TensorType:
    return type.with_shape(tuple(evaluate(extent, sizes) for extent in type.shape))


def _number_at(attribute: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(attribute, tuple):
        return tuple(_number_at(item, sizes) for item in attribute)
    return evaluate(attribute, sizes) if isinstance(attribute, Dim) else attribute
