"""The steps of a reduction: each makes another graph of a graph, or none where it cannot.

in : a graph and places in it
out: the graph with these places changed, without what nothing needs any more
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.graph_queries import reachable
from graphc.ir.nodes import CONSTANT, INPUT, Constant, Graph, Node, Value
from graphc.ir.registry import lookup
from graphc.records import replace

Make = Callable[[GraphBuilder], Sequence[Var]]
Replacement = int | Make
"""What stands for a node: its operand of this number, or what is made in a builder."""


def with_outputs(graph: Graph, positions: Sequence[int]) -> Graph:
    """The graph with these outputs alone."""
    places = {position: number for number, position in enumerate(positions)}
    aliases = [(places[o], target) for o, target in graph.aliases if o in places]
    outputs = tuple(graph.outputs[position] for position in positions)
    return rebuilt_with(replace(graph, outputs=outputs, aliases=tuple(aliases)), {})


def outputs_moved(graph: Graph) -> Iterator[Graph]:
    """The graph with an operand in place of what an output, which updates nothing, makes of it."""
    updating = {output for output, _ in graph.aliases}
    for position, value in enumerate(graph.outputs):
        if position in updating:
            continue
        for operand in dict.fromkeys(graph.nodes[value.node].operands):
            outputs = (*graph.outputs[:position], operand, *graph.outputs[position + 1 :])
            yield rebuilt_with(replace(graph, outputs=outputs), {})


def without_aliases(graph: Graph) -> Graph:
    """The graph with outputs that update nothing."""
    return rebuilt_with(replace(graph, aliases=()), {})


def cut(graph: Graph, places: Sequence[int]) -> Graph:
    """The graph with inputs in place of nodes."""
    taken = set(graph.input_names)

    def inputs(place: int) -> Replacement:
        def make(builder: GraphBuilder) -> Sequence[Var]:
            graphs = []
            for index, type in enumerate(graph.nodes[place].types):
                name = f"cut{place}" + (f"_{index}" if index else "")
                while name in taken:
                    name += "_"
                taken.add(name)
                graphs.append(builder.input(name, type))
            return graphs

        return make

    return rebuilt_with(graph, {place: inputs(place) for place in places})


def replaced_by_operands(graph: Graph, places: Sequence[int]) -> Graph | None:
    """The graph with nodes replaced by an operand of their type each; None where one has none."""
    chosen: dict[int, Replacement] = {}
    for place in places:
        fitting = _fitting(graph, graph.nodes[place])
        if not fitting:
            if len(places) == 1:
                return None
            continue
        chosen[place] = fitting[0]
    return rebuilt_with(graph, chosen)


def operand_variants(graph: Graph) -> Iterator[Graph]:
    """The graph with one node replaced by one of its operands."""
    for place, node in reversed(list(enumerate(graph.nodes))):
        for position in _fitting(graph, node):
            yield rebuilt_with(graph, {place: position})


def _fitting(graph: Graph, node: Node) -> list[int]:
    """Which operands have the type of a node's one result."""
    return [i for i, v in enumerate(node.operands) if (graph.type_of(v),) == node.types]


def replaced_by_constants(graph: Graph, places: Sequence[int]) -> Graph:
    """The graph with constants in place of nodes or inputs: ones of floats, zeros of the rest."""
    return rebuilt_with(graph, {place: _constants(graph.nodes[place]) for place in places})


def _constants(node: Node) -> Replacement:
    def make(builder: GraphBuilder) -> Sequence[Var]:
        return [
            builder.constant(np.full(t.shape, 1 if t.dtype.is_float else 0, t.dtype.numpy))
            for t in node.types
        ]

    return make


def region_variants(graph: Graph) -> Iterator[Graph]:
    """The graph with one node of one region replaced by an operand or a constant."""
    for place, node in enumerate(graph.nodes):
        for number, region in enumerate(node.regions):
            for smaller in _inside(region):
                regions = (*node.regions[:number], smaller, *node.regions[number + 1 :])
                changed = replace(node, regions=regions)
                nodes = (*graph.nodes[:place], changed, *graph.nodes[place + 1 :])
                yield replace(graph, nodes=nodes)


def _inside(region: Graph) -> Iterator[Graph]:
    """Smaller regions of the same signature."""
    yield from region_variants(region)
    for place, node in enumerate(region.nodes):
        if node.op in (INPUT, CONSTANT):
            continue
        for instead in (*_fitting(region, node), _constants(node)):
            yield rebuilt_with(region, {place: instead}, keep_inputs=True)


def rebuilt_with(
    graph: Graph, replacements: Mapping[int, Replacement], keep_inputs: bool = False
) -> Graph:
    """The graph with what stands for some of its nodes, inputs and nodes that nothing needs left
    out. Inputs of regions all stay."""
    roots = [*(value.node for value in graph.outputs), *(target for _, target in graph.aliases)]
    needed = reachable(roots, lambda place: _read_by(graph.nodes[place], replacements.get(place)))
    builder = GraphBuilder(graph.name)
    values: dict[Value, Var] = {}
    for place, node in enumerate(graph.nodes):
        if place not in needed and not (node.op == INPUT and keep_inputs):
            continue
        instead = replacements.get(place)
        with builder.at(node.location):
            if instead is None:
                results: Sequence[Var] = builder.copied(node, [values[v] for v in node.operands])
            elif isinstance(instead, int):
                results = [values[node.operands[instead]]]
            else:
                results = instead(builder)
        values.update({Value(place, i): result for i, result in enumerate(results)})
    positions = {place: i for i, place in enumerate(_inputs_left(graph, values, replacements))}
    aliases = [(output, positions[target]) for output, target in graph.aliases]
    return builder.finish(*(values[value] for value in graph.outputs), aliases=aliases)


def _read_by(node: Node, instead: Replacement | None) -> list[int]:
    """The nodes that a node, or what stands for it, reads."""
    if instead is None:
        return [value.node for value in node.operands]
    return [node.operands[instead].node] if isinstance(instead, int) else []


def _inputs_left(
    graph: Graph, values: Mapping[Value, Var], replacements: Mapping[int, Replacement]
) -> list[int]:
    return [
        place for place, node in enumerate(graph.nodes)
        if node.op == INPUT and Value(place) in values and place not in replacements
    ]  # fmt: skip


# -- sizes -----------------------------------------------------------------------------------------


def resized(graph: Graph, how: tuple[int, int, bool]) -> Graph:
    """The graph with one size made smaller everywhere: in the types of inputs, in constants (their
    first elements stay), and in attributes that list sizes. `how`: the size, the smaller one, and
    whether multiples of it shrink too. Types are inferred anew: what does not fit raises."""
    size, smaller, multiples = how

    def of(dim: int) -> int:
        if multiples and dim and dim % size == 0:
            return dim // size * smaller
        return smaller if dim == size else dim

    return _resized(graph, of)


def _resized(graph: Graph, of: Callable[[int], int]) -> Graph:
    builder = GraphBuilder(graph.name)
    values: dict[Value, Var] = {}
    for place, node in enumerate(graph.nodes):
        with builder.at(node.location):
            results = _resized_node(builder, node, [values[v] for v in node.operands], of)
        values.update({Value(place, i): result for i, result in enumerate(results)})
    outputs = [values[value] for value in graph.outputs]
    return builder.finish(*outputs, aliases=graph.aliases)


def _resized_node(
    builder: GraphBuilder, node: Node, operands: list[Var], of: Callable[[int], int]
) -> Sequence[Var]:
    if node.op == INPUT:
        shape = tuple(of(dim) for dim in node.types[0].shape)
        return [builder.input(node.attribute("name"), node.types[0].with_shape(shape))]
    if node.op == CONSTANT:
        array = node.attribute("value").array
        kept = tuple(slice(of(dim)) for dim in array.shape)
        return [builder.constant(Constant(array[kept]))]
    attributes = {name: _resized_attribute(value, of) for name, value in node.attributes}
    regions = tuple(_resized(region, of) for region in node.regions)
    return builder.apply(lookup(node.op), tuple(operands), attributes, regions)


def _resized_attribute(value: Any, of: Callable[[int], int]) -> Any:
    """Sizes stand in lists; a number alone is an axis, a count or a step."""
    if isinstance(value, tuple):
        return tuple(
            of(item) if type(item) is int else _resized_attribute(item, of) for item in value
        )
    return value
