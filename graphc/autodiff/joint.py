"""Derive the backward pass as a graph.

in : a graph, and which of its inputs to differentiate by
out: the joint graph: its outputs followed by the gradients, derived by the reverse sweep; which of
     its outputs are forward's and which of its inputs are cotangents
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from graphc.autodiff.sweep import Record, gradients_by_key, sweep
from graphc.errors import ArgumentError, GradientError
from graphc.ir.builder import GraphBuilder, Var, rebuilt, user_location
from graphc.ir.copying import copy_graph
from graphc.ir.graph_queries import descendants
from graphc.ir.handle import broadcast_to
from graphc.ir.nodes import BACKWARD, INPUT, Graph, Location, Node, Value
from graphc.ir.registry import lookup, parameters
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.region import Region
from graphc.records import record


@record
class Joint:
    """Forward and backward in one graph. The first `outputs` of its outputs are forward's, the
    others the gradients; `cotangents` are the positions of the inputs that hold the gradients of
    outputs, of the last derivative where it is one of several. What inputs are called tells
    nothing: passes keep positions."""

    graph: Graph
    outputs: int
    cotangents: tuple[int, ...]


def joint(
    graph: Graph, wrt: Sequence[str | int] | None = None, *, name: str | None = None,
    seeds: Sequence[int] | None = None, share: bool = False,
) -> Graph:  # fmt: skip
    """Forward and derived backward in one graph: that of `derive_joint`."""
    return derive_joint(graph, wrt, name=name, seeds=seeds, share=share).graph


def derive_joint(
    graph: Graph, wrt: Sequence[str | int] | None = None, *, name: str | None = None,
    seeds: Sequence[int] | None = None, share: bool = False,
) -> Joint:  # fmt: skip
    """Forward and derived backward in one graph, and what its inputs and outputs are.

    `wrt`: names or positions of inputs (default: all float inputs). A graph whose one output is a
    float scalar is differentiated as it is; otherwise the joint graph takes, after the graph's own
    inputs, one input for each float output i, called `cotangent_i` where that name is free.
    `seeds`: the positions of the outputs that have such an input; the others are not
    differentiated. With `share` equal nodes are one. Outputs: those of `graph`, then the gradients
    in the order of `wrt` (zeros where an input has no influence).
    """
    positions = _positions(graph, wrt)
    active = _active(graph, positions)
    builder, inputs = rebuilt(graph, name or f"{graph.name}_joint", share=share)
    seed_inputs = _seed_inputs(graph, builder, seeds)
    records: list[Record] = []
    outputs = replay(
        graph, builder, inputs, lambda node, ins, outs, on: _note(records, node, ins, outs, on),
        active=active,
    )  # fmt: skip
    with builder.at(user_location(phase=BACKWARD)):
        cotangents = gradients_by_key()
        for position, output in enumerate(outputs):
            if not output.type.dtype.is_float or (seeds is not None and position not in seeds):
                continue
            seed = seed_inputs.get(position)
            if seed is None:
                seed = builder.constant(np.ones((), output.type.dtype.numpy))
            cotangents.give(output.value, seed)
        sweep(reversed(records), cotangents, lambda record: builder.at(_backward_of(record)))
        gradients = []
        for position in positions:
            var = inputs[position]
            gradient = cotangents.get(var.value)
            if gradient is None:
                zero = builder.constant(np.zeros((), var.type.dtype.numpy))
                gradient = broadcast_to(zero, var.type.shape)
            gradients.append(gradient)
    whole = builder.finish(*outputs, *gradients, aliases=graph.aliases)
    first = len(inputs)
    return Joint(whole, len(outputs), tuple(range(first, first + len(seed_inputs))))


def _backward_of(record: Record) -> Location | None:
    """Where the gradient of an op stems from: its own line, in backward."""
    return record.location and record.location.within(BACKWARD)


def _positions(graph: Graph, wrt: Sequence[str | int] | None) -> list[int]:
    names, types = graph.input_names, graph.input_types
    if wrt is None:
        return [i for i, type in enumerate(types) if type.dtype.is_float]
    result = []
    for item in wrt:
        if isinstance(item, str) and item not in names:
            raise ArgumentError(f"graph {graph.name!r} has no input {item!r}",
                                hint=f"one of {', '.join(names)}")  # fmt: skip
        position = names.index(item) if isinstance(item, str) else item
        if not 0 <= position < len(names):
            raise ArgumentError(f"graph {graph.name!r} has no input {position}")
        if not types[position].dtype.is_float:
            raise ArgumentError(f"input {names[position]!r} is {types[position]}: only float "
                                "inputs have gradients")  # fmt: skip
        result.append(position)
    return result


def _active(graph: Graph, positions: list[int]) -> set[Value]:
    """The float values that depend on the inputs differentiated by."""
    return descendants(graph, map(Value, positions), lambda type: type.dtype.is_float)


def _seed_inputs(
    graph: Graph, builder: GraphBuilder, seeds: Sequence[int] | None
) -> dict[int, Var]:
    types = graph.output_types
    floats = [position for position, type in enumerate(types) if type.dtype.is_float]
    if seeds is not None:
        floats = list(seeds)
    elif len(floats) == 1 and types[floats[0]].shape == ():
        return {}
    # Names may be taken, as in a joint graph with cotangents of its own: all get one mark more.
    mark = ""
    while any(f"cotangent_{p}{mark}" in graph.input_names for p in floats):
        mark += "_"
    return {p: builder.input(f"cotangent_{p}{mark}", types[p]) for p in floats}


OnNode = Callable[[Node, tuple[Var, ...], tuple[Var, ...], tuple[bool, ...]], None]


def replay(
    graph: Graph,
    builder: GraphBuilder,
    inputs: Sequence[Var],
    on_node: OnNode,
    *,
    active: set[Value],
) -> tuple[Var, ...]:
    """Copy `graph`'s nodes into `builder`. A composite on the gradient's path that has no own
    rule is expanded, so that its parts have theirs. `on_node(node, operands, results, wanted)`
    is called for each node on the path."""
    identities = (i for i, node in enumerate(graph.nodes) if node.op != INPUT)
    paths = [tuple([operand in active for operand in node.operands]) for node in graph.nodes]

    def place(node: Node, operands: tuple[Var, ...]) -> tuple[Var, ...]:
        wanted = paths[next(identities)]
        if not any(wanted):
            return builder.copied(node, operands)
        with builder.at(node.location):
            return _on_path(node, builder, operands, on_node, wanted)

    values = copy_graph(graph, inputs, place)
    return tuple(values[output] for output in graph.outputs)


def _on_path(
    node: Node, builder: GraphBuilder, operands: tuple[Var, ...], on_node: OnNode,
    wanted: tuple[bool, ...],
) -> tuple[Var, ...]:  # fmt: skip
    """A node on the gradient's path in `builder`."""
    op, attributes = lookup(node.op), parameters(node)
    types = tuple(operand.type for operand in operands)
    if isinstance(op, Composite) and not op.has_own_gradient:
        definition = op.definition(types, attributes)
        active = _active(definition, [i for i, want in enumerate(wanted) if want])
        return replay(definition, builder, operands, on_node, active=active)
    if isinstance(op, Region) and op.differentiable:
        attributes = op.recorded(types, attributes)
    results = builder.apply(op, operands, attributes)
    on_node(builder.node_of(results[0]), operands, results, wanted)
    return results


def _note(
    records: list[Record],
    node: Node,
    operands: tuple[Var, ...],
    results: tuple[Var, ...],
    wanted: tuple[bool, ...],
) -> None:
    op = lookup(node.op)
    if not any(result.type.dtype.is_float for result in results):
        return
    if not op.differentiable:
        raise GradientError(f"{op.name} has no gradient", location=node.location)
    keys = tuple(v.value if want else None for v, want in zip(operands, wanted, strict=True))
    records.append(
        Record(op, parameters(node), operands, results, keys,
               tuple(result.value for result in results), node.location)
    )  # fmt: skip
