"""A function as the tools of graphc.debug see it: its graphs with their arrays, an eager runner.

in : a function or Module, its arguments, and the options it would be compiled with
out: a `TracedCall` for each native call that one call of it makes

Whatever runs here leaves all state as it was: tensors, `.grad`s, optimizers, random numbers.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import graphc
from frontend.engine.compiled.options import Options
from frontend.engine.compiled.program import program_of
from frontend.engine.compiled.signature import Signature
from frontend.engine.compiled.specialization import (
    Specialization,
    only_specialization,
    specialization_at,
)
from frontend.engine.compiled.staged import StagedExecutable, cut_of
from frontend.engine.outside.source import PlaceSource
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.tensors import tree
from frontend.engine.tensors.memory_tracking import put_back_count
from frontend.engine.tensors.state import STATE, get_eager_backend, set_eager_backend
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tracing.tracer import Trace, name_of, run_trace
from graphc.debug.cut_decisions import cut_decisions
from graphc.debug.traced import CallOptions, DrawnInput, OpenedGraph, TracedCall, drawn
from graphc.errors import VerifyError
from graphc.ir.instances import at_sizes
from graphc.ir.nodes import Graph
from graphc.ops.interpreter import run
from graphc.records import field, record, replace
from graphc.system import IMPORTING

if TYPE_CHECKING:
    from graphc.debug.profile.calls import Profiles
    from graphc.debug.verification.verifier import Verifications


def traced_calls(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
    options: Options, sized: SizedCall | None = None,
) -> list[TracedCall]:  # fmt: skip
    """The native calls that `function` compiled with `options` makes on these arguments; `sized`:
    where the call is served by code for several sizes."""
    leaves: list[Tensor] = []
    structure = tree.flatten((arguments, keywords), leaves)
    how = CallOptions(options.level, options.most_threads, options.target, options.max_bytes)
    optimizers = OptimizerStates()
    with optimizers:
        opened = None if sized is None else sized.arguments
        trace = run_trace(function, leaves, structure, name_of(function), opened, assigns=True)
        program = program_of(trace, _inspected(options), bool(STATE.grad_enabled), 1)
        known = None if sized is None else specialization_at(program, sized.signature)
        specialization = known or only_specialization(program)
        eager = _EagerRun(function, leaves, structure, trace, specialization, optimizers)
        executable, arrays = specialization.handed_over(leaves)
        if isinstance(executable, StagedExecutable):
            return _parts(executable, arrays, how)
        if specialization.function is None:
            return [_call(executable, _copies(arrays), how, eager.outputs)]
        return _pair(specialization.function, arrays, how, eager)


def _parts(
    executable: StagedExecutable, arrays: Sequence[Any], how: CallOptions
) -> list[TracedCall]:
    """The native parts of a call, as if all processes exchanged what this one has."""
    around = tuple(cut_decisions(*cut_of(executable)))
    calls = executable.handed(_copies(arrays))
    return [replace(_call(part, values, how), around=around) for part, values in calls]


class SizedCall(NamedTuple):
    """A call that code for several sizes serves: its signature, and which sizes are left open."""

    signature: Signature
    arguments: SizedArguments


def _call(
    executable: Any, arrays: tuple[Any, ...], how: CallOptions, eager: Any = None
) -> TracedCall:
    """A call of an executable, as it runs: of open sizes, if it is an instance."""
    opened = None
    if executable.sizes:
        opened = OpenedGraph(executable.open_graph, executable.sizes, executable.example)
    return TracedCall(executable.graph, arrays, how, eager, opened)


def drawn_arguments(structure: Any, types: Sequence[Any], requires_grad: Sequence[bool]) -> Any:
    """Arguments of this structure with tensors of these types, drawn; and keywords."""
    arrays = drawn([DrawnInput(type) for type in types])
    leaves = [make(array, type) for array, type in zip(arrays, types)]
    for leaf, requires in zip(leaves, requires_grad):
        leaf._requires_grad = requires
    return tree.build(structure, iter(leaves))


def profiled(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
    options: Options, seconds: float, sized: SizedCall | None = None,
) -> Profiles:  # fmt: skip
    """What `CompiledFunction.profile` gives."""
    with IMPORTING:
        from graphc.debug.profile.calls import profile_calls

    return profile_calls(traced_calls(function, arguments, keywords, options, sized), seconds)


def verified(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
    options: Options, sized: SizedCall | None = None,
) -> Verifications:  # fmt: skip
    """What `CompiledFunction.verify` gives."""
    with IMPORTING:
        from graphc.debug.verification.verifier import verify_calls

    return verify_calls(traced_calls(function, arguments, keywords, options, sized))


def reported(
    function: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any],
    options: Options, path: Any, seconds: float, sized: SizedCall | None = None,
) -> None:  # fmt: skip
    """What `CompiledFunction.report` does."""
    with IMPORTING:
        from graphc.debug.report.page import write_page

    write_page(traced_calls(function, arguments, keywords, options, sized), path, seconds)


def _inspected(options: Options) -> Options:
    """Options by which graphs are handed on also where a plan breaks a rule: verification says
    which."""
    compile = options.compiler or graphc.compile

    def compiled(graph: Graph, *arguments: Any, **keywords: Any) -> Any:
        try:
            return compile(graph, *arguments, **keywords)
        except VerifyError:
            return _Uncompiled(graph)

    return replace(options, compiler=compiled)


@record
class _Uncompiled:
    """A graph in place of its executable, computed by NumPy; `open_graph` is what it was with its
    `sizes` open."""

    graph: Graph
    open_graph: Graph | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)

    @property
    def example(self) -> Mapping[str, int]:
        """The sizes that it is best for: its own."""
        return self.sizes

    def at(self, **sizes: int) -> _Uncompiled:
        """The graph at certain sizes."""
        return _Uncompiled(at_sizes(self.graph, sizes), self.graph, sizes)

    def __call__(self, *arrays: Any) -> tuple[Any, ...]:
        return run(self.graph, *arrays)

    def run(self, arrays: Sequence[Any]) -> tuple[Any, ...]:
        return run(self.graph, *arrays)


def _copies(arrays: Sequence[Any]) -> tuple[Any, ...]:
    return tuple(np.array(array) for array in arrays)


def _pair(
    function: Any, arrays: Sequence[Any], how: CallOptions, eager: _EagerRun
) -> list[TracedCall]:
    """A forward call, and the backward call behind it on gradients of ones."""
    traced = function.traced
    if not (STATE.grad_enabled and traced.active and any(traced.wanted)):
        return [_call(function.plain, _copies(arrays), how, eager.outputs)]
    pair = function.pair
    before = _copies(arrays)
    count = len(traced.outputs) + len(traced.updates)
    values = pair.forward(*_copies(arrays))
    kept = [before[i] for i in pair.split.saved_inputs]
    ones = [np.ones(t.shape, t.dtype.numpy) for t in pair.results]
    backward = _copies([*kept, *values[count:], *ones])
    return [
        _call(pair.split.forward(function.sizes), before, how, eager.outputs),
        _call(pair.split.backward(function.sizes), backward, how),
    ]


class _EagerRun:
    """Runs a traced function eagerly and finds the outputs of its graph in what is left behind."""

    def __init__(
        self, function: Any, leaves: Sequence[Tensor], structure: Any, trace: Trace,
        specialization: Specialization, optimizers: OptimizerStates,
    ):  # fmt: skip
        self.function = function
        self.leaves = list(leaves)
        self.structure = structure
        self.inputs, self.results = specialization.program.inputs, specialization.program.results
        self.captured = [each.tensor for each in trace.session.captured.values()]
        assigned = trace.session.assigned
        self.places = [each.place for each in (*assigned.of_open, *assigned.of_fixed)]
        self.optimizers = optimizers
        differentiable = specialization.function
        if differentiable is None:
            self.first_update = self.results.first_update
            self.count = len(specialization.types)
        else:
            self.first_update = len(differentiable.traced.outputs)
            self.count = self.first_update + len(differentiable.traced.updates)

    def outputs(self, backend: str) -> list[Any]:
        """The graph's outputs by this eager backend, None for those that are not known."""
        kept = _tensors_kept([*self.captured, *self.leaves])
        with self.optimizers, kept, _places_kept(self.places), _by(backend):
            arguments, keywords = tree.build(self.structure, iter(self.leaves))
            returned: list[Tensor] = []
            tree.flatten(self.function(*arguments, **keywords), returned)
            return self._found(returned)

    def _found(self, returned: Sequence[Tensor]) -> list[Any]:
        values: list[Any] = [None] * self.count
        for tensor, (position, source) in zip(returned, self.results.returned):
            if source is None:
                values[position] = _value(tensor)
        for i, position in enumerate(self.results.updated):
            changed = self.inputs.sources[position].tensor(self.leaves)
            values[self.first_update + i] = _value(changed)
        for target, place, _ in self.results.grads:
            owner: Any = target if isinstance(target, Tensor) else target.tensor(self.leaves)
            if place is not None and 0 <= place < self.count and owner._grad is not None:
                values[place] = _value(owner._grad)
        return values


def _value(tensor: Any) -> Any:
    return np.array(tensor._array("an eager run"))


@contextlib.contextmanager
def _by(backend: str) -> Iterator[None]:
    before = get_eager_backend()
    set_eager_backend(backend)
    try:
        yield
    finally:
        set_eager_backend(before)


@contextlib.contextmanager
def _places_kept(places: Sequence[PlaceSource]) -> Iterator[None]:
    """What stands at these is put back at the end."""
    before = [place.now() for place in places]
    try:
        yield
    finally:
        for place, value in zip(places, before):
            place.put(value)


@contextlib.contextmanager
def _tensors_kept(tensors: Sequence[Tensor]) -> Iterator[None]:
    """What these tensors and their gradients hold is put back at the end."""
    grads = [tensor._grad for tensor in tensors if isinstance(tensor._grad, Tensor)]
    kept: list[tuple[Any, dict[str, Any], Any]] = [
        (t, dict(t._instance_state), np.array(t._value)) for t in [*tensors, *grads]
    ]
    counters = [(t._counter, t._counter[0]) for t in [*tensors, *grads]]
    try:
        yield
    finally:
        for tensor, state, content in kept:
            tensor._instance_state.clear()
            tensor._instance_state.update(state)
            if tensor._value.flags.writeable:
                tensor._value[...] = content
        for counter, before in counters:
            put_back_count(counter, before)


class OptimizerStates:
    """The states of all optimizers that make a step inside: those from before are put back at the
    end, and when it is entered again, those from inside. A first step makes tensors of state, and
    the trace refers to these."""

    def __init__(self) -> None:
        self._met: dict[int, Any] = {}
        self._outside: dict[int, Any] = {}
        self._inside: dict[int, Any] = {}
        self._is_kept = False
        self._handle: Any = None

    def __enter__(self) -> None:
        for identity, optimizer in self._met.items():
            self._outside[identity] = _state_of(optimizer)
            _put_back(optimizer, self._inside[identity])
        # Optimizers stand in a layer above; where nothing has imported them there are none.
        optimizers = sys.modules.get("frontend.optim.optimizer")
        if optimizers is not None:
            self._handle = optimizers.register_optimizer_step_pre_hook(self._meet)

    def __exit__(self, *error: Any) -> None:
        if self._handle is not None:
            self._handle.remove()
        if not self._is_kept:
            self.keep()
        self._is_kept = False
        for identity, optimizer in self._met.items():
            _put_back(optimizer, self._outside[identity])

    def keep(self) -> None:
        """The states inside are those of now: ahead of what takes them away before the end."""
        self._is_kept = True
        self._inside = {each: _state_of(optimizer) for each, optimizer in self._met.items()}

    def _meet(self, optimizer: Any, arguments: Any, keywords: Any) -> None:
        if id(optimizer) not in self._met:
            self._met[id(optimizer)] = optimizer
            self._outside[id(optimizer)] = _state_of(optimizer)


def _state_of(optimizer: Any) -> tuple[dict[Any, dict[str, Any]], bool]:
    """Which entries an optimizer has for each parameter, and whether it has made a step."""
    states = {parameter: dict(entries) for parameter, entries in optimizer.state.items()}
    return states, optimizer._opt_called


def _put_back(optimizer: Any, before: tuple[dict[Any, dict[str, Any]], bool]) -> None:
    states, optimizer._opt_called = before
    state = optimizer.state
    for parameter in [p for p in state if p not in states]:
        del state[parameter]
    for parameter, entries in states.items():
        now = state[parameter]
        for name in [name for name in now if name not in entries]:
            del now[name]
        now.update(entries)
