"""What backward saves and what it computes again: a minimum cut over the joint graph.

in : a joint graph, with which outputs are forward's and which inputs cotangents
out: a forward graph that also returns what is saved, and a backward graph that takes it

Each value that forward could hand to backward costs its bytes if saved, and its work if backward
computes it again from other saved values. The cheapest choice is a minimum cut between the inputs
and what only backward can compute (graphc.autodiff.cut), within a budget of bytes where there is
one.
"""

from __future__ import annotations

from graphc.autodiff.cut import minimum_cut
from graphc.autodiff.joint import Joint
from graphc.ir.copying import extract
from graphc.ir.dims import Extent
from graphc.ir.graph_queries import ancestors, descendants
from graphc.ir.nodes import Graph, Value
from graphc.records import record


@record
class Partition:
    """`forward` takes the inputs and returns the outputs, then the saved values. `backward` takes
    the inputs numbered `saved_inputs`, the saved values, then the cotangents, and returns the
    gradients. `saved_bytes` counts the saved values, inputs that are not overwritten aside; of
    sizes known only at run time it is an extent."""

    forward: Graph
    backward: Graph
    saved_inputs: tuple[int, ...]
    saved_bytes: Extent


def partition(joint: Joint, saved_bytes: int | None = None) -> Partition:
    """Split a joint graph. `saved_bytes`: the most bytes to save; MemoryLimitError where that is
    too little."""
    graph, outputs = joint.graph, joint.graph.outputs[: joint.outputs]
    gradients = joint.graph.outputs[joint.outputs :]
    backward_only = {v.node for v in descendants(graph, map(Value, joint.cotangents))}
    needed = ancestors(graph.nodes, gradients)
    aliased = {target for _, target in graph.aliases}
    primal = [i for i in range(len(graph.inputs)) if i not in joint.cotangents]
    # Forward overwrites an input it updates: backward gets a copy of the old content.
    kept = {i for i in primal if i not in aliased}
    read = [v for i in backward_only & needed for v in graph.nodes[i].operands]
    cut = minimum_cut(
        graph, needed - backward_only, [*read, *gradients], {Value(i) for i in kept}, saved_bytes
    )
    saved_inputs = sorted(v.node for v in cut.kept if v.node in kept)
    computed = sorted((v for v in cut.kept if v.node not in kept), key=lambda v: (v.node, v.index))
    forward = extract(
        graph, f"{graph.name}_forward", [Value(i) for i in primal], [*outputs, *computed],
        graph.aliases,
    )  # fmt: skip
    backward = extract(
        graph, f"{graph.name}_backward",
        [*(Value(i) for i in saved_inputs), *computed, *(Value(i) for i in joint.cotangents)],
        list(gradients), (), late=backward_only,
    )  # fmt: skip
    return Partition(forward, backward, tuple(saved_inputs), cut.bytes)
