"""Tracing: run a function once on its arguments, recording.

in : a function, the tensors among its arguments and the structure around them
out: `Trace`, what the run left behind

The rest are the hooks Modules and optimizers call, which do nothing outside a trace.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any

from frontend.engine.eager.gradients.backward import passes_region
from frontend.engine.outside.kinds import forward_of, generator_state, name_in
from frontend.engine.outside.source import ArgumentSource, InputSource
from frontend.engine.sizes.open_sizes import SizedArguments
from frontend.engine.tensors import tree
from frontend.engine.tensors.added_attributes import added_to
from frontend.engine.tensors.state import STATE, suspended
from frontend.engine.tensors.symbolic_numbers import opened
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.effects import RepeatedEffect, TracedEffects
from frontend.engine.tracing.leaving import leaving
from frontend.engine.tracing.new_objects import NewObjects
from frontend.engine.tracing.session import Captured, GraphInput, Session, trace_under_way
from graphc.errors import GraphError, TraceError
from graphc.ir.builder import NAME, Var, user_location
from graphc.ir.nodes import Graph
from graphc.ir.types import TensorType


def tap(t: Tensor, fn: Callable[[Tensor], Any]) -> Tensor:
    """Call `fn(t)`: at once when eager, with the value after each call when compiled."""
    if STATE.mode is None:
        fn(t)
    else:
        trace_under_way("frontend.tap").tap(t, fn)
    return t


# -- one trace -----------------------------------------------------------------------------------


class Returned:
    """One tensor among the results: a new value (`position` among the graph's outputs), or a
    tensor that existed before (`source`)."""

    __slots__ = ("position", "source", "tensor")

    def __init__(self, tensor: Tensor, position: int, source: InputSource | None):
        self.tensor = tensor
        self.position = position
        self.source = source


class Trace:
    """What one run of a function left behind.

    `outputs` are the graph's: returned values, new contents of inputs (`updated`: these inputs),
    gradients (`grads`: where they go, None for a `.grad` set to None), tapped values.
    """

    def __init__(self, session: Session, structure: Any, returned: list[Tensor]):
        self.session = session
        self.structure = structure
        self.outputs: list[Var] = []
        self.new: list[Tensor] = []  # the new values among those returned, each once
        self.left: list[Tensor] = []  # the gradients left in `.grad` that are not among them
        self.returned = [self._returned(tensor) for tensor in returned]
        self.first_update = len(self.outputs)
        self.updated = self._updates()
        self.grads = self._gradients()
        # Attributes that are given an argument itself, where it may matter which object it is.
        self.kept: list[tuple[Callable[[Any], None], InputSource]] = []
        for each, tensor in session.attributes.results:
            source = self._argument(tensor) if session.captured_globals.identities else None
            if source is None:
                session.taps.append((tensor, each.put))
            else:
                self.kept.append((each.put, source))
        # What goes on into histories from outside: the tensors, and the numbers of what they get.
        self.passed: list[tuple[list[tuple[InputSource, int]], bool]] = []
        for gradients, retain in session.histories.passed:
            number = len(session.taps)
            session.taps += [(gradient, _handed_on) for _, gradient in gradients]
            ends = [session.source_of(tensor) for tensor, _ in gradients]
            self.passed.append(([(end, number + i) for i, end in enumerate(ends)], retain))
        # What each call does when it is over, and where its values are: of the new results, as
        # -1 - position, or of those that are tapped.
        self.effects: list[tuple[RepeatedEffect, tuple[int, ...]]] = []
        places = {id(tensor): -1 - position for position, tensor in enumerate(self.new)}
        for effect in () if session.effects is None else session.effects.recorded:
            for tensor in effect.tensors:
                if id(tensor) not in places:
                    places[id(tensor)] = len(session.taps)
                    session.taps.append((tensor, _handed_on))
            self.effects.append((effect, tuple([places[id(each)] for each in effect.tensors])))
        session.taps += [(check, _handed_on) for check in session.assertions.checks]
        self.first_tap = len(self.outputs)
        self.outputs += [session.value(tensor) for tensor, _ in session.taps]
        self._check_flags()

    def _returned(self, tensor: Tensor) -> Returned:
        var = self.session.value(tensor)
        captured = self.session.captured.get(id(tensor))
        graph_input = None if captured is None else captured.input
        # What an attribute was is another tensor at the next call.
        if graph_input is not None and not self.session.attributes.replaces(tensor):
            return Returned(tensor, -1, graph_input.source)
        for position, known in enumerate(self.new):
            if known is tensor:
                return Returned(tensor, position, None)
        self.new.append(tensor)
        self.outputs.append(var)
        return Returned(tensor, len(self.outputs) - 1, None)

    def _argument(self, tensor: Tensor) -> InputSource | None:
        """Where a tensor that is an argument comes from at each call."""
        captured = self.session.captured.get(id(tensor))
        source = None if captured is None or captured.input is None else captured.input.source
        return source if isinstance(source, ArgumentSource) else None

    def _updates(self) -> list[GraphInput]:
        updated = []
        for graph_input in self.session.inputs:
            value = self.session.value(graph_input.tensor)
            if value is not graph_input.var:
                updated.append(graph_input)
                self.outputs.append(value)
        return updated

    def _gradients(self) -> list[tuple[InputSource | Tensor, int | None, TensorType]]:
        gradients: list[tuple[InputSource | Tensor, int | None, TensorType]] = []
        for captured in list(self.session.captured.values()):
            tensor, grad = captured.tensor, captured.tensor._grad
            changed = grad is not captured.state_outside.get("_grad")
            if not changed and not captured.grad_was_written:
                continue
            target = captured.input.source if captured.input is not None else tensor
            if grad is None:
                gradients.append((target, None, tensor.tensor_type))
                continue
            same = [i for i, known in enumerate(self.new) if known is grad]
            if not same:
                self.left.append(grad)
                self.outputs.append(self.session.value(grad))
            position = same[0] if same else len(self.outputs) - 1
            gradients.append((target, position, tensor.tensor_type))
        return gradients

    def _check_flags(self) -> None:
        for captured in self.session.captured.values():
            if not _same_items(
                *map(added_to, (captured.tensor._instance_state, captured.state_outside))
            ):
                raise TraceError(
                    "an attribute of a tensor from outside is assigned while tracing; compiled "
                    "code would not repeat the assignment",
                    hint="assign it outside",
                )
            before = captured.state_outside.get("_requires_grad", False)
            after = captured.tensor._requires_grad
            edge = captured.tensor._edge
            changed = edge is not None and captured.state_outside.get("_edge") is not None
            # All results of a loop or branch require gradients where one of its operands does.
            if not changed and (before == after or (edge and passes_region(edge[0]))):
                continue
            if edge is None:
                raise TraceError("requires_grad of a tensor from outside is changed while tracing",
                                 hint="set it before")  # fmt: skip
            raise TraceError(
                f"a tensor {captured.tensor.tensor_type} from outside was changed in place by one "
                "that requires gradients; outside of the compiled function it has no history",
                hint="detach() what it is changed by, or return a new tensor",
            )

    def graph(self) -> Graph:
        """Everything as one graph: results (also those that are inputs), updates, gradients."""
        session = self.session
        outputs = [
            self.outputs[r.position] if r.source is None else session.value(r.tensor)
            for r in self.returned
        ]
        first = len(outputs)
        outputs += self.outputs[self.first_update :]
        inputs = [(x.name, x.var) for x in session.inputs]
        order = {name: i for i, (name, _) in enumerate(inputs)}
        aliases = [(first + i, order[x.name]) for i, x in enumerate(self.updated)]
        return session.builder.snapshot(inputs, outputs, aliases)


def _handed_on(value: Any) -> None:
    """A gradient that goes on outside is taken from among the values."""


def _same_items(left: dict[str, Any], right: dict[str, Any]) -> bool:
    return left.keys() == right.keys() and all(left[name] is right[name] for name in left)


def run_trace(
    function: Callable[..., Any], leaves: Sequence[Tensor], structure: Any, name: str,
    sizes: SizedArguments | None = None, effects: TracedEffects | None = None,
    assigns: bool = False,
) -> Trace:  # fmt: skip
    """Run `function` on arguments of this structure and tensors, recording. All tensors from
    outside are as before afterwards, also when the function raises; then lists and dicts are, too.
    With `sizes` some extents and numbers of the arguments are known only at a call; with `effects`
    those end the trace, which happen once without. `assigns`: what it assigns to numbers and plain
    values outside is noted (`Session.assigned`), and they are as before, too.
    """
    session = Session(name, function, sizes, effects, assigns)
    if sizes is not None:
        structure = tree.with_numbers(structure, map(opened, sizes.numbers))
    arguments, keywords = tree.build(structure, iter(leaves))
    session.captured_globals.root(function, tree.statics(structure))
    try:
        with leaving(session), session:
            for position, (label, leaf) in enumerate(zip(labels_of(function, structure), leaves)):
                session.argument(label, leaf, position)
            generators = session.captured_globals.generators
            drawn = _random_states(generators)
            result = function(*arguments, **keywords)
            session.exchanges.check_ended()
            session.hooks.check_removed()
            session.assigned.take()
            if effects is not None:
                session.captured_globals.note_logs()
                effects.appended(session.captured_globals.containers)
            session.captured_globals.close_numbers()
            _check_containers(structure, (arguments, keywords), leaves, name)
            now = _random_states(generators)
            if any(now[generator] != state for generator, state in drawn.items()):
                raise _draws(name)
            returned: list[Tensor] = []
            shape = tree.flatten(result, returned, NewObjects(session))
            _check_results(shape, name)
            del result
            if effects is not None:
                effects.check(session.taps)
                session.captured_globals.check_unread(effects.changing, effects.deferred_at)
            traced = Trace(session, shape, returned)
        session.ended = True
        session.name_inputs(function)
        session.attributes.settle(session.inputs, session.guards)
        session.hooks.settle(session.guards)
        session.settle()
    except BaseException as error:
        session.put_back()
        if effects is not None and effects.hands_out and isinstance(error, Exception):
            error = _of_handed_out(error)
        note_session(error, session)
        raise error
    return traced


def _of_handed_out(error: Exception) -> Exception:
    """The error of a trace in which objects stood for values: a refusal, since eager code may have
    none, or another."""
    if isinstance(error, GraphError) and error.is_refusal:
        return error
    refusal = TraceError(f"the value of a tensor stood for a number where {error!r} came of it")
    return refusal.with_traceback(error.__traceback__)


def note_session(error: BaseException, session: Session) -> None:
    """Note on a refusal which trace it ended: what that had looked at."""
    if isinstance(error, GraphError) and error.is_refusal:
        error.session = session  # type: ignore[attr-defined]


def _draws(name: str) -> TraceError:
    return TraceError(
        f"{name} draws random numbers of Python or NumPy while it is traced: every compiled call "
        "would see the same ones",
        hint="draw with frontend.rand, or outside and pass the numbers; choose by frontend.where "
        "or cond",
        location=user_location(),
    )


def _check_results(structure: Any, name: str) -> None:
    """Raise TraceError where the function returns what can be gone through once."""
    for value in tree.statics(structure):
        if isinstance(value, Iterator | AsyncIterator | Awaitable):
            raise TraceError(
                f"{name} returns a {type(value).__name__}: it would be one and the same at every "
                "call",
                hint="return a list or tuple, or compile what makes the items",
            )


def _check_containers(structure: Any, value: Any, leaves: Sequence[Tensor], name: str) -> None:
    """Raise TraceError where the function changed a list or dict among its arguments: compiled code
    would not do so again."""
    left: list[Tensor] = []
    same = tree.flatten(value, left) == structure
    if same and len(left) == len(leaves) and all(x is y for x, y in zip(left, leaves)):
        return
    raise TraceError(
        f"{name} changes a list or dict that it is given: a compiled call would not",
        hint="return what is new, or change the tensors in it in place",
        location=user_location(),
    )


def _random_states(held: Sequence[Any]) -> dict[Any, Any]:
    """The states of the global generators of Python and NumPy, where those are imported, and of
    those that code can reach."""
    python, numpy = sys.modules.get("random"), sys.modules.get("numpy.random")
    states: dict[Any, Any] = {} if python is None else {"random": python.getstate()}
    if numpy is not None:
        _, keys, *rest = numpy.get_state()
        states["numpy"] = [keys.tobytes(), rest]
    return states | {number: generator_state(each) for number, each in enumerate([*held])}


def labels_of(function: Callable[..., Any], structure: Any) -> list[str]:
    """A name for each tensor argument, from the function's signature; of what takes any number, as
    imported models do, what it says in `argument_names`."""
    positional, keyword = structure[2]
    try:
        target = forward_of(function)
        names = [
            p.name
            for p in inspect.signature(target).parameters.values()
            if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
    except (TypeError, ValueError):
        names = []
    names = names or inspect.getattr_static(function, "argument_names", ())
    labels: list[str] = []
    for position, item in enumerate(positional[2]):
        name = names[position] if position < len(names) else f"input{position}"
        labels += tree.paths(item, name)
    for name, item in zip(keyword[2], keyword[3]):
        labels += tree.paths(item, name)
    return labels


def name_of(function: Any) -> str:
    """A graph name for a function or Module."""
    name = name_in(function) or type(function).__name__
    return name if NAME.fullmatch(name) else "traced"


__all__ = ["ArgumentSource", "Captured", "Trace", "suspended", "tap"]
