"""Graphs and plans in the DOT language, for Graphviz and what else draws graphs.

in : a graph, or a plan
out: its text in DOT: values flow along the edges, and a label has what a line of the text form has
"""

from __future__ import annotations

from collections.abc import Iterator

from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.printer import attribute_text
from graphc.schedule.plan import Branch, Check, Launch, Loop, Plan, Step, kernels, locations

LONGEST = 60
"""Characters of an attribute's text, which may hold a whole tensor."""


def graph_dot(graph: Graph) -> str:
    """A node for each of the graph's, an edge for each operand; outputs as boxes of their own."""
    lines = [f"digraph {_quoted(graph.name)} {{", "  node [shape=box];"]
    for identity, node in enumerate(graph.nodes):
        shape = ", shape=ellipse" if node.op in (INPUT, CONSTANT) else ""
        lines.append(f"  n{identity} [label={_quoted(*_node_lines(identity, node))}{shape}];")
        for operand in node.operands:
            label = f" [label={_quoted(str(operand.index))}]" if operand.index else ""
            lines.append(f"  n{operand.node} -> n{identity}{label};")
    targets = dict(graph.aliases)
    for position, value in enumerate(graph.outputs):
        name = f" -> %{graph.input_names[targets[position]]}" if position in targets else ""
        lines.append(f"  o{position} [label={_quoted(f'output {position}{name}')}, shape=ellipse];")
        lines.append(f"  n{value.node} -> o{position};")
    return "\n".join([*lines, "}"])


def _node_lines(identity: int, node: Node) -> Iterator[str]:
    if node.op == INPUT:
        yield f"%{node.attribute('name')}"
    else:
        yield f"%{identity} = {node.op}"
        for name, value in node.attributes:
            text = f"{name}={attribute_text(value)}"
            yield text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    yield ", ".join(map(str, node.types))
    if node.location:
        yield str(node.location)


def plan_dot(plan: Plan) -> str:
    """A node for each step, an edge for each buffer that one step writes and another reads; the
    plans of loops and branches as clusters."""
    names = {spec: name for spec, name in kernels(plan).items()}

    def label(plan: Plan, step: Step) -> str:
        what = names[step.kernel] if isinstance(step, Launch) else type(step).__name__.lower()
        return _quoted(what, *map(str, locations(plan, step)[:1]))

    def body(plan: Plan, prefix: str, indent: str) -> Iterator[str]:
        writer: dict[int, str] = {}
        for position, buffer in enumerate(plan.buffers):
            if buffer.place in ("argument", "constant"):
                writer[position] = f"{prefix}b{position}"
                text = _quoted(f"b{position}: {buffer}")
                yield f"{indent}{prefix}b{position} [label={text}, shape=ellipse];"
        for number, step in enumerate(plan.steps):
            own = f"{prefix}s{number}"
            yield f"{indent}{own} [label={label(plan, step)}];"
            read = (step.least, step.greatest) if isinstance(step, Check) else step.reads
            for i in dict.fromkeys(read):
                if i in writer:
                    yield f"{indent}{writer[i]} -> {own} [label={_quoted(f'b{i}')}];"
            if not isinstance(step, Check):
                writer |= dict.fromkeys(step.writes, own)
            for part, inner in enumerate(step.plans if isinstance(step, Loop | Branch) else ()):
                yield f"{indent}subgraph cluster_{own}_{part} {{"
                yield from body(inner, f"{own}_{part}_", indent + "  ")
                yield f"{indent}}}"
        for position, i in enumerate(plan.outputs):
            if i in writer:
                text = _quoted(f"output {position}")
                yield f"{indent}{prefix}o{position} [label={text}, shape=ellipse];"
                yield f"{indent}{writer[i]} -> {prefix}o{position};"

    head = [f"digraph {_quoted(plan.name)} {{", "  node [shape=box];"]
    return "\n".join([*head, *body(plan, "", "  "), "}"])


def _quoted(*lines: str) -> str:
    """Lines as one string of DOT."""
    escaped = (line.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ") for line in lines)
    return '"' + "\\n".join(escaped) + '"'
