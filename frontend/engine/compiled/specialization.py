"""A TracedProgram at certain sizes: what calls run.

in : the arguments of a call that fits
out: its results, and what it leaves in tensors from outside

`holds` says whether a call fits, as far as its signature does not; compiler.py has the order in
which all of that is asked.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from frontend.engine.compiled.call_guards import broken
from frontend.engine.compiled.deciders import check_of
from frontend.engine.compiled.differentiable import (
    DifferentiableFunction,
    note_written,
    run,
    written_by,
)
from frontend.engine.compiled.packing import Bound, Packing, count_of
from frontend.engine.compiled.program import TracedProgram
from frontend.engine.compiled.results import closed, put_on
from frontend.engine.compiled.signature import Signature
from frontend.engine.eager.gradients.backward import run_backward
from frontend.engine.outside.source import InputSource
from frontend.engine.sizes.sized_memo import executable_at
from frontend.engine.tensors import tree
from frontend.engine.tensors.autograd_members import Elided
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.memory_tracking import count_write
from frontend.engine.tensors.pairs import made_of
from frontend.engine.tensors.symbolic_numbers import number_at
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.call_numbers import CallValues
from graphc.ir.dims import evaluate
from graphc.ir.instances import type_at
from graphc.ir.types import TensorType


def nothing() -> bool:
    """There is nothing to be undone."""
    return False


class Specialization:
    """See the module. What a call reads of the TracedProgram stands here too: a call takes 3 µs."""

    __slots__ = (
        "__weakref__", "alone", "assigned", "bound", "calls", "check", "closed", "counters",
        "effects", "epoch", "executable", "executables", "function", "grads", "guards", "in_order",
        "numbers", "other_updates", "others", "packing", "places", "positions", "program",
        "result_types", "saved", "signature", "single", "sizes", "structure", "traces", "types",
        "undo", "updated",
    )  # fmt: skip

    def __init__(
        self, program: TracedProgram, sizes: Mapping[str, Any], values: CallValues,
        undo: Callable[[], bool] = nothing,
    ):  # fmt: skip
        self.program = program
        self.sizes = sizes
        self.numbers = values.arrays  # computed by Python for calls at these sizes
        self.assigned = values.assigned  # what such calls assign
        self.places = program.numbers.places_assigned  # and where
        self.undo = undo  # what Python did at the trace, as long as no call succeeded
        self.signature: Any = None  # of the calls it is for
        self.calls = 0
        needed = program.free.guards(sizes)
        self.guards = (*program.guards, *needed)
        # Whether a call on arguments of the signature fits: `check(self, arguments)`.
        self.check = check_of(self.guards, program.call_guards) if needed else program.check
        self.epoch: object = None  # the epoch in which guards held that are looked at once in each
        self.bound: Bound | None = None  # what captured tensors give, in that epoch
        self.traces = -1  # how many traces had begun when `bound` was made
        self.counters: list[Any] = []  # of captured tensors that are updated
        self.other_updates: list[Any] = []  # where the other updated tensors are
        inputs, results = program.inputs, program.results
        self.positions, self.in_order = inputs.positions, inputs.in_order
        self.others, self.updated, self.single = inputs.others, results.updated, results.is_single
        self.alone, self.structure = results.alone, results.structure
        self.effects = results.effects
        self.types, self.result_types = program.types, results.types
        self.grads, self.saved = results.grads, program.saved
        if sizes:
            self._size(sizes)
        self.closed = [
            (position, closed(program.name, self.result_types[position]))
            for position in results.closed
        ]
        self.executables: list[Any] = []  # those that came to run
        self.executable: Any = None
        self.function: DifferentiableFunction | None = None
        self.packing: Packing | None = None
        if program.function is not None:
            note = self.executables.append
            self.function = DifferentiableFunction(program.function, sizes, note)
        else:
            self.executable = executable_at(program.executable, sizes)
            self.executables += getattr(self.executable, "parts", (self.executable,))
            if program.packing is not None:
                self.packing = Packing(program.packing, self, sizes)

    def _size(self, sizes: Mapping[str, Any]) -> None:
        """Sizes and numbers of the results, those that are left open in the program."""
        self.structure = _structure_at(self.structure, sizes)
        self.effects = tuple(
            [
                (effect._replace(structure=_structure_at(effect.structure, sizes)), places)
                for effect, places in self.effects
            ]
        )
        self.types = tuple([type_at(type, sizes) for type in self.types])
        self.result_types = tuple([type_at(type, sizes) for type in self.result_types])
        self.saved = tuple([evaluate(extent, sizes) for extent in self.saved])
        self.grads = tuple([(to, at, type_at(kind, sizes)) for to, at, kind in self.grads])

    def prepare(self, arguments: Sequence[Tensor]) -> None:
        """Make what a call on these arguments takes: an error comes here, and nothing has run."""
        if self.function is not None:
            sources = self.program.inputs.sources
            self.function.prepare([source.tensor(arguments) for source in sources])

    # -- guards ------------------------------------------------------------------------------

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        """Whether a call on arguments of the signature fits."""
        return self.check(self, arguments)

    def bind(self) -> Bound:
        """Look up what belongs to captured tensors; a new epoch tells when it may be another."""
        inputs = self.program.inputs
        first, last = len(inputs.positions), len(inputs.positions) + len(inputs.captured)
        packing = self.packing
        forgotten = 0 if packing is None else packing.forgotten
        with TRACE_LOCK.tracing:
            traces = TRACE_LOCK.traces
            arrays = [tensor._value for tensor in inputs.captured]
            counters = [tensor._counter for tensor in inputs.captured]
        bound = Bound(arrays, self.executable)
        if packing is not None:
            bound = packing.bound(arrays, counters, self.calls)
        self.counters = [counters[i - first] for i in self.updated if first <= i < last]
        self.other_updates = [inputs.sources[i] for i in self.updated if not first <= i < last]
        self.bound = bound
        if packing is not None and packing.forgotten != forgotten:
            self.bound = None  # by a thread that came in between: the next call looks again
        self.traces = traces  # the last: an interrupt before it has the next call look again
        return bound

    def broken(self, arguments: Sequence[Tensor]) -> str:
        """Why it does not hold."""
        guards = (*self.guards, *self.program.call_guards)
        return "; ".join(broken(guards, self.program.paths, arguments))

    # -- calling -----------------------------------------------------------------------------

    def call(self, arguments: Sequence[Tensor], computed: CallValues | None = None) -> Any:
        """The results; `computed`: by Python, if not for the instance's sizes."""
        bound = self.bound
        if not bound or (bound.watched and [*map(count_of, bound.watched)] != bound.counts):
            bound = self.bind()  # a weight was written of which there is a packed copy
        if len(arguments) == self.in_order:
            arrays = [*map(_VALUE, arguments), *bound.arrays]
        else:
            arrays = [arguments[position]._value for position in self.positions] + bound.arrays
        if self.others:
            arrays += [source.array(arguments) for source in self.others]
        arrays += self.numbers if computed is None else computed.arrays
        if TRACE_LOCK.traces != self.traces:  # some of these tensors may be without values
            self.bind()
            return self.call(arguments, computed)
        self.calls += 1
        if self.function is not None:
            return self._call_differentiable(self.function, arguments, arrays, computed)
        values: Any = ()
        new = None
        try:
            values = run(bound.executable, arrays)
            if self.updated:
                self._count_updates(arguments)
            if self.places:
                self._assign(computed)
            if self.single:
                return made_of(values[0], self.result_types[0])
            new = self._left(arguments, values)
            if self.alone is not None:
                return new[self.alone]
            return self._finished(arguments, new, values)
        except BaseException as error:
            note_written(error, values)
            if written_by(error) and new is None:
                # An interrupt, and native code had run: what belongs to that is done (again).
                self._count_updates(arguments)
                self._assign(computed)
                self._left(arguments, written_by(error))
            raise

    def handed_over(self, arguments: Sequence[Tensor]) -> tuple[Any, list[Any]]:
        """The executable that a call on these arguments runs now, and the arrays it takes."""
        bound = self.bind()
        arrays = [arguments[position]._value for position in self.positions] + bound.arrays
        arrays += [source.array(arguments) for source in self.others]
        return bound.executable, [*arrays, *self.numbers]

    def _new_tensors(self, values: Sequence[Any]) -> list[Tensor]:
        """The new tensors that are returned."""
        tensors = [*map(made_of, values, self.result_types)]
        for position, edge in self.closed:
            tensors[position]._edge, tensors[position]._requires_grad = edge, True
        for position in self.program.results.leaves:
            tensors[position]._requires_grad = True
        return tensors

    def _call_differentiable(
        self, function: DifferentiableFunction, arguments: Sequence[Tensor],
        arrays: Sequence[Any], computed: CallValues | None,
    ) -> Any:  # fmt: skip
        tensors = [source.tensor(arguments) for source in self.program.inputs.sources]
        results: Any = ()
        done = False
        try:
            results = function(tensors, arrays)
            self._count_updates(arguments)
            self._assign(computed)
            done = True
            if self.grads:
                self._left(arguments, results, results)
            if self.alone is not None:
                return results[self.alone]
            return self._finished(arguments, results, results)
        except BaseException as error:
            note_written(error, results)
            if written_by(error) and not done:
                self._count_updates(arguments)
                self._assign(computed)
            raise

    def _left(
        self, arguments: Sequence[Tensor], values: Sequence[Any], new: list[Tensor] | None = None
    ) -> list[Tensor]:
        """Leave gradients; the new tensors that are returned. `values` are arrays, or, where `new`
        is given, tensors with their history."""
        if new is None:
            new = self._new_tensors(values)
        for target, position, kind in self.grads:
            tensor: Any = target if isinstance(target, Tensor) else target.tensor(arguments)
            if position is None:
                tensor._grad = None
            elif position < len(new):
                tensor._grad = ELIDED if position < 0 else new[position]
            else:
                tensor._grad = made_of(values[position], kind)
        return new

    def _finished(
        self, arguments: Sequence[Tensor], new: Sequence[Tensor], values: Sequence[Any]
    ) -> Any:
        """Call taps, and put the results together, the new ones of which are `new`."""
        left = self.program.results
        put_on(left.dressed, new)
        for fn, position in zip(left.taps, range(left.first_tap, len(values))):
            fn(_tensor(values[position], self.types[position]))
        for ends, retain in left.passed:
            self._pass_on(ends, retain, arguments, values)
        for put, source in left.kept:
            put(source.tensor(arguments))
        results = [
            new[position] if source is None else source.tensor(arguments)
            for position, source in left.returned
        ]
        if self.effects:
            self._repeat(new, values)
        one = self.structure is tree.TENSOR
        return results[0] if one else tree.build(self.structure, iter(results))

    def _repeat(self, new: Sequence[Tensor], values: Sequence[Any]) -> None:
        """The effects of the function: one tensor is the same in all of them."""
        left = self.program.results
        tapped: dict[int, Tensor] = {}
        for effect, places in self.effects:
            for place in places:
                if place >= 0 and place not in tapped:
                    at = left.first_tap + place
                    tensor = tapped[place] = _tensor(values[at], self.types[at])
                    if place in left.closed_taps:
                        tensor._edge = closed(self.program.name, tensor.tensor_type)
                        tensor._requires_grad = True
            effect([new[-1 - place] if place < 0 else tapped[place] for place in places])

    def _pass_on(
        self, ends: Sequence[tuple[InputSource, int]], retain: bool, arguments: Sequence[Tensor],
        values: Sequence[Any],
    ) -> None:  # fmt: skip
        """What a `backward()` inside gave to tensors that were computed outside goes on there."""
        first, roots = self.program.results.first_tap, []
        for source, number in ends:
            tensor: Any = source.tensor(arguments)
            roots.append((tensor, made_of(values[first + number], tensor.tensor_type)))
        run_backward(roots, None, retain_graph=retain, create_graph=False)

    def _assign(self, computed: CallValues | None) -> None:
        """Put what was computed ahead of the call where it is to stand; twice is once."""
        values = self.assigned if computed is None else computed.assigned
        for places, value in zip(self.places, values):
            for place in places:
                place.put(value)

    def _count_updates(self, arguments: Sequence[Tensor]) -> None:
        for counter in self.counters:
            counter[0] += 1
            if counter[-1] is not counter[0]:  # a `Memory` stands behind the count
                counter[-1].written()
        for source in self.other_updates:
            tensor: Any = source.tensor(arguments)
            count_write(tensor._counter)


def _structure_at(structure: Any, sizes: Mapping[str, Any]) -> Any:
    return tree.mapped(structure, lambda part: number_at(part, sizes))


def specialization_at(
    program: TracedProgram, key: Signature, undo: Callable[[], bool] = nothing
) -> Specialization | None:
    """A program with open sizes at those of a call with this signature; None where they are of
    another form, or where what was asked of sizes has other answers there."""
    if program.sizes is None:
        return None
    sizes = program.sizes.sizes_of(key.types, tree.numbers(key.structure))
    if sizes is None or not all([guard.holds(sizes) for guard in program.size_guards]):
        return None
    values = program.numbers.values(sizes)
    return None if values is None else Specialization(program, sizes, values, undo)


def only_specialization(
    program: TracedProgram, undo: Callable[[], bool] = nothing
) -> Specialization:
    """A program for one signature, all of whose sizes and numbers are known."""
    values = program.numbers.values({})
    assert values is not None, "values, and no expressions"
    return Specialization(program, {}, values, undo)


def _tensor(value: Any, type: TensorType) -> Tensor:
    """One of the values that a call hands out."""
    return value if isinstance(value, Tensor) else made_of(value, type)


_VALUE = operator.attrgetter("_value")
ELIDED = Elided()
