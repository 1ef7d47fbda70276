"""What backward saves and what it computes again: a minimum cut over the joint graph.

in : a joint graph, and how many of its outputs are the forward's
out: a forward graph that also returns what is saved, and a backward graph that takes it

Each value that forward could hand to backward costs its bytes if saved, and nothing if backward
computes it again from other saved values. Contractions, reductions, gathers, scatters and random
numbers are not computed again; elementwise ops and index maps may be. The cheapest choice is the
minimum cut between the inputs and what only backward can compute.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.autodiff.joint import cotangent_inputs
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Location, Value
from graphc.ir.registry import lookup

_RECOMPUTABLE = ("elementwise", "movement", "composite")
# Composites that hold reductions are not cheap to compute again.
_HEAVY_COMPOSITES = {
    "max_pool", "max_pool_indices", "max_unpool", "avg_pool", "resample", "layer_norm",
    "cross_entropy", "var", "mean", "median", "argmedian", "searchsorted", "attention",
    "attention_grad",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Split:
    """`forward` takes the inputs and returns the outputs, then the saved values. `backward` takes
    the inputs numbered `saved_inputs`, the saved values, then the cotangents, and returns the
    gradients."""

    forward: Graph
    backward: Graph
    saved_inputs: tuple[int, ...]


def partition(joint: Graph, outputs: int) -> Split:
    """Split a joint graph whose first `outputs` outputs are the forward's."""
    seeds = cotangent_inputs(joint)
    backward_only = descendants(joint, seeds)
    needed = _ancestors(joint, [v.node for v in joint.outputs[outputs:]])
    saved = _minimum_cut(joint, backward_only & needed, needed - backward_only, outputs)
    primal = [i for i in range(len(joint.inputs)) if i not in seeds]
    # Forward overwrites an input it updates: backward gets a copy of the old content.
    kept = {i for i in primal if i not in {target for _, target in joint.aliases}}
    taken = sorted(v.node for v in saved if v.node in kept)
    computed = sorted((v for v in saved if v.node not in kept), key=lambda v: (v.node, v.index))
    forward = extract(
        joint, f"{joint.name}_forward", [Value(i) for i in primal],
        [*joint.outputs[:outputs], *computed], joint.aliases,
    )  # fmt: skip
    backward = extract(
        joint, f"{joint.name}_backward",
        [*(Value(i) for i in taken), *computed, *(Value(i) for i in seeds)],
        list(joint.outputs[outputs:]), (),
    )  # fmt: skip
    return Split(forward, backward, tuple(taken))


def descendants(graph: Graph, roots: list[int]) -> set[int]:
    """The nodes that depend on `roots`, and those."""
    found = set(roots)
    for identity, node in enumerate(graph.nodes):
        if any(operand.node in found for operand in node.operands):
            found.add(identity)
    return found


def _ancestors(graph: Graph, roots: list[int]) -> set[int]:
    found = set(roots)
    for identity in range(len(graph.nodes) - 1, -1, -1):
        if identity in found:
            found.update(operand.node for operand in graph.nodes[identity].operands)
    return found


def _minimum_cut(
    graph: Graph, backward: set[int], candidates: set[int], outputs: int
) -> set[Value]:
    """The values to save: edges from `in` to `out` of the minimum cut."""
    import networkx

    network = networkx.DiGraph()
    network.add_node("source")
    network.add_node("sink")
    aliased = {target for _, target in graph.aliases}
    for identity in candidates:
        node = graph.nodes[identity]
        if node.op == CONSTANT:
            continue
        free = node.op == INPUT and identity not in aliased
        for index, type in enumerate(node.types):
            value = Value(identity, index)
            # An input is kept anyway; it is preferred, not free, so that fewer are taken.
            network.add_edge((value, "in"), (value, "out"), capacity=1 if free else type.nbytes + 1)
            if node.op == INPUT or not _recomputable(node.op):
                network.add_edge("source", (value, "in"))
            for operand in node.operands:
                if graph.nodes[operand.node].op != CONSTANT:
                    network.add_edge((operand, "out"), (value, "in"))
    for identity in backward:
        for operand in graph.nodes[identity].operands:
            if operand.node in candidates and graph.nodes[operand.node].op != CONSTANT:
                network.add_edge((operand, "out"), "sink")
    for output in graph.outputs[outputs:]:
        if output.node in candidates and graph.nodes[output.node].op != CONSTANT:
            network.add_edge((output, "out"), "sink")
    _, (reachable, _) = networkx.minimum_cut(network, "source", "sink")
    return {
        start[0]
        for start, end in network.edges
        if start != "source" and start[1] == "in" and start in reachable and end not in reachable
    }


def _recomputable(op_name: str) -> bool:
    op = lookup(op_name)
    return op.kind in _RECOMPUTABLE and op_name not in _HEAVY_COMPOSITES


def extract(
    graph: Graph, name: str, inputs: list[Value], outputs: list[Value],
    aliases: tuple[tuple[int, int], ...] = (),
) -> Graph:  # fmt: skip
    """The part of `graph` between some of its values and others, as a graph of its own. Inputs
    that are inputs of `graph` keep their names; a value given twice has the first input."""
    builder = GraphBuilder(name)
    values: dict[Value, Var] = {}
    taken = set(graph.input_names)
    for number, value in enumerate(inputs):
        node = graph.nodes[value.node]
        is_input = node.op == INPUT
        with builder.at(node.location or Location(name, 0)):
            label = str(node.attribute("name")) if is_input else f"saved{number}_{node.op}"
            while not is_input and label in taken:  # from an extraction before this one
                label += "_"
            values.setdefault(value, builder.input(label, graph.type_of(value)))
    work = [value.node for value in outputs if value not in values]
    needed: set[int] = set()
    while work:
        identity = work.pop()
        if identity in needed:
            continue
        needed.add(identity)
        work += [v.node for v in graph.nodes[identity].operands if v not in values]
    for identity in sorted(needed):
        node = graph.nodes[identity]
        with builder.at(node.location or Location(name, 0)):
            if node.op == CONSTANT:
                values[Value(identity)] = builder.constant(node.attribute("value"))
                continue
            operands = tuple(values[operand] for operand in node.operands)
            results = builder.apply(lookup(node.op), operands, dict(node.attributes), node.regions)
        for index, result in enumerate(results):
            values.setdefault(Value(identity, index), result)
    positions = {value.node: number for number, value in enumerate(inputs)}
    moved = [(output, positions[target]) for output, target in aliases]
    return builder.finish(*(values[value] for value in outputs), aliases=moved)
