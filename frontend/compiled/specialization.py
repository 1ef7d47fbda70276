"""One compiled signature of a function: what goes in and where it comes from, what it relies on,
where results go."""

from __future__ import annotations

import operator
import time
from collections.abc import Sequence
from typing import Any

from frontend.compiled.differentiable import DifferentiableFunction, note_written, written_by
from frontend.compiled.options import Options
from frontend.eager.non_differentiable import mark_non_differentiable
from frontend.tensors.autograd_members import Elided
from frontend.tensors.epoch import EPOCH, TRACE_LOCK
from frontend.tensors.tensor import Tensor, make
from frontend.tracing import tree
from frontend.tracing.guards.checks import (
    GradGuard,
    HooksGuard,
    IdentityGuard,
    TensorsGuard,
    TypesGuard,
)
from frontend.tracing.session import leaving
from frontend.tracing.sources import ArgumentSource, CapturedSource, GradSource, HostSource
from frontend.tracing.tracer import Trace
from graphc.errors import GraphError
from graphc.ir.builder import user_location
from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType


def compile_graph(graph: Graph, options: Options) -> Any:
    """An executable of a graph (replaceable in tests)."""
    import graphc

    return graphc.compile(
        graph, options.level, target=options.target, threads=options.threads,
        max_bytes=options.max_bytes,
    )  # fmt: skip


class Specialization:
    """One compiled signature: inputs and where they come from, guards, where results go."""

    def __init__(self, traced: Trace, options: Options, grad_enabled: bool):
        self.options = options
        self.calls = 0
        self.seconds = 0.0
        self.executables: list[Any] = []
        session = traced.session
        self.undo = session.put_back  # what Python did at the trace, as long as no call succeeded
        graph_inputs = sorted(session.inputs, key=lambda x: _ORDER[type(x.source)])
        order = {id(x): position for position, x in enumerate(graph_inputs)}
        self.names = [x.name for x in graph_inputs]
        self.sources = [x.source for x in graph_inputs]
        self.structure = traced.structure
        self.returned = [(r.position, r.source) for r in traced.returned]
        self.updated = [order[id(x)] for x in traced.updated]
        self.grads = traced.grads
        self.taps = [fn for _, fn in session.taps]
        self.first_tap = traced.first_tap
        self.first_update = traced.first_update
        self.positions = [s.position for s in self.sources if isinstance(s, ArgumentSource)]
        # How many arguments there are, if all are read, each where it stands.
        in_order = self.positions == list(range(len(self.positions)))
        self.in_order = len(self.positions) if in_order else -1
        self.captured = [s.captured for s in self.sources if isinstance(s, CapturedSource)]
        self.others = self.sources[len(self.positions) + len(self.captured) :]
        loose = [target for target, _, _ in self.grads if isinstance(target, Tensor)]
        asked = session.asked.values()
        self.guards = [*session.guards, TensorsGuard([*self.captured, *loose, *asked])]
        self.guards.append(TypesGuard([*session.captured_globals.tensors.values()]))
        # The former are looked at once in an epoch, the latter at every call.
        self.epoch_guards = [guard for guard in self.guards if guard.by_epoch]
        self.further_guards = [guard for guard in self.guards if not guard.by_epoch]
        self.epoch: object = None  # the epoch in which the former held
        self.traces = -1  # how many traces had begun when `arrays` were read
        self.arrays: list[Any] = []  # of captured tensors, in that epoch
        self.counters: list[list[int]] = []  # of captured tensors that are updated
        self.trains = session.backward_called
        self.call_guards = _call_guards(session, graph_inputs, self.captured)
        self.saved: list[int] = []  # by backward() of a training step what is kept for it
        self.ahead: Any = None  # computes from frozen tensors what depends on them alone
        self.frozen: list[int] = []  # which of the captured tensors it takes
        self.frozen_arrays: list[Any] = []  # those that `prepared` was computed from
        self.prepared: list[Any] = []
        self.function: DifferentiableFunction | None = None
        with leaving(session), session:
            results = traced.new
            derived = [grad_enabled and tensor._requires_grad for tensor in results]
            differentiable = any(derived) and not self.trains
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
                    self._keep_less(session.builder.ahead(named, outputs, positions))
                self.types = self.graph.output_types
        if differentiable:
            tapped = [tensor for tensor, _ in session.taps]
            left = traced.left if options.keep_grads else []
            self._renumber(traced, len(results))
            self.function = DifferentiableFunction(
                session,
                session.builder.name,
                inputs,
                [*results, *left, *tapped],
                updates,
                self._compile,
                options,
            )
        else:
            self.executable = self._compile(self._without_frozen(self.graph))
        # A training step is over when it returns: backward cannot go into it again.
        self.result_types = [tensor.tensor_type for tensor in results]
        self.closed = [
            (position, _closed(session.root.name, type))
            for position, type in enumerate(self.result_types)
            if self.trains and derived[position]
        ]
        # One fresh tensor is returned and nothing else is left behind.
        new = [position for position, source in self.returned if source is None]
        self.single = (
            self.structure is tree.TENSOR
            and new == [0]
            and not (self.grads or self.taps or self.closed)
        )

    def _keep_less(self, positions: Sequence[int]) -> None:
        """Fit what forward keeps for backward into the budget. `positions`: where each backward
        starts and ends in the graph."""
        from graphc.runtime.program import remembered

        budget = self.options.saved_bytes
        spans = tuple(zip(positions[::2], positions[1::2]))
        self.graph, self.saved = remembered(
            "recompute", self.graph, (spans, budget),
            lambda: _within_budget(self.graph, spans, budget),
        )  # fmt: skip

    def explain_saved(self) -> list[str]:
        """What forward keeps for backward, where that is known: of a pair, or with a budget."""
        pair = None if self.function is None else self.function.compiled_pair
        sizes = self.saved if pair is None else [pair.saved_bytes]
        return [f"saved for backward: {size:,} bytes" for size in sizes]

    def _without_frozen(self, graph: Graph) -> Graph:
        """The graph for a call, where what frozen tensors alone decide is computed ahead."""
        first = len(self.positions)
        frozen = [i for i, tensor in enumerate(self.captured) if tensor._frozen is not None]
        if not frozen:
            return graph
        from graphc.runtime.program import remembered

        level, target = self.options.level, self.options.target
        positions, last = tuple(first + i for i in frozen), first + len(self.captured)
        split = remembered(
            "frozen", graph, (level, positions, last),
            lambda: _split_frozen(graph, level, positions, last, target), target,
        )  # fmt: skip
        if split is None:
            return graph
        self.frozen = frozen
        self.ahead = self._compile(split.constants)
        return split.graph

    def _renumber(self, traced: Trace, results: int) -> None:
        """Positions among results, gradients and taps, where updates are counted apart."""
        if not self.options.keep_grads:
            self._without_grads(traced)
            self.first_tap = results
            return
        gone = self.first_tap - len(traced.left) - results
        self.grads = [
            (target, p if p is None or p < results else p - gone, kind)
            for target, p, kind in self.grads
        ]
        self.first_tap -= gone

    def _without_grads(self, traced: Trace) -> list[Any]:
        """The outputs without gradients; taps move up."""
        self.grads = [(target, None if p is None else -1, kind) for target, p, kind in self.grads]
        count = self.first_update + len(self.updated)
        self.first_tap = count
        return traced.outputs[:count] + traced.outputs[traced.first_tap :]

    def _compile(self, graph: Graph) -> Any:
        started = time.perf_counter()
        executable = compile_graph(graph, self.options)
        self.seconds += time.perf_counter() - started
        self.executables.append(executable)
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

    def _bind(self) -> None:
        """Look up what belongs to captured tensors; a new epoch tells when it may be another."""
        first, last = len(self.positions), len(self.positions) + len(self.captured)
        with TRACE_LOCK.tracing:
            traces = TRACE_LOCK.traces
            arrays = [tensor._value for tensor in self.captured]
        if self.ahead is not None:
            # Kept while the frozen arrays are the same ones: they are read-only.
            frozen = [arrays[i] for i in self.frozen]
            if list(map(id, frozen)) != list(map(id, self.frozen_arrays)):
                prepared = list(self.ahead.run(list(frozen)))
                self.frozen_arrays, self.prepared = frozen, prepared
            arrays += self.prepared
        self.arrays = arrays
        self.counters = [
            self.captured[i - first]._counter for i in self.updated if first <= i < last
        ]
        self.other_updates = [self.sources[i] for i in self.updated if not first <= i < last]
        self.traces = traces  # the last: an interrupt before it has the next call look again

    def broken(self, arguments: Sequence[Tensor]) -> str:
        """Why the specialization does not hold."""
        reasons = [guard.reason() for guard in self.guards if not guard.holds()]
        reasons += [g.reason() for g in self.call_guards if not g.holds_for(arguments)]
        return "; ".join(reasons)

    # -- calling -----------------------------------------------------------------------------

    def call(self, arguments: Sequence[Tensor]) -> Any:
        if len(arguments) == self.in_order:
            arrays = [*map(_VALUE, arguments), *self.arrays]
        else:
            arrays = [arguments[position]._value for position in self.positions] + self.arrays
        if self.others:
            arrays += [source.array(arguments) for source in self.others]
        if TRACE_LOCK.traces != self.traces:  # some of these tensors may be without values
            self._bind()
            return self.call(arguments)
        self.calls += 1
        if self.function is not None:
            return self._call_differentiable(self.function, arguments, arrays)
        values: Any = ()
        new = None
        try:
            values = self.executable.run(arrays)
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
            new = [*map(make, values, self.result_types)]
            for closed, edge in self.closed:
                new[closed]._edge, new[closed]._requires_grad = edge, True
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
        for fn, position in zip(self.taps, range(self.first_tap, len(values))):
            value = values[position]
            fn(value if isinstance(value, Tensor) else make(value, self.types[position]))
        results = [
            new[position] if source is None else source.tensor(arguments)
            for position, source in self.returned
        ]
        if self.structure is tree.TENSOR:
            return results[0]
        return tree.build(self.structure, iter(results))

    def _count_updates(self, arguments: Sequence[Tensor]) -> None:
        for counter in self.counters:
            counter[0] += 1
        for source in self.other_updates:
            tensor: Any = source.tensor(arguments)
            tensor._counter[0] += 1


_VALUE = operator.attrgetter("_value")
ELIDED = Elided()
_ORDER = {ArgumentSource: 0, CapturedSource: 1, GradSource: 2, HostSource: 3}


def _split_frozen(
    graph: Graph, level: str, frozen: Sequence[int], last: int, target: str | None
) -> Any:
    from graphc.codegen.recipes.preferred_layouts import preferred_layouts
    from graphc.codegen.target import running
    from graphc.passes.pipelines import without_frozen

    return without_frozen(graph, level, frozen, last, preferred_layouts(running(target)))


def _within_budget(graph: Graph, spans: Any, budget: Any) -> tuple[Graph, list[int]]:
    from graphc.passes.pipelines import within_saved_bytes

    fitted, cuts = within_saved_bytes(graph, spans, budget)
    return fitted, [cut.bytes for cut in cuts]


def _call_guards(
    session: Any, graph_inputs: Sequence[Any], captured: Sequence[Tensor]
) -> list[Any]:
    """The guards that look at the arguments of a call."""
    guards: list[Any] = [
        GradGuard(session.source_of(tensor), none) for tensor, none in session.grad_guards
    ]
    arguments = [x for x in graph_inputs if isinstance(x.source, ArgumentSource)]
    outside = [x for x in arguments if id(x.tensor) in session.captured_globals.tensors]
    guards += [IdentityGuard(x.source, x.tensor) for x in outside]
    # What a training step does to a leaf it does once for each input.
    leaves = [x for x in arguments if session.backward_called and x.tensor._requires_grad]
    guards += [HooksGuard(x.source, x.tensor) for x in leaves]
    return guards + [IdentityGuard(x.source, None, captured) for x in leaves if x not in outside]


def _closed(name: str, type: TensorType) -> Any:
    """The place on the tape of what a compiled training step returns."""
    result = make(None, type)
    mark_non_differentiable(name, (), result, _over)
    return result._edge


def _over(name: str) -> Exception:
    return GraphError(
        f"backward through a result of the compiled {name}, which calls backward() itself: what "
        "it would need is gone when the call returns",
        hint="call this backward() inside too, or compile the forward alone",
        location=user_location(),
    )
