"""Numbered rules every graph keeps. Run after each pass under test.

| rule | meaning |
|---|---|
| G1 | inputs come first, named uniquely, without operands |
| G2 | operands are results of earlier nodes |
| G3 | the op is declared |
| G4 | attributes are canonical: the op's names, sorted, defaults filled in, whole where due |
| G5 | the types are those the op infers |
| G6 | outputs are results of nodes |
| G7 | an alias joins an output and an input of one type; each at most once |
| G8 | regions are graphs that keep the rules, as many as the op has |
| G9 | a constant's type is its array's |
"""

from __future__ import annotations

from graphc.errors import GraphError, VerifyError
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node, Value
from graphc.ir.registry import lookup, parameters


def verify(graph: Graph) -> Graph:
    """`graph` itself if it keeps all rules. Raises VerifyError naming rule, node and location."""
    names: set[str] = set()
    for identity, node in enumerate(graph.nodes):
        if node.op == INPUT:
            name = node.attribute("name")
            leading = identity == len(names)
            _check(leading and name not in names and not node.operands, "G1", graph, identity)
            names.add(name)
            continue
        for operand in node.operands:
            _check(operand.node < identity and _exists(graph, operand), "G2", graph, identity)
        if node.op == CONSTANT:
            _check(node.types == (node.attribute("value").type,), "G9", graph, identity)
            continue
        _verify_op(graph, identity, node)
    for output in graph.outputs:
        _check(_exists(graph, output), "G6", graph, None, f"output {output}")
    _verify_aliases(graph)
    return graph


def _verify_op(graph: Graph, identity: int, node: Node) -> None:
    try:
        op = lookup(node.op)
    except GraphError as error:
        raise _broken("G3", graph, identity, str(error)) from None
    for region in node.regions:
        try:
            verify(region)
        except VerifyError as error:
            raise _broken("G8", graph, identity, str(error)) from None
    _check(len(node.regions) == len(op.region_names), "G8", graph, identity)
    try:
        canonical = op.canonical(parameters(node))
    except GraphError as error:
        raise _broken("G4", graph, identity, str(error)) from None
    own = {name: value for name, value in canonical.items() if name not in op.region_names}
    _check(tuple(sorted(own.items())) == node.attributes, "G4", graph, identity)
    try:
        types = op.infer(tuple(graph.type_of(operand) for operand in node.operands), canonical)
    except GraphError as error:
        raise _broken("G5", graph, identity, str(error)) from None
    listed = ", ".join(map(str, types))
    _check(types == node.types, "G5", graph, identity, f"inferred {listed}")


def _verify_aliases(graph: Graph) -> None:
    inputs = graph.input_types
    outputs = [output for output, _ in graph.aliases]
    targets = [target for _, target in graph.aliases]
    unique = len(set(outputs)) == len(outputs) and len(set(targets)) == len(targets)
    _check(unique, "G7", graph, None, f"aliases {graph.aliases}")
    for output, target in graph.aliases:
        fits = (
            0 <= output < len(graph.outputs)
            and 0 <= target < len(inputs)
            and graph.type_of(graph.outputs[output]) == inputs[target]
        )
        _check(fits, "G7", graph, None, f"output {output} -> input {target}")


def _exists(graph: Graph, value: Value) -> bool:
    return 0 <= value.node < len(graph.nodes) and 0 <= value.index < len(
        graph.nodes[value.node].types
    )


def _check(
    holds: bool, rule: str, graph: Graph, identity: int | None, detail: str | None = None
) -> None:
    if not holds:
        raise _broken(rule, graph, identity, detail)


def _broken(rule: str, graph: Graph, identity: int | None, detail: str | None) -> VerifyError:
    where = f"graph {graph.name!r}"
    location = None
    if identity is not None:
        node = graph.nodes[identity]
        location = node.location
        where += f", node %{identity} = {node.op} : {', '.join(map(str, node.types))}"
    return VerifyError(
        f"rule {rule} broken in {where}" + (f": {detail}" if detail else ""), location=location
    )
