"""A graph run again and again, op by op or compiled: the rungs of a graph that no tracer made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from graphc.debug.compare.op_kernels_plan import is_view
from graphc.debug.traced import ObjectRun, WayToRun
from graphc.debug.verification.op_kernels import OpKernels
from graphc.ir.nodes import CONSTANT, INPUT, Graph
from graphc.ops.interpreter import evaluate

Array = np.ndarray[Any, Any]


def graph_run(graph: Graph, arrays: Sequence[Array], way: WayToRun) -> ObjectRun:
    """Runs a graph on these arrays; inputs that it updates are updated from run to run. Op by op,
    composites are run whole."""
    inputs = [np.array(array) for array in arrays]
    updates = graph.aliases
    if way.compile is not None:
        compiled = way.compile(graph)
        return ObjectRun(lambda: compiled.run(list(inputs)), list, lambda: (0, 0))
    kernels = OpKernels()

    def step() -> list[Array]:
        if way.eager == "native":
            outputs = kernels.outputs(graph, inputs)
        else:
            outputs = list(evaluate(graph, tuple(inputs), reference=False))
        for output, target in updates:
            inputs[target][...] = outputs[output]
        return outputs

    return ObjectRun(step, list, lambda: _counted(graph))


def _counted(graph: Graph) -> tuple[int, int]:
    ops = [node for node in graph.nodes if node.op not in (INPUT, CONSTANT) and not is_view(node)]
    nbytes = sum(type.nbytes for node in ops for type in node.types)
    nbytes += sum(graph.type_of(value).nbytes for node in ops for value in node.operands)
    return len(ops), nbytes
