"""Where a graph is cut so that processes can exchange values: native parts around each exchange.

in : a graph, some of whose nodes are `exchange`
out: the parts, graphs without such nodes, in the order they run, and what passes between them

An exchange runs behind the part that makes the last of its operands; what reads its results stands
in a later part. So there is one part more than exchanges that follow each other. What a later part
reads of an earlier one passes as a further input. What inputs alone decide is computed where it is
read first. Inputs are updated in the last part alone: a call that fails before has written nothing.

    step(%w, %x) {                      step_part1(%w, %x) {
      %2 = matmul(%x, %w)                 %2 = matmul(%x, %w)
      %3 = exchange(%2) number=0   =>     return %2
      %4 = sub(%w, %3)                  }  // exchange 0: %2 for %3
      return %4 -> %w                   step_part2(%w, %3) { %2 = sub(%w, %3)  return %2 -> %w }
    }
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.builder import GraphBuilder, Var
from graphc.ir.copying import copy_nodes
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import INPUT, Graph, Node, Value
from graphc.records import record

EXCHANGE = "exchange"


@record
class ExchangeNode:
    """One exchange: its `number`, the values it takes and gives, behind which part it runs."""

    number: int
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    part: int


@record
class NativePart:
    """A part: its graph takes the values `reads` of the whole one, then an array for each of the
    `handed` operands of exchanges (position among all, position in it), which it fills in; it gives
    these, behind outputs of the whole graph (the last part), and the values `makes`."""

    graph: Graph
    reads: tuple[Value, ...]
    handed: tuple[tuple[int, int], ...]
    makes: tuple[Value, ...]


@record
class ExchangeSplit:
    """The parts of `graph`, and the exchanges by the part they run behind. `outputs[i]`: of output
    i its position among the results of the last part, None for one that an earlier part or an
    exchange made."""

    graph: Graph
    parts: tuple[NativePart, ...]
    exchanges: tuple[ExchangeNode, ...]
    outputs: tuple[int | None, ...]

    def crossing(self, part: int) -> list[Value]:
        """What this part reads of earlier ones, but for what was exchanged."""
        exchanged = {value for each in self.exchanges for value in each.results}
        inputs = len(self.graph.inputs)
        return [v for v in self.parts[part].reads if v.node >= inputs and v not in exchanged]


def split_exchanges(graph: Graph) -> ExchangeSplit | None:
    """The parts; None for a graph without exchanges."""
    if all(node.op != EXCHANGE for node in graph.nodes):
        return None
    return _Split(graph).result()


class _Split:
    """One cut. `place[i]`: in which part node i is computed, for exchanges: behind which; None for
    what depends on no input, of which each part has its own."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.place: list[int | None] = self._earliest()
        self.exchanges = tuple(
            [
                ExchangeNode(
                    int(node.attribute("number")), node.operands,
                    tuple([Value(identity, i) for i in range(len(node.types))]),
                    self._at(identity),
                )
                for identity, node in enumerate(graph.nodes)
                if node.op == EXCHANGE
            ]
        )  # fmt: skip
        self.last = max(each.part for each in self.exchanges) + 1
        self.exchanges = tuple(sorted(self.exchanges, key=lambda each: each.part))
        self._sink()

    def _at(self, identity: int) -> int:
        return self.place[identity] or 0

    def _earliest(self) -> list[int | None]:
        """Each node right behind what it needs."""
        place: list[int | None] = []
        for node in self.graph.nodes:
            before = [
                at + (self.graph.nodes[v.node].op == EXCHANGE)
                for v in node.operands
                if (at := place[v.node]) is not None
            ]
            anywhere = not before and node.op not in (INPUT, EXCHANGE)
            place.append(None if anywhere else max(before, default=0))
        return place

    def _sink(self) -> None:
        """What inputs, and what sank with it, decide goes to the part that reads it first: then
        nothing of it passes between parts."""
        nodes = self.graph.nodes
        first = [self.last] * len(nodes)  # the first part that reads each
        for identity in reversed(range(len(nodes))):
            node = nodes[identity]
            if node.op == EXCHANGE:
                first[identity] = self._at(identity)
            for value in node.operands:
                first[value.node] = min(first[value.node], first[identity])
        for identity, node in enumerate(nodes):
            if self.place[identity] is None or node.op in (INPUT, EXCHANGE):
                continue
            reads = [v.node for v in node.operands if self.place[v.node] is not None]
            there = [i for i in reads if nodes[i].op not in (INPUT, EXCHANGE)]
            if all(self._at(i) == first[identity] for i in there):
                self.place[identity] = first[identity]
            else:
                self.place[identity] = max(self._at(identity), *map(self._at, there))

    def result(self) -> ExchangeSplit:
        graph, aliased = self.graph, dict(self.graph.aliases)
        inputs = len(graph.inputs)
        exchanged = {value for each in self.exchanges for value in each.results}
        # Outputs of the last part: updates; inputs and constants; what is returned twice.
        at_end: list[int] = []
        kept: dict[Value, int] = {}
        for number, value in enumerate(graph.outputs):
            computed = value.node >= inputs and self.place[value.node] is not None
            if number in aliased or value in kept or not (computed or value in exchanged):
                at_end.append(number)
            else:
                kept[value] = number
        parts: list[NativePart] = []
        later: set[Value] = set(kept)
        for number in reversed(range(self.last + 1)):
            ends = at_end if number == self.last else []
            part = self._part(number, later, ends)
            parts.append(part)
            later |= {v for v in part.reads if v.node >= inputs}
            behind = [e for e in self.exchanges if e.part == number - 1]
            for each in behind:
                later |= {v for v in each.operands if self._earlier(v, number - 1)}
        outputs = [at_end.index(i) if i in at_end else None for i in range(len(graph.outputs))]
        return ExchangeSplit(graph, tuple(reversed(parts)), self.exchanges, tuple(outputs))

    def _earlier(self, value: Value, part: int) -> bool:
        """Whether an operand of an exchange behind `part` is the result of an earlier part."""
        node = self.graph.nodes[value.node]
        at = self.place[value.node]
        return at is not None and node.op not in (INPUT, EXCHANGE) and at < part

    def _is_own(self, value: Value, part: int) -> bool:
        """Whether a part computes a value."""
        at = self.place[value.node]
        here = at is None or at == part
        return here and self.graph.nodes[value.node].op not in (INPUT, EXCHANGE)

    def _part(self, number: int, later: set[Value], ends: Sequence[int]) -> NativePart:
        """The part: what is wanted `later` of its values, its exchanges' operands, and the outputs
        `ends` of the whole graph, which come first."""
        graph, nodes = self.graph, self.graph.nodes
        handed = [
            (e, i)
            for e, each in enumerate(self.exchanges)
            if each.part == number
            for i, value in enumerate(each.operands)
            if self._is_own(value, number)
        ]
        own = [v for v in later if self._is_own(v, number) and self.place[v.node] is not None]
        makes = sorted(own, key=lambda v: (v.node, v.index))
        operands = [self.exchanges[e].operands[i] for e, i in handed]
        results = [*[graph.outputs[i] for i in ends], *operands, *makes]
        aliased = dict(graph.aliases)
        targets = {n: Value(aliased[i]) for n, i in enumerate(ends) if i in aliased}
        # Inputs, in the order of the whole graph, and values of before.
        needed = ancestors(nodes, results, lambda value: not self._is_own(value, number))
        read = {*[v for i in needed for v in nodes[i].operands], *results, *targets.values()}
        inputs = len(graph.inputs)
        reads = sorted(
            [v for v in read if not self._is_own(v, number)],
            key=lambda v: (v.node >= inputs, v.node, v.index),
        )
        builder = GraphBuilder(f"{graph.name}_part{number + 1}")
        values: dict[Value, Var] = {}
        for value in reads:
            node = nodes[value.node]
            with builder.at(node.location):
                name = builder.free_name(_name(node, value))
                values[value] = builder.input(name, graph.type_of(value))
        for (e, i), value in zip(handed, operands):
            name = builder.free_name(f"exchange{self.exchanges[e].number}_{i}")
            builder.input(name, graph.type_of(value))
        copy_nodes(nodes, sorted(needed), values, builder.copied)
        place = {value: position for position, value in enumerate(reads)}
        aliases = [(n, place[target]) for n, target in targets.items()]
        aliases += [(len(ends) + n, len(reads) + n) for n in range(len(handed))]
        part = builder.finish(*[values[value] for value in results], aliases=aliases)
        return NativePart(part, tuple(reads), tuple(handed), tuple(makes))


def _name(node: Node, value: Value) -> str:
    """What a part calls an input."""
    if node.op == INPUT:
        return str(node.attribute("name"))
    if node.op == EXCHANGE:
        return f"exchanged{node.attribute('number')}_{value.index}"
    return f"saved{value.node}_{node.op}"
