"""Eager mode, and the ops themselves: does the traced graph mean what the program does?

Two stages. The program run eagerly with each op by its own kernel gives the bits of the traced
graph. And each node of that graph, with composites expanded, gives by NumPy what its kernel does,
on the same operands, within the bound its op states: so what all other stages are compared with is
compared itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from graphc.debug.places import place_of
from graphc.debug.traced import TracedCall
from graphc.debug.verification.bounds import numpy_bound
from graphc.debug.verification.comparing import Array, difference
from graphc.debug.verification.findings import Finding, StageResult
from graphc.debug.verification.op_kernels import OpKernels
from graphc.ir.graph_queries import ancestors
from graphc.ir.nodes import BACKWARD, Graph, Node
from graphc.ir.registry import lookup, parameters

MOST_FINDINGS = 3
"""Of one stage that are told: what comes behind the first may follow from it."""
SAME_BITS = "the same bits"
REORDERED = 2.0**-10
"""Of the greatest element: how far sums in another order may be apart."""


def eager_stage(call: TracedCall, expected: Sequence[Array]) -> StageResult | None:
    """The program run eagerly; `expected` are the graph's outputs. None where there is none."""
    if call.eager is None:
        return None
    actual = call.eager("native")
    pairs = [
        (position, x, y) for position, (x, y) in enumerate(zip(actual, expected)) if x is not None
    ]
    reordered: list[int] = []
    findings = tuple(_eager_findings(call.graph, pairs, reordered))
    compared = f"{len(pairs)} outputs, each op by its own kernel"
    promise = SAME_BITS
    if reordered:
        promise += f"; {len(reordered)} behind a loop's gradient, which Python sums turn by turn, "
        promise += f"within {REORDERED:.1g} of their greatest"
    return StageResult("eager", compared, promise, findings[:MOST_FINDINGS])


def _eager_findings(
    graph: Graph, pairs: Sequence[tuple[int, Array, Array]], reordered: list[int]
) -> Iterator[Finding]:
    """What differs; `reordered` gets the outputs that may, and do within their bound."""
    for position, actual, expected in pairs:
        apart = difference(actual, expected)
        if apart is not None and _behind_loop_gradient(graph, position):
            greatest = float(np.max(np.abs(expected), initial=0.0))
            apart = difference(actual, expected, REORDERED * greatest)
            reordered += [position] if apart is None else []
        if apart is not None:
            yield Finding(
                "the trace: the graph is not what the program does eagerly",
                f"{output_name(graph, position)}: eagerly {apart}",
                place_of(graph.nodes[graph.outputs[position].node].location),
            )


def _behind_loop_gradient(graph: Graph, position: int) -> bool:
    """Whether an output depends on the backward of a loop over time: eagerly `scan` is a loop in
    Python, which adds up the gradient of a weight turn by turn; a graph has one product over all
    turns (docs/arithmetic.md)."""
    behind = ancestors(graph.nodes, [graph.outputs[position]])
    nodes = (graph.nodes[identity] for identity in behind)
    return any(n.op == "scan" and n.location and n.location.phase == BACKWARD for n in nodes)


def ops_stage(
    graph: Graph, arrays: Sequence[Array], kernels: OpKernels
) -> tuple[StageResult, list[Array]]:
    """Each node by NumPy and by its kernel; also the graph's outputs. No composites are left."""
    findings: list[Finding] = []
    counts = {True: 0, False: 0}

    def seen(
        number: int, node: Node, operands: tuple[Array, ...], results: tuple[Array, ...]
    ) -> None:
        with np.errstate(all="ignore"):
            compared = _compared(graph, number, node, operands, results, findings)
        counts[compared] += 1

    outputs = kernels.outputs(graph, arrays, seen)
    left = f" ({counts[False]} loops and branches are not)" if counts[False] else ""
    compared = f"{counts[True]} nodes by NumPy and by their kernels{left}"
    promise = "within the bounds of their ops"
    return StageResult("ops", compared, promise, tuple(findings[:MOST_FINDINGS])), outputs


def _compared(
    graph: Graph, number: int, node: Node, operands: tuple[Array, ...],
    results: tuple[Array, ...], findings: list[Finding],
) -> bool:  # fmt: skip
    op = lookup(node.op)
    bounds = [numpy_bound(node, operands, result) for result in results]
    if any(bound is None for bound in bounds):
        return False
    if op.kind == "movement":
        return True  # computed by NumPy on both sides
    wanted = op.compute(operands, parameters(node))
    for result, expected, bound in zip(results, wanted, bounds, strict=True):
        apart = difference(result, np.asarray(expected), bound)
        if apart is not None:
            findings.append(_op_finding(number, node, apart))
    return True


def _op_finding(number: int, node: Node, apart: object) -> Finding:
    return Finding(
        f"the kernel of op {node.op}, or its declaration: it does not compute what NumPy does",
        f"%{number} = {node.op} : {node.types[0]}: {apart}",
        place_of(node.location),
    )


def output_name(graph: Graph, position: int) -> str:
    """An output in messages."""
    updated = dict(graph.aliases).get(position)
    if updated is not None:
        return f"the new {graph.input_names[updated]} (output {position})"
    return f"output {position}"
