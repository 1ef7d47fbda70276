"""Branches and loops made smaller.

in : a graph
out: the graph whose branches and loops give no results that nobody reads, take no operands that
     they do not read, and compute nothing at each step that is the same at each
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from graphc.ir.copying import extract, inlined
from graphc.ir.draft import Draft, Values
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import INPUT, Graph, Node, Value
from graphc.ir.recording import NOTES
from graphc.ir.registry import lookup, parameters
from graphc.ops.kinds.region import Cond, TimeLoop, WhileLoop
from graphc.passes.dead_code import dead_code
from graphc.passes.split_frozen import depending_on, frontier_of
from graphc.records import record, replace
from graphc.system import IMPORTING


def simplify_regions(graph: Graph) -> Graph:
    """Prune what no output needs, then hoist out of loops what all steps have in common.

        scan(%h, %xs, %w, %b) body(%h, %x, %w, %b) {     %1 = transpose(%w)
          %4 = transpose(%w)                         =>  scan(%h, %xs, %1) body(%h, %x, %t) {
          %5 = matmul(%h, %4)                              %3 = matmul(%h, %t)
          %6 = add(%5, %x)                                 %4 = add(%3, %x)
          return %6, %5                                    return %4
        }                                                }

    A result of a scan stays alive where another step needs it. Nodes with a content check, and
    loops that may not end, stay in their loop, which may run no step.
    """
    if not any(node.regions for node in graph.nodes):
        return dead_code(graph)
    pruned = _pruned(graph)
    draft = Draft()
    results: list[Values] = []
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            results.append(draft.add(node))
            continue
        kept = pruned.get(identity)
        if kept is None:
            results.append(())
            continue
        draft.location = node.location
        operands = tuple(results[v.node][v.index] for v in kept.operands)
        added = draft.add(_hoisted(replace(kept.node, operands=operands), draft))
        placed: list[Any] = [None] * len(node.types)
        for new, old in enumerate(kept.results):
            placed[old] = added[new]
        results.append(tuple(placed))
    _tell(graph, results)
    outputs = tuple(results[v.node][v.index] for v in graph.outputs)
    return draft.graph(graph.name, outputs, graph.aliases)


def _tell(graph: Graph, results: list[Values]) -> None:
    """What became of the nodes, where somebody wants to know."""
    notes = NOTES.get()
    if notes is not None:
        each = ((Value(i, k), v) for i, new in enumerate(results) for k, v in enumerate(new))
        notes.copied(graph.nodes, {old: new for old, new in each if new is not None})


# -- pruning -------------------------------------------------------------------------------------


@record(slots=False)
class _KeptCarries:
    """What is left of a node: its operands as values of the old graph, and which of the old
    results its results are."""

    node: Node
    operands: Values
    results: tuple[int, ...]


def _pruned(graph: Graph) -> dict[int, _KeptCarries]:
    """The nodes that an output needs, from last to first: what a loop no longer takes, its
    operands' nodes need not give."""
    needed = set(graph.outputs)
    kept_nodes: dict[int, _KeptCarries] = {}
    for identity in range(len(graph.nodes) - 1, -1, -1):
        node = graph.nodes[identity]
        used = [i for i in range(len(node.types)) if Value(identity, i) in needed]
        if node.op == INPUT or not used:
            continue
        kept = _KeptCarries(node, node.operands, tuple(range(len(node.types))))
        if node.regions:
            rule = _RULES.get(type(lookup(node.op)))
            kept = kept if rule is None else rule(node, set(used))
            regions = tuple(simplify_regions(region) for region in kept.node.regions)
            kept = replace(kept, node=replace(kept.node, regions=regions))
        needed.update(kept.operands)
        kept_nodes[identity] = kept
    return kept_nodes


def _read_inputs(region: Graph, outputs: Iterable[int]) -> set[int]:
    """The positions of the inputs that these outputs depend on."""
    needed = ancestors(region.nodes, [region.outputs[position] for position in outputs])
    return {i for i in range(len(region.inputs)) if i in needed}


def _part(region: Graph, inputs: list[int], outputs: Iterable[int]) -> Graph:
    """The region with only these inputs and outputs."""
    return extract(
        region, region.name, [Value(i) for i in inputs], [region.outputs[o] for o in outputs]
    )


def _branch(node: Node, used: set[int]) -> _KeptCarries:
    results = sorted(used)
    read = sorted(set().union(*(_read_inputs(region, results) for region in node.regions)))
    regions = tuple(_part(region, read, results) for region in node.regions)
    operands = (node.operands[0], *(node.operands[1 + i] for i in read))
    types = tuple(node.types[i] for i in results)
    return _KeptCarries(replace(node, regions=regions, types=types), operands, tuple(results))


def _while(node: Node, used: set[int]) -> _KeptCarries:
    condition, body = node.regions
    count = node.attribute("carry")
    tested = _read_inputs(condition, (0,))
    live = used | {i for i in tested if i < count}
    read = _settled(live, count, body) | tested
    carry = sorted(live)
    inputs = carry + sorted(i for i in read if i >= count)
    regions = (_part(condition, inputs, (0,)), _part(body, inputs, carry))
    pruned = replace(
        node, regions=regions, types=tuple(node.types[i] for i in carry),
        attributes=_changed(node, carry=len(carry)),
    )  # fmt: skip
    return _KeptCarries(pruned, tuple(node.operands[i] for i in inputs), tuple(carry))


def _scan(node: Node, used: set[int]) -> _KeptCarries:
    (body,) = node.regions
    count, sequences = node.attribute("carry"), node.attribute("sequences")
    live = set(used)
    read = _settled(live, count, body)
    outputs = sorted(live)
    carry = [i for i in outputs if i < count]
    along = sorted(i for i in read if count <= i < count + sequences)
    rest = sorted(i for i in read if i >= count + sequences)
    inputs = carry + along + rest
    first_saved = len(body.outputs) - node.attribute("saved")
    pruned = replace(
        node, regions=(_part(body, inputs, outputs),),
        types=tuple(node.types[i] for i in outputs),
        attributes=_changed(
            node, carry=len(carry), sequences=len(along),
            saved=sum(i >= first_saved for i in outputs),
        ),
    )  # fmt: skip
    return _KeptCarries(pruned, tuple(node.operands[i] for i in inputs), tuple(outputs))


def _settled(live: set[int], carry: int, body: Graph) -> set[int]:
    """The inputs that the `live` results of a loop's body read; carries among them become live."""
    while True:
        read = _read_inputs(body, live)
        more = {i for i in read if i < carry} - live
        if not more:
            return read
        live |= more


def _changed(node: Node, **attributes: int) -> Any:
    return tuple(sorted((dict(node.attributes) | attributes).items()))


_RULES: dict[type, Callable[[Node, set[int]], _KeptCarries]] = {
    Cond: _branch, WhileLoop: _while, TimeLoop: _scan,
}  # fmt: skip


# -- moving out of loops -------------------------------------------------------------------------


def _hoisted(node: Node, draft: Draft) -> Node:
    """A loop with what depends on invariants alone hoisted out of it, into `draft`."""
    if not node.regions or not isinstance(lookup(node.op), WhileLoop | TimeLoop):
        return node
    body = node.regions[-1]
    attributes = parameters(node)
    first = attributes["carry"] + attributes.get("sequences", 0)
    frontier = frontier_of(body, depending_on(body, set(range(first, len(body.inputs)))))
    if not frontier:
        return node
    invariants = extract(
        body, "invariants", [Value(i) for i in range(first, len(body.inputs))], frontier
    )
    values = inlined(invariants, draft, node.operands[first:])
    inputs = [Value(i) for i in range(len(body.inputs))]
    remaining = extract(body, body.name, [*inputs, *frontier], list(body.outputs))
    others = [_widened(region, frontier, body) for region in node.regions[:-1]]
    moved = replace(node, regions=(*others, remaining), operands=(*node.operands, *values))
    # What only the moved nodes read is no operand any more.
    left = _RULES[type(lookup(node.op))](moved, set(range(len(node.types))))
    return replace(left.node, operands=left.operands)


def _widened(region: Graph, values: list[Value], body: Graph) -> Graph:
    """A region that takes, and ignores, further inputs."""
    with IMPORTING:
        from graphc.ir.builder import rebuilt

    builder, inputs = rebuilt(region)
    for number, value in enumerate(values):
        builder.input(builder.free_name(f"invariant{len(inputs) + number}"), body.type_of(value))
    draft = Draft()
    for node in builder.finish().nodes:
        draft.add(node)
    return draft.graph(region.name, inlined(region, draft, tuple(var.value for var in inputs)))
