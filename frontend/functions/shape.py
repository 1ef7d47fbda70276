"""Joining, splitting and padding. The names of `layout` and `repeating` are names of this module
too."""

# ruff: noqa: F401 (those functions are used by the name of this module)

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from frontend.engine.eager.autocasting import widest_precision
from frontend.engine.eager.dispatch import CONTEXT, joined_plainly, slices_plainly
from frontend.engine.eager.promotion import casted, result_type
from frontend.engine.tensors.limits import wrapped
from frontend.engine.tensors.no_value import deciding
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import slice_ends, whole
from frontend.engine.tensors.tensor import Tensor, make
from frontend.functions.arguments import index_of, numpy_names, refuse_overlap, stored
from frontend.functions.declarations import public
from frontend.functions.layout import (
    atleast_1d,
    atleast_2d,
    atleast_3d,
    broadcast_tensors,
    broadcast_to,
    contiguous,
    expand,
    flatten,
    listed,
    movedim,
    narrow,
    permute,
    ravel,
    reshape,
    reshaped,
    sliced,
    squeeze,
    transpose,
    unsqueeze,
)
from frontend.functions.reduce import dimension
from frontend.functions.repeating import repeat, repeat_interleave, tile
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.ir.handle import lift
from graphc.ir.types import DType, TensorType
from graphc.ops import composite
from graphc.ops import movement as m

# -- joining -------------------------------------------------------------------------------------


def _promoted(tensors: Any, name: str) -> list[Tensor]:
    """The tensors in their common dtype."""
    if not isinstance(tensors, list | tuple):
        raise TypeError(
            f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
            f"{type(tensors).__name__}"
        )
    if not tensors:
        if name == "cat":
            raise ValueError("torch.cat(): expected a non-empty list of Tensors")
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for position, item in enumerate(tensors):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, but got "
                f"{type(item).__name__}"
            )
    kinds = [item.tensor_type.dtype for item in tensors]
    if kinds.count(kinds[0]) == len(kinds):
        return list(tensors)
    kind = result_type(*tensors)
    return [casted(item, kind) for item in tensors]


def _joined_plainly(op: Any, join: Callable[..., Any], tensors: Any, dim: Any) -> Tensor | None:
    """What NumPy makes of tensors of one dtype that have arrays, stacked ones of one shape;
    None of others, and where PyTorch has an error."""
    if tensors.__class__ not in (list, tuple) or not tensors or dim.__class__ is not int:
        return None
    arrays: list[Any] = []
    type: Any = getattr(tensors[0], "tensor_type", None)
    for x in tensors:
        if x.__class__ is not Tensor and not isinstance(x, Tensor):
            return None
        array = x._value
        if array.__class__ is not np.ndarray:
            return None
        other = x.tensor_type
        if other is not type and (op is composite.stack or other.dtype is not type.dtype):
            return None
        arrays.append(array)
    try:
        value = join(arrays, dim)
    except ValueError:
        return None
    return joined_plainly(op, {"axis": dim % value.ndim}, tuple(tensors), value)


def _stacked(arrays: list[np.ndarray], dim: int) -> np.ndarray:
    """np.stack of arrays of one shape and dtype, which takes several times as long. Raises
    ValueError for a dimension that there is not."""
    first = arrays[0]
    shape = first.shape
    if not -len(shape) - 1 <= dim <= len(shape):
        raise ValueError
    axis = dim % (len(shape) + 1)
    if not axis:
        return np.array(arrays, first.dtype)
    whole = np.empty((*shape[:axis], len(arrays), *shape[axis:]), first.dtype)
    parts = np.moveaxis(whole, axis, 0)
    for i, array in enumerate(arrays):
        parts[i] = array
    return whole


@public(numpy_names=True, autocast="promote")
def cat(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Tensors joined along an existing dimension; empty 1-d tensors are skipped."""
    if out is None and not STATE.watched:
        plain = _joined_plainly(m.concat, m.joined, tensors, dim)
        if plain is not None:
            return plain
    items = _promoted(tensors, "cat")
    kept = [x for x in items if x._sizes != (0,)] or items[:1]
    first = kept[0]._sizes
    if not first:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    axis = dimension(dim, len(first))
    if len(kept) < len(items) and any(x.requires_grad for x in items):
        # What is skipped has a gradient too: it joins as a part of size 0.
        none = (*first[:axis], 0, *first[axis + 1 :])
        kept = [x if x._sizes != (0,) else reshaped(x, none) for x in items]
    for position, x in enumerate(kept):
        shape = x._sizes
        if shape == first:
            continue
        if len(shape) != len(first):
            raise ShapeError(
                f"Tensors must have same number of dimensions: got {len(first)} and {len(shape)}",
                location=user_location(),
            )
        for other, size in enumerate(shape):
            if other != axis and size != first[other]:
                raise ShapeError(
                    f"Sizes of tensors must match except in dimension {axis}. Expected size "
                    f"{first[other]} but got size {size} for tensor number {position} in the list.",
                    location=user_location(),
                )
    if out is not None:
        refuse_overlap(out, *items)
    joined = CONTEXT.apply(m.concat, tuple(kept), {"axis": axis})[0]
    return joined if out is None else stored(joined, out)


concat = concatenate = cat


@public(numpy_names=True, autocast="promote")
def stack(tensors: Sequence[Tensor], dim: int = 0, *, out: Any = None) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    if out is None and not STATE.watched:
        plain = _joined_plainly(composite.stack, _stacked, tensors, dim)
        if plain is not None:
            return plain
    items = _promoted(tensors, "stack")
    first = items[0]._sizes
    for position, x in enumerate(items):
        if x._sizes != first:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(x._sizes)} at entry {position}",
                location=user_location(),
            )
    axis = dimension(dim, len(first) + 1)
    stacked = CONTEXT.apply(composite.stack, tuple(items), {"axis": axis})[0]
    return stacked if out is None else stored(stacked, out)


def _all_tensors(tensors: Any, name: str) -> tuple[Tensor, ...]:
    return tuple(_promoted(tensors, name))


@public()
def hstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined along the second dimension, vectors along their only one."""
    items = atleast_1d(_all_tensors(tensors, "hstack"))
    return cat(items, 0 if items[0].dim() == 1 else 1, out=out)


@public()
def vstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined along the first dimension, vectors as rows."""
    return cat(atleast_2d(_all_tensors(tensors, "vstack")), 0, out=out)


row_stack = vstack


@public()
def dstack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined along the third dimension."""
    return cat(atleast_3d(_all_tensors(tensors, "dstack")), 2, out=out)


@public()
def column_stack(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """Joined along the second dimension, vectors as columns."""
    items = _all_tensors(tensors, "column_stack")
    return hstack([x if x.dim() > 1 else reshaped(x, (x.numel(), 1)) for x in items], out=out)


# -- splitting -----------------------------------------------------------------------------------


@public(method=True, node="Split", numpy_names=True)
def split(
    tensor: Tensor, split_size_or_sections: Any = None, dim: int = 0, *, split_size: Any = None
) -> tuple[Tensor, ...]:
    """Parts of a size (the last may be smaller), or of the listed sizes, as views. The method calls
    it `split_size`. Raises TypeError where it is left out."""
    if split_size_or_sections is None:
        split_size_or_sections = split_size
    if split_size_or_sections is None:
        raise TypeError("split() missing 1 required positional argument: 'split_size'")
    if not tensor.dim():
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    axis = dimension(dim, tensor.dim())
    total = tensor._sizes[axis]
    size = index_of(split_size_or_sections)
    if not isinstance(size, int):
        return split_with_sizes(tensor, size, dim)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    if size == 0 and total:
        raise RuntimeError(
            f"split_size can only be 0 if dimension size is 0, but got dimension size of {total}"
        )
    return _in_parts(tensor, axis, size)


@public(method=True, numpy_names=True)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of the listed sizes, as views."""
    axis = dimension(dim, input.dim())
    total = input._sizes[axis]
    sizes = [whole(size) for size in split_sizes]
    if min(sizes, default=0) < 0:
        raise RuntimeError(
            "split_with_sizes expects split_sizes have only non-negative entries, but got "
            f"split_sizes={sizes}"
        )
    if sum(sizes) != total:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's "
            f"size at dimension {axis}), but got split_sizes={sizes}"
        )
    return _cut(input, axis, sizes)


unsafe_split = split


def _in_parts(x: Tensor, axis: int, size: int) -> tuple[Tensor, ...]:
    total = x._sizes[axis]
    # A number of parts: of a size left open that of the trace.
    parts = operator.index(-(-total // size)) if total else 1
    return _cut(x, axis, [size] * (parts - 1) + [total - size * (parts - 1)])


def _cut(x: Tensor, axis: int, sizes: Sequence[int]) -> tuple[Tensor, ...]:
    plain = None if STATE.watched else slices_plainly(x, axis, sizes)
    if plain is not None:
        return plain
    parts, start = [], 0
    for size in sizes:
        parts.append(sliced(x, axis, start, size, 1))
        start += size
    return tuple(parts)


@public(method=True, node="Split", numpy_names=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of nearly equal size."""
    if not input.dim():
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    chunks = index_of(chunks)
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    axis = dimension(dim, input.dim())
    total = input._sizes[axis]
    if not total:
        return _cut(input, axis, [0] * chunks)
    return _in_parts(input, axis, -(-total // chunks))


unsafe_chunk = chunk


@public(method=True, node="Unbind", numpy_names=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, each without that dimension."""
    if not input.dim():
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    axis = dimension(dim, input.dim())
    shape = input._sizes
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(reshaped(sliced(input, axis, i, 1, 1), rest) for i in range(shape[axis]))


@public(method=True, numpy_names=True)
def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """That many nearly equal parts, or parts that start at the listed positions. Either may be an
    integer tensor."""
    if not input.dim():
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    places = indices_or_sections
    if isinstance(places, Tensor):
        if places.dtype is not DType.i64:
            raise RuntimeError("tensor_split expected tensor_indices_or_sections to have dtype of "
                               "long")  # fmt: skip
        places = deciding(places, "tensor_split by a tensor").tolist()
    axis = dimension(dim, input.dim())
    total = input._sizes[axis]
    if isinstance(places, int):
        if places <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {places}")
        size, more = divmod(total, places)
        return _cut(input, axis, [size + (part < more) for part in range(places)])
    stops = [slice_ends(slice(whole(place)), total)[1] for place in places]
    bounds = pairwise([0, *stops, total])
    return tuple(sliced(input, axis, a, max(b - a, 0), 1) for a, b in bounds)


def _split_along(name: str, x: Tensor, places: Any, axis: int, rank: int) -> tuple[Tensor, ...]:
    if x.dim() < rank:
        raise RuntimeError(
            f"torch.{name} requires a tensor with at least {rank} dimension, but got a tensor with "
            f"{x.dim()} dimensions!"
        )
    if isinstance(places, int):
        size = x._sizes[axis]
        if places <= 0 or size % places:
            raise RuntimeError(
                f"torch.{name} attempted to split along dimension {axis}, but the size of the "
                f"dimension {size} is not divisible by the split_size {places}!"
            )
    return tensor_split(x, places, axis)


def _places(indices: Any, sections: Any, indices_or_sections: Any) -> Any:
    places = [x for x in (indices, sections, indices_or_sections) if x is not None]
    if len(places) != 1:
        raise TypeError("expected exactly one of 'indices' and 'sections'")
    if isinstance(places[0], str):
        raise TypeError("indices_or_sections must be int or a tuple of ints, not str")
    return places[0]


@public(method=True)
def hsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along the second dimension, of a vector along its only one; a number of
    sections must divide the size."""
    places = _places(indices, sections, indices_or_sections)
    return _split_along("hsplit", input, places, 0 if input.dim() == 1 else 1, 1)


@public(method=True)
def vsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along the first dimension; a number of sections must divide the size."""
    places = _places(indices, sections, indices_or_sections)
    return _split_along("vsplit", input, places, 0, 2)


@public(method=True)
def dsplit(
    input: Tensor, indices_or_sections: Any = None, *, indices: Any = None, sections: Any = None
) -> tuple[Tensor, ...]:
    """`tensor_split` along the third dimension; a number of sections must divide the size."""
    places = _places(indices, sections, indices_or_sections)
    return _split_along("dsplit", input, places, 2, 3)


# -- padding -------------------------------------------------------------------------------------


def as_line(x: Tensor) -> Tensor:
    """A 0-d tensor as a line of one element."""
    return x if x.dim() else reshape(x, 1)


def padded(input: Tensor, widths: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """`value` put before and after along each axis: `widths[axis]` is (before, after), and
    negative widths cut elements off."""
    for axis, (low, high) in enumerate(widths):
        if low < 0 or high < 0:
            size = input._sizes[axis] + min(low, 0) + min(high, 0)
            input = sliced(input, axis, -min(low, 0), size, 1)
    attributes = {
        "low": tuple(max(low, 0) for low, _ in widths),
        "high": tuple(max(high, 0) for _, high in widths),
        "interior": (0,) * len(widths),
    }
    number = lift(wrapped(value, input.dtype), input)
    return CONTEXT.apply(m.pad, (input, number), attributes)[0]
