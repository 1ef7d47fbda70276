"""Inputs of a compiled function that share memory.

in : a trace, the tensors it was called with
out: ArgumentError where an input that is changed in place shares memory with another
"""

from __future__ import annotations

from collections.abc import Sequence

from frontend.engine.outside.source import ComputedSource, HostSource
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tracing.tracer import Trace
from graphc.errors import ArgumentError
from graphc.ir.builder import user_location


def check_overlap(traced: Trace, leaves: Sequence[Tensor]) -> None:
    """Raise where an input changed in place shares memory with another input."""
    import numpy as np

    by_call = HostSource | ComputedSource
    graph_inputs = [x for x in traced.session.inputs if not isinstance(x.source, by_call)]
    updated = {id(x) for x in traced.updated}
    arrays = [x.source.array(leaves) for x in graph_inputs]
    spans = sorted(
        (*np.lib.array_utils.byte_bounds(array), place)
        for place, array in enumerate(arrays) if array.size
    )  # fmt: skip
    for number, (_, end, place) in enumerate(spans):
        for start, _, other in spans[number + 1 :]:
            if start >= end:
                break
            changed = [i for i in sorted((place, other)) if id(graph_inputs[i]) in updated]
            if changed:
                beside = graph_inputs[place + other - changed[0]]
                raise ArgumentError(
                    f"{graph_inputs[changed[0]].name!r} is changed in place and shares memory with "
                    f"{beside.name!r}",
                    hint="pass a copy of one of them",
                    location=user_location(),
                )
