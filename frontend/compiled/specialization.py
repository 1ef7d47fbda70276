"""One compiled signature of a function: what goes in and where it comes from, what it relies on,
where results go."""

from __future__ import annotations

import copy
import operator
import time
from collections.abc import Mapping, Sequence
from typing import Any

from frontend.compiled.budget import keep_less
from frontend.compiled.call_guards import broken, call_guards
from frontend.compiled.differentiable import DifferentiableFunction, note_written, run, written_by
from frontend.compiled.free_numbers import FreeNumbers
from frontend.compiled.inputs import in_order
from frontend.compiled.options import Options
from frontend.compiled.packing import Bound, Packing, count_of, packing_of
from frontend.compiled.results import closed, dressed, leaves, moved, put_on
from frontend.compiled.signature import Signature
from frontend.compiled.sized_memo import executable_at, of_graph
from frontend.compiled.traced_function import TracedFunction
from frontend.eager.backward import run_backward
from frontend.tensors.autograd_members import Elided
from frontend.tensors.epoch import EPOCH, TRACE_LOCK
from frontend.tensors.memory_tracking import count_write
from frontend.tensors.sizes import number_at
from frontend.tensors.tensor import Tensor, make
from frontend.tracing import tree
from frontend.tracing.guards.checks import TensorsGuard, TypesGuard
from frontend.tracing.leaving import leaving
from frontend.tracing.sources import ArgumentSource, CapturedSource, NumberSource, Source
from frontend.tracing.tracer import Trace
from graphc.ir.dims import Extent, evaluate
from graphc.ir.instances import type_at
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeGuard


def compile_graph(graph: Graph, options: Options, example: Mapping[str, int] | None = None) -> Any:
    """An executable of a graph (replaceable in tests)."""
    import graphc

    sized: dict[str, Any] = {"example": example} if example else {}
    compile = options.compiler or graphc.compile
    return compile(
        graph, options.level, target=options.target, threads=options.threads,
        max_bytes=options.max_bytes, **sized,
    )  # fmt: skip


class Specialization:
    """One compiled signature: inputs and where they come from, guards, where results go."""

    def __init__(self, traced: Trace, options: Options, grad_enabled: bool):
        self.options = options
        self.sizes = traced.session.sizes
        self.answers = traced.session.answers
        self.instance_sizes: dict[str, int] = {}
        self.origin: Specialization | None = None  # that this is an instance of
        self.calls = 0
        self.seconds = 0.0
        self.executables: list[Any] = []
        session = traced.session
        self.undo = session.put_back  # what Python did at the trace, as long as no call succeeded
        graph_inputs = in_order(session.inputs)
        order = {id(x): position for position, x in enumerate(graph_inputs)}
        self.names = [x.name for x in graph_inputs]
        self.sources = [x.source for x in graph_inputs]
        self.structure = traced.structure
        self.returned = [(r.position, r.source) for r in traced.returned]
        self.updated = [order[id(x)] for x in traced.updated]
        self.grads = traced.grads
        self.taps = [fn for _, fn in session.taps]
        self.kept, self.passed = traced.kept, traced.passed
        self.first_tap = traced.first_tap
        self.first_update = traced.first_update
        self.positions = [s.position for s in self.sources if isinstance(s, ArgumentSource)]
        # How many arguments there are, if all are read, each where it stands.
        all_read = self.positions == list(range(len(self.positions)))
        self.in_order = len(self.positions) if all_read else -1
        self.captured = [s.captured for s in self.sources if isinstance(s, CapturedSource)]
        others = self.sources[len(self.positions) + len(self.captured) :]
        self.others = [source for source in others if not isinstance(source, NumberSource)]
        self.call_numbers = session.numbers
        self.numbers: list[Any] = []  # computed by Python for the call, where its sizes tell them
        loose = [target for target, _, _ in self.grads if isinstance(target, Tensor)]
        asked = session.asked.values()
        names = [n for n, s in zip(self.names, self.sources) if isinstance(s, CapturedSource)]
        self.guards = [*session.guards, TensorsGuard([*self.captured, *loose, *asked], names)]
        self.paths = session.scope.paths()
        self.guards.append(TypesGuard([*session.captured_globals.tensors.values()]))
        # The former are looked at once in an epoch, the latter at every call.
        self.epoch_guards = [guard for guard in self.guards if guard.by_epoch]
        self.further_guards = [guard for guard in self.guards if not guard.by_epoch]
        self.epoch: object = None  # the epoch in which the former held
        self.traces = -1  # how many traces had begun when `bound` was made
        self.bound: Bound | None = None  # what captured tensors give, in that epoch
        self.counters: list[Any] = []  # of captured tensors that are updated
        self.trains = session.backward_called
        self.call_guards = call_guards(session, graph_inputs, self.captured)
        self.number = 0  # of the trace it was made by
        self.signature: Any = None  # of the calls it is for
        self.saved: list[Extent] = []  # by backward() of a training step what is kept for it
        self.packing: Packing | None = None  # what depends on weights alone
        self.executable: Any = None
        self.size_guards: tuple[SizeGuard, ...] = ()  # what sizes have to be like
        self.function: DifferentiableFunction | None = None
        example = {} if self.sizes is None else self.sizes.example
        with leaving(session), session:
            results = traced.new
            derived = [tensor._edge is not None for tensor in results]
            kept = [tensor._edge is not None for tensor, _ in session.taps]
            self.leaves = leaves(results)
            self.dressed = dressed(results)
            differentiable = (any(derived) or any(kept)) and not self.trains
            inputs = [(x.name, x.tensor, x.var) for x in graph_inputs]
            first = traced.first_update
            updates = [
                (traced.outputs[first + i], position) for i, position in enumerate(self.updated)
            ]
            if not differentiable:
                aliases = [(first + i, position) for i, position in enumerate(self.updated)]
                outputs = traced.outputs
                if not options.keep_grads:
                    outputs = self._without_grads(traced)
                named = [(name, var) for name, _, var in inputs]
                self.graph = session.builder.snapshot(named, outputs, aliases)
                if session.backwards and options.saved_bytes is not None:
                    positions = [node for span in session.backwards for node in span]
                    within = session.builder.ahead(named, outputs, positions)
                    self.graph, self.saved, guards = keep_less(
                        self.graph, within, options.saved_bytes, example
                    )
                    self.size_guards += guards
                self.types = self.graph.output_types
        if differentiable:
            tapped = [tensor for tensor, _ in session.taps]
            left = traced.left if options.keep_grads else []
            self._renumber(traced, len(results))
            traced_function = TracedFunction(
                session, session.builder.name, inputs, [*results, *left, *tapped], updates,
                self.compiled, options,
            )  # fmt: skip
            self.types = tuple(traced_function.types)
            self.function = DifferentiableFunction(
                traced_function, example, self.executables.append
            )
        else:
            automatic = not grad_enabled and not self.trains
            packing, guards = packing_of(self, self.graph, automatic, example)
            self.packing, self.size_guards = packing, self.size_guards + guards
            self.executable = packing.main if packing else self.compiled(self.graph, example)
            self.executables = [self.executable]
        if self.answers is not None:
            self.size_guards += self.answers.guards
        differentiated = self.function is not None
        self.free = FreeNumbers(self.sizes, None if differentiated else self.graph, self.structure)
        # A training step is over when it returns: backward cannot go into it again.
        self.name = session.root.name
        self.result_types = [tensor.tensor_type for tensor in results]
        self.closed = [
            (position, closed(self.name, type))
            for position, type in enumerate(self.result_types)
            if self.trains and derived[position]
        ]
        # One fresh tensor is returned and nothing else is left behind.
        new = [position for position, source in self.returned if source is None]
        self.single = (
            self.structure is tree.TENSOR
            and new == [0]
            and not (
                self.grads or self.taps or self.kept or self.closed or self.leaves or self.dressed
            )
        )

    def at(self, key: Signature) -> Specialization | None:
        """This one at the sizes and numbers of a call with this signature; None where they are of
        another form, or where what was asked of sizes has other answers there."""
        if self.sizes is None:
            return None
        sizes = self.sizes.sizes_of(key.types, tree.numbers(key.structure))
        if sizes is None or not all([guard.holds(sizes) for guard in self.size_guards]):
            return None
        numbers = self.call_numbers.arrays(sizes)
        if numbers is None:
            return None
        instance = copy.copy(self)
        instance.instance_sizes, instance.origin, instance.numbers = sizes, self, numbers
        instance.calls, instance.seconds, instance.undo = 0, 0.0, _nothing_done
        instance.guards = self.guards + (needed := self.free.guards(sizes))
        instance.further_guards = self.further_guards + needed
        instance.structure = tree.mapped(self.structure, lambda part: number_at(part, sizes))
        instance.types = tuple([type_at(type, sizes) for type in self.types])
        instance.saved = [evaluate(extent, sizes) for extent in self.saved]
        if self.function is None:
            instance.executable = executable_at(self.executable, sizes)
            instance.executables = [instance.executable]
            if self.packing is not None:
                instance.packing = self.packing.at(instance, sizes)
        else:
            executables = instance.executables = []
            instance.function = self.function.at(sizes, executables.append)
        instance.result_types = [type_at(type, sizes) for type in self.result_types]
        instance.grads = [
            (target, position, type_at(kind, sizes)) for target, position, kind in self.grads
        ]
        instance.closed = [
            (place, closed(self.name, instance.result_types[place])) for place, _ in self.closed
        ]
        instance.epoch = instance.bound = None
        return instance

    def prepare(self, arguments: Sequence[Tensor]) -> None:
        """Make what a call on these arguments takes: an error comes here, and nothing has run."""
        if self.function is not None:
            self.function.prepare([source.tensor(arguments) for source in self.sources])

    def _renumber(self, traced: Trace, results: int) -> None:
        """Positions of gradients and taps, where updates are counted apart."""
        if not self.options.keep_grads:
            self._without_grads(traced)
            self.first_tap = results
            return
        gone = self.first_tap - len(traced.left) - results
        self.grads = moved(self.grads, results, gone)
        self.first_tap -= gone

    def _without_grads(self, traced: Trace) -> list[Any]:
        """The outputs without gradients; taps move up."""
        self.grads = [(target, None if p is None else -1, kind) for target, p, kind in self.grads]
        self.first_tap = count = self.first_update + len(self.updated)
        return traced.outputs[:count] + traced.outputs[traced.first_tap :]

    def compiled(self, graph: Graph, sizes: Mapping[str, int]) -> Any:
        """An executable, made best for these sizes where some are left open."""
        started = time.perf_counter()
        own = of_graph(sizes, graph)
        sized = (own,) if own else ()
        executable = compile_graph(graph, self.options, *sized)
        self.seconds += time.perf_counter() - started
        return executable

    # -- guards ------------------------------------------------------------------------------

    def holds(self, arguments: Sequence[Tensor]) -> bool:
        epoch = EPOCH.current
        if epoch is not self.epoch:
            for guard in self.epoch_guards:
                if not guard.holds():
                    return False
            self._bind()
            self.epoch = epoch
        for guard in self.further_guards:
            if not guard.holds():
                return False
        if not self.call_guards:
            return True
        return all([guard.holds_for(arguments) for guard in self.call_guards])

    def _bind(self) -> Bound:
        """Look up what belongs to captured tensors; a new epoch tells when it may be another."""
        first, last = len(self.positions), len(self.positions) + len(self.captured)
        packing = self.packing
        forgotten = 0 if packing is None else packing.forgotten
        with TRACE_LOCK.tracing:
            traces = TRACE_LOCK.traces
            arrays = [tensor._value for tensor in self.captured]
            counters = [tensor._counter for tensor in self.captured]
        bound = Bound(arrays, self.executable)
        if packing is not None:
            bound = packing.bound(arrays, counters, self.calls)
        self.counters = [counters[i - first] for i in self.updated if first <= i < last]
        self.other_updates = [self.sources[i] for i in self.updated if not first <= i < last]
        self.bound = bound
        if packing is not None and packing.forgotten != forgotten:
            self.bound = None  # by a thread that came in between: the next call looks again
        self.traces = traces  # the last: an interrupt before it has the next call look again
        return bound

    def broken(self, arguments: Sequence[Tensor]) -> str:
        """Why the specialization does not hold."""
        return "; ".join(broken(self.guards, self.call_guards, self.paths, arguments))

    # -- calling -----------------------------------------------------------------------------

    def call(self, arguments: Sequence[Tensor], numbers: Sequence[Any] | None = None) -> Any:
        """The results; `numbers`: what Python computed, if not that of the instance's sizes."""
        bound = self.bound
        if not bound or (bound.watched and [*map(count_of, bound.watched)] != bound.counts):
            bound = self._bind()  # a weight was written of which there is a packed copy
        if len(arguments) == self.in_order:
            arrays = [*map(_VALUE, arguments), *bound.arrays]
        else:
            arrays = [arguments[position]._value for position in self.positions] + bound.arrays
        if self.others:
            arrays += [source.array(arguments) for source in self.others]
        arrays += self.numbers if numbers is None else numbers
        if TRACE_LOCK.traces != self.traces:  # some of these tensors may be without values
            self._bind()
            return self.call(arguments, numbers)
        self.calls += 1
        if self.function is not None:
            return self._call_differentiable(self.function, arguments, arrays)
        values: Any = ()
        new = None
        try:
            values = run(bound.executable, arrays)
            if self.updated:
                self._count_updates(arguments)
            if self.single:
                return make(values[0], self.result_types[0])
            new = self._left(arguments, values)
            return self._finished(arguments, new, values)
        except BaseException as error:
            note_written(error, values)
            if written_by(error) and new is None:
                # An interrupt, and native code had run: what belongs to that is done (again).
                self._count_updates(arguments)
                self._left(arguments, written_by(error))
            raise

    def handed_over(self, arguments: Sequence[Tensor]) -> tuple[Any, list[Any]]:
        """The executable that a call on these arguments runs now, and the arrays it takes."""
        bound = self._bind()
        arrays = [arguments[position]._value for position in self.positions] + bound.arrays
        arrays += [source.array(arguments) for source in self.others]
        return bound.executable, arrays + self.numbers

    def _new_tensors(self, values: Sequence[Any]) -> list[Tensor]:
        """The new tensors that are returned."""
        tensors = [*map(make, values, self.result_types)]
        for position, edge in self.closed:
            tensors[position]._edge, tensors[position]._requires_grad = edge, True
        for position in self.leaves:
            tensors[position]._requires_grad = True
        return tensors

    def _call_differentiable(
        self, function: DifferentiableFunction, arguments: Sequence[Tensor], arrays: Sequence[Any]
    ) -> Any:
        tensors = [source.tensor(arguments) for source in self.sources]
        results: Any = ()
        try:
            results = function(tensors, arrays)
            self._count_updates(arguments)
            if self.grads:
                self._left(arguments, results, results)
            return self._finished(arguments, results, results)
        except BaseException as error:
            note_written(error, results)
            if written_by(error):
                self._count_updates(arguments)
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
                tensor._grad = make(values[position], kind)
        return new

    def _finished(
        self, arguments: Sequence[Tensor], new: Sequence[Tensor], values: Sequence[Any]
    ) -> Any:
        """Call taps, and put the results together, the new ones of which are `new`."""
        put_on(self.dressed, new)
        for fn, position in zip(self.taps, range(self.first_tap, len(values))):
            value = values[position]
            fn(value if isinstance(value, Tensor) else make(value, self.types[position]))
        for ends, retain in self.passed:
            self._pass_on(ends, retain, arguments, values)
        for put, source in self.kept:
            put(source.tensor(arguments))
        results = [
            new[position] if source is None else source.tensor(arguments)
            for position, source in self.returned
        ]
        one = self.structure is tree.TENSOR
        return results[0] if one else tree.build(self.structure, iter(results))

    def _pass_on(
        self, ends: Sequence[tuple[Source, int]], retain: bool, arguments: Sequence[Tensor],
        values: Sequence[Any],
    ) -> None:  # fmt: skip
        """What a `backward()` inside gave to tensors that were computed outside goes on there."""
        roots = []
        for source, number in ends:
            tensor: Any = source.tensor(arguments)
            roots.append((tensor, make(values[self.first_tap + number], tensor.tensor_type)))
        run_backward(roots, None, retain_graph=retain, create_graph=False)

    def _count_updates(self, arguments: Sequence[Tensor]) -> None:
        for counter in self.counters:
            counter[0] += 1
            if counter[-1] is not counter[0]:  # a `Memory` stands behind the count
                counter[-1].written()
        for source in self.other_updates:
            tensor: Any = source.tensor(arguments)
            count_write(tensor._counter)


_VALUE = operator.attrgetter("_value")
ELIDED = Elided()


def _nothing_done() -> bool:
    """Nothing was traced for these sizes."""
    return False
