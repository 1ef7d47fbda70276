"""A trace under way: what ops on tensors become while a function runs once to be recorded.

Tensors that exist before the trace, arguments or not, are *captured* when the function meets them:
they get a state of their own for as long as the trace lasts, however it ends. One whose value is
read becomes an input of the graph; one changed in place, an output aliased to that input. Gradients
left in `.grad` become outputs. In a trace `_value` of a tensor is a graph variable, and the tape
runs on those, so `backward()` inside the function just adds its ops to the graph.

A tensor's state is its instance's dict. The one it has outside is laid aside whole, never written,
and laid back by one assignment, so that doing that twice is doing it once: `with leaving(session),
session:` loses nothing to an interrupt, at whatever line it comes.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Any

import numpy as np

from frontend.engine.eager.complex_forms import on_pairs, without_form
from frontend.engine.outside.check import is_plain, same
from frontend.engine.outside.containers import can_be_put_back, refill
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import (
    ArgumentSource,
    CapturedSource,
    GradSource,
    HostSource,
    InputSource,
    LookupSource,
    MemorySource,
)
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.tensors.epoch import TRACE_LOCK
from frontend.engine.tensors.hooks import RemovableHandle
from frontend.engine.tensors.memory_tracking import place_in_memory, whole_array
from frontend.engine.tensors.no_value import escaped, not_of_trace
from frontend.engine.tensors.pairs import from_pairs, stored_type
from frontend.engine.tensors.state import STATE, recording, swap_mode
from frontend.engine.tensors.symbolic_numbers import extents_in
from frontend.engine.tensors.tensor import Tensor, make
from frontend.engine.tensors.views import TensorMode, View
from frontend.engine.tracing.assertions import Assertions
from frontend.engine.tracing.assigned import AssignedPlaces
from frontend.engine.tracing.attributes import AssignedAttributes, refused_attribute
from frontend.engine.tracing.call_numbers import CallNumbers
from frontend.engine.tracing.captured import Captured, GraphInput, have_state
from frontend.engine.tracing.effects import TracedEffects
from frontend.engine.tracing.exchanges import Exchanges
from frontend.engine.tracing.guards.globals import CapturedGlobals
from frontend.engine.tracing.histories import Histories, refuse_sparse
from frontend.engine.tracing.hooks_inside import HooksInside
from frontend.engine.tracing.known_values import constant_pairs, guarded_value, known_value
from frontend.engine.tracing.layouts import Layouts
from frontend.engine.tracing.mutations import Mutations
from frontend.engine.tracing.naming import Names
from frontend.engine.tracing.regions import Builder, TracedRegion
from frontend.engine.tracing.scope import Scope
from frontend.engine.tracing.undoing import BeforeTrace
from frontend.engine.tracing.watched_hooks import refused_in_backward, run_watched
from graphc.errors import GraphError, TraceError, note_errors
from graphc.ir.builder import Var, user_location
from graphc.ir.nodes import BACKWARD
from graphc.ir.own_frames import may_be_caught
from graphc.ir.registry import lookup
from graphc.ir.size_floats import is_open, text_of
from graphc.ir.size_guards import SizeAnswers
from graphc.ir.types import DType, TensorType
from graphc.ir.undecided import answer_with
from graphc.ops.elementwise import cast
from graphc.ops.movement import reshape


class Session(Mutations):
    """The trace of one function: the `Mode` that records a graph. A context manager, inside of
    `leaving(session)`; entering again resumes it."""

    records = True

    def __init__(
        self, name: str, target: Any = None, sizes: SizedArguments | None = None,
        effects: TracedEffects | None = None, assigns: bool = False,
    ):  # fmt: skip
        self.scope = Scope(target)
        self.root = Builder(name, self.scope)
        self.builder = self.root  # where ops go: the root's, or that of a region under way
        self.regions: list[TracedRegion] = []
        self._further = 0
        self.numbers = CallNumbers(sizes)
        self.places = self.numbers.places
        self.effects = effects  # None: they happen at the trace
        self.inputs: list[GraphInput] = []
        self.captured: dict[int, Captured] = {}
        self.captured_globals = CapturedGlobals(self)
        self.layouts = Layouts(self._array_outside)
        self.guards: list[Guard] = []  # beside those of `captured_globals`
        self._guarded: dict[Any, Guard] = {}
        self.attributes = AssignedAttributes()
        self.assigned = AssignedPlaces(self, self.captured_globals, assigns)
        self.hooks = HooksInside()
        self.histories = Histories(self)
        self.grad_guards: list[tuple[Tensor, bool]] = []
        self.asked: dict[int, Tensor] = {}  # whose flags were read
        self.taps: list[tuple[Tensor, Callable[..., Any]]] = []
        self.assertions = Assertions()
        self.exchanges = Exchanges(self)
        self.backward_called = False
        self.backwards: list[tuple[int, int]] = []  # the nodes of each, by number
        self._filled: dict[Any, Var] = {}
        self._hosts: dict[Any, Tensor] = {}
        self._grads: dict[int, Tensor] = {}  # id of a .grad tensor -> whose it is
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
            answers.stay_open = self.sizes.stay_open
            self.example, self.answers, self.prepared = example, answers, {}

    in_region = property(lambda self: bool(self.regions))
    open_sizes = property(lambda self: bool(self.example))

    def __enter__(self) -> Session:
        TRACE_LOCK.begin(self)
        self.inside = True
        mode: TensorMode = self
        swap_mode(mode)
        self.errors = []
        note_errors(self.errors)
        if self.answers is not None:
            answer_with(self.answers)
        for captured in self.captured.values():
            have_state(captured.tensor, captured.state_inside)
        self.places.enter()
        if self.effects is not None:
            self.effects.enter()
        return self

    def __exit__(self, *error: Any) -> None:
        self.leave()

    def leave(self) -> None:
        """Give all tensors the state they have outside. What was done is not done again."""
        if self.inside:  # an interrupt may come where the session is suspended
            self._lay_back()
            if self.answers is not None:
                answer_with(None)
            note_errors(None)
            swap_mode(None)
            self.inside = False
        TRACE_LOCK.end()

    def forget(self) -> None:
        """What was noted for a part of the trace that is over is not needed any more."""
        self.errors, self.outermost = [], None
        if self.answers is not None:
            self.answers.told_apart = []

    def _lay_back(self) -> None:
        if self.effects is not None:
            self.effects.leave()
        self.assigned.restore()
        self.places.leave()
        self.attributes.restore()
        self.hooks.remove()
        for captured in self.captured.values():
            have_state(captured.tensor, captured.state_outside)

    def abandon(self) -> None:
        """The thread of this trace is not there any more: in a forked child. All is as where a
        trace fails; what belongs to that thread has gone with it."""
        if self.inside:
            self._lay_back()
        self.put_back()

    # -- inputs ------------------------------------------------------------------------------

    def argument(self, name: str, tensor: Tensor, position: int) -> None:
        """Make `tensor` an input of the graph, bound to argument `position` of each call."""
        if id(tensor) not in self.captured or self.captured[id(tensor)].input is None:
            if self.sizes is not None and self.sizes.types[position].is_symbolic:
                self.capture(tensor)
                tensor.tensor_type = self.sizes.types[position]
            self._make_input(tensor, name, ArgumentSource(position))

    def capture(self, tensor: Any) -> bool:
        return self.captured_state(tensor) is not None

    def captured_state(self, tensor: Any) -> Captured | None:
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

    def _make_input(self, tensor: Tensor, name: str, source: InputSource) -> Var:
        captured = self.captured_state(tensor)
        if captured is None:
            raise not_of_trace(tensor)
        captured.input = self.add_input(name, source, tensor)
        tensor._value = captured.input.var
        return captured.input.var

    def add_input(self, name: str, source: InputSource, tensor: Tensor) -> GraphInput:
        # Names are given when all is known: optimizer state may appear during the trace.
        var = self.root.input(f"input{len(self.inputs)}", stored_type(tensor.tensor_type))
        graph_input = GraphInput(name, tensor.tensor_type, source, tensor, var)
        self.inputs.append(graph_input)
        return graph_input

    def _capture_input(self, tensor: Tensor) -> Var:
        owner = self._grads.get(id(tensor))
        if owner is None:
            return self._make_input(tensor, "", CapturedSource(tensor))
        return self._make_input(tensor, "", GradSource(owner, self.source_of(owner)))

    def source_of(self, tensor: Tensor) -> InputSource:
        """Where a tensor from outside comes from at each call."""
        captured = self.captured.get(id(tensor))
        graph_input = None if captured is None else captured.input
        return CapturedSource(tensor) if graph_input is None else graph_input.source

    def read_flag(self, tensor: Any) -> None:
        # One from outside is guarded.
        if isinstance(tensor._value, np.ndarray):
            self.asked[id(tensor)] = tensor

    def name_inputs(self, target: Any) -> None:
        """Name the inputs: arguments by parameter, captured tensors by where they are found."""
        names = Names(target)
        for graph_input in sorted(self.inputs, key=lambda graph_input: not graph_input.name):
            if isinstance(graph_input.source, GradSource):
                graph_input.name = names.of(graph_input.source.of) + ".grad"
            elif isinstance(graph_input.source, CapturedSource):
                graph_input.name = names.of(graph_input.tensor)
            graph_input.name = names.unique(graph_input.name)

    def number(self, mapping: Any, key: Any, index: int | None, dtype: DType) -> Tensor:
        tensor = self._hosts.get((id(mapping), key, index))
        if tensor is None:
            tensor = make(None, TensorType(dtype, ()))
            name = str(key) if index is None else f"{key}_{index}"
            source = HostSource(LookupSource(mapping.__getitem__, key, name), index, dtype)
            tensor._value = self.add_input(name, source, tensor).var
            self._hosts[(id(mapping), key, index)] = tensor
        return tensor

    def traced_input(self, type: TensorType) -> Tensor:
        """A further input that belongs to nothing outside: a cotangent."""
        self._further += 1
        return make(self.builder.input(f"further{self._further}", stored_type(type)), type)

    def view(self, result: Tensor, parent: Tensor) -> bool:
        shape = result._sizes
        is_view = self.layouts.allows_view(parent, shape, may_be_caught(self.outermost))
        if is_view and result._view is None:
            shown = View(parent, reshape, {"shape": shape}, parent._counter[0], True)
            self.show(result, shown)
        return is_view

    def memory_order(self, tensor: Tensor) -> list[int] | None:
        return self.layouts.memory_order(tensor)

    def memory(self, tensor: Tensor, whole: bool) -> tuple[Tensor, int]:
        if not whole:
            return tensor, self.layouts.offset(tensor)
        array = self.layouts.array_of(tensor)
        place = None if array is None else place_in_memory(array)
        if array is None or place is None or place[0] == array.size or tensor.requires_grad:
            if array is not None and whole_array(array).size > array.size:
                raise TraceError(
                    f"as_strided() asks for memory beside the {tensor.tensor_type} that the "
                    "compiled function was given, and gradients would come to it",
                    hint="hand in the tensor of which that one is a part",
                    location=user_location(),
                )
            return tensor, 0
        # Elements beside the tensor's are read, as an input of their own: `compiled.overlap`
        # refuses that both are inputs where the tensor is changed in place.
        self.value(tensor)  # it is an input itself, before what lies around it
        source = self.source_of(tensor)
        for known in self.inputs:
            if isinstance(known.source, MemorySource) and known.source.source is source:
                return known.tensor, place[1]
        around = make(None, TensorType(tensor.dtype, place[:1]))
        around._value = self.add_input("memory", MemorySource(source, place), around).var
        return around, place[1]

    # -- values ------------------------------------------------------------------------------

    def value(self, tensor: Tensor) -> Var:
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
        if self.regions and tensor.tensor_type.dtype.is_complex:
            raise without_form("a loop or branch")
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
            with recording(None if region.derived else False), self.assigned.unchanged():
                yield region
        finally:
            region.changed_tensors = region.restore()
            self.builder, self._filled = outer, filled
            self.regions.pop()

    def emit(
        self, op: Any, operands: tuple[Tensor, ...], attributes: dict[str, Any],
        types: tuple[TensorType, ...], view: bool = False,
    ) -> tuple[Tensor, ...]:  # fmt: skip
        taken = tuple([self.value(x) for x in operands])
        kinds = tuple([x.tensor_type for x in operands])
        if any([type.dtype.is_complex for type in (*kinds, *types)]):
            values = on_pairs(op, taken, kinds, attributes)
        else:
            values = self.builder.record(op, taken, attributes, types)
        if self.regions and STATE.grad_enabled is False:
            values = tuple([self._stopped(value) for value in values])
        results = tuple([make(value, type) for value, type in zip(values, types)])
        if self.watched is not None:
            self.watched += map(weakref.ref, results)
        if view:
            self.show_movement(results[0], operands[0], op, attributes)
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

    def known(
        self, tensor: Tensor, what: str = "a trace", guarded: bool = False
    ) -> np.ndarray | None:
        if isinstance(tensor._value, Var) and not self.holds(tensor._value):
            raise escaped(what)
        if guarded and not self.regions:
            array = guarded_value(self, self.root, self.inputs, self.value(tensor))
        elif isinstance(tensor._value, Var):
            array = known_value(
                self.builder, None if self.regions else self.root, self.value(tensor)
            )
        else:
            return None
        if array is None or not tensor.tensor_type.dtype.is_complex:
            return array
        return from_pairs(array)

    def constant(self, value: Any, type: TensorType) -> Tensor:
        if type.dtype.is_complex and is_open(extents_in(value)):
            real = self.constant(value, type.with_dtype(type.dtype.computes_as))
            kinds, attributes = (real.tensor_type,), {"dtype": type.dtype}
            return make(on_pairs(cast, (real._value,), kinds, attributes)[0], type)
        if type.dtype.is_complex:
            return make(constant_pairs(self.builder, value, type), type)
        if isinstance(value, np.ndarray):
            return make(self.builder.constant(value), type)
        # A number is a 0-d constant and a broadcast.
        number = extents_in(value)
        key = (type, text_of(number))
        var = self._filled.get(key)
        if var is None:
            if is_open(number):
                var = self.numbers.value(self, number, type.dtype)
            else:
                with np.errstate(all="ignore"):  # beyond a half type's range it is infinite
                    array = np.asarray(number).astype(type.dtype.numpy)
                var = self.builder.constant(array)
            if type.shape:
                var = self.builder.apply(lookup("broadcast"), (var,), {"shape": type.shape})[0]
            self._filled[key] = var
        return make(var, type)

    # -- gradients ---------------------------------------------------------------------------

    def read_grad(self, tensor: Any) -> Any:
        # One from before the trace becomes an input, its being None a guard.
        self.histories.touch(tensor)
        captured = self.captured_state(tensor)
        grad = tensor._grad
        known = captured is None or captured.grad_was_read or captured.grad_was_written
        if captured is not None and not known:
            captured.grad_was_read = True
            self.grad_guards.append((tensor, grad is None))
            if grad is not None:
                self._take_grad(tensor, grad)
        return grad

    def _take_grad(self, tensor: Tensor, grad: Tensor) -> None:
        refuse_sparse(grad)
        captured = self.captured.get(id(grad))
        if id(grad) in self._grads or (captured is not None and captured.input is not None):
            raise TraceError(
                "the .grad of a tensor is also an argument, or the .grad of another tensor",
                hint="give each a tensor of its own: clone() it",
                location=user_location(),
            )
        self._grads[id(grad)] = tensor

    def write_grad(self, tensor: Any) -> None:
        self.refuse_in_region("writing .grad")
        self.histories.touch(tensor)
        captured = self.captured_state(tensor)
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

    def history(self, tensor: Any, needed: bool = False) -> Any:
        if needed:
            self.histories.refuse(tensor)
        return self.histories.of(tensor)

    @contextmanager
    def backward(self, accumulates: bool) -> Iterator[Histories]:
        self.backward_called |= accumulates
        start = self.root.size
        try:
            with self.scope.inside("", BACKWARD):
                yield self.histories
        finally:
            self.backwards.append((start, self.root.size))

    # -- Modules, optimizers, hooks ----------------------------------------------------------

    def module(self, module: Any) -> AbstractContextManager[None]:
        self.follow(module)
        return self.scope.of_module(module)

    def update(self) -> AbstractContextManager[None]:
        return self.scope.of_update()

    def begin_parameter(self, parameter: Any) -> None:
        self.scope.comes_to(parameter)

    def follow(self, value: Any) -> None:
        if not hasattr(type(value), "named_modules"):
            self.captured_globals.value(value, frozenset(), "a hook")
            return
        # Those below too: a forward may read them without calling them, as a ModuleList.
        for _, module in value.named_modules():
            self.captured_globals.module(module)

    def register_hook(self, handle: RemovableHandle, hook: Any) -> None:
        # One registered while tracing is of the trace, and has to be removed before that ends.
        self.hooks.registered(handle, hook)
        self.refuse_in_region("registering a hook")

    def holding_tensors(self) -> list[Any]:
        """What of the trace holds tensors."""
        return [
            self.captured, self.inputs, self.grad_guards, self._grads, self._hosts,
            *self.attributes.places,
        ]  # fmt: skip

    def run_hook(self, hook: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self.hooks.made_inside(hook):
            return hook(*args)
        self.follow(hook)
        return run_watched(self, hook, args)

    # -- what comes from outside, and goes there ---------------------------------------------

    def guard(self, key: Any, make: Callable[[], Guard], kept: Sequence[Any] = ()) -> Guard:
        guard = self._guarded.get(key)
        if guard is None:
            guard = self._guarded[key] = make()
            self.guards.append(guard)
            self.kept += [(holder, self.places.contents(holder)) for holder in kept]
        return guard

    def write_attribute(self, owner: Any, name: str, value: Any, is_state: bool) -> None:
        known = owner.__dict__.get(name)
        if (known is value and name in owner.__dict__) or (is_plain(value) and same(known, value)):
            return
        if self.ended:
            raise refused_in_backward(f"assigning {type(owner).__name__}.{name}")
        if is_state:
            self.refuse_in_region(f"assigning {type(owner).__name__}.{name}")
        if self.attributes.takes(owner, name, value, is_state):
            return
        if not self.assigned.takes(owner, name, value):
            raise refused_attribute(owner, name, value)

    def tap(self, tensor: Tensor, fn: Callable[[Tensor], Any]) -> None:
        if self.ended:
            raise refused_in_backward("tap()")
        self.refuse_in_region("tap()")
        self.taps.append((make(self.value(tensor), tensor.tensor_type), fn))

    def hand_out(self, tensor: Tensor, conversion: str) -> Any:
        """What stands for a value that a call hands out; of a bool, what an `assert` needs."""
        if self.regions or self.ended or self.known(tensor, "a trace") is not None:
            return None
        if conversion == "bool":
            return self.assertions.needs(tensor, self.outermost)
        if self.effects is None or self.captured_globals.takes_types:
            return None
        return self.effects.hand_out(make(self.value(tensor), tensor.tensor_type), conversion)

    # -- after the trace ---------------------------------------------------------------------

    def settle(self) -> None:
        """After a trace: no longer look at what the trace itself only added to."""
        reached = self._reached()
        self.captured_globals.settle()
        self.kept += reached

    def put_back(self, before: BeforeTrace | None = None) -> bool:
        """The call failed: what Python changed is as it was. Whether there was anything."""
        changed = self.captured_globals.put_back(before)
        return refill([*self._reached(), *self.kept]) or changed

    def undoing(self) -> Callable[[], bool]:
        """What is called in place of `put_back` from now on: who has it keeps what stood there."""
        return partial(self.put_back, self.captured_globals.take_before())

    def _reached(self) -> list[tuple[Any, list[Any]]]:
        """The containers that the function reaches, and what they held ahead of the trace."""
        looked_at = self.captured_globals.containers
        return [(each.holder, each.before()) for each in looked_at if can_be_put_back(each.holder)]


def trace_under_way(what: str) -> Session:
    """The trace that the mode under way is. Raises TraceError for another mode, in which there is
    no graph that `what` could be in."""
    mode = STATE.mode
    if not isinstance(mode, Session):
        raise TraceError(f"{what} outside of a trace", location=user_location())
    return mode
