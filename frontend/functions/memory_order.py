"""In which order dimensions lie in memory: asked, chosen, and written by strides."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import channels_last, channels_last_3d, contiguous_format
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import need_tensors
from frontend.functions.creation import empty, full
from frontend.functions.declarations import public
from frontend.functions.ranges import arange
from frontend.functions.scatter import put


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
    """A copy of `input` with `src`, in its dtype, where `as_strided` of the row-major copy would
    lie."""
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
    return put(input, places.expand(shape), casted(src, input.dtype))
