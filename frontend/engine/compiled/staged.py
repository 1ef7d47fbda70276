"""A compiled function that exchanges values with other processes: native parts, and Python between.

in : a graph with `exchange` nodes, and what each of these does
out: an executable like any other, whose call runs the parts in order

It has all that calls ask of an executable. `parts` are the executables of native code. Inputs are
updated by the last part alone: a call that fails in an exchange has changed none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from frontend.engine.compiled.differentiable import run
from frontend.engine.sizes.sized_memo import executable_at
from frontend.engine.tracing.exchanges import Exchange
from graphc.ir.instances import type_at
from graphc.ir.nodes import Graph, Value
from graphc.ir.registry import lookup, parameters
from graphc.system import IMPORTING


def staged(
    graph: Graph, exchanges: Sequence[Exchange], reads_grads: bool, compiler: Any,
    sizes: Mapping[str, int],
) -> StagedExecutable | None:  # fmt: skip
    """The parts of a graph, compiled; None where it is to stay whole."""
    if not exchanges:
        return None
    with IMPORTING:
        from graphc.passes.split_exchanges import split_exchanges

    split = split_exchanges(graph)
    if split is None:  # nothing that is exchanged is read
        return None
    parts = [compiler(part.graph, sizes) if part.graph.outputs else None for part in split.parts]
    in_order = [exchanges[node.number] for node in split.exchanges]
    return StagedExecutable(split, parts, in_order, reads_grads, {})


class StagedExecutable:
    """See the module. `exchanges` are those of the split, in its order. `reads_grads`: whether
    inputs are gradients, which may lie where exchanged ones are to. `sizes`: those left open in the
    graph."""

    def __init__(
        self, split: Any, parts: Sequence[Any], exchanges: Sequence[Exchange], reads_grads: bool,
        sizes: Mapping[str, int],
    ):  # fmt: skip
        self.split = split
        self.all_parts = list(parts)
        self.exchanges = list(exchanges)
        self.reads_grads = reads_grads
        self.sizes = sizes
        self._inputs = [Value(i) for i in range(len(split.graph.inputs))]
        handed = {pair for part in split.parts for pair in part.handed}
        # Of each exchange the operands that no part writes to their places.
        self._unwritten = [
            [i for i in range(len(node.operands)) if (e, i) not in handed]
            for e, node in enumerate(split.exchanges)
        ]

    @property
    def graph(self) -> Graph:
        """The graph as it was traced."""
        graph: Graph = self.split.graph
        return graph

    @property
    def parts(self) -> list[Any]:
        """The executables of its native parts."""
        return [part for part in self.all_parts if part is not None]

    def at(self, **sizes: int) -> StagedExecutable:
        """The executable of these sizes."""
        parts = [part and executable_at(part, sizes) for part in self.all_parts]
        return StagedExecutable(self.split, parts, self.exchanges, self.reads_grads, sizes)

    # -- what it is ------------------------------------------------------------------------------

    def explain(self) -> Iterator[str]:
        """What is exchanged between which parts, for `explain()`."""
        for node, each in zip(self.split.exchanges, self.exchanges):
            yield f"cut behind part {node.part + 1}: {each.name}"
        for number in range(1, len(self.all_parts)):
            crossing = [str(self.graph.type_of(value)) for value in self.split.crossing(number)]
            if crossing:
                yield f"part {number + 1} reads of earlier ones: {', '.join(crossing)}"

    def handed(self, arrays: Sequence[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
        """Each part with the arrays it takes, where all processes exchange what this one has."""
        values: dict[Value, Any] = dict(zip(self._inputs, arrays))
        places = [
            [self._zeros(value) for value in node.operands] for node in self.split.exchanges
        ]  # fmt: skip
        calls = []
        for number, executable in enumerate(self.all_parts):
            if executable is not None:
                taken = self._taken(number, values, places)
                calls.append((executable, tuple([np.array(array) for array in taken])))
                self._run_part(number, values, places)
            for e, (node, place) in enumerate(zip(self.split.exchanges, places)):
                if node.part == number:
                    self._fill(e, place, values)
                    whole = self.graph.nodes[node.results[0].node]
                    results = lookup(whole.op).compute(tuple(place), parameters(whole))
                    values.update(zip(node.results, results))
        return calls

    def _zeros(self, value: Value) -> np.ndarray:
        type = type_at(self.graph.type_of(value), self.sizes)
        return np.zeros(type.shape, type.dtype.numpy)

    # -- calling ---------------------------------------------------------------------------------

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        """As `Executable.run`."""
        values: dict[Value, Any] = dict(zip(self._inputs, arrays))
        places = [each.begin(self.reads_grads) for each in self.exchanges]
        last = len(self.all_parts) - 1
        results: Sequence[Any] = ()
        for number in range(last + 1):
            try:
                results = self._run_part(number, values, places)
            except BaseException as error:
                written = getattr(error, "written", ())
                if len(written):  # inputs are updated when the last part has run, not before
                    whole = self._outputs(written, values) if number == last else ()
                    error.written = whole  # type: ignore[attr-defined]
                raise
            for e, (each, node) in enumerate(zip(self.exchanges, self.split.exchanges)):
                if node.part == number:
                    self._fill(e, places[e], values)
                    values.update(zip(node.results, each.run(places[e])))
        return self._outputs(results, values)

    def _taken(
        self, number: int, values: Mapping[Value, Any], places: Sequence[Sequence[np.ndarray]]
    ) -> list[Any]:
        part = self.split.parts[number]
        taken = [values[value] for value in part.reads]
        return taken + [places[exchange][position] for exchange, position in part.handed]

    def _run_part(
        self, number: int, values: dict[Value, Any], places: Sequence[Sequence[np.ndarray]]
    ) -> Sequence[Any]:
        """Run a native part: the results of the whole that it gives. What later ones read of it is
        then in `values`."""
        executable, part = self.all_parts[number], self.split.parts[number]
        if executable is None:
            return ()
        results: Sequence[Any] = run(executable, self._taken(number, values, places))
        values.update(zip(part.makes, results[len(results) - len(part.makes) :]))
        return results

    def _fill(
        self, exchange: int, place: Sequence[np.ndarray], values: Mapping[Value, Any]
    ) -> None:
        """Put there what no part has written: operands that were there before."""
        for i in self._unwritten[exchange]:
            place[i][...] = values[self.split.exchanges[exchange].operands[i]]

    def _outputs(self, results: Sequence[Any], values: dict[Value, Any]) -> tuple[Any, ...]:
        pairs = zip(self.split.graph.outputs, self.split.outputs)
        return tuple([values[v] if at is None else results[at] for v, at in pairs])


def cut_of(executable: Any) -> tuple[Any, Sequence[str]]:
    """How the graph of an executable is cut, None where it is not, and by number what the exchanges
    exchange."""
    if not isinstance(executable, StagedExecutable):
        return None, ()
    pairs = zip(executable.split.exchanges, executable.exchanges)
    names = {node.number: each.name for node, each in pairs}
    return executable.split, [names.get(i, "") for i in range(max(names) + 1)]
