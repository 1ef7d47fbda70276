"""Reading and writing elements: `x[...]`, `x[...] = v`, gather, scatter, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.dispatch import CONTEXT
from frontend.functions import pointwise as f
from frontend.functions import shape as s
from frontend.functions.reduce import dimension
from frontend.promotion import casted
from frontend.state import STATE
from frontend.tensor import Tensor, from_data, make
from graphc.errors import DTypeError, IndexRangeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType, TensorType
from graphc.ops import indexing
from graphc.ops import movement as m
from graphc.ops.generate import iota

__all__ = [
    "gather", "index_add", "index_select", "masked_fill", "masked_select", "nonzero", "scatter",
    "scatter_add", "take_along_dim", "tril", "triu",
]  # fmt: skip
METHODS = (
    "gather take_along_dim scatter_add scatter index_select index_add masked_fill masked_select "
    "nonzero tril triu"
)
IN_PLACE = "masked_fill scatter_add scatter index_add tril triu"


class Part:
    """What of a tensor an index selects: a slice, then a shape, then index tensors per axis."""

    __slots__ = ("advanced", "shape", "size", "start", "step")

    def __init__(self, shape: tuple[int, ...], index: Any):
        items = _items(shape, index)
        self.start, self.size, self.step, self.shape = [], [], [], []
        self.advanced: dict[int, Tensor] = {}  # axis of the shape after slicing -> indices
        axis = 0
        for item in items:
            if item is None:
                self.shape.append(1)
                continue
            dim = shape[axis]
            axis += 1
            if isinstance(item, Tensor):
                self.advanced[len(self.shape)] = _wrapped(item, dim)
                start, size, step = 0, dim, 1
            elif isinstance(item, slice):
                start, stop, step = item.indices(dim)
                if step < 0:
                    raise ValueError("step must be greater than zero")
                size = max(0, -(-(stop - start) // step))
                start = start if size else 0
            else:
                start, size, step = _position(item, dim, axis - 1), 1, 1
            self.start.append(start)
            self.size.append(size)
            self.step.append(step)
            if isinstance(item, slice | Tensor):
                self.shape.append(size)

    def take_slice(self, x: Tensor) -> Tensor:
        """The part that slicing and reshaping select: a view."""
        shape = tuple(self.shape)
        if self.size != list(x.tensor_type.shape) or set(self.step) - {1}:
            attributes = {
                "start": tuple(self.start), "size": tuple(self.size), "step": tuple(self.step)
            }  # fmt: skip
            x = CONTEXT.apply(m.slice_, (x,), attributes)[0]
            if x.tensor_type.shape == shape:
                return x
        return CONTEXT.apply(m.reshape, (x,), {"shape": shape})[0]


def _position(item: Any, dim: int, axis: int) -> int:
    position = item.__index__()
    if not -dim <= position < dim:
        raise IndexRangeError(
            f"index {position} is out of bounds for dimension {axis} with size {dim}",
            location=user_location(),
        )
    return position % dim


def _items(shape: tuple[int, ...], index: Any) -> list[Any]:
    """One item per axis (None beside them), Ellipsis filled in, lists and masks as tensors."""
    given = list(index) if isinstance(index, tuple) else [index]
    items: list[Any] = []
    for item in given:
        items += _expanded_item(item)
    used = sum(item is not None and item is not Ellipsis for item in items)
    if used > len(shape):
        raise IndexRangeError(
            f"too many indices for tensor of dimension {len(shape)}", location=user_location()
        )
    dots = [position for position, item in enumerate(items) if item is Ellipsis]
    at = dots[0] if dots else len(items)
    fill = [slice(None)] * (len(shape) - used)
    return [item for item in items[:at] + fill + items[at + 1 :] if item is not Ellipsis]


def _expanded_item(item: Any) -> list[Any]:
    if item is None or item is Ellipsis or isinstance(item, slice):
        return [item]
    if isinstance(item, list | np.ndarray):
        item = from_data(item, DType.i64 if isinstance(item, list) and not item else None)
    if isinstance(item, bool):
        raise TypeError("indexing with a Python bool is not supported; use a bool tensor")
    if isinstance(item, Tensor):
        if item.dtype is DType.bool:
            positions = item._array("indexing by a bool mask").nonzero()
            return [from_data(p, copy=False) for p in positions]
        if item.dtype.is_float:
            raise IndexError("tensors used as indices must be long, int, byte or bool tensors")
        # A concrete 0-d integer is a plain position; a traced one is looked up at run time.
        if not item.dim() and isinstance(item._value, np.ndarray) and STATE.session is None:
            return [int(item._value)]
        return [item]
    if hasattr(item, "__index__"):
        return [item]
    raise TypeError(
        "only integers, slices (`:`), ellipsis (`...`), None and long or bool tensors are valid "
        f"indices (got {type(item).__name__})"
    )


def _wrapped(index: Tensor, dim: int) -> Tensor:
    """Index with negative positions counted from the end."""
    if isinstance(index._value, np.ndarray) and STATE.session is None:
        array = index._value
        if not array.size or array.min() >= 0:
            return index
    return f.where(index < 0, index + dim, index)


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`: numbers, slices and None give views; index tensors and masks copy."""
    part = Part(self.tensor_type.shape, index)
    x = part.take_slice(self)
    return _advanced(x, part.advanced) if part.advanced else x


def _advanced(x: Tensor, indices: dict[int, Tensor]) -> Tensor:
    """Index tensors along several axes: along one it is a `take`, along several the axes are
    joined to one and so are the positions."""
    axes = sorted(indices)
    if len(axes) == 1:
        return CONTEXT.apply(indexing.take, (x, indices[axes[0]]), {"axis": axes[0]})[0]
    adjacent = axes == list(range(axes[0], axes[0] + len(axes)))
    at = axes[0] if adjacent else 0
    x, position = _joined(x, axes, at, indices)
    return CONTEXT.apply(indexing.take, (x, position), {"axis": at})[0]


def _joined(
    x: Tensor, axes: list[int], at: int, indices: dict[int, Tensor]
) -> tuple[Tensor, Tensor]:
    shape = x.tensor_type.shape
    rest = [axis for axis in range(len(shape)) if axis not in axes]
    order = rest[:at] + axes + rest[at:]
    if order != list(range(len(shape))):
        x = s.permute(x, order)
    sizes = [shape[axis] for axis in axes]
    spread = s.broadcast_tensors(*[casted(indices[axis], DType.i64) for axis in axes])
    position: Any = 0
    for index, size, axis in zip(spread, sizes, axes):
        message = f"index out of range for axis {axis} of {x.tensor_type}"
        checked = CONTEXT.apply(
            indexing.check_index, (index,), {"bound": size, "message": message}
        )[0]
        position = position * size + checked
    count = int(np.prod(sizes))
    lead = [shape[axis] for axis in rest]
    return s.reshape(x, *lead[:at], count, *lead[at:]), position


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`, in place. Raises RuntimeError where `value` does not fit."""
    if isinstance(index, Tensor) and index.dtype is DType.bool and not _is_plain(self, value):
        _assign_masked(self, index, value)
        return
    if _is_plain(self, value) and not _has_traced(index):
        _assign_array(self, index, value)
        return
    part = Part(self.tensor_type.shape, index)
    # Where a flat copy of the positions is written, the new value is read; else the old one.
    positions = s.reshape(_iota(self.numel()), *self.tensor_type.shape)
    chosen = part.take_slice(positions)
    chosen = _advanced(chosen, part.advanced) if part.advanced else chosen
    if not isinstance(value, Tensor):
        value = from_data(value, self.dtype)
    new = s.ravel(s.expand(_fitted(casted(value, self.dtype), chosen.dim()), chosen.shape))
    flat = s.ravel(chosen)
    none = s.ravel(self * 0).detach() if self.dtype.is_float else s.ravel(self) * 0
    zero = from_data(np.zeros(self.numel(), self.dtype.numpy)) if STATE.session is None else none
    ones = from_data(np.ones(flat.numel(), np.int64))
    base = from_data(np.zeros(self.numel(), np.int64))
    hit = CONTEXT.apply(indexing.index_add, (base, flat, ones), {"axis": 0})[0]
    spread = CONTEXT.apply(indexing.index_add, (zero, flat, new), {"axis": 0})[0]
    written = f.where(hit > 0, spread, s.ravel(self))
    self._assign(s.reshape(written, *self.tensor_type.shape))


def _is_plain(self: Tensor, value: Any) -> bool:
    """Whether an assignment can be left to NumPy: nothing is recorded or traced."""
    if STATE.session is not None:
        return False
    taped = isinstance(value, Tensor) and value._requires_grad
    return not (STATE.grad_enabled and (self._requires_grad or taped))


def _has_traced(index: Any) -> bool:
    items = index if isinstance(index, tuple) else (index,)
    return any(isinstance(x, Tensor) and not isinstance(x._value, np.ndarray) for x in items)


def _assign_array(self: Tensor, index: Any, value: Any) -> None:
    items = index if isinstance(index, tuple) else (index,)
    plain = tuple(x._array("indexing") if isinstance(x, Tensor) else x for x in items)
    target = self._array("index assignment")
    new = value._array("index assignment") if isinstance(value, Tensor) else np.asarray(value)
    try:
        shape = target[plain].shape
    except IndexError as error:
        raise IndexRangeError(str(error), location=user_location()) from None
    while new.ndim > len(shape) and new.shape[0] == 1:
        new = new[0]
    try:
        spread = np.broadcast_to(new, shape)
    except ValueError:
        raise RuntimeError(
            f"shape mismatch: value tensor of shape {list(new.shape)} cannot be broadcast to "
            f"indexing result of shape {list(shape)}"
        ) from None
    target[plain] = spread.astype(target.dtype)
    self._counter[0] += 1


def _assign_masked(self: Tensor, mask: Tensor, value: Any) -> None:
    lead = mask.tensor_type.shape
    wide = s.reshape(mask, *lead, *(1,) * (self.dim() - len(lead)))
    if isinstance(value, Tensor) and value.dim() > self.dim() - len(lead):
        raise DTypeError(
            "a mask assignment with one value per masked element is not supported here",
            hint="masked_scatter outside of traces, or where()",
            location=user_location(),
        )
    self._assign(casted(f.where(s.expand(wide, self.shape), value, self), self.dtype))


def _fitted(value: Tensor, rank: int) -> Tensor:
    while value.dim() > rank and value.shape[0] == 1:
        value = value.squeeze(0)
    return value


def _iota(count: int, axis: int = 0, shape: Any = None, dtype: DType = DType.i64) -> Tensor:
    attributes = {"shape": shape or (count,), "axis": axis, "dtype": dtype}
    return CONTEXT.apply(iota, (), attributes)[0]


# -- gather and scatter --------------------------------------------------------------------------


def _long(index: Tensor, name: str) -> Tensor:
    if not index.dtype.is_integer:
        raise DTypeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype}",
                         location=user_location())  # fmt: skip
    return index


def gather(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """Elements at `index` along `dim`: out[i][j] = input[index[i][j]][j] for dim 0."""
    axis = dimension(dim, input.dim())
    return CONTEXT.apply(indexing.gather, (input, _long(index, "gather")), {"axis": axis})[0]


def take_along_dim(input: Tensor, indices: Tensor, dim: int) -> Tensor:
    """`gather` after broadcasting the other dimensions."""
    axis = dimension(dim, input.dim())
    shape = list(input.shape)
    shape[axis] = indices.shape[axis]
    return gather(input, axis, s.expand(indices, shape))


def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """`src` added to a copy of `input` at `index` along `dim`."""
    axis = dimension(dim, input.dim())
    if src.shape != index.shape:
        for other, size in enumerate(index.shape):
            src = s.narrow(src, other, 0, size)
    operands = (input, _long(index, "scatter_add"), src)
    return CONTEXT.apply(indexing.scatter_add, operands, {"axis": axis})[0]


def scatter(input: Tensor, dim: int, index: Tensor, src: Any = None, value: Any = None) -> Tensor:
    """A copy of `input` with `src` (a tensor or a number) at `index` along `dim`. Where an index
    occurs twice the sources must be equal numbers."""
    source = value if src is None else src
    axis = dimension(dim, input.dim())
    ones = input.new_ones(index.shape)
    hit = scatter_add(input.new_zeros(input.shape), axis, index, ones)
    given = source if isinstance(source, Tensor) else input.new_full(index.shape, source)
    spread = scatter_add(input.new_zeros(input.shape), axis, index, given)
    return f.where(hit > 0, spread / hit if input.dtype.is_float else spread // hit, input)


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices at the positions `index` [n] along `dim`."""
    axis = dimension(dim, input.dim())
    if index.dim() > 1:
        raise IndexError("index_select(): Index is supposed to be a vector")
    return CONTEXT.apply(
        indexing.take, (input, _long(index.reshape(-1), "index_select")), {"axis": axis}
    )[0]


def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1
) -> Tensor:
    """`source` added to a copy of `input` at the positions `index` [n] along `dim`."""
    axis = dimension(dim, input.dim())
    scaled = source if alpha == 1 else source * alpha
    return CONTEXT.apply(indexing.index_add, (input, index, scaled), {"axis": axis})[0]


# -- masks ---------------------------------------------------------------------------------------


def masked_fill(input: Tensor, mask: Tensor, value: Any) -> Tensor:
    """`value` where `mask` holds."""
    if mask.dtype is not DType.bool:
        raise DTypeError(
            f"masked_fill_ only supports boolean masks, but got mask with dtype {mask.dtype}",
            location=user_location(),
        )
    return casted(f.where(mask, value, input), input.dtype)


def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where `mask` holds, as a vector; its length depends on the data."""
    x, chosen = s.broadcast_tensors(input, mask)
    return getitem(x, chosen)


def nonzero(input: Tensor, *, as_tuple: bool = False) -> Any:
    """Positions of elements that differ from 0: [n, rank], or one vector per dimension."""
    found = input._array("nonzero()").nonzero()
    if as_tuple:
        return tuple(from_data(positions) for positions in found)
    made = np.stack(found, axis=1) if found else np.zeros((int(input.item() != 0), 0), np.int64)
    return make(made, TensorType.of(made))


def _triangle(input: Tensor, diagonal: int, upper: bool) -> Tensor:
    shape = input.tensor_type.shape
    if len(shape) < 2:
        raise RuntimeError("triu/tril: input tensor must have at least 2 dimensions")
    rank = len(shape)
    row, column = _iota(0, rank - 2, shape), _iota(0, rank - 1, shape)
    kept = column - row >= diagonal if upper else column - row <= diagonal
    return f.where(kept, input, casted(input.new_zeros(()), input.dtype))


def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of each matrix, zeros above."""
    return _triangle(input, diagonal, upper=False)


def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of each matrix, zeros below."""
    return _triangle(input, diagonal, upper=True)
