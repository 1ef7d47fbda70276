"""Branches and loops: operators that hold graphs, whose constants lie in them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.onnx.exporting.declarations import exports
from graphc.ir.nodes import Graph
from graphc.ir.types import DType, TensorType


def _inner(
    w: Any, name: str, region: Graph, inputs: Sequence[str], carried: Sequence[Any] = (),
    before: Any = None,
) -> Any:  # fmt: skip
    """A graph that a node holds. `inputs` name the region's inputs; of these the ones in `carried`,
    (name, type) pairs, are inputs of the graph, all others stand around it. `before(writer,
    outputs)` may add to its outputs, (name, type) pairs, after the region is written."""
    inner = w.inner()
    names = inner.write(region, inputs)
    pairs = [
        (inner.add("Identity", [each]), type) for each, type in zip(names, region.output_types)
    ]
    pairs = before(inner, pairs) if before is not None else pairs
    return w.helper.make_graph(
        inner.nodes, w.name(name), [w.value_info(*each) for each in carried],
        [w.value_info(*each) for each in pairs],
    )  # fmt: skip


@exports("cond")
def cond(w: Any, node: Any, flag: str, *xs: str, **_: Any) -> Any:
    then, otherwise = node.regions
    graphs = [_inner(w, "branch", region, xs) for region in (then, otherwise)]
    results = w.add("If", [flag], len(node.types), then_branch=graphs[0], else_branch=graphs[1])
    return [results] if len(node.types) == 1 else results


@exports("scan")
def scan(
    w: Any, node: Any, *xs: str, carry: int, sequences: int, length: Any, reverse: bool, **_: Any
) -> Any:
    """The same operator; what every step reads stands around it. Without a sequence it goes over
    a range."""
    body = node.regions[0]
    types = body.input_types
    states = [(w.name("state"), types[i]) for i in range(carry)]
    slices = [(w.name("slice"), types[carry + i]) for i in range(sequences)]
    scanned = list(xs[carry : carry + sequences])
    names = [name for name, _ in (*states, *slices)]
    if not scanned:
        count = w.add("Squeeze", [w.size(length), w.constant([0])])
        scanned = [w.add("Range", [w.constant(0), count, w.constant(1)])]
        slices = [(w.name("slice"), TensorType(DType.i64, ()))]
    graph = _inner(w, "body", body, [*names, *xs[carry + sequences :]], [*states, *slices])
    directions = {}
    if reverse:
        directions = {
            "scan_input_directions": [1] * len(scanned),
            "scan_output_directions": [1] * (len(node.types) - carry),
        }
    results = w.add(
        "Scan", [*xs[:carry], *scanned], len(node.types), body=graph,
        num_scan_inputs=len(scanned), **directions,
    )  # fmt: skip
    return [results] if len(node.types) == 1 else results


@exports("while_loop")
def while_loop(w: Any, node: Any, *xs: str, carry: int, **_: Any) -> Any:
    """The condition is computed before the first round, and at the end of each."""
    condition, body = node.regions
    rest = xs[carry:]
    (first,) = _inlined(w, condition, xs)
    states = [(w.name("state"), type) for type in body.input_types[:carry]]
    round_and_flag = [(w.name("round"), _scalar(DType.i64)), (w.name("flag"), _scalar(DType.bool))]

    def before(inner: Any, pairs: list[Any]) -> list[Any]:
        (flag,) = _inlined(inner, condition, [*(name for name, _ in pairs), *rest])
        return [(inner.add("Identity", [flag]), _scalar(DType.bool)), *pairs]

    names = [name for name, _ in states]
    graph = _inner(w, "body", body, [*names, *rest], [*round_and_flag, *states], before)
    results = w.add("Loop", ["", first, *xs[:carry]], carry, body=graph)
    return [results] if carry == 1 else results


def _inlined(w: Any, region: Graph, inputs: Sequence[str]) -> list[str]:
    """A region's nodes among those of `w`."""
    inner = w.inner()
    inner.nodes = w.nodes
    names: list[str] = inner.write(region, inputs)
    return names


def _scalar(dtype: DType) -> Any:
    return TensorType(dtype, ())
