"""What backward saves and what it computes again: a minimum cut over the joint graph.

in : a joint graph, and how many of its outputs are the forward's
out: a forward graph that also returns what is saved, and a backward graph that takes it

Each value that forward could hand to backward costs its bytes if saved, and its work if backward
computes it again from other saved values. The cheapest choice is a minimum cut between the inputs
and what only backward can compute (graphc.autodiff.cut), within a budget of bytes where there is
one.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass

from graphc.autodiff.cut import cheapest
from graphc.autodiff.joint import cotangent_inputs
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


def partition(joint: Graph, outputs: int, saved_bytes: int | None = None) -> Partition:
    """Split a joint graph whose first `outputs` outputs are the forward's. `saved_bytes`: the most
    bytes to save; MemoryLimitError where that is too little."""
    seeds = cotangent_inputs(joint)
    backward_only = descendants(joint, seeds)
    needed = _ancestors(joint, [v.node for v in joint.outputs[outputs:]])
    aliased = {target for _, target in joint.aliases}
    primal = [i for i in range(len(joint.inputs)) if i not in seeds]
    # Forward overwrites an input it updates: backward gets a copy of the old content.
    kept = {i for i in primal if i not in aliased}
    read = [v for i in backward_only & needed for v in joint.nodes[i].operands]
    cut = cheapest(
        joint, needed - backward_only, [*read, *joint.outputs[outputs:]],
        {Value(i) for i in kept}, saved_bytes,
    )  # fmt: skip
    taken = sorted(v.node for v in cut.kept if v.node in kept)
    computed = sorted((v for v in cut.kept if v.node not in kept), key=lambda v: (v.node, v.index))
    forward = extract(
        joint, f"{joint.name}_forward", [Value(i) for i in primal],
        [*joint.outputs[:outputs], *computed], joint.aliases,
    )  # fmt: skip
    backward = extract(
        joint, f"{joint.name}_backward",
        [*(Value(i) for i in taken), *computed, *(Value(i) for i in seeds)],
        list(joint.outputs[outputs:]), (), late=backward_only,
    )  # fmt: skip
    return Partition(forward, backward, tuple(taken), cut.bytes)


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


def extract(
    graph: Graph, name: str, inputs: list[Value], outputs: list[Value],
    aliases: tuple[tuple[int, int], ...] = (), late: Set[int] | None = None,
) -> Graph:  # fmt: skip
    """The part of `graph` between some of its values and others, as a graph of its own. Inputs
    that are inputs of `graph` keep their names; a value given twice has the first input. The nodes
    that are not `late` (None: all are) stand just before the first of those that needs them."""
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
            found = work.pop()
            if found in needed and found not in order and found not in before:
                before.add(found)
                work += [operand.node for operand in graph.nodes[found].operands]
        order.update(dict.fromkeys(sorted(before)))
    return list(order)
