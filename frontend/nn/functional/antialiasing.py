"""Resizing with a filter as wide as an element of the result: a product with a matrix of weights
for each axis. The last axis comes first, as in PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.matrix import matmul
from graphc.ops.conversion import convert

Array = np.ndarray[Any, Any]


def _triangle(x: Array) -> Array:
    return np.maximum(1 - np.abs(x), 0)


def _cubic(x: Array) -> Array:
    """R. Keys' cubic convolution with a = -1/2."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0.0))


FILTERS = {"bilinear": (_triangle, 1.0), "bicubic": (_cubic, 2.0)}
"""The filter of a mode, and how far it reaches."""


def antialiased(
    x: Tensor, new: tuple[int, ...], scales: tuple[float | None, ...], mode: str, align: bool
) -> Tensor:
    """`x` [N, C, H, W] resized to `new`."""
    height, width = (
        _weights(old, size, scale, mode, align)
        for old, size, scale in zip(x.shape[2:], new, scales, strict=True)
    )
    kind = x.dtype.computes_as if x.dtype.is_storage else x.dtype
    pair = (height, np.ascontiguousarray(width.T))
    rows, columns = (CONTEXT.constant(np.asarray(convert(w, kind))) for w in pair)
    return matmul(rows, matmul(x.to(kind), columns)).to(x.dtype)


def _weights(old: int, new: int, scale: float | None, mode: str, align: bool) -> Array:
    """How much each element of the result takes of each of the operand: [new, old]."""
    if align:
        step = (old - 1) / (new - 1) if new > 1 else 0.0
    else:
        step = 1.0 / scale if scale is not None and scale > 0 else old / new
    function, reach = FILTERS[mode]
    stretch = max(step, 1.0)
    centre = step * (np.arange(new) + 0.5)
    first = np.maximum((centre - reach * stretch + 0.5).astype(np.int64), 0)
    last = np.minimum((centre + reach * stretch + 0.5).astype(np.int64), old)
    places = np.arange(old)
    weights = function((places - centre[:, None] + 0.5) / stretch)
    weights = np.where((places >= first[:, None]) & (places < last[:, None]), weights, 0.0)
    return weights / weights.sum(axis=1, keepdims=True)
