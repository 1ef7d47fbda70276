"""Elements in another order, and grids and blocks made of several tensors."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.eager.promotion import casted, result_type
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.engine.tensors.views import own
from frontend.functions.arguments import index_of
from frontend.functions.declarations import public
from frontend.functions.layout import atleast_2d, expand, listed, ravel, reshaped, sliced
from frontend.functions.reduce import axes_of, dimension
from frontend.functions.shape import cat, padded, stack
from graphc.ir.types import DType
from graphc.ops import indexing

# -- order ---------------------------------------------------------------------------------------


@public(method=True, node="Flip")
def flip(input: Tensor, *axes: Any, dims: Any = None) -> Tensor:
    """The order of elements reversed along `dims` (a copy, as in PyTorch)."""
    wanted = listed(axes, dims)
    result = input
    for axis in axes_of(tuple(wanted), input.dim()) if wanted else ():
        size = result._sizes[axis]
        result = sliced(result, axis, max(size - 1, 0), size, -1)
    return result.clone()


@public(method=True, node="Flip")
def fliplr(input: Tensor) -> Tensor:
    """The second dimension reversed."""
    if input.dim() < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@public(method=True, node="Flip")
def flipud(input: Tensor) -> Tensor:
    """The first dimension reversed."""
    if input.dim() < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@public(method=True, node="Rot90")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Turned k times by 90° in the plane of two dimensions, from the first towards the second."""
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.dim() < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.dim()}")
    first, second = (dimension(dim, input.dim()) for dim in dims)
    if first == second:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    turns = k % 4
    if turns == 1:
        return flip(input, (second,)).transpose(first, second).clone()
    if turns == 2:
        return flip(input, (first, second))
    if turns == 3:
        return flip(input, (first,)).transpose(first, second).clone()
    return input.clone()


@public(method=True, node="Roll")
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """Elements moved along `dims`, those that leave at one end entering at the other; without
    `dims` along the flattened tensor."""
    shifts, dims = index_of(shifts), index_of(dims)
    steps = [shifts] if isinstance(shifts, int) else list(shifts)
    if not steps:
        raise RuntimeError("`shifts` required")
    places = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
    if not places and len(steps) == 1:
        return own(reshaped(roll(ravel(input), steps, 0), input._sizes))
    if len(steps) != len(places):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(steps)}, dims:{len(places)}"
        )
    if not input.dim():
        raise IndexError(f"Dimension specified as {places[0]} but tensor has no dimensions")
    result = input
    for shift, dim in zip(steps, places):
        axis = dimension(dim, input.dim())
        size = input._sizes[axis]
        cut = -shift % size if size else 0
        if cut:
            ends = sliced(result, axis, cut, size - cut, 1), sliced(result, axis, 0, cut, 1)
            result = cat(ends, axis)
    return result.clone() if result is input else result


# -- grids ---------------------------------------------------------------------------------------


@public()
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Each vector expanded over the grid of all of them, one dimension per vector; "xy" exchanges
    the first two dimensions, None is "ij"."""
    nested = len(tensors) == 1 and not isinstance(tensors[0], Tensor)
    items = list(tensors[0]) if nested else list(tensors)
    if not items:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    if indexing not in ("ij", "xy", None):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    for x in items:
        if x.dim() > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {x}"
            )
        if x.dtype is not items[0].dtype:
            raise RuntimeError("meshgrid expects all tensors to have the same dtype")
    axes = list(range(len(items)))
    if indexing == "xy" and len(items) > 1:
        axes[:2] = [1, 0]
    shape = [1] * len(items)
    for x, axis in zip(items, axes):
        shape[axis] = x.numel()
    return tuple(
        expand(reshaped(x, tuple(shape[axis] if at == axis else 1 for at in range(len(shape)))),
               shape)
        for x, axis in zip(items, axes)
    )  # fmt: skip


def _vector(x: Tensor) -> Tensor:
    if x.dim() != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(x.shape)}")
    return x


@public()
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """[rows, vectors]: all ways to take one element of each vector; one vector is itself."""
    for x in tensors:
        _vector(x)
    if len(tensors) == 1:
        return tensors[0]
    return stack([ravel(grid) for grid in meshgrid(*tensors, indexing="ij")], 1)


@public()
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """[rows, r]: all ways to take r elements of a vector, in order."""
    _vector(input)
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if r == 0:
        return sliced(input, 0, 0, 0, 1).detach().clone()
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    places = list(choose(range(input.numel()), r))
    index = from_data(places, DType.i64).reshape(len(places), r)
    return CONTEXT.apply(indexing.take, (input, index), {"axis": 0})[0]


@public(node="BlockDiag")
def block_diag(*tensors: Tensor) -> Tensor:
    """The matrices (vectors are rows) along the diagonal of a matrix of zeros."""
    for position, x in enumerate(tensors):
        if x.dim() > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{position} has {x.dim()} dimensions"
            )
    if not tensors:
        return from_data([[]])
    kind = result_type(*tensors)
    blocks = [atleast_2d(casted(x, kind)) for x in tensors]
    width = sum(x.shape[1] for x in blocks)
    rows, start = [], 0
    for x in blocks:
        rows.append(padded(x, ((0, 0), (start, width - start - x.shape[1]))))
        start += x.shape[1]
    return cat(rows, 0)
