"""What backward saves and what it computes again: a minimum cut over the joint graph.

in : a joint graph, with which outputs are forward's and which inputs cotangents
out: a forward graph that also returns what is saved, and a backward graph that takes it

Each value that forward could hand to backward costs its bytes if saved, and its work if backward
computes it again from other saved values. The cheapest choice is a minimum cut between the inputs
and what only backward can compute (graphc.autodiff.cut), within a budget of bytes where there is
one.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from graphc.autodiff.cut import minimum_cut
from graphc.autodiff.joint import Joint
from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.nodes import INPUT, Graph, Location, Value


@dataclass(frozen=True, slots=True)
class Partition:
    """`forward` takes the inputs and returns the outputs, then the saved values. `backward` takes
    the inputs numbered `saved_inputs`, the saved values, then the cotangents, and returns the
    gradients. `saved_bytes` counts the saved values, inputs that are not overwritten aside."""

    forward: Graph
    backward: Graph
    saved_inputs: tuple[int, ...]
    saved_bytes: int


def partition(joint: Joint, saved_bytes: int | None = None) -> Partition:
    """Split a joint graph. `saved_bytes`: the most bytes to save; MemoryLimitError where that is
    too little."""
    graph, outputs = joint.graph, joint.graph.outputs[: joint.outputs]
    gradients = joint.graph.outputs[joint.outputs :]
    backward_only = descendants(graph, list(joint.cotangents))
    needed = _ancestors(graph, [v.node for v in gradients])
    aliased = {target for _, target in graph.aliases}
    primal = [i for i in range(len(graph.inputs)) if i not in joint.cotangents]
    # Forward overwrites an input it updates: backward gets a copy of the old content.
    kept = {i for i in primal if i not in aliased}
    read = [v for i in backward_only & needed for v in graph.nodes[i].operands]
    cut = minimum_cut(
        graph, needed - backward_only, [*read, *gradients], {Value(i) for i in kept}, saved_bytes
    )
    saved_inputs = sorted(v.node for v in cut.kept if v.node in kept)
    computed = sorted((v for v in cut.kept if v.node not in kept), key=lambda v: (v.node, v.index))
    forward = extract(
        graph, f"{graph.name}_forward", [Value(i) for i in primal], [*outputs, *computed],
        graph.aliases,
    )  # fmt: skip
    backward = extract(
        graph, f"{graph.name}_backward",
        [*(Value(i) for i in saved_inputs), *computed, *(Value(i) for i in joint.cotangents)],
        list(gradients), (), late=backward_only,
    )  # fmt: skip
    return Partition(forward, backward, tuple(saved_inputs), cut.bytes)


def descendants(graph: Graph, roots: list[int]) -> set[int]:
    """The nodes that depend on `roots`, and those."""
    nodes = set(roots)
    for identity, node in enumerate(graph.nodes):
        if any(operand.node in nodes for operand in node.operands):
            nodes.add(identity)
    return nodes


def _ancestors(graph: Graph, roots: list[int]) -> set[int]:
    nodes = set(roots)
    for identity in range(len(graph.nodes) - 1, -1, -1):
        if identity in nodes:
            nodes.update(operand.node for operand in graph.nodes[identity].operands)
    return nodes


def extract(
    graph: Graph, name: str, inputs: list[Value], outputs: list[Value],
    aliases: tuple[tuple[int, int], ...] = (), late: Set[int] | None = None,
) -> Graph:  # fmt: skip
    """The part of `graph` between some of its values and others, as a graph of its own. Inputs
    that are inputs of `graph` keep their names; a value that is listed twice has the first input.
    The nodes that are not `late` (None: all are) stand just before the first that needs them."""
    builder = GraphBuilder(name)
    values: dict[Value, Var] = {}
    names_taken = set(graph.input_names)
    for number, value in enumerate(inputs):
        node = graph.nodes[value.node]
        is_input = node.op == INPUT
        with builder.at(node.location or Location(name, 0)):
            label = str(node.attribute("name")) if is_input else f"saved{number}_{node.op}"
            while not is_input and label in names_taken:  # from an extraction before this one
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
    for identity in _in_time(graph, needed, needed if late is None else needed & late):
        node = graph.nodes[identity]
        results = builder.copied(node, [values[operand] for operand in node.operands])
        for index, result in enumerate(results):
            values.setdefault(Value(identity, index), result)
    positions = {value.node: number for number, value in enumerate(inputs)}
    moved = [(output, positions[target]) for output, target in aliases]
    return builder.finish(*(values[value] for value in outputs), aliases=moved)


def _in_time(graph: Graph, needed: set[int], late: Set[int]) -> list[int]:
    """The nodes in order, those that are not `late` just before the first that needs them."""
    order: dict[int, None] = {}
    for identity in [*sorted(late), *sorted(needed - late)]:
        before, work = set(), [identity]
        while work:
            current = work.pop()
            if current in needed and current not in order and current not in before:
                before.add(current)
                work += [operand.node for operand in graph.nodes[current].operands]
        order.update(dict.fromkeys(sorted(before)))
    return list(order)
