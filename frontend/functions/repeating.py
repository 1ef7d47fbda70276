"""Tensors and elements repeated."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.no_value import deciding
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions.arguments import need_tensors, not_implemented
from frontend.functions.creation import shape_of
from frontend.functions.declarations import public
from frontend.functions.layout import expand, listed, ravel, reshaped, unsqueeze
from frontend.functions.reduce import dimension
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import indexing
from graphc.ops.generate import iota


@public(at="", method=True, node="Repeat")
def repeat(self: Tensor, *sizes: Any, repeats: Any = None) -> Tensor:
    """The tensor tiled: `sizes[i]` times along dimension i."""
    times = tuple(listed(sizes, repeats))
    shape = self._sizes
    if len(times) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    full = (1,) * (len(times) - len(shape)) + shape
    target = shape_of((tuple(time * size for time, size in zip(times, full)),))
    inner = reshaped(self, tuple(n for size in full for n in (1, size)))
    spread = expand(inner, tuple(n for time, size in zip(times, full) for n in (time, size)))
    result = reshaped(spread, target)
    # Always a copy, also where nothing is repeated.
    return result if result._view is None else result.clone()


@public(method=True, node="Repeat")
def tile(input: Tensor, *sizes: Any, dims: Any = None) -> Tensor:
    """`repeat`, with 1 for dimensions in front that are not given."""
    times = listed(sizes, dims)
    return repeat(input, (1,) * (input.dim() - len(times)) + tuple(times))


@public(method=True, numpy_names=True)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element along `dim` (without: of the flattened tensor) repeated in place, a number of
    times or as often as an integer tensor says; `repeat_interleave(repeats)` gives the positions.
    `output_size`: the length of the result, which a trace needs where `repeats` is a tensor."""
    need_tensors("repeat_interleave", input=input)
    if repeats is None:
        return _positions(input, output_size)
    x = ravel(input) if dim is None else input
    axis = 0 if dim is None else dimension(dim, x.dim())
    shape = x._sizes
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        if repeats.dim() != 1:
            raise RuntimeError("repeats must be 0-dim or 1-dim tensor")
        if repeats.shape[0] != shape[axis]:
            raise ShapeError(
                "repeats must have the same size as input along dim, but got repeats.size(0) = "
                f"{repeats.shape[0]} and input.size({axis}) = {shape[axis]}",
                location=user_location(),
            )
        places = _positions(repeats, output_size)
        return CONTEXT.apply(indexing.take, (x, places), {"axis": axis})[0]
    if isinstance(repeats, Tensor):
        times = int(deciding(repeats, "repeat_interleave with a tensor").reshape(()))
    else:
        times = int(repeats)
    if times < 0:
        raise RuntimeError("Repeats must be non-negative")
    wide = (*shape[: axis + 1], times, *shape[axis + 1 :])
    spread = expand(unsqueeze(x, axis + 1), wide)
    result = reshaped(spread, (*shape[:axis], shape[axis] * times, *shape[axis + 1 :]))
    return result if result._view is None else result.clone()


_WITHOUT_SIZE = "repeat_interleave with a tensor and no output_size"


def _positions(repeats: Tensor, output_size: int | None) -> Tensor:
    """0 repeats[0] times, 1 repeats[1] times, and so on."""
    if not repeats.dtype.is_integer:
        raise not_implemented("repeat_interleave_cpu", repeats.dtype)
    if repeats.dim() != 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    if STATE.mode is None or output_size is None:
        counts = deciding(repeats, _WITHOUT_SIZE, "give output_size=")
        if (counts < 0).any():
            raise RuntimeError("repeats can not be negative")
        if output_size is not None and int(counts.sum()) != output_size:
            raise RuntimeError("allocated size does not match required size")
        return from_data(np.repeat(np.arange(len(counts)), counts), DType.i64, copy=False)
    # Place j shows the element before which all repeats end at j or earlier. A sum of repeats that
    # is less than `output_size` gives positions out of range, which indexing reports.
    count = repeats.shape[0]
    rows = CONTEXT.apply(iota, (), {"shape": (count, count), "axis": 0, "dtype": DType.i64})[0]
    columns = CONTEXT.apply(iota, (), {"shape": (count, count), "axis": 1, "dtype": DType.i64})[0]
    ends = (casted(repeats, DType.i64) * casted(columns <= rows, DType.i64)).sum(1)
    shape = (output_size, count)
    places = CONTEXT.apply(iota, (), {"shape": shape, "axis": 0, "dtype": DType.i64})[0]
    return (ends <= places).sum(1)
