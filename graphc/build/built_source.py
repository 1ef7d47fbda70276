"""What is built: a function as graphs, and its state.

in : from a frontend, or from a graph
out: an `ObjectSource`: arguments, results, state, and a graph for any sizes it is asked for
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.ir.dims import Symbol
from graphc.ir.instances import at_sizes, type_at
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard, nearest
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.records import record

Array = np.ndarray[Any, Any]


@record
class OfArgument:
    """An array that the caller hands in, by its number."""

    position: int


@record
class OfState:
    """A field of the state, by its label."""

    label: str


@record
class OfNumber:
    """A number that is computed of the sizes and numbers of a call (graphc.ir.size_floats)."""

    expression: Any


@record
class OfResult:
    """An array that the caller has results written to, by its number."""

    position: int


InputPlace = OfArgument | OfState | OfNumber
OutputPlace = OfResult | OfState


@record
class SourceGraph:
    """A graph, where its inputs and outputs lie (those aliased to inputs lie there), the example it
    was traced with, and what has to hold of sizes and numbers."""

    graph: Graph
    inputs: tuple[InputPlace, ...]
    outputs: tuple[OutputPlace | None, ...]
    example: Mapping[str, Any]
    guards: tuple[SizeGuard, ...] = ()


@record
class StateArray:
    """A field of the state: `label` as in the graph, `key` as files call it (that of `state_dict()`
    where it is unique), its value when it was built. `note`: for the header. `is_saved`: whether it
    is in files of the state; a gradient is not. `is_weight`: whether it is written seldom, so that
    what depends on it alone is worth keeping."""

    label: str
    key: str
    array: Array
    note: str = ""
    is_saved: bool = True
    is_weight: bool = False


@record
class Opening:
    """Which graph is asked for: one that serves the example's sizes, and all others from `least` on
    but for those named in `fixed`, which are numbers in it."""

    example: Mapping[str, Any]
    least: int = 0
    fixed: frozenset[str] = frozenset()


@record
class ObjectSource:
    """`sizes` are open; `floats` are names of numbers, which are doubles. `at` gives a graph that
    serves an example of sizes and numbers, and raises what tracing raises. `arrays` are arguments
    of a call, from which others are drawn."""

    name: str
    arguments: tuple[str, ...]
    sizes: tuple[Symbol, ...]
    floats: tuple[str, ...]
    example: Mapping[str, Any]
    arrays: tuple[Array, ...]
    state: Callable[[], tuple[StateArray, ...]]
    """Its fields, known when all graphs were asked for."""
    at: Callable[[Opening], SourceGraph]
    level: str = "exact"


def source_of_graph(
    graph: Graph, arrays: Sequence[Array] | None = None, level: str = "exact",
    example: Mapping[str, int] | None = None,
) -> ObjectSource:  # fmt: skip
    """A graph as it is: all inputs are arguments, also those that are updated. `arrays`: for the
    proof, drawn where none are given."""
    symbols = tuple(symbols_of(graph))
    known = {s.name: nearest(s, 4) for s in symbols} | dict(example or {})
    aliased = dict(graph.aliases)
    places: list[OutputPlace | None] = []
    for output in range(len(graph.outputs)):
        fresh = sum(place is not None for place in places)
        places.append(None if output in aliased else OfResult(fresh))

    def at(opening: Opening) -> SourceGraph:
        inputs = tuple(OfArgument(i) for i in range(len(graph.inputs)))
        numbers = {name: opening.example[name] for name in opening.fixed}
        fixed = at_sizes(graph, numbers) if numbers else graph
        return SourceGraph(fixed, inputs, tuple(places), opening.example)

    return ObjectSource(
        graph.name, tuple(graph.input_names), symbols, (), known,
        tuple(arrays or drawn_arrays(graph.input_types, known)), tuple, at, level,
    )  # fmt: skip


def drawn_arrays(types: Sequence[TensorType], sizes: Mapping[str, int]) -> list[Array]:
    """Arrays of these types at these sizes: standard normal, or zeros of integers."""
    generator = np.random.default_rng(0)
    arrays = []
    for type in types:
        shape, dtype = type_at(type, sizes).shape, type.dtype
        array = generator.standard_normal(shape) if dtype.is_float else np.zeros(shape)
        arrays.append(np.asarray(array).astype(dtype.numpy))
    return arrays
