"""Shapes: views, joining, splitting, moving elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.creation import shape_of
from frontend.dispatch import CONTEXT
from frontend.functions.reduce import axes_of, dimension
from frontend.promotion import casted, common_shape, promote_types
from frontend.tensor import Tensor
from graphc.errors import ShapeError
from graphc.ir.builder import user_location
from graphc.ir.handle import lift
from graphc.ir.types import DType
from graphc.ops import composite
from graphc.ops import movement as m

__all__ = [
    "broadcast_tensors", "broadcast_to", "cat", "chunk", "concat", "concatenate", "flatten",
    "flip", "movedim", "narrow", "permute", "ravel", "repeat_interleave", "reshape", "roll",
    "split", "squeeze", "stack", "t", "tile", "transpose", "unbind", "unflatten", "unsqueeze",
]  # fmt: skip
METHODS = (
    "reshape view view_as reshape_as flatten ravel unflatten permute transpose t movedim squeeze "
    "unsqueeze expand expand_as broadcast_to contiguous narrow split chunk unbind flip roll "
    "repeat tile repeat_interleave"
)


def _reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    return CONTEXT.apply(m.reshape, (x,), {"shape": shape})[0]


def reshape(input: Tensor, *shape: Any) -> Tensor:
    """The same elements in row-major order under another shape; one size may be -1."""
    wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], Sequence) else shape
    sizes = [int(size) for size in wanted]
    count = input.numel()
    if sizes.count(-1) > 1:
        raise RuntimeError("only one dimension can be inferred")
    known = math.prod(size for size in sizes if size != -1)
    fits = known == count if -1 not in sizes else known != 0 and count % known == 0
    if not fits or any(size < -1 for size in sizes):
        if -1 in sizes and known == 0 and count == 0:
            raise RuntimeError(
                f"cannot reshape tensor of 0 elements into shape {sizes} because the unspecified "
                "dimension size -1 can be any value and is ambiguous"
            )
        raise ShapeError(
            f"shape '{sizes}' is invalid for input of size {count}",
            hint=f"the tensor has shape {list(input.shape)}",
            location=user_location(),
        )
    return _reshaped(input, tuple(count // known if size == -1 else size for size in sizes))


def view(self: Tensor, *shape: Any) -> Tensor:
    """`reshape` that shares memory; `view(dtype)` is not supported. Raises RuntimeError where
    the elements do not lie in memory so that a view is possible."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        raise RuntimeError("view(dtype) is not supported; use .to(dtype)")
    result = reshape(self, *shape)
    if result._base is None and result._view is None and self.numel():
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one "
            "dimension spans across two contiguous subspaces). Use .reshape(...) instead."
        )
    return result


def view_as(self: Tensor, other: Tensor) -> Tensor:
    return view(self, other.shape)


def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    return reshape(self, other.shape)


def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Dimensions `start_dim` to `end_dim` as one."""
    shape = input.tensor_type.shape
    if not shape:
        return _reshaped(input, (1,))
    start, end = dimension(start_dim, len(shape)), dimension(end_dim, len(shape))
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    joined = math.prod(shape[start : end + 1])
    return _reshaped(input, (*shape[:start], joined, *shape[end + 1 :]))


def ravel(input: Tensor) -> Tensor:
    return _reshaped(input, (input.numel(),))


def unflatten(input: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Dimension `dim` split into `sizes`; one may be -1."""
    shape = input.tensor_type.shape
    axis = dimension(dim, len(shape))
    known = math.prod(size for size in sizes if size != -1)
    filled = [shape[axis] // max(known, 1) if size == -1 else size for size in sizes]
    return reshape(input, *shape[:axis], *filled, *shape[axis + 1 :])


def permute(input: Tensor, *dims: Any) -> Tensor:
    """Dimensions in another order."""
    order = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    if len(order) != input.dim():
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the "
            f"length of the desired ordering of dimensions i.e. input.dim() = {input.dim()} is not "
            f"equal to len(dims) = {len(order)}".replace("(sparse_coo)", "")
        )
    axes = tuple(dimension(int(dim), input.dim()) for dim in order)
    if len(set(axes)) != len(axes):
        raise RuntimeError("permute(): duplicate dims are not allowed.")
    return CONTEXT.apply(m.transpose, (input,), {"permutation": axes})[0]


def transpose(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two dimensions exchanged."""
    rank = input.dim()
    first, second = dimension(dim0, rank), dimension(dim1, rank)
    order = list(range(rank))
    if rank:
        order[first], order[second] = order[second], order[first]
    return CONTEXT.apply(m.transpose, (input,), {"permutation": tuple(order)})[0]


def t(input: Tensor) -> Tensor:
    """The transpose of a matrix; fewer dimensions are left as they are."""
    if input.dim() > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.dim()}D")
    return transpose(input, 0, 1) if input.dim() == 2 else input


def movedim(input: Tensor, source: int, destination: int) -> Tensor:
    """Dimension `source` moved to `destination`."""
    order = [axis for axis in range(input.dim()) if axis != dimension(source, input.dim())]
    order.insert(dimension(destination, input.dim()), dimension(source, input.dim()))
    return permute(input, order)


def squeeze(input: Tensor, dim: Any = None) -> Tensor:
    """Without dimensions of size 1: all of them, or those in `dim`."""
    shape = input.tensor_type.shape
    axes = axes_of(dim, len(shape)) if dim is None or shape else ()
    kept = tuple(size for axis, size in enumerate(shape) if axis not in axes or size != 1)
    return _reshaped(input, kept)


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    """With a dimension of size 1 at `dim`."""
    shape = input.tensor_type.shape
    axis = dimension(dim, len(shape) + 1)
    return _reshaped(input, (*shape[:axis], 1, *shape[axis:]))


def expand(self: Tensor, *sizes: Any) -> Tensor:
    """Dimensions of size 1 repeated to `sizes`, without copying; -1 keeps a size."""
    wanted = sizes[0] if len(sizes) == 1 and isinstance(sizes[0], Sequence) else sizes
    shape = self.tensor_type.shape
    lead = len(wanted) - len(shape)
    if lead < 0:
        raise RuntimeError(
            f"expand({self.type()}{{{list(shape)}}}, size={list(wanted)}): the number of sizes "
            f"provided ({len(wanted)}) must be greater or equal to the number of dimensions in the "
            f"tensor ({len(shape)})"
        )
    target = [
        shape[axis - lead] if size == -1 and axis >= lead else int(size)
        for axis, size in enumerate(wanted)
    ]
    for axis, size in enumerate(target):
        present = shape[axis - lead] if axis >= lead else size
        if size < 0 or present not in (1, size):
            raise ShapeError(
                f"The expanded size of the tensor ({size}) must match the existing size "
                f"({present}) at non-singleton dimension {axis}.  Target sizes: {target}.  Tensor "
                f"sizes: {list(shape)}",
                location=user_location(),
            )
    return CONTEXT.apply(m.broadcast, (self,), {"shape": tuple(target)})[0]


def expand_as(self: Tensor, other: Tensor) -> Tensor:
    return expand(self, other.shape)


def broadcast_to(input: Tensor, size: Sequence[int]) -> Tensor:
    return expand(input, size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    shape = common_shape(*tensors)
    return tuple(expand(tensor, shape) for tensor in tensors)


def contiguous(self: Tensor, memory_format: Any = None) -> Tensor:
    """Itself where its elements lie in row-major order, else a copy that does."""
    return self if self.is_contiguous() else self.clone()


# -- joining and splitting -----------------------------------------------------------------------


def _promoted(tensors: Any, name: str) -> list[Tensor]:
    items = list(tensors)
    if not items:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    for position, item in enumerate(items):
        if not isinstance(item, Tensor):
            raise TypeError(
                f"expected Tensor as element {position} in argument 0, but got "
                f"{type(item).__name__}"
            )
    kind = items[0].dtype
    for item in items[1:]:
        kind = promote_types(kind, item.dtype)
    return [casted(item, kind) for item in items]


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors joined along an existing dimension; empty 1-d tensors are skipped."""
    items = _promoted(tensors, "torch.cat(): ")
    kept = [x for x in items if x.tensor_type.shape != (0,)] or items[:1]
    axis = dimension(dim, kept[0].dim())
    first = kept[0].tensor_type.shape
    if not first:
        raise RuntimeError("zero-dimensional tensor (at position 0) cannot be concatenated")
    for position, x in enumerate(kept):
        shape = x.tensor_type.shape
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
    return CONTEXT.apply(m.concat, tuple(kept), {"axis": axis})[0]


concat = concatenate = cat


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Tensors of one shape joined along a new dimension."""
    items = _promoted(tensors, "stack")
    first = items[0].tensor_type.shape
    for position, x in enumerate(items):
        if x.tensor_type.shape != first:
            raise ShapeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 and "
                f"{list(x.tensor_type.shape)} at entry {position}",
                location=user_location(),
            )
    axis = dimension(dim, len(first) + 1)
    return CONTEXT.apply(composite.stack, tuple(items), {"axis": axis})[0]


def narrow(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """Elements start … start + length - 1 along `dim`, as a view."""
    shape = input.tensor_type.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    axis = dimension(dim, len(shape))
    first = start + shape[axis] if start < 0 else start
    if length < 0 or first < 0 or first + length > shape[axis]:
        raise ShapeError(
            f"start ({start}) + length ({length}) exceeds dimension size ({shape[axis]}).",
            location=user_location(),
        )
    return sliced(input, axis, first, length, 1)


def sliced(input: Tensor, axis: int, start: int, size: int, step: int) -> Tensor:
    """`size` elements from `start` by `step` along one axis."""
    shape = input.tensor_type.shape
    starts, sizes, steps = [0] * len(shape), list(shape), [1] * len(shape)
    starts[axis], sizes[axis], steps[axis] = start, size, step
    attributes = {"start": tuple(starts), "size": tuple(sizes), "step": tuple(steps)}
    return CONTEXT.apply(m.slice_, (input,), attributes)[0]


def split(input: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of a size (the last may be smaller), or of the listed sizes, as views."""
    axis = dimension(dim, input.dim())
    total = input.tensor_type.shape[axis]
    if isinstance(split_size_or_sections, int):
        size = split_size_or_sections
        if size < 0 or (size == 0 and total):
            raise RuntimeError(f"split expects split_size be positive, but got split_size={size}")
        starts = range(0, total, size) if size else range(1)
        sizes = [min(size, total - start) for start in starts] or [0]
    else:
        sizes = list(split_size_or_sections)
        if sum(sizes) != total:
            raise RuntimeError(
                f"split_with_sizes expects split_sizes to sum exactly to {total} (input tensor's "
                f"size at dimension {axis}), but got split_sizes={sizes}"
            )
    parts, start = [], 0
    for size in sizes:
        parts.append(sliced(input, axis, start, size, 1))
        start += size
    return tuple(parts)


def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` parts of nearly equal size."""
    if chunks <= 0:
        raise RuntimeError("chunk expects `chunks` to be greater than 0, got: " + str(chunks))
    total = input.tensor_type.shape[dimension(dim, input.dim())]
    return split(input, max(-(-total // chunks), 1), dim)


def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along `dim`, each without that dimension."""
    axis = dimension(dim, input.dim())
    shape = input.tensor_type.shape
    rest = shape[:axis] + shape[axis + 1 :]
    return tuple(_reshaped(sliced(input, axis, i, 1, 1), rest) for i in range(shape[axis]))


def flip(input: Tensor, *dims: Any) -> Tensor:
    """The order of elements reversed along `dims` (a copy, as in PyTorch)."""
    wanted = dims[0] if len(dims) == 1 and isinstance(dims[0], Sequence) else dims
    result = input
    for axis in axes_of(tuple(wanted), input.dim()) if wanted else ():
        size = result.tensor_type.shape[axis]
        result = sliced(result, axis, max(size - 1, 0), size, -1)
    return result.clone()


def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along `dims`, those that leave at one end entering at the other."""
    if dims is None:
        return roll(ravel(input), shifts, 0).reshape(input.shape)
    moves = zip([shifts] if isinstance(shifts, int) else shifts,
                [dims] if isinstance(dims, int) else dims)  # fmt: skip
    for shift, dim in moves:
        size = input.shape[dim]
        cut = -shift % size if size else 0
        if cut:
            input = cat((narrow(input, dim, cut, size - cut), narrow(input, dim, 0, cut)), dim)
    return input.clone()


def repeat(self: Tensor, *sizes: Any) -> Tensor:
    """The tensor tiled: `sizes[i]` times along dimension i."""
    times = shape_of(sizes)
    shape = self.tensor_type.shape
    if len(times) < len(shape):
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of "
            "tensor"
        )
    full = (1,) * (len(times) - len(shape)) + shape
    inner = _reshaped(self, tuple(n for size in full for n in (1, size)))
    spread = expand(inner, tuple(n for time, size in zip(times, full) for n in (time, size)))
    return _reshaped(spread, tuple(time * size for time, size in zip(times, full)))


def tile(input: Tensor, dims: Sequence[int]) -> Tensor:
    return repeat(input, (1,) * (input.dim() - len(dims)) + tuple(dims))


def repeat_interleave(input: Tensor, repeats: int, dim: int | None = None) -> Tensor:
    """Each element along `dim` repeated in place."""
    x = ravel(input) if dim is None else input
    axis = 0 if dim is None else dimension(dim, x.dim())
    shape = x.tensor_type.shape
    wide = (*shape[: axis + 1], repeats, *shape[axis + 1 :])
    spread = expand(unsqueeze(x, axis + 1), wide)
    return _reshaped(spread, (*shape[:axis], shape[axis] * repeats, *shape[axis + 1 :]))


def padded(input: Tensor, widths: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """`value` put before and after along each axis: `widths[axis]` is (before, after), and
    negative widths cut elements off."""
    for axis, (low, high) in enumerate(widths):
        if low < 0 or high < 0:
            size = input.tensor_type.shape[axis] + min(low, 0) + min(high, 0)
            input = sliced(input, axis, -min(low, 0), size, 1)
    attributes = {
        "low": tuple(max(low, 0) for low, _ in widths),
        "high": tuple(max(high, 0) for _, high in widths),
        "interior": (0,) * len(widths),
    }
    return CONTEXT.apply(m.pad, (input, lift(value, input)), attributes)[0]
