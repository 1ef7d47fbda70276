"""The guards of a compiled function that look at the arguments of each call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frontend.tensors.tensor import Tensor, added_attributes
from frontend.tracing.attributes import AssignedAttributeGuard
from frontend.tracing.guards.checks import (
    AttributesGuard,
    GradGuard,
    HooksGuard,
    IdentityGuard,
    LayoutGuard,
    MemoryGuard,
    OffsetGuard,
)
from frontend.tracing.sources import ArgumentSource, MemorySource


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


def call_guards(session: Any, graph_inputs: Sequence[Any], captured: Sequence[Tensor]) -> list[Any]:
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
    outside = [x for x in arguments if id(x.tensor) in session.captured_globals.tensors]
    guards += [IdentityGuard(x.source, x.tensor) for x in outside]
    # What a training step does to a leaf it does once for each input.
    leaves = [x for x in arguments if session.backward_called and x.tensor._requires_grad]
    guards += [HooksGuard(x.source, x.tensor) for x in leaves]
    guards += [AssignedAttributeGuard(each) for each in session.attributes.replaced]
    return guards + [IdentityGuard(x.source, None, captured) for x in leaves if x not in outside]
