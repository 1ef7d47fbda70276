"""Reductions over axes, and what is cumulated along one."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.unsigned import on_unsigned

Reduction = Callable[[Tensor, list[int], bool], Any]


def _reduction(name: str, function: Reduction, numbers: Any = None) -> None:
    def reduced(
        x: Tensor, axes: Numbers | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Any:
        if not axes:
            if noop_with_empty_axes:
                return function(x, [], True)
            axes = list(range(x.dim()))
        over = sorted({axis % x.dim() for axis in axes}) if x.dim() else []
        return function(x, over, bool(keepdims))

    def on_numbers(x: Any, axes: Any = None, *, keepdims: int = 1, **_: Any) -> Any:
        over = None if axes is None or axes.size == 0 else tuple(axes.tolist())
        return numbers(x, axis=over, keepdims=bool(keepdims))

    onnx_op(name, on_numbers=on_numbers if numbers else None)(reduced)


def _sum(x: Tensor, axes: list[int], keep: bool) -> Any:
    return x.sum(axes, keep, dtype=x.dtype) if axes else x


def _root(x: Tensor) -> Any:
    return x.to(torch.float64).sqrt().to(x.dtype) if not x.dtype.is_float else x.sqrt()


def _log(x: Tensor) -> Any:
    return x.to(torch.float64).log().to(x.dtype) if not x.dtype.is_float else x.log()


def _mean(x: Tensor, axes: list[int], keep: bool) -> Any:
    if not axes:
        return x
    if x.dtype.is_float:
        return x.mean(axes, keep)
    count = functools.reduce(operator.mul, [x.shape[axis] for axis in axes], 1)
    return _sum(x, axes, keep).div(count, rounding_mode="trunc").to(x.dtype)


def _product(x: Tensor, axes: list[int], keep: bool) -> Any:
    for axis in reversed(axes):
        x = x.prod(axis, keep, dtype=x.dtype)
    return x


def _extreme(name: str, least: bool) -> Reduction:
    def reduced(x: Tensor, axes: list[int], keep: bool) -> Any:
        if not axes:
            return x
        if any(type(x.shape[axis]) is int and x.shape[axis] == 0 for axis in axes):
            edge = _edge(x, least)
            shape = [1 if i in axes else n for i, n in enumerate(x.shape) if keep or i not in axes]
            return torch.full(shape, edge, dtype=x.dtype)
        if x.dtype is torch.bool:
            return (getattr(x.to(torch.uint8), name)(axes, keep)).to(torch.bool)
        return on_unsigned(lambda t: getattr(t, name)(axes, keep), True)(x)

    return reduced


def _edge(x: Tensor, least: bool) -> Any:
    """What is less (or more) than everything: the extreme of nothing."""
    if x.dtype.is_float:
        return float("inf") if least else float("-inf")
    if x.dtype is torch.bool:
        return least
    info = np.iinfo(x.dtype.numpy)
    return int(info.max if least else info.min)


def _log_sum_exp(x: Tensor, axes: list[int], keep: bool) -> Any:
    return torch.logsumexp(x, axes, keep) if axes else x


for _name, _function, _numbers in (
    ("ReduceSum", _sum, np.sum),
    ("ReduceMean", _mean, None),
    ("ReduceProd", _product, np.prod),
    ("ReduceMax", _extreme("amax", False), np.max),
    ("ReduceMin", _extreme("amin", True), np.min),
    ("ReduceL1", lambda x, axes, keep: _sum(x.abs(), axes, keep), None),
    ("ReduceL2", lambda x, axes, keep: _root(_sum(x * x, axes, keep)), None),
    ("ReduceSumSquare", lambda x, axes, keep: _sum(x * x, axes, keep), None),
    ("ReduceLogSum", lambda x, axes, keep: _log(_sum(x, axes, keep)), None),
    ("ReduceLogSumExp", _log_sum_exp, None),
):
    _reduction(_name, _function, _numbers)


def _place_of_extreme(name: str, method: str) -> None:
    def place(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        if not select_last_index:
            return getattr(x, method)(axis, bool(keepdims))
        return x.shape[axis] - 1 - getattr(x.flip(axis), method)(axis, bool(keepdims))

    onnx_op(name)(place)


_place_of_extreme("ArgMax", "argmax")
_place_of_extreme("ArgMin", "argmin")


# -- cumulated -----------------------------------------------------------------------------------


def _cumulated(name: str, function: Any, identity: int) -> None:
    def cumulated(x: Tensor, axis: Numbers, *, exclusive: int = 0, reverse: int = 0) -> Any:
        along = axis[0]
        x = x.flip(along) if reverse else x
        if exclusive:
            first = torch.full_like(x.narrow(along, 0, 1), identity)
            x = torch.cat([first, x.narrow(along, 0, x.shape[along] - 1)], along)
        result = function(x, along, dtype=x.dtype)
        return result.flip(along) if reverse else result

    onnx_op(name)(cumulated)


_cumulated("CumSum", torch.cumsum, 0)
_cumulated("CumProd", torch.cumprod, 1)


# -- norms ---------------------------------------------------------------------------------------


@onnx_op("GlobalLpPool")
def global_lp_pool(x: Tensor, *, p: float = 2) -> Any:
    return (x.abs() ** p).sum(tuple(range(2, x.dim())), keepdim=True) ** (1 / p)


@onnx_op("GlobalAveragePool")
def global_average_pool(x: Tensor) -> Any:
    return x.mean(tuple(range(2, x.dim())), keepdim=True)


@onnx_op("GlobalMaxPool")
def global_max_pool(x: Tensor) -> Any:
    return x.amax(tuple(range(2, x.dim())), keepdim=True)


@onnx_op("LpNormalization")
def lp_normalization(x: Tensor, *, axis: int = -1, p: int = 2) -> Any:
    total = (x.abs() if p == 1 else x * x).sum(axis, True)
    nothing = total == 0
    total = torch.where(nothing, 1, total)
    return torch.where(nothing, 0, x / (total if p == 1 else total.sqrt()))
