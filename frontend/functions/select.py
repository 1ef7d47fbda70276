"""Parts of tensors by position: triangles, diagonals, slices put back, overlapping windows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.memory_tracking import expose
from frontend.engine.tensors.no_value import NO_DATA
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.storages import whole_array
from frontend.engine.tensors.symbolic_numbers import slice_ends
from frontend.engine.tensors.tensor import Tensor, from_data, make
from frontend.engine.tensors.views import IndexedView, View, written_back
from frontend.functions import shape as s
from frontend.functions.arguments import fail, index_of, need_tensors, stored
from frontend.functions.declarations import public
from frontend.functions.index import getitem
from frontend.functions.reduce import dimension
from graphc.errors import IndexRangeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops import elementwise as e
from graphc.ops import indexing, strided
from graphc.ops import movement as m
from graphc.ops.generate import iota
from graphc.system import IMPORTING

# -- triangles -----------------------------------------------------------------------------------


def _triangle(name: str, input: Tensor, diagonal: int, upper: bool) -> Tensor:
    need_tensors(name, input=input)
    shape = input._sizes
    if len(shape) < 2:
        raise fail(ShapeError, f"{name}: input tensor must have at least 2 dimensions")
    row, column = (
        CONTEXT.apply(iota, (), {"shape": shape, "axis": axis, "dtype": DType.i64})[0]
        for axis in (len(shape) - 2, len(shape) - 1)
    )
    kept = column - row >= diagonal if upper else column - row <= diagonal
    return CONTEXT.apply(e.where, (kept, input, filled(0, input.dtype, shape)), {})[0]


@public(method=True, in_place=True, node="Tril")
def tril(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor:
    """The lower triangle of each matrix, zeros above."""
    return stored(_triangle("tril", input, diagonal, upper=False), out)


@public(method=True, in_place=True, node="Triu")
def triu(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor:
    """The upper triangle of each matrix, zeros below."""
    return stored(_triangle("triu", input, diagonal, upper=True), out)


def _triangle_indices(name: str, places: Any, row: int, col: int, dtype: Any) -> Tensor:
    for size, what in ((row, "row"), (col, "col")):
        if size < 0:
            raise RuntimeError(f"{what} must be non-negative, got{size}")
    kind = DType.i64 if dtype is None else as_dtype(dtype)
    if not kind.is_integer:
        raise NotImplementedError(f"\"{name}\" not implemented for '{SCALAR_NAMES[kind]}'")
    return from_data(np.stack(places), kind)


@public()
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """The positions [2, n] of the lower triangle of a matrix, row by row."""
    places = np.tril_indices(max(row, 0), offset, max(col, 0))
    return _triangle_indices("tril_indices", places, row, col, dtype)


@public()
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None,
    layout: Any = None,
) -> Tensor:  # fmt: skip
    """The positions [2, n] of the upper triangle of a matrix, row by row."""
    places = np.triu_indices(max(row, 0), offset, max(col, 0))
    return _triangle_indices("triu_indices", places, row, col, dtype)


# -- diagonals -----------------------------------------------------------------------------------


def _pair(dim1: int, dim2: int, rank: int) -> tuple[int, int]:
    first, second = dimension(dim1, rank), dimension(dim2, rank)
    if first == second:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    return first, second


@public(method=True)
def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements whose coordinate along `dim2` is `offset` more than along `dim1`, as a last
    dimension: a view."""
    need_tensors("diagonal", input=input)
    first, second = _pair(dim1, dim2, input.dim())
    attributes = {"offset": int(offset), "axis1": first, "axis2": second}
    return CONTEXT.apply(strided.diagonal, (input,), attributes)[0]


@public(method=True)
def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Square matrices over `dim1` and `dim2` of the result with the last dimension of `input` on
    their diagonal `offset`, zeros elsewhere."""
    need_tensors("diag_embed", input=input)
    first, second = _pair(dim1, dim2, input.dim() + 1)
    size = input._sizes[-1] + abs(offset)
    attributes = {
        "rows": size, "columns": size, "offset": int(offset), "axis1": first, "axis2": second
    }  # fmt: skip
    zero = filled(0, input.dtype, ())
    return CONTEXT.apply(strided.diagonal_embed, (input, zero), attributes)[0]


@public(method=True)
def diag(input: Tensor, diagonal: int = 0, *, out: Any = None) -> Tensor:
    """A diagonal of a matrix as a vector, or a matrix with a vector on a diagonal."""
    need_tensors("diag", input=input)
    if input.dim() not in (1, 2):
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.dim()}D")
    if input.dim() == 1:
        return stored(diag_embed(input, diagonal), out)
    attributes = {"offset": int(diagonal), "axis1": 0, "axis2": 1}
    return stored(CONTEXT.apply(strided.diagonal, (input,), attributes)[0].clone(), out)


@public(method=True)
def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """A matrix with all elements of `input`, in order, on a diagonal."""
    return diag_embed(s.ravel(input), offset)


# -- parts put back ------------------------------------------------------------------------------


def _back(input: Tensor, op: Any, attributes: dict[str, Any], src: Tensor) -> Tensor:
    """A copy of `input` with `src` where `op` with these attributes would read."""
    return written_back(View(input, op, attributes, 0, None), casted(src, input.dtype))


def _need_part(src: Tensor, shape: tuple[int, ...]) -> None:
    if src._sizes != shape:
        raise fail(
            ShapeError,
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(shape)}",
        )


@public(method=True)
def diagonal_scatter(
    input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """A copy of `input` with `src` on a diagonal."""
    first, second = _pair(dim1, dim2, input.dim())
    attributes = {"offset": int(offset), "axis1": first, "axis2": second}
    _need_part(src, strided.diagonal.infer((input.tensor_type,), attributes)[0].shape)
    return _back(input, strided.diagonal, attributes, src)


@public(method=True)
def select(input: Tensor, dim: int, index: int) -> Tensor:
    """The slice at one position along `dim`, without that dimension: a view."""
    need_tensors("select", input=input)
    shape = input._sizes
    if not shape:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    axis = dimension(dim, len(shape))
    position = index.__index__()
    if not -shape[axis] <= position < shape[axis]:
        raise fail(
            IndexRangeError,
            f"select(): index {position} out of range for tensor of size {list(shape)} at "
            f"dimension {axis}",
        )
    return getitem(input, (*(slice(None),) * axis, position))


def _slice_attributes(shape: tuple[int, ...], axis: int, along: slice) -> dict[str, Any]:
    start, stop, step = slice_ends(along, shape[axis])
    size = max(0, -(-(stop - start) // step))
    before, after = (0,) * axis, (0,) * (len(shape) - axis - 1)
    return {
        "start": (*before, start if size else 0, *after),
        "size": (*shape[:axis], size, *shape[axis + 1 :]),
        "step": tuple(step if a == axis else 1 for a in range(len(shape))),
    }


@public(method=True)
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy of `input` with `src` as the slice at one position along `dim`."""
    part = select(input.detach(), dim, index)
    axis = dimension(dim, input.dim())
    _need_part(src, part._sizes)
    shape = input._sizes
    at = index.__index__() % shape[axis]
    attributes = _slice_attributes(shape, axis, slice(at, at + 1))
    return _back(input, m.slice_, attributes, s.unsqueeze(src, axis))


@public(method=True, out=True)
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None,
    step: int = 1,
) -> Tensor:  # fmt: skip
    """A copy of `input` with `src` as the slice start:end:step along `dim`."""
    axis = dimension(dim, input.dim())
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    attributes = _slice_attributes(input._sizes, axis, slice(start, end, step))
    _need_part(src, attributes["size"])
    return _back(input, m.slice_, attributes, src)


# -- windows and strides -------------------------------------------------------------------------


@public(at="", method=True, node="Unfold")
def unfold(self: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """All slices of `size` along a dimension, `step` apart, as a last dimension: a view. Raises
    RuntimeError where not one fits."""
    with IMPORTING:
        from frontend.functions.reduce import dimension as counted

    for place, (name, number) in enumerate((("size", size), ("step", step)), 2):
        if isinstance(number, bool):
            raise TypeError(f"unfold(): argument '{name}' (position {place}) must be int, not bool")
    axis, size, step = counted(dimension, self.dim()), index_of(size), index_of(step)
    shape = self._sizes or (1,)
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > shape[axis]:
        raise RuntimeError(
            f"maximum size for tensor at dimension {axis} is {shape[axis]} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not self.dim():
        return getitem(s.reshape(self, 1), slice(0, size))
    attributes = {"axis": axis, "size": size, "step": step}
    return CONTEXT.apply(strided.slide, (self,), attributes)[0]


@public(method=True)
def as_strided(
    input: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """The elements at Σ index · stride, counted in the memory of the tensor that `input` is a view
    of, from where `input` starts or from `storage_offset`: a view. Raises RuntimeError where memory
    ends before."""
    shape, strides = tuple(map(int, size)), tuple(map(int, stride))
    if len(shape) != len(strides):
        raise RuntimeError("mismatch in length of strides and shape")
    if any(step < 0 for step in strides):
        raise RuntimeError(
            "as_strided: Negative strides are not supported at the moment, got strides: "
            f"{list(strides)}"
        )
    root, first = storage_of(input)
    offset = first if storage_offset is None else int(storage_offset)
    mode = STATE.mode
    if mode is not None and storage_offset is not None:
        offset -= mode.memory(root, whole=False)[1]
    last = offset + sum((n - 1) * step for n, step in zip(shape, strides))
    if mode is not None and 0 not in shape and not 0 <= offset <= last < root.numel():
        around, begin = mode.memory(root, whole=True)
        if around is not root:
            return as_strided(around, shape, strides, offset + begin)
    item = input.dtype.itemsize
    if 0 not in shape and last >= root.numel():
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, "
            f"and itemsize {item} requiring a storage size of {(last + 1) * item} are out of "
            f"bounds for storage of size {root.tensor_type.nbytes}"
        )
    places: Any = np.full(shape, offset, np.int64)
    for axis, step in enumerate(strides):
        along = np.arange(shape[axis]) * step
        places += along.reshape([-1 if a == axis else 1 for a in range(len(shape))])
    view = _StridedView(root, places)
    if mode is not None:
        result = view.take(root)
        mode.show(result, IndexedView(root, view.take, view.put, True, places))
        return result
    flat = root._array("as_strided").reshape(-1)
    steps = tuple(step * item for step in strides)
    # Its base is that of the memory, as with other views.
    where: Any = (0, None) if 0 in shape else (offset * item, steps)
    array: Any = np.ndarray(shape, flat.dtype, flat, *where)
    result = make(array, TensorType(input.dtype, shape))
    recorded = bool(STATE.grad_enabled)
    result._counter = root._counter
    expose(root._counter)
    result._view = IndexedView(root, view.take, view.put, recorded, places)
    if recorded and root.requires_grad:
        taken = view.take(root)
        result._edge, result._requires_grad = taken._edge, True
    return result


class _StridedView:
    """What `as_strided` takes of a tensor and puts back, by position in its memory."""

    def __init__(self, root: Tensor, places: np.ndarray):
        self.shape = root._sizes
        self.places = places
        self.repeats = np.unique(places).size < places.size

    def take(self, root: Tensor) -> Tensor:
        flat, places = s.ravel(root), from_data(self.places)
        return CONTEXT.apply(indexing.take, (flat, places), {"axis": 0})[0]

    def put(self, root: Tensor, new: Tensor) -> Tensor:
        if self.repeats:
            raise RuntimeError(
                "unsupported operation: more than one element of the written-to tensor refers to a "
                "single memory location. Please clone() the tensor before performing the operation."
            )
        places = from_data(self.places.reshape(-1))
        operands = (s.ravel(root), places, s.ravel(new))
        return s.reshape(CONTEXT.apply(indexing.index_set, operands, {"axis": 0})[0], self.shape)


def storage_of(x: Tensor) -> tuple[Tensor, int]:
    """The tensor whose memory `x` shares, row-major, and where in it `x` starts."""
    chain = []
    root: Any = x
    while root._view is not None:
        root = root._view.parent
    if STATE.mode is None and not root.requires_grad and root._value is not NO_DATA:
        array, whole = x._array("as_strided"), whole_array(root._array("as_strided"))
        if whole.size != root.numel() and whole.flags.c_contiguous and whole.dtype == array.dtype:
            # Memory that came from NumPy, of which the tensor has a part.
            flat = whole.reshape(-1)
            base = make(flat, TensorType.of(flat))
            base._counter = root._counter
            return base, (array.ctypes.data - flat.ctypes.data) // array.itemsize
    root = x
    while root._view is not None:
        chain.append(root._view)
        root = root._view.parent
    if not root.is_contiguous():
        raise RuntimeError("as_strided: the tensor does not lie row-major in memory; use "
                           ".contiguous() first")  # fmt: skip
    places: Any = np.arange(root.numel()).reshape(root._sizes)
    for view in reversed(chain):
        if view.op is not None:
            (places,) = view.op.compute((places,), view.attributes)
    return root, int(places.flat[0]) if places.size else 0
