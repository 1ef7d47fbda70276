"""Movement of elements, and what shapes are made with."""

from __future__ import annotations

import functools
import operator
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import Numbers, Value, onnx_op
from frontend.onnx.importing.errors import OnnxError
from frontend.onnx.importing.graphs import OnnxNode
from frontend.onnx.importing.numbers import number_array

FAR = 2**31 - 1
"""A position at or beyond which a slice means the end."""


def is_number(size: Any, value: int) -> bool:
    """Whether a size is this number: one that is open is not."""
    return type(size) is int and size == value


def product(sizes: Any) -> Any:
    return functools.reduce(operator.mul, sizes, 1)


@onnx_op("Shape")
def shape(x: Value, *, start: int = 0, end: int | None = None) -> Any:
    return number_array(list(x.shape)[start:end])


@onnx_op("Reshape", on_numbers=lambda x, s, allowzero=0, **_: x.reshape(s.tolist()))
def reshape(x: Tensor, shape: Numbers, *, allowzero: int = 0, consumed_inputs: Any = None) -> Any:
    kept = [
        x.shape[axis] if is_number(size, 0) and not allowzero else size
        for axis, size in enumerate(shape)
    ]
    return x.reshape(kept)


@onnx_op("Flatten")
def flatten(x: Tensor, *, axis: int = 1) -> Any:
    axis = axis + x.dim() if axis < 0 else axis
    return x.reshape(product(x.shape[:axis]), product(x.shape[axis:]))


@onnx_op("Transpose", on_numbers=lambda x, perm=None: x.transpose(perm))
def transpose(x: Tensor, *, perm: Any = None) -> Any:
    return x.permute(perm if perm is not None else list(reversed(range(x.dim()))))


def _squeezed_numbers(x: Any, axes: Any = None) -> Any:
    return x.squeeze(None if axes is None else tuple(axes.tolist()))


@onnx_op("Squeeze", on_numbers=_squeezed_numbers)
def squeeze(x: Tensor, axes: Numbers | None = None) -> Any:
    if axes is None:
        return x.squeeze()
    for axis in axes:
        if not is_number(x.shape[axis], 1) and x.shape[axis] != 1:
            raise OnnxError(f"axis {axis} of {tuple(x.shape)} is not of size 1")
    return x.squeeze(tuple(axes))


@onnx_op("Unsqueeze", on_numbers=lambda x, axes: np.expand_dims(x, tuple(axes.tolist())))
def unsqueeze(x: Tensor, axes: Numbers) -> Any:
    rank = x.dim() + len(axes)
    for axis in sorted(axis % rank for axis in axes):
        x = x.unsqueeze(axis)
    return x


def _sliced_numbers(x: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    index = [slice(None)] * x.ndim
    for i, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        step = 1 if steps is None else steps.tolist()[i]
        axis = i if axes is None else axes.tolist()[i]
        size = x.shape[axis]
        index[axis] = slice(start, None if step < 0 and end < -size else end, step)
    return x[tuple(index)]


@onnx_op("Slice", on_numbers=_sliced_numbers)
def slice_(
    x: Tensor, starts: Numbers, ends: Numbers, axes: Numbers | None = None,
    steps: Numbers | None = None,
) -> Any:  # fmt: skip
    axes = list(range(len(starts))) if axes is None else axes
    steps = [1] * len(starts) if steps is None else steps
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        size = x.shape[axis]
        if step > 0:
            index: list[Any] = [slice(None)] * x.dim()
            far = type(end) is int and end >= FAR
            index[axis % x.dim()] = slice(start, None if far else end, step)
            x = x[tuple(index)]
            continue
        start = start if start < 0 else min(start, size - 1) - size  # from the end
        end = end - size if end >= 0 else max(end, -size - 1)
        # Backwards from position start is forwards from -1 - start of the reversed axis.
        index = [slice(None)] * x.dim()
        index[axis % x.dim()] = slice(-1 - start, -1 - end, -step)
        x = x.flip(axis)[tuple(index)]
    return x


@onnx_op("Concat", on_numbers=lambda *xs, axis: np.concatenate(xs, axis))
def concat(*xs: Tensor, axis: int = 1) -> Any:
    return torch.cat(list(xs), axis)


@onnx_op("Split")
def split(
    x: Tensor, split: Numbers | None = None, *, axis: int = 0, num_outputs: int | None = None,
    node: OnnxNode,
) -> Any:  # fmt: skip
    if split is not None:
        return torch.split(x, split, axis)
    parts = num_outputs or len(node.outputs)
    size = -(-x.shape[axis] // parts)
    sizes = [size] * (parts - 1) + [x.shape[axis] - size * (parts - 1)]
    return torch.split(x, sizes, axis)


def _expanded_numbers(x: Any, sizes: Any) -> Any:
    if sizes.dtype == object:
        return NotImplemented
    shape = np.broadcast_shapes(x.shape, tuple(sizes.tolist()))
    return np.broadcast_to(x, shape) if product(shape) <= 64 else NotImplemented


@onnx_op("Expand", on_numbers=_expanded_numbers)
def expand(x: Tensor, shape: Numbers) -> Any:
    rank = max(len(shape), x.dim())
    want = [1] * (rank - len(shape)) + list(shape)
    have = [1] * (rank - x.dim()) + list(x.shape)
    return x.reshape(have).expand([h if is_number(w, 1) else w for h, w in zip(have, want)])


@onnx_op("Tile")
def tile(x: Tensor, repeats: Numbers) -> Any:
    return x.repeat(*repeats)


@onnx_op("Pad")
def pad(
    x: Tensor, pads: Numbers, constant_value: Value | None = None, axes: Numbers | None = None, *,
    mode: str = "constant", value: float = 0.0,
) -> Any:  # fmt: skip
    rank = x.dim()
    over = list(range(rank)) if axes is None else [axis % rank for axis in axes]
    low, high = [0] * rank, [0] * rank
    for position, axis in enumerate(over):
        low[axis], high[axis] = pads[position], pads[position + len(over)]
    if mode == "constant":
        ends = [end for axis in reversed(range(rank)) for end in (low[axis], high[axis])]
        if isinstance(constant_value, Tensor):
            inside = F.pad(torch.ones_like(x, dtype=torch.bool), ends, value=False)
            return torch.where(inside, F.pad(x, ends), constant_value.reshape(()).to(x.dtype))
        if constant_value is not None:
            value = constant_value.reshape(-1)[0].item()
        return F.pad(x, ends, value=bool(value) if x.dtype is torch.bool else value)
    for axis in range(rank):
        if not (is_number(low[axis], 0) and is_number(high[axis], 0)):
            x = _padded_by_places(x, axis, low[axis], high[axis], mode)
    return x


def _padded_by_places(x: Tensor, axis: int, low: Any, high: Any, mode: str) -> Tensor:
    size = x.shape[axis]
    places = torch.arange(-low, size + high)
    if mode == "edge":
        places = places.clamp(0, size - 1)
    elif mode == "wrap":
        places = places % size
    else:  # reflect: back and forth, without the ends twice
        period = 2 * (size - 1)
        places = places.abs() % (period if period != 0 else 1)
        places = torch.where(places >= size, period - places, places)
    return x.index_select(axis, places)


@onnx_op("CenterCropPad")
def center_crop_pad(x: Tensor, shape: Numbers, *, axes: Any = None) -> Any:
    for axis, want in zip(range(x.dim()) if axes is None else axes, shape):
        size = x.shape[axis]
        if size > want:
            x = x.narrow(axis, (size - want) // 2, want)
        elif size < want:
            ends = [0] * (2 * x.dim())
            at = 2 * (x.dim() - 1 - axis % x.dim())
            ends[at] = (want - size) // 2
            ends[at + 1] = want - size - ends[at]
            x = F.pad(x, ends)
    return x


@onnx_op("DepthToSpace")
def depth_to_space(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Any:
    if mode == "CRD":
        return F.pixel_shuffle(x, blocksize)
    n, c, h, w = x.shape
    b, depth = blocksize, c // blocksize**2
    return x.reshape(n, b, b, depth, h, w).permute(0, 3, 4, 1, 5, 2).reshape(n, depth, h * b, w * b)


@onnx_op("SpaceToDepth")
def space_to_depth(x: Tensor, *, blocksize: int, mode: str = "DCR") -> Any:
    if mode == "CRD":
        return F.pixel_unshuffle(x, blocksize)
    n, c, h, w = x.shape
    b = blocksize
    parts = x.reshape(n, c, h // b, b, w // b, b).permute(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, c * b * b, h // b, w // b)


@onnx_op("ReverseSequence")
def reverse_sequence(x: Tensor, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first `lengths[i]` elements of sequence i, backwards."""
    x = x.movedim((batch_axis, time_axis), (0, 1))
    steps = torch.arange(x.shape[1])
    ends = lengths.reshape(-1, 1)
    places = torch.where(steps < ends, ends - 1 - steps, steps)
    places = places.reshape(*places.shape, *[1] * (x.dim() - 2)).expand(x.shape)
    return x.gather(1, places).movedim((0, 1), (batch_axis, time_axis))
