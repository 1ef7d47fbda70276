"""Reductions over axes, what goes along an axis, order."""

from __future__ import annotations

from typing import Any

from frontend.onnx.exporting.declarations import exports
from graphc.ir.types import DType


def _reduced(w: Any, operator: str, x: str, axes: Any) -> Any:
    """Axes are an input of ReduceSum from operator set 13 on, of all others from 18 on."""
    if operator == "ReduceSum" or w.opset >= 18:
        return w.add(operator, [x, w.constant(list(axes))], keepdims=0)
    return w.add(operator, [x], axes=list(axes), keepdims=0)


def _over(**operators: str) -> None:
    for op, operator in operators.items():

        def rule(w: Any, node: Any, x: str, *, axes: Any, _operator: str = operator) -> Any:
            return _reduced(w, _operator, x, axes) if axes else x

        exports(op)(rule)


_over(sum="ReduceSum", prod="ReduceProd", max="ReduceMax", min="ReduceMin", mean="ReduceMean",
      logsumexp="ReduceLogSumExp")  # fmt: skip


@exports("any", "all")
def any_or_all(w: Any, node: Any, x: str, *, axes: Any) -> Any:
    """By how many there are that hold, or do not: none of nothing."""
    if node.op == "any":
        return w.cast(_reduced(w, "ReduceSum", w.cast(x, DType.i64), axes), DType.bool)
    failing = w.cast(w.add("Not", [x]), DType.i64)
    return w.add("Not", [w.cast(_reduced(w, "ReduceSum", failing, axes), DType.bool)])


@exports("argmax", "argmin")
def place_of_extreme(w: Any, node: Any, x: str, *, axes: Any, dtype: DType) -> Any:
    """Over several axes: of them as one, the last."""
    operator = "ArgMax" if node.op == "argmax" else "ArgMin"
    type = w.type_of(node.operands[0])
    axis = axes[0]
    if len(axes) != 1:
        rest = [i for i in range(type.rank) if i not in axes]
        x = w.add("Transpose", [x], perm=[*rest, *axes])
        size: Any = 1
        for i in axes:
            size = size * type.shape[i]
        x = w.reshaped(x, [*[type.shape[i] for i in rest], size])
        axis = len(rest)
    places = w.add(operator, [x], axis=axis, keepdims=0)
    return places if dtype is DType.i64 else w.cast(places, dtype)


@exports("softmax")
def softmax(w: Any, node: Any, x: str, *, axis: int) -> Any:
    return w.add("Softmax", [x], axis=axis)


@exports("log_softmax")
def log_softmax(w: Any, node: Any, x: str, *, axis: int) -> Any:
    return w.add("LogSoftmax", [x], axis=axis)


@exports("cumsum")
def cumsum(w: Any, node: Any, x: str, *, axis: int) -> Any:
    return w.add("CumSum", [x, w.constant(axis)])


@exports("cumprod", since=26)
def cumprod(w: Any, node: Any, x: str, *, axis: int) -> Any:
    return w.add("CumProd", [x, w.constant(axis)])


@exports("argsort")
def argsort(w: Any, node: Any, x: str, *, axis: int, descending: bool) -> Any:
    count = w.type_of(node.operands[0]).shape[axis]
    return argtopk(w, node, x, axis=axis, descending=descending, count=count)


@exports("argtopk")
def argtopk(w: Any, node: Any, x: str, *, axis: int, descending: bool, count: Any) -> Any:
    dtype = w.type_of(node.operands[0]).dtype
    x = w.cast(x, DType.i32) if dtype is DType.bool else x
    return w.add("TopK", [x, w.size(count)], 2, axis=axis, largest=int(descending))[1]
