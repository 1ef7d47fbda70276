"""In which order a compiled function hands its inputs to native code."""

from __future__ import annotations

from collections.abc import Sequence

from frontend.engine.tracing.captured import GraphInput


def in_order(inputs: Sequence[GraphInput]) -> list[GraphInput]:
    """Arguments, captured tensors, what is looked up at each call, numbers that are computed."""
    return sorted(inputs, key=lambda graph_input: graph_input.source.order)
