"""What can be asked of a tensor at the top level, and small functions that few programs call."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from frontend.functions import reduce
from frontend.functions.arguments import need_tensors, stored
from frontend.functions.creation import empty, full
from frontend.functions.declarations import public
from frontend.functions.logic import logical_and
from frontend.functions.norms import norm
from frontend.functions.order import cumsum
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.functions.reduce import dimension
from frontend.functions.scatter import put, scatter
from frontend.functions.select import diagonal
from frontend.functions.shape import cat, padded
from frontend.tensors.dtypes import channels_last, channels_last_3d, contiguous_format
from frontend.tensors.limits import fitting
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor
from graphc.errors import ShapeError
from graphc.ir.builder import user_location


@public(method=True)
def is_nonzero(input: Tensor) -> bool:
    """Whether a tensor of one element is not 0. Raises RuntimeError for others."""
    need_tensors("is_nonzero", input=input)
    if input.numel() != 1:
        what = "no values" if not input.numel() else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {what} is ambiguous")
    return bool(input)


@public(method=True)
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether two tensors have one shape."""
    need_tensors("is_same_size", input=input, other=other)
    return input._sizes == other._sizes


@public(at="", method=True)
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """The dimensions as they lie in memory, the outermost first. `ambiguity_check`: True, or a list
    of memory formats of which exactly one has to fit, raises RuntimeError where sizes of 1 or equal
    strides leave that open."""
    formats = ambiguity_check if isinstance(ambiguity_check, list) else []
    if not isinstance(ambiguity_check, bool | list) or not set(formats) <= set(_FORMATS):
        raise TypeError("The ambiguity_check argument must be a bool or a list of memory formats.")
    sizes, strides = tuple(self.shape), self.stride()
    is_open = 1 in sizes or any(a == b for a, b in pairwise(strides))
    fitting = sum(_lies_as(self, each) for each in formats)
    if ambiguity_check is not False and is_open and fitting != 1:
        raise RuntimeError(
            "The tensor does not have unique dim order, or cannot map to exact one of the given "
            "memory formats."
        )
    if self.is_contiguous():
        return tuple(range(self.dim()))
    inner_first = list(reversed(range(self.dim())))
    for last in range(1, self.dim()):
        at = last
        for place in reversed(range(last)):
            inside, outside = inner_first[place], inner_first[at]
            if 0 in (strides[inside], strides[outside]):
                continue  # a repeated dimension lies anywhere
            if (strides[inside], sizes[inside]) <= (strides[outside], sizes[outside]):
                break
            inner_first[place], inner_first[at], at = outside, inside, place
    return tuple(reversed(inner_first))


_FORMATS: dict[Any, tuple[int, ...]] = {
    contiguous_format: (), channels_last: (0, 2, 3, 1), channels_last_3d: (0, 2, 3, 4, 1),
}  # fmt: skip


def _lies_as(x: Tensor, memory_format: Any) -> bool:
    order = _FORMATS[memory_format]
    if not order:
        return x.is_contiguous()
    return x.dim() == len(order) and bool(x.permute(order).is_contiguous())


@public()
def is_signed(input: Tensor) -> bool:
    """Whether a dtype has negative numbers."""
    need_tensors("is_signed", input=input)
    return bool(input.is_signed())


@public()
def get_device(input: Tensor) -> int:
    """-1: tensors are on the CPU."""
    need_tensors("get_device", input=input)
    return -1


@public()
def is_inference(input: Tensor) -> bool:
    """Whether a tensor was made in inference mode."""
    need_tensors("is_inference", input=input)
    return bool(input.is_inference())


@public()
def is_inference_mode_enabled() -> bool:
    """Whether gradients are off by `inference_mode`, which is the same as `no_grad` here."""
    return STATE.grad_enabled is False


@public()
def constant_pad_nd(input: Tensor, pad: Any, value: float = 0) -> Tensor:
    """`value` around the elements: `pad` has the widths before and after, the last dimension
    first. Negative widths cut off."""
    need_tensors("constant_pad_nd", input=input)
    widths = list(pad)
    if len(widths) % 2 or len(widths) > 2 * input.dim():
        raise ShapeError(
            f"constant_pad_nd: {len(widths)} widths for {input.dim()} dimensions",
            hint="two for each of the last dimensions",
            location=user_location(),
        )
    pairs = [(widths[i], widths[i + 1]) for i in range(0, len(widths), 2)][::-1]
    return padded(input, [(0, 0)] * (input.dim() - len(pairs)) + pairs, fitting(value, input.dtype))


@public(method=True, in_place=True, out=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The slices along `dim` whose p-norm exceeds `maxnorm` scaled down to it."""
    need_tensors("renorm", input=input)
    if p <= 0:
        raise RuntimeError("renorm: non-positive-norm not supported")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.dim() < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.dim()}")
    axis = dimension(dim, input.dim())
    others = [other for other in range(input.dim()) if other != axis]
    lengths = norm(input, p, others, keepdim=True)
    return input * where(lengths > maxnorm, maxnorm / (lengths + 1e-7), 1.0)


@public(at="", method=True)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would repeat."""
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    shape = self._sizes
    if not wanted:
        return reduce.sum(self)
    lead = len(shape) - len(wanted)
    tail = shape[lead:] if lead >= 0 else ()
    if lead < 0 or any(w not in (1, s) for w, s in zip(wanted, tail)):
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    axes = [*range(lead), *(lead + i for i, (w, s) in enumerate(zip(wanted, tail)) if w != s)]
    return reduce.sum(self, axes, keepdim=True).reshape(wanted) if axes else self


@public(at="", method=True)
def fill_diagonal_(self: Tensor, fill_value: float, wrap: bool = False) -> Tensor:
    """`fill_value` on the diagonal, in place; with `wrap` it starts anew below a tall matrix."""
    if self.dim() < 2:
        raise RuntimeError("dimensions must larger than 1")
    if self.dim() > 2 and len(set(self.shape)) > 1:
        raise RuntimeError("all dimensions of input must be of equal length")
    if self.dim() > 2:
        places = range(self.shape[0])
        for i in places:
            self[(i,) * self.dim()] = fill_value
        return self
    rows, columns = self.shape
    diagonal(self).fill_(fill_value)
    if wrap:
        for start in range(columns + 1, rows, columns + 1):
            diagonal(self[start:]).fill_(fill_value)
    return self


# -- memory ----------------------------------------------------------------------------------------


@public()
def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """A tensor of whatever lies in memory, whose dimensions lie there in the order given, the last
    one densest."""
    order = tuple(physical_layout)
    if len(order) != len(size):
        raise RuntimeError(
            f"Number of dimensions in size does not match the length of the physical_layout; i.e. "
            f"len(size) = {len(size)} is not equal to len(physical_layout) = {len(order)}"
        )
    for i, axis in enumerate(order):
        if not 0 <= axis < len(size):
            raise RuntimeError(
                f"Dimension out of range (expected to be between 0 and {len(size) - 1}, but got "
                f"{axis} at index {i}).  NB: negative dims not currently supported; file an issue "
                "if you want it."
            )
        if axis in order[:i]:
            raise RuntimeError("Duplicate dim not allowed")
    inverse = [order.index(axis) for axis in range(len(order))]
    stored_so = empty([size[axis] for axis in order], **options)
    return stored_so.permute(*inverse) if inverse else stored_so


@public(method=True)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int],
    storage_offset: int | None = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` with `src` where `as_strided` of the row-major copy would lie."""
    need_tensors("as_strided_scatter", input=input, src=src)
    shape = tuple(size)
    if tuple(src.shape) != shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}"
        )
    offset = storage_offset or 0
    last = offset + sum((n - 1) * step for n, step in zip(shape, stride))
    if 0 not in shape and last >= input.numel():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(stride)}, storage offset {offset} are "
            f"out of bounds for storage of {input.numel()} elements"
        )
    places: Any = full((1,) * len(shape), offset)
    for axis, (count, step) in enumerate(zip(shape, stride)):
        along = [1] * len(shape)
        along[axis] = count
        places = places + (arange(count) * step).reshape(along)
    return put(input, places.expand(shape), src)


@public(method=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Any = None) -> Tensor:
    """[size, dim]: the positions of the first `size` elements that are not 0, and rows of
    `fill_value` behind them. Unlike `nonzero` it has a compiled form."""
    need_tensors("nonzero_static", input=input)
    if size < 0:
        raise RuntimeError("nonzero_static: 'size' must be an non-negative integer")
    kept = input.reshape(-1) != 0
    rank = cumsum(kept, 0)
    # What is not asked for goes to one place behind the last.
    place = where(logical_and(kept, rank <= size), rank - 1, size)
    positions = arange(input.numel())
    chosen = scatter(full((size + 1,), -1), 0, place, positions)[:size]
    columns = []
    for axis in range(input.dim()):
        behind = math.prod(input.shape[axis + 1 :])
        columns.append(chosen // max(behind, 1) % max(input.shape[axis], 1))
    if not columns:
        return stored(chosen.new_empty((size, 0)), out)
    rows = cat([column.unsqueeze(1) for column in columns], 1)
    return stored(where((chosen < 0).unsqueeze(1), fill_value, rows), out)
