"""Weights as calls read them: what depends on weights alone, computed ahead of all calls.

in : a graph of a function, and which fields of its state are weights
out: the graph that takes the packed values as further inputs, and the graph that computes them:
     NAME_prepare runs it

Packed values are fields of the state that no file has. Their labels tell what is computed, so that
programs that read the same share it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence, Set

from graphc.build.built_source import InputPlace, OfState, SourceGraph, StateArray
from graphc.codegen.kernels.preferred_layouts import preferred_layouts
from graphc.codegen.target import Target
from graphc.ir.copying import extract
from graphc.ir.nodes import Graph, Value
from graphc.ir.size_guards import answered_by
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.passes.pipelines import without_frozen
from graphc.passes.split_frozen import parts
from graphc.records import record, replace

SAMPLES = 4
"""Words of each weight that a call compares with what they were when it was packed."""
WORD = 8


@record
class WeightPacking:
    """`ahead` takes weights and gives the packed values, all of them fields of the state. `main` is
    the graph of the calls, with what its sizes have to hold."""

    main: SourceGraph
    ahead: SourceGraph

    @property
    def values(self) -> dict[str, TensorType]:
        """The packed values by label."""
        types = zip(self.ahead.outputs, self.ahead.graph.output_types)
        return {place.label: type for place, type in types if isinstance(place, OfState)}

    @property
    def weights(self) -> frozenset[str]:
        """The labels of what they are computed from."""
        labels = (place.label for place in self.ahead.inputs if isinstance(place, OfState))
        return frozenset(labels)


def weights_of(state: Sequence[StateArray], written: Collection[str]) -> frozenset[str]:
    """The labels of the weights that may be packed: not those `written` by calls, no numbers, and
    none so small that there is no word to compare."""
    return frozenset(
        field.label for field in state
        if field.is_weight and field.label not in written
        and field.array.ndim and field.array.nbytes >= WORD
    )  # fmt: skip


def written_labels(source: SourceGraph) -> set[str]:
    """The fields of the state that a graph writes."""
    places = [source.inputs[target] for _, target in source.graph.aliases]
    return {place.label for place in (*places, *source.outputs) if isinstance(place, OfState)}


def packed_apart(
    source: SourceGraph, level: str, target: Target, weights: Set[str]
) -> WeightPacking | None:
    """The graph without what these weights alone decide; None where that is nothing, and at the
    level none, which changes no graph. What depends on open sizes too stays in it."""
    own = weights - written_labels(source)
    positions = tuple(
        i for i, place in enumerate(source.inputs)
        if isinstance(place, OfState) and place.label in own
    )  # fmt: skip
    if level == "none" or not positions:
        return None
    graph = source.graph
    sizes = {symbol.name: source.example[symbol.name] for symbol in symbols_of(graph)}
    last = len(graph.inputs)
    with answered_by(sizes) as answers:
        split = without_frozen(
            graph, level, positions, last, preferred_layouts(target), is_open=False
        )
    if split is None:
        return None
    places, constants = [source.inputs[i] for i in positions], split.constants
    values, read = list[OfState](), set[int]()
    for sources, alone in parts(constants):
        values.append(OfState(_label(tuple(places[i] for i in sources), alone)))
        read |= set(sources)
    used = sorted(read)
    ahead = extract(constants, constants.name, [Value(i) for i in used], list(constants.outputs))
    main = replace(
        source, graph=split.graph, inputs=(*source.inputs, *values),
        guards=tuple(dict.fromkeys((*source.guards, *answers.guards))),
    )  # fmt: skip
    return WeightPacking(
        main, SourceGraph(ahead, tuple(places[i] for i in used), tuple(values), {})
    )


def _label(sources: tuple[InputPlace, ...], graph: Graph) -> str:
    """That of a packed value: what is computed, and of what."""
    return f"packed {hashlib.sha256(repr((str(graph), sources)).encode()).hexdigest()}"
