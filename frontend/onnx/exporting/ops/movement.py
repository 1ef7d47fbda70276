"""Movement of elements, and what is made of a shape alone."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.onnx.exporting.declarations import exports
from frontend.onnx.importing.errors import OnnxNotHere
from graphc.ir.dims import Dim
from graphc.ir.types import DType


@exports("reshape")
def reshape(w: Any, node: Any, x: str, *, shape: Any) -> Any:
    return w.reshaped(x, node.types[0].shape)


@exports("transpose")
def transpose(w: Any, node: Any, x: str, *, permutation: Any) -> Any:
    return w.add("Transpose", [x], perm=list(permutation)) if permutation else x


@exports("broadcast")
def broadcast(w: Any, node: Any, x: str, *, shape: Any) -> Any:
    return w.add("Expand", [x, w.shape(node.types[0].shape)])


@exports("slice")
def slice_(w: Any, node: Any, x: str, *, start: Any, size: Any, step: Any) -> Any:
    """The axes that are cut. Backwards past the first element ONNX says by the least number."""
    source = w.type_of(node.operands[0]).shape
    starts, ends, axes, steps = [], [], [], []
    for axis, (first, count, stride) in enumerate(zip(start, size, step)):
        if stride == 1 and first == 0 and count == source[axis]:
            continue
        last = first + count * stride
        backwards = stride < 0
        starts.append(first)
        ends.append(-(2**31) if backwards and _is_below_zero(last) else last)
        axes.append(axis)
        steps.append(stride)
    if not axes:
        return x
    return w.add("Slice", [x, w.shape(starts), w.shape(ends), w.constant(axes), w.constant(steps)])


def _is_below_zero(last: Any) -> bool:
    return not isinstance(last, Dim) and last < 0


@exports("pad")
def pad(w: Any, node: Any, x: str, fill: str, *, low: Any, high: Any, interior: Any) -> Any:
    if any(interior):
        raise OnnxNotHere("gaps between elements")
    return w.add("Pad", [x, w.shape([*low, *high]), fill])


@exports("concat")
def concat(w: Any, node: Any, *xs: str, axis: int) -> Any:
    return w.add("Concat", xs, axis=axis)


@exports("split")
def split(w: Any, node: Any, x: str, *, sizes: Any, axis: int) -> Any:
    return w.add("Split", [x, w.shape(sizes)], len(sizes), axis=axis)


@exports("iota")
def iota(w: Any, node: Any, *, shape: Any, axis: int, dtype: DType) -> Any:
    sizes = node.types[0].shape
    count = w.add("Squeeze", [w.size(sizes[axis]), w.constant([0])])
    places = w.add("Range", [w.constant(0), count, w.constant(1)])
    if dtype is not DType.i64:
        places = w.cast(places, dtype)
    if len(sizes) == 1:
        return places
    along = w.reshaped(places, [sizes[i] if i == axis else 1 for i in range(len(sizes))])
    return w.add("Expand", [along, w.shape(sizes)])


@exports("extent")
def extent(w: Any, node: Any, *, size: Any, dtype: DType) -> Any:
    number = w.add("Squeeze", [w.size(size), w.constant([0])])
    return number if dtype is DType.i64 else w.cast(number, dtype)


@exports("diagonal")
def diagonal(w: Any, node: Any, x: str, *, offset: int, axis1: int, axis2: int) -> Any:
    """By the flat places of its elements: the two axes last, as one."""
    shape = w.type_of(node.operands[0]).shape
    rank, count = len(shape), node.types[0].shape[-1]
    if any(isinstance(size, Dim) for size in (shape[axis1], shape[axis2], count)):
        raise OnnxNotHere("the diagonal of open sizes")
    rest = [axis for axis in range(rank) if axis not in (axis1, axis2)]
    moved = w.add("Transpose", [x], perm=[*rest, axis1, axis2])
    flat = w.reshaped(moved, [*[shape[axis] for axis in rest], shape[axis1] * shape[axis2]])
    first = offset if offset >= 0 else -offset * shape[axis2]
    places = [first + i * (shape[axis2] + 1) for i in range(count)]
    return w.add("Gather", [flat, w.constant(places)], axis=rank - 2)


@exports("slide")
def slide(w: Any, node: Any, x: str, *, axis: int, size: int, step: int) -> Any:
    """Windows along an axis, their elements last: taken by their places."""
    count = node.types[0].shape[axis]
    if isinstance(count, Dim):
        raise OnnxNotHere("windows along an open size")
    places = [[first * step + i for i in range(size)] for first in range(count)]
    taken = w.add("Gather", [x, w.constant(places)], axis=axis)
    rank = len(node.types[0].shape)
    if axis == rank - 2:
        return taken
    order = [*range(axis + 1), *range(axis + 2, rank), axis + 1]
    return w.add("Transpose", [taken], perm=order)


@exports("windows")
def windows(
    w: Any, node: Any, x: str, fill: str, *, kernel: Any, stride: Any, padding: Any, dilation: Any
) -> Any:
    tables = []
    for count, k, s, p, d in zip(_slid(node, kernel), kernel, stride, padding, dilation):
        tables.append(np.arange(count)[:, None] * s + np.arange(k) * d - p)
    return _by_taps(w, node, x, fill, tables)


@exports("unwindows")
def unwindows(
    w: Any, node: Any, x: str, fill: str, *, size: Any, kernel: Any, stride: Any, padding: Any,
    dilation: Any,
) -> Any:  # fmt: skip
    tables = []
    for count, k, s, p, d in zip(_slid(node, kernel), kernel, stride, padding, dilation):
        moved = np.arange(count)[:, None] + p - np.arange(k) * d
        tables.append(np.where(moved % s == 0, moved // s, -1))
    return _by_taps(w, node, x, fill, tables)


def _slid(node: Any, kernel: Any) -> Any:
    """The sizes of a result's axes that come before the taps."""
    sizes = node.types[0].shape[-2 * len(kernel) : -len(kernel)]
    if any(isinstance(size, Dim) for size in sizes):
        raise OnnxNotHere("windows along an open size")
    return sizes


def _by_taps(w: Any, node: Any, x: str, fill: str, tables: Any) -> str:
    """Element (place, tap) of each axis and its taps is that at (`table[place, tap]`, tap) of the
    operand, the fill outside: axis and taps as one axis, the fill behind it."""
    shape = list(w.type_of(node.operands[0]).shape)
    rank, count = len(shape), len(tables)
    for i, table in enumerate(tables):
        axis, behind = rank - 2 * count + i, rank - count + i
        size, taps = shape[axis], shape[behind]
        if isinstance(size, Dim):
            raise OnnxNotHere("windows along an open size")
        rest = [each for each in range(rank) if each not in (axis, behind)]
        order = [*rest, axis, behind]
        flat = [*[shape[each] for each in rest], size * taps]
        x = w.reshaped(w.add("Transpose", [x], perm=order), flat)
        x = w.add("Pad", [x, w.constant([0] * (2 * len(flat) - 1) + [1]), fill])
        inside = (table >= 0) & (table < size)
        places = np.where(inside, table * taps + np.arange(taps), size * taps)
        x = w.add("Gather", [x, w.constant(places)], axis=len(rest))
        x = w.add("Transpose", [x], perm=[order.index(each) for each in range(rank)])
        shape[axis] = len(table)
    return x
