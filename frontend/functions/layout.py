"""The same elements under another shape or order of dimensions: views wherever memory allows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.eager.dispatch import CONTEXT, view_plainly
from frontend.engine.eager.promotion import common_shape
from frontend.engine.eager.reinterpreting import viewed_as
from frontend.engine.eager.uncompiled import conj
from frontend.engine.tensors.dtypes import Size
from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.symbolic_numbers import whole
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.arguments import index_of, need_tensors
from frontend.functions.declarations import public
from frontend.functions.reduce import axes_of, dimension
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ir.types import broadcast_shapes as _broadcast_shapes
from graphc.ops import movement as m


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """`x` under a shape of as many elements."""
    array = x._value
    if array.__class__ is np.ndarray and not STATE.watched:
        try:
            value = array.reshape(shape)
        except ValueError:  # `apply` says what does not fit
            value = None
        if value is not None:
            result = view_plainly(m.reshape, {"shape": shape}, x, value)
            if result is not None:
                return result
    return CONTEXT.apply(m.reshape, (x,), {"shape": shape})[0]


def transposed(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    """`x` with its dimensions in the order `axes`."""
    array = x._value
    if array.__class__ is np.ndarray and not STATE.watched:
        result = view_plainly(m.transpose, {"permutation": axes}, x, array.transpose(axes))
        if result is not None:
            return result
    return CONTEXT.apply(m.transpose, (x,), {"permutation": axes})[0]


def listed(items: tuple[Any, ...], keyword: Any) -> list[int]:
    """Sizes or dimensions given one by one, as one sequence, or by keyword."""
    if keyword is not None:
        items = (keyword,)
    if len(items) == 1 and isinstance(items[0], tuple | list | Sequence):
        items = tuple(items[0])
    return [item if type(item) is int else whole(item) for item in items]


# -- shape ---------------------------------------------------------------------------------------


@public(method=True)
def reshape(input: Tensor, *sizes: Any, shape: Any = None) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1."""
    if not isinstance(input, Tensor):
        need_tensors("reshape", input=input)
    if shape is None and not STATE.watched:
        plain = _reshaped_plainly(input, sizes)
        if plain is not None:
            return plain
    return reshaped(input, _resolved(input, listed(sizes, shape)))


def _reshaped_plainly(x: Tensor, sizes: tuple[Any, ...]) -> Tensor | None:
    """What NumPy makes of sizes that it takes as PyTorch does; None of others."""
    array = x._value
    if array.__class__ is not np.ndarray or not array.size:
        return None
    if len(sizes) == 1 and sizes[0].__class__ is not int:
        sizes = sizes[0]
        if sizes.__class__ not in _SEQUENCES:
            return None
    for size in sizes:
        if size.__class__ is not int or size < -1:
            return None
    try:
        value = array.reshape(sizes)
    except ValueError:
        return None
    return view_plainly(m.reshape, {"shape": value.shape}, x, value)


_SEQUENCES = (tuple, list, Size)


def _resolved(x: Tensor, sizes: list[int]) -> tuple[int, ...]:
    """The sizes with -1 replaced by what is left. Raises RuntimeError where they do not fit."""
    count = x.numel()
    if (
        STATE.mode is None
        and -1 not in sizes
        and math.prod(sizes) == count
        and min(sizes, default=0) >= 0
    ):
        return tuple(sizes)
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    for position, size in enumerate(sizes):
        if size < -1:
            raise RuntimeError(
                f"invalid shape dimension {size} at index {position} of shape {sizes}"
            )
    known = math.prod(size for size in sizes if size != -1)
    if -1 in sizes and known == 0 and count == 0:
        raise RuntimeError(
            f"cannot reshape tensor of 0 elements into shape {sizes} because the unspecified "
            "dimension size -1 can be any value and is ambiguous"
        )
    fits = known == count if -1 not in sizes else known != 0 and count % known == 0
    if not fits:
        raise ShapeError(
            f"shape '{sizes}' is invalid for input of size {count}",
            hint=f"the tensor has shape {list(x.shape)}",
            location=user_location(),
        )
    return tuple(count // known if size == -1 else size for size in sizes)


@public(at="", method=True)
def view(self: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """`reshape` that shares memory; `view(dtype)`: the same bytes as elements of another dtype,
    eagerly only. Raises RuntimeError where the elements do not lie in memory so that a view is
    possible."""
    if len(sizes) == 1 and isinstance(sizes[0], DType):
        same = sizes[0] is self.dtype
        return reshape(self, self.shape) if same else viewed_as(self, sizes[0])
    if size is None and not STATE.watched:
        plain = _reshaped_plainly(self, sizes)
        if plain is not None and plain._view is not None:
            return plain
    result = reshape(self, *sizes) if size is None else reshape(self, *sizes, shape=size)
    is_view = result._view is not None or result is self
    if STATE.mode is not None and result is not self:
        is_view = STATE.mode.view(result, self)
    if not is_view and self.numel():
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


@public(at="", method=True)
def view_as(self: Tensor, other: Tensor) -> Tensor:
    return view(self, other.shape)


@public(at="", method=True)
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    return reshape(self, other.shape)


@public(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` as one."""
    shape = input._sizes
    start, end = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if not shape:
        return reshaped(input, (1,))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if start == end:
        return input
    joined = math.prod(shape[start : end + 1])
    return reshaped(input, (*shape[:start], joined, *shape[end + 1 :]))


@public(method=True)
def ravel(input: Tensor) -> Tensor:
    """All elements in one dimension."""
    return reshaped(input, (input.numel(),))


@public(method=True)
def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dimension `dim` split into `sizes`; one may be -1."""
    shape = input._sizes
    axis = dimension(dim, len(shape))
    inner = [whole(size) for size in sizes]
    if not inner:
        raise RuntimeError("unflatten: sizes must be non-empty")
    if inner.count(-1) > 1:
        raise RuntimeError("unflatten: only one dimension can be inferred")
    known = math.prod(size for size in inner if size != -1)
    present = shape[axis] if shape else 1
    if -1 in inner:
        inner[inner.index(-1)] = present // known if known else 0
    if math.prod(inner) != present:
        raise ShapeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {axis} "
            f"({present}) in the input tensor",
            location=user_location(),
        )
    return reshaped(input, (*shape[:axis], *inner, *shape[axis + 1 :]))


@public(method=True, numpy_names=True)
def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without dimensions of size 1: all of them, or those in `dim`."""
    shape = input._sizes
    if dim.__class__ is int and shape:
        axis = dimension(dim, len(shape))
        return reshaped(input, shape[:axis] + shape[axis + 1 :] if shape[axis] == 1 else shape)
    axes = axes_of(dim, len(shape)) if dim is None or dim != () else ()
    return reshaped(input, tuple(n for axis, n in enumerate(shape) if axis not in axes or n != 1))


@public(method=True, numpy_names=True)
def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 at `dim`."""
    shape = input._sizes
    axis = dimension(dim, len(shape) + 1)
    return reshaped(input, (*shape[:axis], 1, *shape[axis:]))


def _at_least(rank: int, tensors: tuple[Any, ...], shape: Any) -> Any:
    if len(tensors) == 1 and isinstance(tensors[0], Tensor):
        x = tensors[0]
        return x if x.dim() >= rank else reshaped(x, shape(x._sizes))
    if len(tensors) == 1:
        tensors = tuple(tensors[0])
    return tuple(_at_least(rank, (x,), shape) for x in tensors)


@public()
def atleast_1d(*tensors: Any) -> Any:
    """Tensors (one, several, or a sequence) with at least one dimension."""
    return _at_least(1, tensors, lambda shape: (1,))


@public()
def atleast_2d(*tensors: Any) -> Any:
    """Tensors with at least two dimensions: a vector becomes a row."""
    return _at_least(2, tensors, lambda shape: (1, *(shape or (1,))))


@public()
def atleast_3d(*tensors: Any) -> Any:
    """Tensors with at least three dimensions: [n] becomes [1, n, 1], [n, m] becomes [n, m, 1]."""
    return _at_least(
        3, tensors, lambda shape: (*shape, 1) if len(shape) == 2 else (1, *(shape or (1,)), 1)
    )


# -- order of dimensions -------------------------------------------------------------------------


@public(method=True)
def permute(input: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Dimensions in another order."""
    wanted = listed(order, dims)
    if len(wanted) != input.dim():
        raise RuntimeError(
            "permute: number of dimensions in the tensor input does not match the length of the "
            f"desired ordering of dimensions i.e. input.dim() = {input.dim()} is not equal to "
            f"len(dims) = {len(wanted)}"
        )
    axes = tuple(dimension(dim, input.dim()) for dim in wanted)
    if len(set(axes)) != len(axes):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return transposed(input, axes)


@public(method=True, node="Transpose")
def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    rank = input.dim()
    first, second = dimension(dim0, rank), dimension(dim1, rank)
    order = list(range(rank))
    if rank:
        order[first], order[second] = order[second], order[first]
    return transposed(input, tuple(order))


@public(method=True, node="Transpose")
def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """As `transpose`."""
    return transpose(input, axis0, axis1)


swapdims = transpose


@public(method=True, node="T")
def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; fewer dimensions are left as they are."""
    rank = input.dim()
    if rank > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {rank}D")
    return transposed(input, (1, 0) if rank == 2 else tuple(range(rank)))


def swapped(input: Tensor, name: str) -> Tensor:
    """The last two dimensions exchanged, of complex numbers the conjugates but for `mT`; `name` is
    what the user asked for."""
    if input.dim() < 2:
        raise RuntimeError(
            f"tensor.{name} is only supported on matrices or batches of matrices. Got "
            f"{input.dim()}-D tensor."
        )
    transposed = transpose(input, -2, -1)
    return transposed if name == "mT" else conj(transposed)


@public(method=True)
def adjoint(input: Tensor) -> Tensor:
    """The last two dimensions exchanged, and the conjugates of complex numbers."""
    return swapped(input, "adjoint()")


def hermitian(input: Tensor) -> Tensor:
    """The transpose of a matrix, of complex numbers the conjugates, for `Tensor.H`."""
    if input.dim() not in (0, 2):
        raise RuntimeError(
            "tensor.H is only supported on matrices (2-D tensors). Got "
            f"{input.dim()}-D tensor. For batches of matrices, consider using tensor.mH"
        )
    return conj(t(input))


@public(method=True)
def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Dimensions `source` (one or several) moved to `destination`; the others keep their order."""
    rank = input.dim()
    ends = index_of(source), index_of(destination)
    lists = [[n] if isinstance(n, int) else list(n) for n in ends]
    if len(lists[0]) != len(lists[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({lists[0]} dims) should contain "
            f"the same number of dims as destination ({lists[1]} dims)"
        )
    places = [[dimension(n, rank) for n in dims] for dims in lists]
    for name, dims, shown in zip(("source", "destination"), places, lists):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({shown})")
    if not rank:
        return input
    moved = dict(zip(places[1], places[0]))
    rest = iter([axis for axis in range(rank) if axis not in places[0]])
    return permute(input, [moved[at] if at in moved else next(rest) for at in range(rank)])


moveaxis = movedim


# -- repetition without copies -------------------------------------------------------------------


@public(at="", method=True)
def expand(self: Tensor, *sizes: Any, size: Any = None, implicit: bool = False) -> Tensor:
    """Dimensions of size 1 repeated to the given sizes, without copying; -1 keeps a size."""
    wanted = listed(sizes, size)
    shape = self._sizes
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({self.type()}{{{list(shape)}}}, size={wanted}): the number of sizes "
            f"provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    if -1 in wanted[:lead]:
        raise ShapeError(
            "The expanded size of the tensor (-1) isn't allowed in a leading, non-existing "
            f"dimension {wanted.index(-1)}",
            location=user_location(),
        )
    present = (1,) * lead + shape
    target = tuple(n if size == -1 else size for size, n in zip(wanted, present))
    for axis, (size, n) in enumerate(zip(target, present)):
        if size < 0 or (n not in (1, size) and axis >= lead):
            raise ShapeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({n}) at "
                f"non-singleton dimension {axis}.  Target sizes: {list(target)}.  Tensor sizes: "
                f"{list(shape)}",
                location=user_location(),
            )
    return CONTEXT.apply(m.broadcast, (self,), {"shape": target})[0]


@public(at="", method=True)
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return expand(self, other.shape)


@public(method=True)
def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    """`expand`."""
    return expand(input, size)


@public()
def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes (sequences or single sizes) broadcast to."""
    sizes = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    try:
        return Size(_broadcast_shapes(*sizes))
    except ShapeError as error:
        raise ShapeError(
            str(error), hint="sizes must be equal or 1", location=user_location()
        ) from None


@public()
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors, expanded to their common shape."""
    items = tensors[0] if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else tensors
    shape = common_shape(*items)
    return tuple(expand(tensor, shape) for tensor in items)


# -- parts ---------------------------------------------------------------------------------------


@public(at="", method=True)
def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """Itself where its elements lie in row-major order, else a copy that does."""
    array = self._value
    if array.__class__ is np.ndarray and array.flags.c_contiguous and STATE.mode is None:
        return self
    if self.is_contiguous():
        return self
    copy = self.clone()
    if isinstance(copy._value, np.ndarray):
        copy._value = np.ascontiguousarray(copy._value)  # a clone keeps the order of the axes
    return copy


@public(method=True)
def narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """Elements start … start + length - 1 along `dim`, as a view. `start` may be a 0-d integer
    tensor."""
    shape = input._sizes
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if isinstance(start, Tensor):
        if start.dim() or not start.dtype.is_integer or start.dtype is DType.bool:
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = int(start.item())
    axis = dimension(dim, len(shape))
    if not -shape[axis] <= start <= shape[axis]:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-shape[axis]}, {shape[axis]}], "
            f"but got {start})"
        )
    first = start + shape[axis] if start < 0 else start
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    if first + length > shape[axis]:
        raise ShapeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({shape[axis]}).",
            location=user_location(),
        )
    return sliced(input, axis, first, length, 1)


def sliced(input: Tensor, axis: int, start: int, size: int, step: int) -> Tensor:
    """`size` elements from `start` by `step` along one axis."""
    shape = input._sizes
    starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], sizes[axis], steps[axis] = start if size else 0, size, step
    attributes = {"start": tuple(starts), "size": tuple(sizes), "step": tuple(steps)}
    array = input._value
    if array.__class__ is np.ndarray and not STATE.watched and step > 0 <= start:
        part = slice(start, start + size * step, step) if size else slice(0)
        value = array[(slice(None),) * axis + (part,)]
        if value.shape[axis] == size:
            result = view_plainly(m.slice_, attributes, input, value)
            if result is not None:
                return result
    return CONTEXT.apply(m.slice_, (input,), attributes)[0]
