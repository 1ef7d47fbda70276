"""The named sizes that a graph depends on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from graphc.ir.dims import Dim, Symbol


def symbols_of(graph: Any) -> tuple[Symbol, ...]:
    """The sizes that extents and attributes of the graph depend on, in order of appearance."""
    return tuple(dict.fromkeys(s for node in graph.nodes for s in _symbols_of(node)))


def has_symbols(node: Any) -> bool:
    """Whether types or attributes of a node depend on sizes."""
    return next(_symbols_of(node), None) is not None


def _symbols_of(node: Any) -> Iterator[Symbol]:
    shapes = [type.shape for type in node.types if type.is_symbolic]
    for extent in _dims_in((*shapes, *[value for _, value in node.attributes])):
        yield from sorted(extent.symbols(), key=str)
    for region in node.regions:
        yield from symbols_of(region)


def _dims_in(attribute: Any) -> list[Dim]:
    if isinstance(attribute, tuple):  # nearly all are of ints
        others = [item for item in attribute if type(item) is not int]
        return [extent for item in others for extent in _dims_in(item)]
    return [attribute] if isinstance(attribute, Dim) else []
