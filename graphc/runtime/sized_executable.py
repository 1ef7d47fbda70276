"""SizedExecutable: a compiled graph of sizes that are known only when it is called.

in : a graph with named sizes, and how to make its program for an example of them
out: what is called with NumPy arrays of any sizes within their bounds

Kernels and driver are made once. What is left of a size is an `Executable` of its own, the
*instance*: types, and the table of numbers that the driver reads; it is made when the size is first
seen, and the latest are kept. Where a guard of the program does not
hold for a size, a further program is made with that size as its example.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.codegen.target import Target
from graphc.errors import ArgumentError, GraphError
from graphc.ir.builder import user_location
from graphc.ir.dims import Symbol, symbol_of
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ir.symbols import symbols_of
from graphc.ir.types import TensorType
from graphc.records import record
from graphc.runtime.blocks import Blocks
from graphc.runtime.executable import Array, Executable, described
from graphc.runtime.program import Details, Program, program_at
from graphc.schedule.instances import plan_at
from graphc.schedule.memory import check_limit
from graphc.schedule.plan import Plan

INSTANCES = 512
"""Sizes whose instances are kept: the latest made."""
PROGRAMS = 8
"""Programs of one graph that are kept: the latest made."""


@record
class SizedProgram:
    """A program, how to read its graph and plan, and the seconds that making it took by phase."""

    program: Program
    details: Details
    timings: dict[str, float]


class SizedExecutable:
    """Call it with one array per graph input, as an `Executable`: `outputs = executable(*arrays)`.

    The sizes are read from the arrays' shapes, where each stands alone as an axis of some input;
    `at` takes them from the caller. Raises as an Executable does, SizeBoundError for a size out of
    its bounds, GraphError for a call where a size is no axis of an input.
    """

    def __init__(
        self,
        graph: Graph,
        target: Target,
        make: Callable[[Mapping[str, int]], SizedProgram],
        example: Mapping[str, int],
        max_bytes: int | None = None,
    ):
        self.graph = graph
        self.target = target
        self._make = make
        self._max_bytes = max_bytes
        self._symbols = symbols_of(graph)
        self._axes: list[tuple[int, int]] | None = None
        self._names = graph.input_names
        self._programs = [make(_within_bounds(example, self._symbols))]
        self._instances: OrderedDict[tuple[int, ...], Instance] = OrderedDict()
        self._latest: Instance | None = None
        self.blocks = Blocks(max_bytes)

    def __repr__(self) -> str:
        program = self._programs[-1].program
        names = ", ".join(symbol.name for symbol in self._symbols)
        return f"<SizedExecutable {self.graph.name}: {program.launches} kernels, sizes {names}>"

    @property
    def timings(self) -> dict[str, float]:
        """Seconds by phase of making the latest program."""
        return self._programs[-1].timings

    @property
    def plan(self) -> Plan:
        """The plan that runs, of unknown sizes: the latest one."""
        return self._programs[-1].details()[1]

    @property
    def optimised(self) -> Graph:
        """The graph after all passes, for the latest plan."""
        return self._programs[-1].details()[0]

    @property
    def programs(self) -> int:
        """How many programs there are: one, and one more for each size that broke a guard."""
        return len(self._programs)

    def __call__(self, *arrays: Any) -> tuple[Array, ...]:
        return self.run(list(arrays))

    def run(self, arrays: list[Any]) -> tuple[Array, ...]:
        """The same for a list, which is used up; see `Executable.run`."""
        if self._axes is None:
            self._axes = axes_of(self.graph.input_types, self._symbols)
        try:
            sizes = tuple([arrays[position].shape[axis] for position, axis in self._axes])
        except (AttributeError, IndexError, TypeError):
            raise self._unfit(arrays) from None
        instance = self._instances.get(sizes)
        return (instance or self._new_instance(sizes)).run(arrays)

    def at(self, **sizes: int) -> Executable:
        """The executable of these sizes. Raises SizeBoundError for one out of its bounds."""
        key = tuple([sizes[symbol.name] for symbol in self._symbols])
        return self._instances.get(key) or self._new_instance(key)

    def _new_instance(self, key: tuple[int, ...]) -> Executable:
        sizes = {symbol.name: size for symbol, size in zip(self._symbols, key, strict=True)}
        for symbol in self._symbols:
            symbol.check(sizes[symbol.name])
        instance = Instance(self, sizes, self._program_for(sizes))
        if self._max_bytes is not None and instance.memory_bytes > self._max_bytes:
            check_limit(instance.plan, self.graph.name, instance.memory_bytes, self._max_bytes)
        self._instances[key] = instance
        while len(self._instances) > INSTANCES:
            self._instances.popitem(last=False)
        return instance

    def newest(self, sized: SizedProgram) -> Instance | None:
        """The newest instance of a program that is kept."""
        kept = reversed(self._instances.values())
        return next((one for one in kept if one._sized is sized), None)

    def runs(self, instance: Instance) -> None:
        """An instance is about to run: the one that did before gives its memory back, and this one
        takes it."""
        before, self._latest = self._latest, instance
        if before is not instance and before is not None:
            before.give_back()

    def _program_for(self, sizes: Mapping[str, int]) -> SizedProgram:
        for program in reversed(self._programs):
            if all([guard.holds(sizes) for guard in program.program.guards]):
                return program
        program = self._make(sizes)
        self._programs = [*self._programs, program][-PROGRAMS:]
        return program

    def _unfit(self, arrays: Sequence[Any]) -> ArgumentError:
        """The error for arrays whose sizes cannot be read."""
        where, name = user_location(), self.graph.name
        if len(arrays) != len(self._names):
            listed = f"{len(self._names)} arrays ({', '.join(self._names)})"
            return ArgumentError(f"{name}: takes {listed}, not {len(arrays)}", location=where)
        for position, axis in self._axes or ():
            array = arrays[position]
            if len(getattr(array, "shape", ())) <= axis:
                return ArgumentError(
                    f"{name}: argument {self._names[position]!r} is {described(array)}, "
                    f"expected {self.graph.input_types[position]}",
                    location=where,
                )
        raise AssertionError("the sizes can be read")


class Instance(Executable):
    """A SizedExecutable at certain sizes."""

    def __init__(self, owner: SizedExecutable, sizes: Mapping[str, int], sized: SizedProgram):
        def details() -> tuple[Graph, Plan]:
            optimised, plan = sized.details()
            return at_sizes(optimised, sizes), plan_at(plan, sizes)

        program = program_at(sized.program, sizes)
        super().__init__(
            owner.graph, program, details, owner.target, sized.timings, owner.newest(sized)
        )
        self._owner = owner
        self._sizes = sizes
        self._sized = sized
        self._own_graph: Graph | None = None

    @property
    def graph(self) -> Graph:
        """The graph at these sizes, made when it is asked for."""
        if self._own_graph is None:
            self._own_graph = at_sizes(self._graph, self._sizes)
        return self._own_graph

    @property
    def loaded_plan(self) -> Plan:
        """The plan that runs, of unknown sizes."""
        return self._sized.details()[1]

    @property
    def sizes(self) -> Mapping[str, int]:
        return self._sizes

    @property
    def example(self) -> Mapping[str, int]:
        """The sizes that the program was made best for."""
        return dict(self._sized.program.example)

    @property
    def open_graph(self) -> Graph:
        """The graph with its sizes unknown."""
        return self._owner.graph

    def run(
        self, arrays: list[Any], places: Sequence[Array | None] | None = None
    ) -> tuple[Array, ...]:
        """As `Executable.run`."""
        self._owner.runs(self)
        return super().run(arrays, places)

    def give_back(self) -> None:
        """Keep no memory for the next call. (A call under way keeps its own.)"""
        while True:
            try:
                frame = self._frames.pop()
            except IndexError:
                return
            self._owner.blocks.give(frame.memory)

    def _block(self, count: int) -> Array:
        return self._owner.blocks.take(count)


def axes_of(types: Sequence[TensorType], symbols: Sequence[Symbol]) -> list[tuple[int, int]]:
    """For each size the first input and axis that it is the extent of. Raises GraphError for one
    that is none's."""
    known: dict[str, tuple[int, int]] = {}
    for position, type in enumerate(types):
        for axis, extent in enumerate(type.shape):
            if (symbol := symbol_of(extent)) is not None:
                known.setdefault(symbol.name, (position, axis))
    for symbol in symbols:
        if symbol.name not in known:
            raise GraphError(
                f"size {symbol.name} is no axis of an input, so a call does not tell it",
                hint="an input with an axis of that size",
            )
    return [known[symbol.name] for symbol in symbols]


def _within_bounds(example: Mapping[str, int], symbols: Sequence[Symbol]) -> Mapping[str, int]:
    for symbol in symbols:
        if symbol.name in example:
            symbol.check(example[symbol.name])
    return {symbol.name: example[symbol.name] for symbol in symbols if symbol.name in example}
