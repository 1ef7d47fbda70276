"""Elements by their places."""

from __future__ import annotations

from typing import Any

from frontend.onnx.exporting.declarations import exports

_REDUCTIONS = {
    "scatter_set": "none", "scatter_add": "add", "scatter_mul": "mul", "scatter_max": "max",
    "scatter_min": "min",
}  # fmt: skip


@exports("gather")
def gather(w: Any, node: Any, x: str, index: str, *, axis: int) -> Any:
    """Along other axes the index may be shorter, which ONNX has no word for: the operand is cut."""
    shape, want = w.type_of(node.operands[0]).shape, w.type_of(node.operands[1]).shape
    cut = [i for i in range(len(shape)) if i != axis and shape[i] != want[i]]
    if cut:
        starts, ends = w.constant([0] * len(cut)), w.shape([want[i] for i in cut])
        x = w.add("Slice", [x, starts, ends, w.constant(cut)])
    return w.add("GatherElements", [x, index], axis=axis)


@exports("take")
def take(w: Any, node: Any, x: str, index: str, *, axis: int) -> Any:
    return w.add("Gather", [x, index], axis=axis)


def _scatter(w: Any, x: str, index: str, source: str, axis: int, reduction: str) -> Any:
    return w.add("ScatterElements", [x, index, source], axis=axis, reduction=reduction)


@exports("scatter_set")
def scatter_set(w: Any, node: Any, x: str, index: str, source: str, *, axis: int) -> Any:
    return w.add("ScatterElements", [x, index, source], axis=axis)


@exports("scatter_add", "scatter_mul", since=16)
def scatter_more(w: Any, node: Any, x: str, index: str, source: str, *, axis: int) -> Any:
    return _scatter(w, x, index, source, axis, _REDUCTIONS[node.op])


@exports("scatter_max", "scatter_min", since=18)
def scatter_extreme(w: Any, node: Any, x: str, index: str, source: str, *, axis: int) -> Any:
    return _scatter(w, x, index, source, axis, _REDUCTIONS[node.op])


@exports("index_add", "index_set", since=16)
def index_rows(w: Any, node: Any, x: str, index: str, source: str, *, axis: int) -> Any:
    """Slices at places: as those of a vector, whose elements are repeated over each slice."""
    shape, rank = w.type_of(node.operands[2]).shape, w.type_of(node.operands[0]).rank
    places = w.type_of(node.operands[1])
    count: Any = 1
    for size in places.shape:
        count = count * size
    flat = [*shape[:axis], count, *shape[axis + places.rank :]]
    if places.rank != 1:
        source = w.reshaped(source, flat)
    at = w.reshaped(index, [*[1] * axis, count, *[1] * (rank - axis - 1)])
    at = w.add("Expand", [at, w.shape(flat)])
    return _scatter(w, x, at, source, axis, "add" if node.op == "index_add" else "none")
