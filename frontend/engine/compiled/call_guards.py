"""The guards of a compiled function that look at the arguments of each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from frontend.engine.outside.check import Apart, Equals, Is, One, SameItems, hooks_of
from frontend.engine.outside.guard import Guard
from frontend.engine.outside.source import (
    ArgumentSource,
    Call,
    CapturedSource,
    GradSource,
    InputSource,
    MemorySource,
    PartSource,
    PlaceInMemorySource,
    TogetherSource,
)
from frontend.engine.tensors.memory_tracking import offset_in_memory
from frontend.engine.tensors.tensor import Tensor, added_attributes
from frontend.engine.tracing.attributes import AttributeSource, assigned_guard
from frontend.engine.tracing.captured import GraphInput
from frontend.engine.tracing.session import Session


def broken(guards: Sequence[Guard], paths: Mapping[int, str], call: Call) -> list[str]:
    """Why guards do not hold at a call; of Modules with their paths."""
    texts = []
    for guard in guards:
        if not guard.holds(call):
            path = paths.get(id(guard.source.owner))
            texts.append(f"{guard.reason(call)} (module {path})" if path else guard.reason(call))
    return texts


def call_guards(
    session: Session, graph_inputs: Sequence[GraphInput], captured: Sequence[Tensor]
) -> list[Guard]:
    """Of a trace with these inputs and captured tensors. Those on attributes that are assigned come
    first: others look at the tensors there."""
    guards: list[Guard] = [assigned_guard(each) for each in session.attributes.replaced]
    guards += [_grad(session.source_of(tensor), none) for tensor, none in session.grad_guards]
    arguments = [x for x in graph_inputs if isinstance(x.source, ArgumentSource)]
    lying = set(map(id, session.layouts.relied_on()))
    guards += [_added(x) for x in arguments if added_attributes(x.tensor)]
    guards += [_layout(x, session) for x in arguments if id(x.tensor) in lying]
    offsets = session.layouts.offsets
    guards += [
        _offset(x.source, offsets[id(x.tensor)][1]) for x in arguments if id(x.tensor) in offsets
    ]
    sources = [x.source for x in graph_inputs]
    guards += [_memory(source) for source in sources if isinstance(source, MemorySource)]
    # What a training step does to a leaf it does once for each input.
    leaves = [x for x in arguments if session.backward_called and x.tensor._requires_grad]
    guards += [_hooks(x) for x in leaves]
    guards += session.histories.guards()
    return guards + list(_identities(session, arguments, leaves, captured))


def _grad(source: InputSource[object], was_none: bool) -> Guard:
    """Whether a `.grad` is None."""
    why = f"a .grad was {'None' if was_none else 'a tensor'}"
    return Guard(PartSource(source, _has_no_grad), Is(was_none, why))


def _added(argument: GraphInput) -> Guard:
    """What the user put on an argument, beside its value."""
    then = added_attributes(argument.tensor)
    why = "an attribute of an argument, a tensor, changed"
    return Guard(PartSource(argument.source, added_attributes), SameItems(then, why))


def _layout(argument: GraphInput, session: Session) -> Guard:
    """How an argument lies in memory: whether a reshape of it shares memory. Row-major is so at any
    sizes."""
    array = session.captured[id(argument.tensor)].state_outside["_value"]
    why = "an argument lies in memory in another order"
    if array.flags.c_contiguous:
        return Guard(PartSource(argument.source, _is_row_major), Is(True, why))
    return Guard(PartSource(argument.source, _strides), Equals(array.strides, why))


def _offset(source: InputSource[object], then: int) -> Guard:
    """Where in its memory an argument begins."""
    why = "an argument begins at another place of its memory"
    return Guard(PartSource(source, _offset_of), Equals(then, why))


def _memory(source: MemorySource) -> Guard:
    """What memory an input lies in, all of which is an input too, and where it begins there."""
    why = "an argument lies in other memory"
    return Guard(PlaceInMemorySource(source.source), Equals(source.place, why))


def _hooks(argument: GraphInput) -> Guard:
    """The hooks of an argument that is a leaf."""
    then = hooks_of(argument.tensor)
    return Guard(PartSource(argument.source, hooks_of), Equals(then, "an argument has other hooks"))


def _has_no_grad(tensor: Tensor) -> bool:
    return tensor._grad is None


def _is_row_major(tensor: Tensor) -> bool:
    return bool(tensor._value.flags.c_contiguous)


def _strides(tensor: Tensor) -> tuple[int, ...]:
    strides: tuple[int, ...] = tensor._value.strides
    return strides


def _offset_of(tensor: Tensor) -> int:
    return offset_in_memory(tensor._value)


def _identities(
    session: Session, arguments: Sequence[GraphInput], leaves: Sequence[GraphInput],
    captured: Sequence[Tensor],
) -> Iterator[Guard]:  # fmt: skip
    """Which arguments are tensors that the function also reads from outside; where it may tell them
    apart by that, also of those whose values it does not read."""
    reachable = session.captured_globals.tensors
    replaced = [AttributeSource(each) for each in session.attributes.replaced]
    kept = {id(each.attribute.before) for each in replaced}
    with_grad = [tensor for tensor, was_none in session.grad_guards if not was_none]
    read = [GradSource(tensor, session.source_of(tensor)) for tensor in with_grad]
    apart = session.captured_globals.identities
    others = [tensor for key, tensor in reachable.items() if key not in kept] if apart else []
    for x in arguments:
        if id(x.tensor) in kept:
            same = [each for each in replaced if each.attribute.before is x.tensor]
            yield Guard(TogetherSource([x.source, same[0]]), One())
        elif id(x.tensor) in reachable:
            yield Guard(TogetherSource([x.source, CapturedSource(x.tensor)]), One())
        elif apart and (others or replaced or read or captured):
            sources = TogetherSource([x.source, *replaced, *read])
            yield Guard(sources, Apart([*others, *captured]))
        elif x in leaves:
            yield Guard(TogetherSource([x.source]), Apart(captured))
