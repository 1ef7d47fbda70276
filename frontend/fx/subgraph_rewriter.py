"""`replace_pattern`: calls in a graph that look like those of one function become another's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from frontend.fx._symbolic_trace import Tracer
from frontend.fx.graph import Graph
from frontend.fx.graph_module import GraphModule, _assign_attr, _get_attr, _has_attr
from frontend.fx.node import Node
from frontend.nn.modules.module import Module


class Match(NamedTuple):
    """Where a pattern was: the node its last one matched, and node by node."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | GraphModule | Graph,
    replacement: Callable[..., Any] | GraphModule | Graph,
) -> list[Match]:  # fmt: skip
    """Replace every group of calls that is that of `pattern` (a function of the values it takes,
    with one result) by those of `replacement`, which takes as many. A group that overlaps one
    replaced already, or whose inner values are used elsewhere, is left."""
    wanted, new = _graph_of(pattern), _graph_of(replacement)
    inputs, replacements = wanted.find_nodes(op="placeholder"), new.find_nodes(op="placeholder")
    if len(inputs) != len(replacements):
        raise ValueError(
            f"the pattern takes {len(inputs)} values, the replacement {len(replacements)}; "
            "both take the same"
        )
    matches = _matches(gm.graph, wanted)
    replaced: dict[Node, Node] = {}
    for match in matches:
        values = [_latest(match.nodes_map[x], replaced) for x in inputs if x in match.nodes_map]
        with gm.graph.inserting_before(match.anchor):
            copied: dict[Node, Any] = dict(zip(replacements, values))
            result = gm.graph.graph_copy(new, copied)
        match.anchor.replace_all_uses_with(result)
        replaced[match.anchor] = result
        inner = [match.nodes_map[n] for n in wanted.nodes if n.op not in ("placeholder", "output")]
        for node in reversed(inner):
            if not node.users:
                gm.graph.erase_node(node)
    if isinstance(replacement, Module):
        _copy_attributes(new, replacement, gm)
    gm.recompile()
    return matches


def _latest(node: Node, replaced: dict[Node, Node]) -> Node:
    while node in replaced:
        node = replaced[node]
    return node


def _graph_of(what: Any) -> Graph:
    if isinstance(what, Graph):
        return what
    return what.graph if isinstance(what, GraphModule) else Tracer().trace(what)


def _copy_attributes(graph: Graph, source: Any, target: GraphModule) -> None:
    for node in graph.nodes:
        if node.op in ("get_attr", "call_module") and not _has_attr(target, str(node.target)):
            _assign_attr(_get_attr(source, str(node.target)), target, str(node.target))


def _matches(graph: Graph, pattern: Graph) -> list[Match]:
    last: Any = pattern.output_node().args[0]
    if not isinstance(last, Node):
        raise ValueError("a pattern returns one value")
    matches: list[Match] = []
    taken: set[Node] = set()
    for anchor in graph.nodes:
        matched: dict[Node, Node] = {}
        if not _same(last, anchor, matched):
            continue
        inner = {matched[n] for n in matched if n.op != "placeholder"}
        leaks = any(u not in inner for n in inner if n is not anchor for u in n.users)
        if not leaks and not inner & taken:
            matches.append(Match(anchor, matched))
            taken |= inner
    return matches


def _same(wanted: Node, node: Node, matched: dict[Node, Node]) -> bool:
    """Whether `node` is the pattern's `wanted`, with all below; noted in `found`."""
    if wanted in matched:
        return matched[wanted] is node
    matched[wanted] = node
    if wanted.op == "placeholder":
        return True
    if wanted.op != node.op or wanted.target != node.target:
        return False
    pairs: list[tuple[Node, Node]] = []
    mine, other = (_flat(x.args, x.kwargs) for x in (wanted, node))
    if len(mine) != len(other):
        return False
    for a, b in zip(mine, other):
        if isinstance(a, Node) and isinstance(b, Node):
            pairs.append((a, b))
        elif a is not b and (type(a) is not type(b) or a != b):
            return False
    return all(_same(a, b, matched) for a, b in pairs)


def _flat(*values: Any) -> list[Any]:
    """The leaves of arguments, with marks for how they are nested."""
    items: list[Any] = []
    for value in values:
        if isinstance(value, tuple | list):
            items += [len(value), *_flat(*value)]
        elif isinstance(value, dict):
            items += [tuple(sorted(value)), *_flat(*[value[key] for key in sorted(value)])]
        elif isinstance(value, slice):
            items += _flat("slice", value.start, value.stop, value.step)
        else:
            items.append(value)
    return items


__all__ = ["Match", "replace_pattern"]
