"""The graph at each stage of the compiler as columns, which a page opens when it draws them.

in : the passes that were recorded, and the plan's graph with those of its loops and branches
out: a `GraphStage` for the graph as it was traced and one for each pass that changed it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from graphc.debug.flat_graph import FlatGraph, flat_graph
from graphc.debug.graph_diff import graph_change
from graphc.debug.report.ledger_data import Texts, differences
from graphc.ir.nodes import CONSTANT, INPUT, Graph, Node
from graphc.ir.printer import attribute_text
from graphc.ir.registry import lookup
from graphc.passes.recorder import PassRecord
from graphc.records import record

NEAR = 48
"""Nodes up to which an operand is told by its distance."""
LONGEST = 80
"""Characters of an attribute's text, which may hold a whole tensor."""


@record
class GraphStage:
    """A graph after a pass, by its name; that of the graph as it was traced is empty."""

    name: str
    columns: dict[str, Any]


class Dictionary:
    """What nodes say again and again, each once for all stages."""

    def __init__(self) -> None:
        self.ops, self.types, self.details, self.places = Texts(), Texts(), Texts(), Texts()
        self.sizes: dict[int, int] = {}

    def row(self, node: Node) -> tuple[int, int, int, int]:
        kind = self.types.number(", ".join(map(str, node.types)))
        self.sizes[kind] = sum(type.nbytes for type in node.types)
        detail, place = self.details.number(_detail(node)), self.places.number(_place(node))
        return self.ops.number(node.op), kind, detail, place

    def columns(self) -> dict[str, Any]:
        return {
            "ops": self.ops.all(), "heads": [op for op in self.ops.all() if _heads(op)],
            "types": self.types.all(), "bytes": list(self.sizes.values()),
            "details": self.details.all(),
            "places": [text.split("\n") for text in self.places.all()],
        }  # fmt: skip


def stages(passes: Sequence[PassRecord], last: FlatGraph, texts: Dictionary) -> list[GraphStage]:
    """The stages, in order; `last` is the graph of the plan."""
    graphs: list[tuple[str, Graph]] = [("", passes[0].before)] if passes else []
    became: list[Mapping[int, tuple[int, ...]]] = []
    running: Mapping[int, tuple[int, ...]] | None = None
    for passed in passes:
        running = passed.became if running is None else _through(running, passed.became)
        if passed.before != passed.after:
            graphs.append((passed.name, passed.after))
            became.append(running)
            running = None
    changes = [graph_change(a, b) for (_, a), (_, b) in pairwise(graphs)]
    listed = []
    for position, (name, graph) in enumerate(graphs):
        final = position == len(graphs) - 1
        flat = last if final else flat_graph(graph)
        columns = _columns(flat, texts)
        if position:
            columns["new"] = differences(changes[position - 1].new)
        if not final:
            columns["gone"] = differences(changes[position].gone)
            columns["became"] = _images(became[position], len(graph.nodes))
        listed.append(GraphStage(name, columns))
    return listed


def _through(
    first: Mapping[int, tuple[int, ...]], second: Mapping[int, tuple[int, ...]]
) -> dict[int, tuple[int, ...]]:
    return {
        node: tuple(dict.fromkeys(last for each in images for last in second.get(each, ())))
        for node, images in first.items()
    }


def _images(became: Mapping[int, tuple[int, ...]], count: int) -> list[Any]:
    """By node what it became, less what the node before it became: one number, or a list of none
    or several."""
    images, last = [], 0
    for node in range(count):
        own = became.get(node, ())
        moved = [image - last for image in own]
        images.append(moved[0] if len(moved) == 1 else moved)
        last = own[0] if own else last
    return images


def _columns(flat: FlatGraph, texts: Dictionary) -> dict[str, Any]:
    rows, arities = [], []
    operands, results = _References(), dict[int, int]()
    for number, (part, node) in enumerate(flat.nodes):
        rows.append(texts.row(node))
        arities.append(len(node.operands))
        for position, operand in enumerate(node.operands):
            if operand.index:
                results[len(operands.coded)] = operand.index
            operands.add(number, part.first + operand.node, (node.op, position))
    op, kind, detail, place = map(list, zip(*rows)) if rows else ([], [], [], [])
    graph = flat.parts[0].graph
    aliases = dict(graph.aliases)
    nodes = [value.node for value in graph.outputs]
    return {
        "op": op, "type": kind, "detail": differences(detail), "place": differences(place),
        "arity": arities, "operands": operands.coded, "results": results,
        "parts": [[p.first, len(p.graph.nodes), p.owner, p.name] for p in flat.parts],
        "outputs": differences(nodes),
        "updates": differences([aliases.get(position, -1) for position in range(len(nodes))]),
    }  # fmt: skip


class _References:
    """Operands so that equal layers look alike: even numbers are twice the distance of one that is
    near; odd ones tell of one farther away how far it is from the last such one of the same op and
    position, whichever way."""

    def __init__(self) -> None:
        self.coded: list[int] = []
        self.last: dict[tuple[str, int], int] = {}

    def add(self, number: int, operand: int, key: tuple[str, int]) -> None:
        if number - operand < NEAR:
            self.coded.append(2 * (number - operand))
            return
        moved = operand - self.last.get(key, 0)
        self.last[key] = operand
        self.coded.append(2 * (2 * moved if moved >= 0 else -2 * moved - 1) + 1)


def _heads(op: str) -> bool:
    """Whether what a module computes is known by the op."""
    kinds = ("contract", "composite", "scan", "sort", "region", "host")
    return op not in (INPUT, CONSTANT) and lookup(op).kind in kinds


def _detail(node: Node) -> str:
    """The name of an input, the value of a constant, else the attributes."""
    if node.op == INPUT:
        return f"%{node.attribute('name')}"
    if node.op == CONSTANT:
        return _short(attribute_text(node.attribute("value")))
    return " ".join(f"{name}={_short(attribute_text(value))}" for name, value in node.attributes)


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}…"


def _place(node: Node) -> str:
    """Module, phase, path, line, function; a file may be called anything."""
    place = node.location
    if place is None:
        return "\n" * 4
    words = (place.module, place.phase, place.path, str(place.line), place.function)
    return "\n".join(" ".join(word.splitlines()) for word in words)
