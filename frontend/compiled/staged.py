"""A compiled function that exchanges values with other processes: native parts, and Python between.

in : a graph with `exchange` nodes, and what each of these does
out: an executable like any other, whose call runs the parts in order

It has all that calls ask of an executable. `parts` are the executables of native code. Inputs are
updated by the last part alone: a call that fails in an exchange has changed nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from frontend.compiled.differentiable import run
from frontend.compiled.sized_memo import executable_at
from frontend.tracing.exchanges import Exchange
from graphc.ir.nodes import Graph, Value
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
    return StagedExecutable(split, parts, exchanges, reads_grads)


class StagedExecutable:
    """See the module. `reads_grads`: whether inputs are gradients, which may lie where exchanged
    ones are to."""

    def __init__(
        self, split: Any, parts: Sequence[Any], exchanges: Sequence[Exchange], reads_grads: bool
    ):
        self.split = split
        self.all_parts = list(parts)
        self.exchanges = [exchanges[node.number] for node in split.exchanges]
        self.reads_grads = reads_grads

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
        exchanges = {node.number: each for node, each in zip(self.split.exchanges, self.exchanges)}
        return StagedExecutable(self.split, parts, exchanges, self.reads_grads)  # type: ignore[arg-type]

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        """As `Executable.run`."""
        values: dict[Value, Any] = {Value(i): array for i, array in enumerate(arrays)}
        places = [each.begin(self.reads_grads) for each in self.exchanges]
        last = len(self.all_parts) - 1
        results: Sequence[Any] = ()
        for number in range(last + 1):
            try:
                results = self._run_part(number, values, places)
            except BaseException as error:
                written = getattr(error, "written", ())
                if len(written):  # the inputs are updated when the last part has run, not before
                    error.written = self._outputs(written, values) if number == last else ()  # type: ignore[attr-defined]
                raise
            for each, node, place in zip(self.exchanges, self.split.exchanges, places):
                if node.part == number:
                    self._exchange(each, node, place, values)
        return self._outputs(results, values)

    def _run_part(
        self, number: int, values: dict[Value, Any], places: Sequence[Sequence[np.ndarray]]
    ) -> Sequence[Any]:
        """Run a native part: the results of the whole that it gives. What later ones read of it is
        then in `values`."""
        executable, part = self.all_parts[number], self.split.parts[number]
        if executable is None:
            return ()
        taken = [values[value] for value in part.reads]
        taken += [places[exchange][position] for exchange, position in part.handed]
        results: Sequence[Any] = run(executable, taken)
        first = len(results) - len(part.makes)
        values.update(zip(part.makes, results[first:]))
        return results

    def _exchange(
        self, exchange: Exchange, node: Any, place: Sequence[np.ndarray], values: dict[Value, Any]
    ) -> None:
        handed = self.split.parts[node.part].handed
        filled = {i for e, i in handed if self.split.exchanges[e] is node}
        for i, (value, array) in enumerate(zip(node.operands, place)):
            if i not in filled:
                array[...] = values[value]
        values.update(zip(node.results, exchange.run(place)))

    def _outputs(self, results: Sequence[Any], values: dict[Value, Any]) -> tuple[Any, ...]:
        pairs = zip(self.split.graph.outputs, self.split.outputs)
        return tuple([values[v] if at is None else results[at] for v, at in pairs])
