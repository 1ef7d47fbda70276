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
from graphc.ir.nodes import Graph, Node
from graphc.ir.registry import lookup, parameters

MOST_FINDINGS = 3
"""Of one stage that are told: what comes behind the first may follow from it."""
SAME_BITS = "the same bits"


def eager_stage(call: TracedCall, expected: Sequence[Array]) -> StageResult | None:
    """The program run eagerly; `expected` are the graph's outputs. None where there is none."""
    if call.eager is None:
        return None
    found = call.eager("native")
    pairs = [
        (position, x, y) for position, (x, y) in enumerate(zip(found, expected)) if x is not None
    ]
    findings = tuple(_eager_findings(call.graph, pairs))
    compared = f"{len(pairs)} outputs, each op by its own kernel"
    return StageResult("eager", compared, SAME_BITS, findings[:MOST_FINDINGS])


def _eager_findings(graph: Graph, pairs: Sequence[tuple[int, Array, Array]]) -> Iterator[Finding]:
    for position, found, expected in pairs:
        apart = difference(found, expected)
        if apart is not None:
            yield Finding(
                "the trace: the graph is not what the program does eagerly",
                f"{output_name(graph, position)}: eagerly {apart}",
                place_of(graph.nodes[graph.outputs[position].node].location),
            )


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
