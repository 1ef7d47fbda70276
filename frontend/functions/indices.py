"""What an index means: `x[...]` taken apart, by PyTorch's rules, for every kind NumPy has.

in : a shape and an index
out: a `Part`: the view that numbers, slices, None and `...` select, and the index tensors and masks
     that then pick from that view; `Joined` makes one index along one axis of several
"""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted, expanded
from frontend.engine.tensors.no_value import deciding
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import extents_in, is_open, slice_ends
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.functions import shape as s
from graphc.errors import IndexRangeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, broadcast_shapes
from graphc.ops import elementwise as e
from graphc.ops import indexing
from graphc.ops import movement as m

BYTE_INDEX = (
    "indexing with dtype torch.uint8 is now deprecated, please use a dtype torch.bool instead."
)
SEQUENCE = (
    "Using a non-tuple sequence for multidimensional indexing is deprecated and will be changed in "
    "pytorch 2.9; use x[tuple(seq)] instead of x[seq]. In pytorch 2.9 this will be interpreted as "
    "tensor index, x[torch.tensor(seq)], which will result either in an error or a different "
    "result"
)


class IndexPart:
    """What of a tensor an index selects. `basic` is the index of the view that numbers and slices
    select, `shape` that view's shape; `advanced` holds the index tensors by axis of the view, a
    mask with a place for each of its dimensions."""

    __slots__ = ("advanced", "basic", "shape", "size", "source", "start", "step")

    def __init__(self, shape: tuple[int, ...], index: Any):
        self.source = shape
        self.basic: list[Any] = []
        self.shape: list[Any] = []
        self.start: list[int] = []
        self.size: list[int] = []
        self.step: list[int] = []
        self.advanced: dict[int, Tensor] = {}
        items = _items(index)
        used = sum(map(_taken, items))
        if used > len(shape):
            raise _too_many(shape, items)
        missing = len(shape) - used
        for item in items:
            if item is Ellipsis:
                for _ in range(missing):
                    self._slice(slice(None))
                missing = 0
            elif item is None:
                self._unit()
            elif isinstance(item, slice):
                self._slice(item)
            elif isinstance(item, bool):
                # A dimension of its own, from which one element is taken, or none.
                self.advanced[len(self.shape)] = from_data(np.zeros(int(item), np.int64))
                self._unit()
            elif isinstance(item, Tensor):
                self._tensor(item)
            else:
                self._number(item)
        for _ in range(missing):
            self._slice(slice(None))

    def _along(self, start: Any, size: Any, step: int) -> None:
        self.start.append(start)
        self.size.append(size)
        self.step.append(step)

    def _unit(self) -> None:
        self.basic.append(None)
        self.shape.append(1)

    def _slice(self, item: slice) -> None:
        dim = self.source[len(self.start)]
        start, stop, step = slice_ends(item, dim)
        if step < 0:
            raise ValueError("step must be greater than zero")
        size = max(0, -(-(stop - start) // step))
        start = start if size else 0
        self._along(start, size, step)
        self.basic.append(slice(start, start + (size - 1) * step + 1 if size else 0, step))
        self.shape.append(size)

    def _number(self, item: Any) -> None:
        axis = len(self.start)
        dim = self.source[axis]
        position = item if is_open(item) else item.__index__()
        if not -dim <= position < dim:
            raise IndexRangeError(
                f"index {position} is out of bounds for dimension {axis} with size {dim}",
                location=user_location(),
            )
        place = position if position >= 0 else position + dim
        self._along(place, 1, 1)
        self.basic.append(place)

    def _tensor(self, item: Tensor) -> None:
        at = len(self.shape)
        self.advanced[at] = item
        if not is_mask(item):
            self._slice(slice(None))
            return
        if not item.dim():
            self._unit()
        for dimension, size in enumerate(item._sizes):
            self._slice(slice(None))
            if size != self.shape[-1]:
                raise IndexRangeError(
                    f"The shape of the mask {list(item.shape)} at index {dimension} does not match "
                    f"the shape of the indexed tensor {self._seen()} at index {at + dimension}",
                    location=user_location(),
                )

    def _seen(self) -> list[int]:
        return self.shape + list(self.source[len(self.start) :])

    # -- the view ----------------------------------------------------------------------------

    @property
    def is_whole(self) -> bool:
        """Whether the view is the tensor itself."""
        source = extents_in(self.source)
        return extents_in(self.shape) == source and extents_in(self.size) == source

    def view(self, x: Tensor) -> Tensor:
        """What numbers, slices and None select."""
        shape = tuple(self.shape)
        if extents_in(self.size) != extents_in(self.source) or self.step.count(1) != len(self.step):
            attributes = {
                "start": tuple(self.start), "size": tuple(self.size), "step": tuple(self.step)
            }  # fmt: skip
            x = CONTEXT.apply(m.slice_, (x,), attributes)[0]
            if x.tensor_type.shape == extents_in(shape):
                return x
        return CONTEXT.apply(m.reshape, (x,), {"shape": shape})[0]

    def positions(self) -> dict[int, Tensor]:
        """Index tensors by axis of the view: masks as the positions where they hold, negative
        positions counted from the end. Raises TraceError for a mask in a trace."""
        positions: dict[int, Tensor] = {}
        for axis, item in self.advanced.items():
            if not is_mask(item):
                positions[axis] = wrapped(item, self.shape[axis], axis)
                continue
            array = deciding(item, "indexing by a bool mask", MASK_HINT)
            for offset, places in enumerate(np.atleast_1d(array).nonzero()):
                positions[axis + offset] = from_data(places, copy=False)
        return positions


def is_mask(item: Tensor) -> bool:
    return item.dtype is DType.bool


def _taken(item: Any) -> int:
    """Dimensions an item stands for."""
    if item is None or item is Ellipsis or isinstance(item, bool):
        return 0
    return item.dim() if isinstance(item, Tensor) and is_mask(item) else 1


def _too_many(shape: tuple[int, ...], items: list[Any]) -> Exception:
    if not shape and len(items) == 1 and not isinstance(items[0], Tensor | slice):
        return IndexRangeError(
            "invalid index of a 0-dim tensor. Use `tensor.item()` in Python or `tensor.item<T>()` "
            "in C++ to convert a 0-dim tensor to a number",
            location=user_location(),
        )
    return IndexRangeError(
        f"too many indices for tensor of dimension {len(shape)}", location=user_location()
    )


# -- taking an index apart -----------------------------------------------------------------------


def _items(index: Any) -> list[Any]:
    """The items of an index: None, Ellipsis, slices, bools, numbers, integer and bool tensors."""
    if isinstance(index, tuple):
        return [_item(item) for item in index]
    if isinstance(index, list) and _is_tuple_of_old(index):
        warnings.warn(SEQUENCE, UserWarning, stacklevel=4)
        return [_item(item) for item in index]
    return [_item(index)]


def _is_tuple_of_old(index: list[Any]) -> bool:
    """Whether PyTorch takes a list for a tuple, as NumPy once did."""
    if len(index) >= 32:
        return False
    several = (Tensor, np.ndarray, list, tuple, range, slice, str)
    return any(item is None or item is Ellipsis or isinstance(item, several) for item in index)


def _item(item: Any) -> Any:
    if item is None or item is Ellipsis or isinstance(item, slice | int):
        return item
    if isinstance(item, np.bool_):
        return bool(item)
    if isinstance(item, list | tuple | range | np.ndarray):
        items = item if isinstance(item, np.ndarray) else list(item)
        item = from_data(items, DType.i64 if not len(items) else None)
    if isinstance(item, Tensor):
        return _index_tensor(item)
    if hasattr(item, "__index__"):
        return item
    raise IndexRangeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or byte Variables are valid "
        f"indices (got {type(item).__name__})",
        location=user_location(),
    )


def _index_tensor(item: Tensor) -> Any:
    dtype = item.dtype
    if dtype.value == "u8":
        if item.dim():
            warnings.warn(BYTE_INDEX, UserWarning, stacklevel=6)
        return casted(item, DType.bool)
    if dtype is DType.bool:
        return item
    if dtype not in (DType.i32, DType.i64):
        raise IndexRangeError(
            "tensors used as indices must be long, int, byte or bool tensors",
            location=user_location(),
        )
    # A concrete 0-d integer is a plain position; a traced one is looked up at run time.
    if not item.dim() and STATE.mode is None:
        return int(item._array("indexing"))
    return item


MASK_HINT = (
    "where(mask, x, 0) and sums over it, masked_fill, or nonzero_static(mask, size=…), which has a "
    "bound; a mask kept in a buffer is known"
)
OUT_OF_BOUNDS = "index {{}} is out of bounds for dimension {axis} with size {dim}"


def wrapped(index: Tensor, dim: int, axis: int, message: str = OUT_OF_BOUNDS) -> Tensor:
    """Index with negative positions counted from the end. Raises IndexError with `message` where
    it is out of range: now, or where it is traced, when the graph runs."""
    if message is OUT_OF_BOUNDS:  # of an open size its name: the text makes no number of it
        message = message.format(axis=axis, dim=extents_in(dim))
    if STATE.mode is None:
        array = index._array("indexing")
        least, greatest = (int(array.min()), int(array.max())) if array.size else (0, -1)
        if least < -dim or greatest >= dim:
            bad = least if least < -dim else greatest
            raise IndexRangeError(message.format(bad), location=user_location())
        if least >= 0:
            return index
    shape = index._sizes
    zero, size = filled(0, index.dtype, shape), filled(dim, index.dtype, shape)
    negative = CONTEXT.apply(e.lt, (index, zero), {})[0]
    from_end = CONTEXT.apply(e.add, (index, size), {})[0]
    from_start = CONTEXT.apply(e.where, (negative, from_end, index), {})[0]
    if STATE.mode is None:
        return from_start
    return CONTEXT.apply(indexing.check_index, (from_start,), {"bound": dim, "message": message})[0]


# -- index tensors -------------------------------------------------------------------------------


Shape = tuple[int, ...]


def broadcast_indices(shapes: list[Shape]) -> Shape:
    """The common shape of index tensors. Raises IndexError."""
    try:
        return broadcast_shapes(*shapes)
    except ShapeError:
        listed = ", ".join(str(list(shape)) for shape in shapes)
        raise IndexRangeError(
            "shape mismatch: indexing tensors could not be broadcast together with shapes "
            f"{listed}",
            location=user_location(),
        ) from None


def placement(shape: Shape, indices: dict[int, Shape]) -> tuple[list[int], int, Shape]:
    """Where the dimensions of index tensors (their shapes by axis of `shape`) come in the result:
    the axes without an index, how many of them come before, and the result's shape.

    They come where the indexed axes were, if those are neighbours, else in front. 0-d indices
    (positions looked up at run time) take no part in that, as plain numbers do not."""
    counting = [axis for axis in indices if indices[axis]]
    left = [axis for axis in range(len(shape)) if axis not in indices or axis in counting]
    places = sorted(left.index(axis) for axis in counting)
    adjacent = bool(places) and places == list(range(places[0], places[0] + len(places)))
    at = places[0] if adjacent else 0
    rest = [axis for axis in range(len(shape)) if axis not in indices]
    sizes = [shape[axis] for axis in rest]
    picked = broadcast_indices([indices[axis] for axis in sorted(indices)])
    return rest, at, (*sizes[:at], *picked, *sizes[at:])


class Joined:
    """The axes of a tensor that index tensors go along made one, `at`, of `x`, and one `position`
    in it; `shape` is that of what is picked."""

    def __init__(self, x: Tensor, indices: dict[int, Tensor]):
        shape = x._sizes
        axes = sorted(indices)
        shapes = {axis: index._sizes for axis, index in indices.items()}
        rest, self.at, self.shape = placement(shape, shapes)
        self.order = (*rest[: self.at], *axes, *rest[self.at :])
        self.permuted = tuple(shape[axis] for axis in self.order)
        self.is_permuted = list(self.order) != sorted(self.order)
        if self.is_permuted:
            x = s.permute(x, self.order)
        self.position = indices[axes[0]] if len(axes) == 1 else _position(indices, shape)
        if len(axes) > 1:
            sizes = [shape[axis] for axis in rest]
            count = math.prod(shape[axis] for axis in axes)
            x = s.reshape(x, *sizes[: self.at], count, *sizes[self.at :])
        self.x = x

    def undone(self, new: Tensor) -> Tensor:
        """A new value of `x` in the shape of the tensor it was made of."""
        if new._sizes != self.permuted:
            new = CONTEXT.apply(m.reshape, (new,), {"shape": self.permuted})[0]
        return s.permute(new, m.inverse_permutation(self.order)) if self.is_permuted else new


def _position(indices: dict[int, Tensor], shape: Shape) -> Tensor:
    """The row-major position that several index tensors give together."""
    axes = sorted(indices)
    common = broadcast_indices([indices[axis]._sizes for axis in axes])
    position: Any = None
    for axis in axes:
        index = expanded(casted(indices[axis], DType.i64), common)
        position = index if position is None else position * shape[axis] + index
    return position
