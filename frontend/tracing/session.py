"""A trace under way: what ops on tensors become while a function runs once to be recorded.

Tensors that exist before the trace, arguments or not, are *captured* when the function meets them:
they get a state of their own for as long as the trace lasts, however it ends. One whose value is
read becomes an input of the graph; one changed in place, an output aliased to that input. Gradients
left in `.grad` become outputs. In a trace `_value` of a tensor is a graph variable, and the tape
runs on those, so `backward()` inside the function just adds its ops to the graph.

A tensor's state is its `__dict__`. The one it has outside is laid aside whole, never written, and
laid back by one assignment, so that doing that twice is doing it once: `with leaving(session),
session:` loses nothing to an interrupt, at whatever line it comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any

import numpy as np

from frontend.tensors.epoch import TRACE_LOCK
from frontend.tensors.no_value import escaped, not_of_trace
from frontend.tensors.sizes import extents_in
from frontend.tensors.state import STATE, recording, swap_session
from frontend.tensors.tensor import Tensor, make
from frontend.tracing.attributes import AssignedAttributes
from frontend.tracing.call_numbers import CallNumbers
from frontend.tracing.captured import Captured, GraphInput, guarded_value, have_state
from frontend.tracing.containers import can_be_put_back, contents
from frontend.tracing.containers import put_back as put_back_contents
from frontend.tracing.guards.globals import CapturedGlobals
from frontend.tracing.guards.items import Items
from frontend.tracing.histories import Histories
from frontend.tracing.hooks_inside import HooksInside
from frontend.tracing.layouts import Layouts
from frontend.tracing.mutations import Mutations
from frontend.tracing.naming import Names
from frontend.tracing.regions import Builder, TracedRegion
from frontend.tracing.scope import Scope
from frontend.tracing.sizes import SizedArguments
from frontend.tracing.sources import ArgumentSource, CapturedSource, GradSource, HostSource, Source
from graphc.errors import GraphError, TraceError, note_errors
from graphc.ir.builder import Var, user_location
from graphc.ir.nodes import BACKWARD, Location
from graphc.ir.registry import lookup
from graphc.ir.size_floats import is_open, text_of
from graphc.ir.size_guards import SizeAnswers
from graphc.ir.types import DType, TensorType
from graphc.ir.undecided import answer_with


class Session(Mutations):
    """The trace of one function. Use as a context manager, inside of `leaving(session)`; entering
    again resumes it."""

    def __init__(self, name: str, target: Any = None, sizes: SizedArguments | None = None):
        self.scope = Scope(target)
        self.root = Builder(name, self.scope)
        self.builder = self.root  # where ops go: the root's, or that of a region under way
        self.regions: list[TracedRegion] = []
        self._further = 0
        self.numbers = CallNumbers(sizes)
        self.inputs: list[GraphInput] = []
        self.captured: dict[int, Captured] = {}
        self.captured_globals = CapturedGlobals(self)
        self.layouts = Layouts(self._array_outside)
        self.guards: list[Any] = [self.captured_globals]
        self.attributes = AssignedAttributes()
        self.hooks = HooksInside()
        self.histories = Histories(self)
        self.grad_guards: list[tuple[Tensor, bool]] = []
        self.asked: dict[int, Tensor] = {}  # whose flags were read
        self.taps: list[tuple[Tensor, Callable[..., Any]]] = []
        self.backward_called = False
        self.backwards: list[tuple[int, int]] = []  # the nodes of each, by number
        self._filled: dict[Any, Var] = {}
        self._hosts: dict[Any, Tensor] = {}
        self._grads: dict[int, Tensor] = {}  # id of a .grad tensor -> whose it is
        self._guarded: set[int] = set()
        self.inside = False  # tensors have the state of the trace
        self.ended = False  # a trace that has ended is resumed to derive its backward
        self.kept: list[tuple[Any, list[Any]]] = []  # containers, and what they held
        self.sizes = sizes
        self.example: Mapping[str, Any] | None = None
        self.answers: SizeAnswers | None = None
        self.prepared: dict[Any, Any] | None = None
        self.answer_by({} if sizes is None else sizes.example)
        self.errors: list[GraphError] = []  # that were made meanwhile
        self.outermost: FrameType | None = None  # the frame that runs what is traced
        self.watched: list[Any] | None = None  # weak references to what is made while a hook runs

    # -- entering and leaving ----------------------------------------------------------------

    def answer_by(self, example: Mapping[str, Any]) -> None:
        """From the next entering on these sizes answer what is asked of sizes left open: `answers`
        are then new ones."""
        if self.sizes is not None:
            answers = SizeAnswers(example, user_location, is_trace=True)
            self.example, self.answers, self.prepared = example, answers, {}

    def __enter__(self) -> Session:
        TRACE_LOCK.begin()
        self.inside = True
        swap_session(self)
        self.errors = []
        note_errors(self.errors)
        if self.answers is not None:
            answer_with(self.answers)
        for captured in self.captured.values():
            have_state(captured.tensor, captured.state_inside)
        self.numbers.places.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.leave()

    def leave(self) -> None:
        """Give all tensors the state they have outside. What was done is not done again."""
        if self.inside:  # an interrupt may come where the session is suspended
            self.numbers.places.leave()
            self.attributes.restore()
            self.hooks.remove()
            for captured in self.captured.values():
                have_state(captured.tensor, captured.state_outside)
            if self.answers is not None:
                answer_with(None)
            note_errors(None)
            swap_session(None)
            self.inside = False
        TRACE_LOCK.end()

    def forget(self) -> None:
        """What was noted for a part of the trace that is over is not needed any more."""
        self.errors, self.outermost = [], None
        if self.answers is not None:
            self.answers.told_apart = []

    # -- inputs ------------------------------------------------------------------------------

    def argument(self, name: str, tensor: Tensor, position: int) -> None:
        """Make `tensor` an input of the graph, bound to argument `position` of each call."""
        if id(tensor) not in self.captured or self.captured[id(tensor)].input is None:
            if self.sizes is not None and self.sizes.types[position].is_symbolic:
                self.capture(tensor)
                tensor.tensor_type = self.sizes.types[position]
            self._make_input(tensor, name, ArgumentSource(position))

    def capture(self, tensor: Any) -> Captured | None:
        """Keep the state of a tensor from before the trace: the captured tensor; None for one made
        inside it."""
        captured = self.captured.get(id(tensor))
        if captured is None and isinstance(tensor._value, np.ndarray):
            captured = self.captured[id(tensor)] = Captured(tensor)
            have_state(tensor, captured.state_inside)
        return captured

    def _array_outside(self, tensor: Any) -> np.ndarray | None:
        """The array of a tensor from outside, None for one made inside."""
        captured = self.captured.get(id(tensor))
        value = tensor._value if captured is None else captured.state_outside["_value"]
        return value if isinstance(value, np.ndarray) else None

    def _make_input(self, tensor: Tensor, name: str, source: Source) -> Var:
        captured = self.capture(tensor)
        if captured is None:
            raise not_of_trace(tensor)
        captured.input = self.add_input(name, source, tensor)
        tensor._value = captured.input.var
        return captured.input.var

    def add_input(self, name: str, source: Source, tensor: Tensor) -> GraphInput:
        # Names are given when all is known: optimizer state may appear during the trace.
        var = self.root.input(f"input{len(self.inputs)}", tensor.tensor_type)
        graph_input = GraphInput(name, tensor.tensor_type, source, tensor, var)
        self.inputs.append(graph_input)
        return graph_input

    def _capture_input(self, tensor: Tensor) -> Var:
        owner = self._grads.get(id(tensor))
        if owner is None:
            return self._make_input(tensor, "", CapturedSource(tensor))
        return self._make_input(tensor, "", GradSource(owner, self.source_of(owner)))

    def source_of(self, tensor: Tensor) -> Source:
        """Where a tensor from outside comes from at each call."""
        captured = self.captured.get(id(tensor))
        graph_input = None if captured is None else captured.input
        return CapturedSource(tensor) if graph_input is None else graph_input.source

    def read_flag(self, tensor: Any) -> None:
        """Whether a tensor requires gradients is asked: one from outside is guarded."""
        if isinstance(tensor._value, np.ndarray):
            self.asked[id(tensor)] = tensor

    def name_inputs(self, target: Any) -> None:
        """Name the inputs: arguments by parameter, captured tensors by where they are found."""
        names = Names(target)
        for graph_input in sorted(self.inputs, key=lambda graph_input: not graph_input.name):
            if isinstance(graph_input.source, GradSource):
                graph_input.name = names.of(graph_input.source.owner) + ".grad"
            elif isinstance(graph_input.source, CapturedSource):
                graph_input.name = names.of(graph_input.tensor)
            graph_input.name = names.unique(graph_input.name)

    def host(self, mapping: Any, key: Any, index: int | None, dtype: DType) -> Tensor:
        """A 0-d input read from `mapping[key]` (or `mapping[key][index]`) at every call."""
        tensor = self._hosts.get((id(mapping), key, index))
        if tensor is None:
            tensor = make(None, TensorType(dtype, ()))
            name = str(key) if index is None else f"{key}_{index}"
            source = HostSource(mapping, key, index, dtype)
            tensor._value = self.add_input(name, source, tensor).var
            self._hosts[(id(mapping), key, index)] = tensor
        return tensor

    def traced_input(self, type: TensorType) -> Tensor:
        """A further input that belongs to nothing outside: a cotangent."""
        self._further += 1
        return make(self.builder.input(f"further{self._further}", type), type)

    # -- values ------------------------------------------------------------------------------

    def value_of(self, tensor: Tensor) -> Var:
        """The graph variable of a tensor. Raises TraceError for one of another trace."""
        value = tensor._value
        if type(value) is Var:
            view = tensor._view
            if view is not None and view.seen != tensor._counter[0]:
                self._refresh(tensor, view)
                value = tensor._value
            if value.context is self.builder:
                return value
            if not self.holds(value):
                raise escaped("a trace")
        else:
            value = self._capture_input(tensor)
        return self.regions[-1].input_of(tensor) if self.regions else value

    def holds(self, value: Var) -> bool:
        """Whether a variable is of this trace: of its graph, or of a region under way."""
        context = value.context
        return context is self.root or any(context is r.builder for r in self.regions)

    @contextmanager
    def region(self, name: str) -> Iterator[TracedRegion]:
        """Ops inside go to a graph of its own, unrecorded: the loop or branch is recorded whole."""
        region = TracedRegion(name, self.scope)
        outer, filled = self.builder, self._filled
        region.derived = STATE.grad_enabled is not False
        self.regions.append(region)
        self.builder, self._filled = region.builder, {}
        try:
            with recording(None if region.derived else False):
                yield region
        finally:
            region.changed_tensors = region.restore()
            self.builder, self._filled = outer, filled
            self.regions.pop()

    def emit(
        self, op: Any, operands: tuple[Any, ...], attributes: dict[str, Any], types: Any
    ) -> Any:
        """The variables of an op's results, of these types; the attributes are canonical."""
        values = tuple([self.value_of(x) for x in operands])
        results = self.builder.record(op, values, attributes, types)
        if self.regions and STATE.grad_enabled is False:
            return [self._stopped(value) for value in results]
        return results

    def _derives(self, value: Var) -> bool:
        """Whether the region under way, if there is one, is differentiated by such a value."""
        return bool(self.regions) and self.regions[-1].derived and value.type.dtype.is_float

    def _stopped(self, value: Var) -> Var:
        """The value, without gradient where the region under way is differentiated. (Outside of
        regions the tape says where gradients go.)"""
        if not self._derives(value):
            return value
        return self.builder.apply(lookup("stop_gradient"), (value,), {})[0]

    def constant_value(self, array: np.ndarray) -> Var:
        return self.builder.constant(array)

    def known_value(self, tensor: Tensor) -> np.ndarray | None:
        """The value of a tensor that depends on nothing from outside; None for any other."""
        if self.regions or not isinstance(tensor._value, Var):
            return None
        return self.root.known_value(self.value_of(tensor))

    def guarded_value(self, tensor: Tensor) -> np.ndarray | None:
        """The value of a tensor that depends on nothing from outside but captured tensors of bools
        and integers, of at most 64 KiB each, whose values are guarded from here on; None for any
        other."""
        return None if self.regions else guarded_value(self, self.value_of(tensor))

    def filled_value(self, number: Any, type: TensorType) -> Var:
        """`number` repeated to a shape: a 0-d constant and a broadcast."""
        number = extents_in(number)
        key = (type, text_of(number))
        var = self._filled.get(key)
        if var is None:
            if is_open(number):
                var = self.numbers.value(self, number, type.dtype)
            else:
                var = self.builder.constant(np.asarray(number).astype(type.dtype.numpy))
            if type.shape:
                var = self.builder.apply(lookup("broadcast"), (var,), {"shape": type.shape})[0]
            self._filled[key] = var
        return var

    def location_of(self, tensor: Tensor) -> Location | None:
        return tensor._value.context.node_of(tensor._value).location

    def backward_of(self, location: Location | None) -> AbstractContextManager[None]:
        """Nodes made inside are gradients of what stems from there."""
        return self.builder.at(location and location.within(BACKWARD))

    # -- gradients ---------------------------------------------------------------------------

    def read_grad(self, tensor: Any) -> Any:
        """`.grad`; one from before the trace becomes an input, its being None a guard."""
        self.histories.touch(tensor)
        captured = self.capture(tensor)
        grad = tensor._grad
        known = captured is None or captured.grad_was_read or captured.grad_was_written
        if captured is not None and not known:
            captured.grad_was_read = True
            self.grad_guards.append((tensor, grad is None))
            if grad is not None:
                self._take_grad(tensor, grad)
        return grad

    def _take_grad(self, tensor: Tensor, grad: Tensor) -> None:
        captured = self.captured.get(id(grad))
        if id(grad) in self._grads or (captured is not None and captured.input is not None):
            raise TraceError(
                "the .grad of a tensor is also an argument, or the .grad of another tensor",
                hint="give each a tensor of its own: clone() it",
                location=user_location(),
            )
        self._grads[id(grad)] = tensor

    def record_grad_write(self, tensor: Any) -> None:
        """`.grad` of a tensor is set: what it was before no longer matters."""
        self.refuse_in_region("writing .grad")
        self.histories.touch(tensor)
        captured = self.capture(tensor)
        if captured is not None:
            captured.grad_was_written = True

    def refuse_in_region(self, what: str) -> None:
        """Raise TraceError in the body of a loop or branch: it may run any number of times."""
        if self.regions:
            raise TraceError(
                f"{what} in the body of a traced loop or branch",
                hint="return the value from the body and do it outside",
                location=user_location(),
            )

    def begin_backward(self, accumulates: bool) -> int:
        """A backward starts: at which node."""
        self.backward_called |= accumulates
        self.scope.begin("", BACKWARD)
        return self.root.size

    def end_backward(self, start: int) -> None:
        self.scope.end()
        self.backwards.append((start, self.root.size))

    # -- guards ------------------------------------------------------------------------------

    def keep(self, containers: Iterable[Any]) -> None:
        """Should the trace, or its first call, fail, these containers hold again what they do."""
        self.kept += [(holder, contents(holder)) for holder in containers]

    def settle(self) -> None:
        """After a trace: no longer look at what the trace itself only added to."""
        reached = self._reached()
        self.captured_globals.settle()
        self.kept += reached

    def put_back(self) -> bool:
        """The call failed: containers hold what they held. Whether there were any others."""
        return put_back_contents([*self._reached(), *self.kept])

    def _reached(self) -> list[tuple[Any, list[Any]]]:
        """The containers that the function reaches, and what they held ahead of the trace."""
        looked_at = [each for each in self.captured_globals.items if isinstance(each, Items)]
        return [(each.holder, each.before()) for each in looked_at if can_be_put_back(each.holder)]

    def guard(self, key: Any, guard: Any) -> None:
        """Add a guard, once per key."""
        if key not in self._guarded:
            self._guarded.add(key)
            self.guards.append(guard)
