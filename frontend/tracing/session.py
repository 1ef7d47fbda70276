"""A trace under way: what ops on tensors become while a function runs once to be recorded.

Tensors that exist before the trace, arguments or not, are *captured* when the function meets them:
their state is kept aside and put back when the trace ends, however it ends. One whose value is read
becomes an input of the graph; one changed in place, an output aliased to that input. Gradients left
in `.grad` become outputs. While the trace lasts, `_value` of a tensor is a graph variable, and the
tape runs on those, so `backward()` inside the function just adds its ops to the graph.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import numpy as np

from frontend.tensors.epoch import TRACE_LOCK
from frontend.tensors.no_value import escaped
from frontend.tensors.state import STATE, recording, swap_session
from frontend.tensors.tensor import FROZEN, Tensor, make
from frontend.tensors.views import View, written_back
from frontend.tracing.attributes import AssignedAttributes
from frontend.tracing.guards.globals import CapturedGlobals
from frontend.tracing.hooks_inside import HooksInside
from frontend.tracing.naming import Names
from frontend.tracing.regions import Builder, TracedRegion, restored
from frontend.tracing.sources import ArgumentSource, CapturedSource, GradSource, HostSource, Source
from graphc.errors import TraceError
from graphc.ir.builder import Var, user_location
from graphc.ir.nodes import Location
from graphc.ir.registry import lookup
from graphc.ir.types import DType, TensorType


class GraphInput:
    """One input of the graph: where its array comes from, and the tensor that stood for it."""

    __slots__ = ("name", "source", "tensor", "type", "var")

    def __init__(self, name: str, type: TensorType, source: Source, tensor: Tensor, var: Var):
        self.name = name
        self.type = type
        self.source = source
        self.tensor = tensor
        self.var = var


class Captured:
    """A captured tensor: one that existed before the trace, with what it was outside and became
    inside, and the graph input that stands for it where its value is read."""

    __slots__ = (
        "grad_was_read",
        "grad_was_written",
        "input",
        "state_inside",
        "state_outside",
        "tensor",
    )

    def __init__(self, tensor: Tensor):
        self.tensor = tensor
        self.state_outside = dict(tensor.__dict__)
        self.state_inside: dict[str, Any] | None = None
        self.input: GraphInput | None = None
        self.grad_was_read = False
        self.grad_was_written = False

    @property
    def now(self) -> dict[str, Any]:
        """The state inside the trace, also after it has ended."""
        return self.tensor.__dict__ if self.state_inside is None else self.state_inside


class Session:
    """The trace of one function. Use as a context manager; entering again resumes it."""

    def __init__(self, name: str):
        self.root = Builder(name)
        self.builder = self.root  # where ops go: the root's, or that of a region under way
        self.regions: list[TracedRegion] = []
        self._further = 0
        self.inputs: list[GraphInput] = []
        self.captured: dict[int, Captured] = {}
        self.captured_globals = CapturedGlobals(self)
        self.guards: list[Any] = [self.captured_globals]
        self.attributes = AssignedAttributes()
        self.hooks = HooksInside()
        self.grad_guards: list[tuple[Tensor, bool]] = []
        self.asked: dict[int, Tensor] = {}  # whose flags were read
        self.taps: list[tuple[Tensor, Callable[..., Any]]] = []
        self.backward_called = False
        self.backwards: list[tuple[int, int]] = []  # the nodes of each, by number
        self._filled: dict[Any, Var] = {}
        self._hosts: dict[Any, Tensor] = {}
        self._grads: dict[int, Tensor] = {}  # id of a .grad tensor -> whose it is
        self._guarded: set[int] = set()
        self.ended = False  # a trace that has ended is resumed to derive its backward
        self.watched: list[Any] | None = None  # weak references to what is made while a hook runs
        self._previous: list[Session | None] = []

    # -- entering and leaving ----------------------------------------------------------------

    def __enter__(self) -> Session:
        if STATE.session is not None and STATE.session is not self:
            raise TraceError("a trace inside a trace", location=user_location())
        TRACE_LOCK.begin()
        self._previous.append(swap_session(self))
        for captured in self.captured.values():
            if captured.state_inside is not None:
                captured.state_outside = dict(captured.tensor.__dict__)
                restored(captured.tensor, captured.state_inside)
                captured.state_inside = None
        return self

    def __exit__(self, *error: Any) -> None:
        swap_session(self._previous.pop())
        self.attributes.restore()
        self.hooks.remove()
        for captured in self.captured.values():
            captured.state_inside = dict(captured.tensor.__dict__)
            restored(captured.tensor, captured.state_outside)
        TRACE_LOCK.end()

    # -- inputs ------------------------------------------------------------------------------

    def argument(self, name: str, tensor: Tensor, position: int) -> None:
        """Make `tensor` an input of the graph, bound to argument `position` of each call."""
        if id(tensor) not in self.captured or self.captured[id(tensor)].input is None:
            self._make_input(tensor, name, ArgumentSource(position))

    def capture(self, tensor: Any) -> Captured | None:
        """Keep the state of a tensor from before the trace: the captured tensor; None for one made
        inside it."""
        captured = self.captured.get(id(tensor))
        if captured is None and isinstance(tensor._value, np.ndarray):
            captured = self.captured[id(tensor)] = Captured(tensor)
            tensor._counter = [0]
            tensor._edge = tensor._view = tensor._accumulator = None
        return captured

    def _make_input(self, tensor: Tensor, name: str, source: Source) -> Var:
        captured = self.capture(tensor)
        if captured is None:
            raise escaped("the trace")
        captured.input = self._add_input(name, source, tensor)
        tensor._value = captured.input.var
        return captured.input.var

    def _add_input(self, name: str, source: Source, tensor: Tensor) -> GraphInput:
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
            tensor._value = self._add_input(name, source, tensor).var
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
        region = TracedRegion(name)
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

    def filled_value(self, number: Any, type: TensorType) -> Var:
        """`number` repeated to a shape: a 0-d constant and a broadcast."""
        key = (type, str(number))
        var = self._filled.get(key)
        if var is None:
            var = self.builder.constant(np.asarray(number).astype(type.dtype.numpy))
            if type.shape:
                var = self.builder.apply(lookup("broadcast"), (var,), {"shape": type.shape})[0]
            self._filled[key] = var
        return var

    def location_of(self, tensor: Tensor) -> Location | None:
        return tensor._value.context.node_of(tensor._value).location

    def at(self, location: Location | None) -> AbstractContextManager[None]:
        """Nodes made inside stem from this line of the user's."""
        return self.builder.at(location)

    # -- views and mutation ------------------------------------------------------------------

    def make_view(self, result: Tensor, parent: Tensor, op: Any, attributes: Any) -> None:
        """Record that `result` shows `parent` (by a movement op, or as it is)."""
        value = self.value_of(parent)
        if op is None:
            result._value = value
        result._counter = parent._counter
        inside = bool(self.regions) and STATE.grad_enabled is None
        tracked = None if op is None else bool(STATE.grad_enabled) or inside
        result._view = View(parent, op, attributes, parent._counter[0], tracked)
        if self.watched is not None:
            self.watched.append(weakref.ref(result))

    def detach(self, result: Tensor, parent: Tensor) -> None:
        """Make `result` show `parent` without its gradient."""
        self.make_view(result, parent, None, {})
        if self.regions:
            result._value = self._stopped(result._value)
            result._view.op = lookup("stop_gradient")

    def _refresh(self, tensor: Tensor, view: View) -> None:
        """Bring a view up to date with what it shows."""
        value = self.value_of(view.parent)
        if self.regions and tensor._value.context is not self.builder:
            # A view from around a region is refreshed around it, too.
            self.regions[-1].keep_state(tensor)
        if view.op is not None:
            value = self.builder.apply(view.op, (value,), view.attributes)[0]
        tensor._value = value if view.tracked else self._stopped(value)
        view.seen = tensor._counter[0]

    def assign(self, target: Tensor, new: Tensor, derived: bool = True) -> None:
        """The value of `new` in place of that of `target`, and of what `target` is a view of.
        `derived`: gradients go to `new`, as long as grad mode is on; else to the old value."""
        if target._frozen is not None:
            raise RuntimeError(FROZEN)
        old, value = self.value_of(target), self.value_of(new)
        derived = derived and STATE.grad_enabled is not False
        if not derived and self._derives(value):
            value = self.builder.apply(lookup("overwritten"), (old, value), {})[0]
        if self.regions and target._value.context is not self.builder:
            self.regions[-1].keep_state(target)
        if self.regions and derived:
            self.regions[-1].derived_changes.add(id(target))
        view = target._view
        if view is not None:
            with recording(None):
                parent_value = written_back(view, make(value, new.tensor_type))
                self.assign(view.parent, parent_value, derived and view.tracked is not None)
            view.seen = target._counter[0]
        else:
            target._counter[0] += 1
        target._value = value

    # -- gradients ---------------------------------------------------------------------------

    def read_grad(self, tensor: Any) -> Any:
        """`.grad`; one from before the trace becomes an input, its being None a guard."""
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
        return self.root.size

    def end_backward(self, start: int) -> None:
        self.backwards.append((start, self.root.size))

    # -- guards ------------------------------------------------------------------------------

    def guard(self, key: Any, guard: Any) -> None:
        """Add a guard, once per key."""
        if key not in self._guarded:
            self._guarded.add(key)
            self.guards.append(guard)
