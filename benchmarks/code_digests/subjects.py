"""What is compiled for digests, by group.

    workloads   the fourteen of workloads.py, each call of a step
    open        the same with the batch left open, and the length where there is one
    ops         what eager mode compiles for each sample of the op table: one kernel for all sizes,
                and those it falls back to
    strategies  the problems of the strategies' tests, also with sizes left open, by each strategy
                that takes them
    narrow      products of bf16 and bytes, of which some strategies are for processors with
                instructions for them

Out: `Subject`s: programs (a graph, a level, an example of its sizes), or a contraction's body.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from steps import make
from workloads import Workload, chosen

import graphc.runtime.compile as compiling
from code_digests.narrow_products import narrow_problems
from frontend.engine.compiled.compiler import CompiledFunction
from frontend.engine.compiled.options import Options
from frontend.engine.eager.kernels import kernel_families, pointwise
from frontend.engine.eager.kernels.native_ops import NativeOp
from frontend.engine.tensors.tensor import make as tensor_of
from graphc import ops
from graphc.debug.load import loaded_calls
from graphc.errors import GraphError
from graphc.ir.instances import type_at
from graphc.ir.nodes import Graph
from graphc.ir.symbols import symbols_of
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.op import Op, SampleDrawer, Types
from graphc.runtime.sized_executable import axes_of
from tests.codegen.kernels.contraction.problems import OPEN_PROBLEMS, PROBLEMS, body_of

STEPS = Path(__file__).resolve().parents[1] / "steps.py"
MEMOS = (
    (kernel_families, "_FAMILIES"), (kernel_families, "_OF_ANY_LAYOUT"), (pointwise, "_VARIANTS"),
)  # fmt: skip
DTYPES = (DType.f32, DType.f64, DType.f16)
"""Of a sample's floats: the first of all samples, the others of every third."""

Program = tuple[Graph, str, Mapping[str, int]]
"""A graph, the level it is compiled at, and the sizes it is made best for."""


@dataclass(frozen=True, slots=True)
class Subject:
    """`programs` by name, or `bodies` of contractions that strategies are asked about."""

    name: str
    programs: Mapping[str, Program]
    bodies: Mapping[str, Graph] = field(default_factory=dict)


def subjects(group: str, pattern: str, small: bool) -> Iterator[Subject]:
    """Those of a group whose name holds `pattern`; workloads at the size of the tests where `small`
    says so."""
    return GROUPS[group](pattern, "small" if small else "full")


def _graphs(programs: Iterator[Program] | Sequence[Program]) -> dict[str, Program]:
    return {str(number): program for number, program in enumerate(programs)}


# -- workloads -------------------------------------------------------------------------------------


def _workloads(pattern: str, size: str) -> Iterator[Subject]:
    for workload in chosen(pattern):
        name = "small_" * (size == "small") + workload.name.replace("-", "_")
        with loaded_calls(f"{STEPS}:{name}", []) as calls:
            programs = [(call.graph, call.options.level, dict[str, int]()) for call in calls]
        yield Subject(name, _graphs(programs))


def _open_workloads(pattern: str, size: str) -> Iterator[Subject]:
    for workload in chosen(pattern):
        name = "small_" * (size == "small") + workload.name.replace("-", "_")
        yield Subject(f"open_{name}", _graphs(_compiled_open(workload, size)))


def _compiled_open(workload: Workload, size: str) -> list[Program]:
    """The graphs that the first call of a step with open sizes compiles. It runs none of them."""
    batch = workload.small_batch if size == "small" else workload.batch
    arrays = workload.data(np.random.default_rng(7), **{**batch, "rows": max(batch["rows"], 2)})
    named = (
        {0: "rows", 1: "length"}
        if "length" in batch or workload.name.startswith("gpt")
        else {0: "rows"}
    )
    recorded: list[Program] = []

    def compile(graph: Graph, level: str, **options: Any) -> _Recorded:
        recorded.append((graph, level, options.get("example") or {}))
        return _Recorded(graph)

    names = ("x", "y") if workload.trains else ("x",)
    options = Options(compiler=compile, dynamic=dict.fromkeys(names, named))
    tensors = [tensor_of(array, TensorType.of(array)) for array in arrays[: len(names)]]
    CompiledFunction(make(workload, size), options)(*tensors)
    return recorded


class _Recorded:
    """In place of an executable: zeros of the types of its results."""

    def __init__(self, graph: Graph):
        self.graph = graph

    def run(self, arrays: list[Any]) -> tuple[Any, ...]:
        symbols = symbols_of(self.graph)
        places = axes_of(self.graph.input_types, symbols)
        sizes = {s.name: arrays[i].shape[axis] for s, (i, axis) in zip(symbols, places)}
        types = [type_at(type, sizes) for type in self.graph.output_types]
        return tuple(np.zeros(type.shape, type.dtype.numpy) for type in types)


# -- ops -------------------------------------------------------------------------------------------


def _ops(pattern: str, size: str) -> Iterator[Subject]:
    for op in ops.table():
        if op.samples is None or pattern not in f"ops/{op.name}":
            continue
        programs: dict[tuple[str, str], Program] = {}
        for number, sample in enumerate(op.samples(SampleDrawer())):
            for dtype in DTYPES if number % 3 == 0 else DTYPES[:1]:
                types = [TensorType.of(x) for x in sample.operands]
                types = [t.with_dtype(dtype) if t.dtype.is_float else t for t in types]
                for graph, example in _asked_for(op, tuple(types), sample.attributes):
                    programs[str(graph), str(example)] = (graph, "exact", example)
        yield Subject(f"ops/{op.name}", _graphs(list(programs.values())))


def _asked_for(
    op: Op, types: Types, attributes: dict[str, Any]
) -> list[tuple[Graph, Mapping[str, int]]]:
    """The graphs that eager mode would have compiled, from the one of most open sizes to that of
    numbers: it is told of each that it cannot be."""
    asked: list[tuple[Graph, Mapping[str, int]]] = []

    def refused(graph: Graph, example: Mapping[str, int]) -> Any:
        asked.append((graph, dict(example)))
        raise GraphError("recorded")

    with contextlib.ExitStack() as stack:
        for module, name in MEMOS:  # what ran before in this process has no part in it
            stack.enter_context(_replaced(module, name, {}))
        stack.enter_context(_replaced(compiling, "program_for", refused))
        stack.enter_context(contextlib.suppress(GraphError))
        NativeOp(op, types, op.canonical(attributes))._executable((None,) * len(types))
    return asked


@contextlib.contextmanager
def _replaced(module: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)


# -- strategies ------------------------------------------------------------------------------------


def _strategies(pattern: str, size: str) -> Iterator[Subject]:
    fixed = {f"strategies/{name}": graph for name, (graph, _) in PROBLEMS.items()}
    for name, graph in {
        **fixed,
        **{f"strategies/open {n}": g for n, g in OPEN_PROBLEMS.items()},
    }.items():
        if pattern in name:
            yield Subject(name, {"program": (graph, "exact", {})}, {"by": body_of(graph)})


def _narrow(pattern: str, size: str) -> Iterator[Subject]:
    for name, graph in narrow_problems().items():
        if pattern in f"narrow/{name}":
            programs = {"program": (graph, "exact", dict[str, int]())}
            yield Subject(f"narrow/{name}", programs, {"by": body_of(graph)})


GROUPS: dict[str, Callable[[str, str], Iterator[Subject]]] = {
    "workloads": _workloads, "open": _open_workloads, "ops": _ops, "strategies": _strategies,
    "narrow": _narrow,
}  # fmt: skip
