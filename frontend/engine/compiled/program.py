"""What one trace gave and the compiler made of it: a TracedProgram.

in : a trace that has ended, and the options of the compiled function
out: a frozen TracedProgram: where its inputs come from, what it relies on, the graph or the pair of
     graphs, what of it is compiled, where results go. Calls run a `Specialization` of it

With sizes left open a TracedProgram serves all sizes that give the answers its trace got; else one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from frontend.engine.compiled.budget import keep_less
from frontend.engine.compiled.call_guards import call_guards
from frontend.engine.compiled.deciders import CallCheck, check_of
from frontend.engine.compiled.free_numbers import FreeNumbers
from frontend.engine.compiled.inputs import in_order
from frontend.engine.compiled.options import Options
from frontend.engine.compiled.packing import PackingPlan, packing_plan
from frontend.engine.compiled.results import dressed, leaves, moved, refuse_eager_gradients
from frontend.engine.compiled.staged import staged
from frontend.engine.compiled.traced_function import TracedFunction
from frontend.engine.outside.guard import Guard, tensors_guard, types_guard
from frontend.engine.outside.source import (
    ArgumentSource,
    CapturedSource,
    ComputedSource,
    GradSource,
    InputSource,
)
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.sizes.sized_memo import of_graph
from frontend.engine.tensors import tree
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.call_numbers import CallNumbers
from frontend.engine.tracing.captured import GraphInput
from frontend.engine.tracing.effects import RepeatedEffect
from frontend.engine.tracing.exchanges import Exchanges
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.tracer import Trace
from graphc.errors import TraceError
from graphc.ir.dims import Extent
from graphc.ir.nodes import Graph
from graphc.ir.size_guards import SizeAnswers, SizeGuard
from graphc.ir.types import TensorType
from graphc.records import record, replace
from graphc.system import IMPORTING


def compile_graph(graph: Graph, options: Options, example: Mapping[str, int] | None = None) -> Any:
    """An executable of a graph (replaceable in tests)."""
    with IMPORTING:
        import graphc

    sized: dict[str, Any] = {"example": example} if example else {}
    compile = options.compiler or graphc.compile
    return compile(
        graph, options.level, target=options.target, threads=options.most_threads,
        max_bytes=options.max_bytes, **sized,
    )  # fmt: skip


class Compiler:
    """Compiles graphs with the options of a function, and counts the time it takes."""

    __slots__ = ("options", "seconds")

    def __init__(self, options: Options):
        self.options = options
        self.seconds = 0.0

    def __call__(self, graph: Graph, sizes: Mapping[str, int]) -> Any:
        """An executable, made best for these sizes where some are left open."""
        started = time.perf_counter()
        own = of_graph(sizes, graph)
        executable = compile_graph(graph, self.options, *((own,) if own else ()))
        self.seconds += time.perf_counter() - started
        return executable


@record
class Inputs:
    """Where the inputs of the graph come from, in the order that native code takes them: arguments,
    captured tensors, what is looked up at each call, numbers that Python computes."""

    names: tuple[str, ...]
    sources: tuple[InputSource, ...]
    positions: tuple[int, ...]
    """Of the inputs that are arguments: which ones."""
    captured: tuple[Tensor, ...]
    others: tuple[InputSource, ...]

    @classmethod
    def of(cls, graph_inputs: Sequence[GraphInput]) -> Inputs:
        sources = tuple([x.source for x in graph_inputs])
        positions = tuple([s.position for s in sources if isinstance(s, ArgumentSource)])
        captured = tuple([s.captured for s in sources if isinstance(s, CapturedSource)])
        others = sources[len(positions) + len(captured) :]
        return cls(
            tuple([x.name for x in graph_inputs]), sources, positions, captured,
            tuple([source for source in others if not isinstance(source, ComputedSource)]),
        )  # fmt: skip

    @property
    def in_order(self) -> int:
        """How many arguments there are, if all are read, each where it stands; else -1."""
        count = len(self.positions)
        return count if self.positions == tuple(range(count)) else -1

    @property
    def has_grads(self) -> bool:
        """Whether gradients from before the call are among them."""
        return any(isinstance(source, GradSource) for source in self.sources)

    @property
    def captured_names(self) -> list[str]:
        pairs = zip(self.names, self.sources)
        return [name for name, source in pairs if isinstance(source, CapturedSource)]


@record
class Results:
    """What a call leaves. The outputs of native code are the new results, the new values of inputs,
    gradients, tapped values; those of a pair have no updates among them."""

    structure: Any
    returned: tuple[tuple[int, InputSource | None], ...]
    """For each tensor returned: which of the new results, or where the one from outside is."""
    types: tuple[TensorType, ...]
    """Of the new results."""
    updated: tuple[int, ...]
    """Inputs that are changed in place."""
    grads: tuple[tuple[InputSource | Tensor, int | None, TensorType], ...]
    """Where gradients go, and which output each is: None for none, -1 for one that is elided."""
    first_update: int
    first_tap: int
    taps: tuple[Callable[[Tensor], Any], ...]
    kept: tuple[tuple[Callable[[Any], None], InputSource], ...]
    """Attributes that are given an argument itself."""
    passed: tuple[tuple[Sequence[tuple[InputSource, int]], bool], ...]
    """For each `backward()` inside, tensors computed outside and which tapped values they get as
    gradients, to go on there; and whether it retains their graph."""
    effects: tuple[tuple[RepeatedEffect, tuple[int, ...]], ...]
    """What is done when the call is over, on which values: numbers of tapped ones, or -1 - that of
    a new result."""
    closed: tuple[int, ...]
    """New results that backward cannot pass, since the step that made them is over."""
    closed_taps: frozenset[int]
    """Tapped values of which the same is so."""
    leaves: tuple[int, ...]
    dressed: tuple[tuple[int, type, dict[str, Any]], ...]

    def structures(self) -> Iterator[Any]:
        """Of what is returned, and of what effects are given."""
        yield self.structure
        for effect, _ in self.effects:
            yield effect.structure

    @property
    def alone(self) -> int | None:
        """Which of the new results is all that is returned, where nothing is to be done with it or
        others but to leave gradients; None elsewhere."""
        more = (self.taps, self.kept, self.passed, self.effects, self.dressed)
        if self.structure is not tree.TENSOR or any(more) or self.returned[0][1] is not None:
            return None
        return self.returned[0][0]

    @property
    def is_single(self) -> bool:
        """Whether one new plain tensor is returned and nothing else is left behind."""
        return self.alone == 0 and not any((self.grads, self.closed, self.leaves))


@record
class TracedProgram:
    """See the module. `graph` and `executable` are None where values and gradients are two graphs:
    then `function` has them."""

    name: str
    number: int
    """Of the trace it was made by."""
    options: Options
    compiler: Compiler
    inputs: Inputs
    results: Results
    trains: bool
    guards: tuple[Guard, ...]
    """On what is outside."""
    call_guards: tuple[Guard, ...]
    """On the arguments of each call."""
    check: CallCheck
    """That all of these hold."""
    size_guards: tuple[SizeGuard, ...]
    paths: Mapping[int, str]
    """Of Modules, by id."""
    sizes: SizedArguments | None
    answers: SizeAnswers | None
    numbers: CallNumbers
    free: FreeNumbers
    graph: Graph | None
    executable: Any
    packing: PackingPlan | None
    function: TracedFunction | None
    types: tuple[TensorType, ...]
    """Of the outputs."""
    saved: tuple[Extent, ...]
    """By backward() of a training step what is kept for it, with a budget."""

    @property
    def example(self) -> Mapping[str, int]:
        """The sizes that it was traced and compiled with, of those that are left open."""
        return {} if self.sizes is None else self.sizes.example


def program_of(traced: Trace, options: Options, grad_enabled: bool, number: int) -> TracedProgram:
    """What the compiler makes of a trace. Raises what it raises."""
    session = traced.session
    graph_inputs = in_order(session.inputs)
    inputs = Inputs.of(graph_inputs)
    trains = session.backward_called
    example = {} if session.sizes is None else session.sizes.example
    compiler = Compiler(options)
    graph: Graph | None = None
    executable: Any = None
    packing: PackingPlan | None = None
    function: TracedFunction | None = None
    saved: tuple[Extent, ...] = ()
    size_guards: tuple[SizeGuard, ...] = ()
    with leaving(session), session:
        derived = [tensor._edge is not None for tensor in traced.new]
        tapped = [tensor._edge is not None for tensor, _ in session.taps]
        differentiable = (any(derived) or any(tapped)) and not trains
        results = _results(traced, graph_inputs, *((derived, tapped) if trains else ((), ())))
        if differentiable:
            refuse_eager_gradients([*traced.new, *[tensor for tensor, _ in session.taps]])
        else:
            results, outputs = _with_grads(results, traced, options)
            graph, saved, size_guards = _graph(traced, graph_inputs, results, outputs, options)
    _check_exchanges(session.exchanges, options, graph is None)
    if graph is None:
        results, function = _pair(traced, graph_inputs, results, compiler)
        types = tuple(function.types)
    else:
        executable = staged(graph, session.exchanges.listed, inputs.has_grads, compiler, example)
        if executable is None:
            automatic = not grad_enabled and not trains
            packing, answered = packing_plan(
                inputs, results.updated, graph, compiler, automatic, example
            )
            executable = packing.main if packing else compiler(graph, example)
            size_guards += answered
        tapped_types = [tensor.tensor_type for tensor, _ in session.taps]
        types = (*graph.output_types[: results.first_tap], *tapped_types)
    if session.answers is not None:
        size_guards += session.answers.guards
    guards = _guards(traced, inputs, results)
    of_calls = tuple(call_guards(session, graph_inputs, inputs.captured))
    free = FreeNumbers(session.sizes, graph, results.structures())
    return TracedProgram(
        session.root.name, number, options, compiler, inputs, results, trains,
        guards, of_calls, check_of(guards, of_calls), size_guards,
        session.scope.paths(), session.sizes, session.answers, session.numbers,
        free, graph, executable, packing, function, types, saved,
    )  # fmt: skip


def _check_exchanges(exchanges: Exchanges, options: Options, differentiable: bool) -> None:
    """Raise TraceError for what cannot be cut where processes exchange values, or loses what is
    promised of it."""
    if differentiable and (exchanges.whole or exchanges.listed):
        raise TraceError(
            exchanges.whole
            or f"{exchanges.listed[0].name} are exchanged in a compiled function that "
            "is differentiated from outside",
            hint="call backward() inside too, or compile inside: "
            "DistributedDataParallel(torch.compile(module))",
        )
    if exchanges.exact and options.level == "relaxed":
        raise TraceError(
            f'{exchanges.exact} in a step that is compiled as a whole at level "relaxed", whose '
            "bits depend on what stands beside it",
            hint='compile at level "exact"',
        )


def _guards(traced: Trace, inputs: Inputs, results: Results) -> tuple[Guard, ...]:
    """Those of the trace, on captured tensors and on those whose flags were read, on types."""
    session = traced.session
    loose = [target for target, _, _ in results.grads if isinstance(target, Tensor)]
    tensors = [*inputs.captured, *loose, *session.asked.values()]
    reached = session.captured_globals
    return (
        *reached.guards, *session.guards, tensors_guard(tensors, inputs.captured_names),
        types_guard([*reached.tensors.values()]),
    )  # fmt: skip


def _results(
    traced: Trace, graph_inputs: Sequence[GraphInput], closed: Sequence[bool],
    closed_taps: Sequence[bool],
) -> Results:  # fmt: skip
    order = {id(x): position for position, x in enumerate(graph_inputs)}
    return Results(
        traced.structure,
        tuple([(r.position, r.source) for r in traced.returned]),
        tuple([tensor.tensor_type for tensor in traced.new]),
        tuple([order[id(x)] for x in traced.updated]),
        tuple(traced.grads),
        traced.first_update,
        traced.first_tap,
        tuple([fn for _, fn in traced.session.taps]),
        tuple(traced.kept),
        tuple(traced.passed),
        tuple(traced.effects),
        tuple([position for position, is_over in enumerate(closed) if is_over]),
        frozenset([i for i, is_over in enumerate(closed_taps) if is_over]),
        tuple(leaves(traced.new)),
        tuple(dressed(traced.new)),
    )


def _with_grads(results: Results, traced: Trace, options: Options) -> tuple[Results, list[Any]]:
    """The outputs of a graph, without gradients where these are not kept: taps move up."""
    if options.keep_grads:
        return results, traced.outputs
    count = results.first_update + len(results.updated)
    outputs = traced.outputs[:count] + traced.outputs[traced.first_tap :]
    return replace(_elided(results), first_tap=count), outputs


def _elided(results: Results) -> Results:
    grads = [(target, None if p is None else -1, kind) for target, p, kind in results.grads]
    return replace(results, grads=tuple(grads))


def _graph(
    traced: Trace, graph_inputs: Sequence[GraphInput], results: Results, outputs: list[Any],
    options: Options,
) -> tuple[Graph, tuple[Extent, ...], tuple[SizeGuard, ...]]:  # fmt: skip
    """The one graph, what each backward in it keeps, and for which sizes that is so."""
    session, first = traced.session, results.first_update
    named = [(x.name, x.var) for x in graph_inputs]
    aliases = [(first + i, position) for i, position in enumerate(results.updated)]
    graph = session.builder.snapshot(named, outputs, aliases)
    if not session.backwards or options.saved_bytes is None:
        return graph, (), ()
    positions = [node for span in session.backwards for node in span]
    within = session.builder.ahead(named, outputs, positions)
    example = {} if session.sizes is None else session.sizes.example
    graph, saved, guards = keep_less(graph, within, options.saved_bytes, example)
    return graph, tuple(saved), guards


def _pair(
    traced: Trace, graph_inputs: Sequence[GraphInput], results: Results, compiler: Compiler
) -> tuple[Results, TracedFunction]:
    """The traced function that is differentiated. Its outputs are results, gradients and tapped
    values; updates are counted apart."""
    session, options = traced.session, compiler.options
    count, first = len(results.types), traced.first_update
    left = traced.left if options.keep_grads else []
    if options.keep_grads:
        gone = results.first_tap - len(left) - count
        grads = tuple(moved(results.grads, count, gone))
        results = replace(results, grads=grads, first_tap=results.first_tap - gone)
    else:
        results = replace(_elided(results), first_tap=count)
    updates = [(traced.outputs[first + i], at) for i, at in enumerate(results.updated)]
    function = TracedFunction(
        session, session.builder.name, [(x.name, x.tensor, x.var) for x in graph_inputs],
        [*traced.new, *left, *[tensor for tensor, _ in session.taps]], updates, compiler, options,
    )  # fmt: skip
    return results, function
