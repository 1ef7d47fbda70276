"""The guards of a compiled function that look at the arguments of each call."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from frontend.tensors.tensor import Tensor, added_attributes
from frontend.tracing.attributes import AssignedAttributeGuard, AttributeSource
from frontend.tracing.guards.checks import (
    AttributesGuard,
    GradGuard,
    HooksGuard,
    IdentityGuard,
    LayoutGuard,
    MemoryGuard,
    OffsetGuard,
)
from frontend.tracing.session import Session
from frontend.tracing.sources import ArgumentSource, CapturedSource, GradSource, MemorySource


def broken(
    guards: Sequence[Any], of_calls: Sequence[Any], paths: Mapping[int, str],
    arguments: Sequence[Tensor],
) -> list[str]:  # fmt: skip
    """Why guards do not hold, and those that look at the arguments; of Modules with their paths."""
    texts = []
    for guard in guards:
        if not guard.holds():
            path = paths.get(id(getattr(guard, "module", None)))
            texts.append(f"{guard.reason()} (module {path})" if path else str(guard.reason()))
    return texts + [g.reason() for g in of_calls if not g.holds_for(arguments)]


def call_guards(
    session: Session, graph_inputs: Sequence[Any], captured: Sequence[Tensor]
) -> list[Any]:
    """Of a trace with these inputs and captured tensors."""
    guards: list[Any] = [
        GradGuard(session.source_of(tensor), none) for tensor, none in session.grad_guards
    ]
    arguments = [x for x in graph_inputs if isinstance(x.source, ArgumentSource)]
    lying = set(map(id, session.layouts.relied_on()))
    guards += [AttributesGuard(x.source, x.tensor) for x in arguments if added_attributes(x.tensor)]
    guards += [
        LayoutGuard(x.source, session.captured[id(x.tensor)].state_outside["_value"])
        for x in arguments if id(x.tensor) in lying
    ]  # fmt: skip
    offsets = session.layouts.offsets
    guards += [
        OffsetGuard(x.source, offsets[id(x.tensor)][1])
        for x in arguments if id(x.tensor) in offsets
    ]  # fmt: skip
    guards += [MemoryGuard(x.source) for x in graph_inputs if isinstance(x.source, MemorySource)]
    guards += [AssignedAttributeGuard(each) for each in session.attributes.replaced]
    # What a training step does to a leaf it does once for each input.
    leaves = [x for x in arguments if session.backward_called and x.tensor._requires_grad]
    guards += [HooksGuard(x.source, x.tensor) for x in leaves]
    guards += session.histories.guards()
    return guards + list(_identities(session, arguments, leaves, captured))


def _identities(
    session: Session, arguments: Sequence[Any], leaves: Sequence[Any], captured: Sequence[Tensor]
) -> Iterator[IdentityGuard]:
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
            yield IdentityGuard(x.source, same[0])
        elif id(x.tensor) in reachable:
            yield IdentityGuard(x.source, CapturedSource(x.tensor))
        elif apart and (others or replaced or read or captured):
            yield IdentityGuard(x.source, None, [*others, *captured], [*replaced, *read])
        elif x in leaves:
            yield IdentityGuard(x.source, None, captured)
