"""In which order a compiled function hands its inputs to native code."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.tracing.attributes import AttributeSource
from frontend.tracing.captured import GraphInput
from frontend.tracing.sources import (
    ArgumentSource,
    CapturedSource,
    GradSource,
    HostSource,
    MemorySource,
    NumberSource,
)

_ORDER = {
    ArgumentSource: 0, CapturedSource: 1, GradSource: 2, HostSource: 3, AttributeSource: 4,
    MemorySource: 5, NumberSource: 6,
}  # fmt: skip


def in_order(inputs: Sequence[GraphInput]) -> list[GraphInput]:
    """Arguments, captured tensors, what is looked up at each call, numbers that are computed."""
    return sorted(inputs, key=lambda graph_input: _ORDER[type(graph_input.source)])
