"""The results of attention as arrays along its nest's axes, for the runner of nests.

In: a nest, the values of the kernel's body. Out: both sides of a comparison, for each output: as
the nest stores it, and as the values are.
"""

from __future__ import annotations

from collections.abc import Mapping

from graphc.codegen.kernels.attention import backward, forward
from graphc.codegen.kernels.attention.plan import anchor_of
from graphc.codegen.nests.element_runner import Array, run_elements
from graphc.codegen.nests.nest import Nest
from graphc.ir.dims import evaluate
from graphc.ir.nodes import Graph, Value

RESULTS = {
    output.name: index
    for outputs in (forward.OUTPUTS, backward.OUTPUTS) for index, output in outputs.items()
}  # fmt: skip
"""By the names of outputs, which results of the op they are."""


def attention_by_nest(
    nest: Nest, body: Graph, sizes: Mapping[str, int], values: Mapping[Value, Array]
) -> list[tuple[Array, Array]]:
    """For each output what the nest of such a kernel stores at `sizes`, and what it is."""
    anchor = anchor_of(body)
    extents = {axis.name: evaluate(axis.extent, sizes) for axis in nest.axes}
    arrays = {
        output.name: values[Value(anchor, RESULTS[output.name])].reshape(
            [extents[axis] for axis in output.axes]
        )
        for output in nest.outputs
    }
    stored = run_elements(nest, arrays, sizes, parts=2)
    return [(stored[name], arrays[name]) for name in arrays]
