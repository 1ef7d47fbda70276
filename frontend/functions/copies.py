"""Views under PyTorch's names that end in `_copy`: the same elements in memory of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions import layout, select, shape
from frontend.functions.arguments import stored
from frontend.functions.declarations import public


def _copies(view: Any, out: Any) -> Any:
    """A view, or each of several, as tensors that share nothing with it."""
    if isinstance(view, Tensor):
        return stored(view.clone(), out)
    copies = tuple(each.clone() for each in view)
    return stored(copies, None if out is None else tuple(out))


def _copying(name: str, view: Any) -> Any:
    def function(input: Tensor, *args: Any, out: Any = None, **keywords: Any) -> Any:
        return _copies(view(input, *args, **keywords), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"What `{name.removesuffix('_copy')}` gives, copied."
    return public()(function)


def slice_of(
    input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """The elements from `start` to `end` along `dim`, in steps: a view."""
    axis = dim % max(input.dim(), 1) if -input.dim() <= dim < input.dim() else dim
    if not 0 <= axis < input.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-input.dim()}, "
            f"{input.dim() - 1}], but got {dim})"
        )
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    return input[(slice(None),) * axis + (slice(start, end, step),)]


def _split(input: Tensor, split_size: int, dim: int = 0) -> Any:
    return shape.split(input, split_size, dim)


def _split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> Any:
    return shape.split(input, list(split_sizes), dim)


def _unfold(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    return input.unfold(dimension, size, step)


def _view(input: Tensor, size: Any) -> Tensor:
    return input.view(size)


def _expand(input: Tensor, size: Sequence[int], *, implicit: bool = False) -> Tensor:
    return layout.expand(input, tuple(size))


def _narrow(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    if dim >= max(input.dim(), 1):  # no IndexError, which it is elsewhere
        raise RuntimeError(f"narrow_copy: dim {dim} of a tensor with {input.dim()} dimensions")
    return layout.narrow(input, dim, start, length)


alias_copy = _copying("alias_copy", lambda input: input)
as_strided_copy = _copying("as_strided_copy", select.as_strided)
detach_copy = _copying("detach_copy", lambda input: input.detach())
diagonal_copy = _copying("diagonal_copy", select.diagonal)
expand_copy = _copying("expand_copy", _expand)
narrow_copy = _copying("narrow_copy", _narrow)
permute_copy = _copying("permute_copy", lambda input, dims: layout.permute(input, *dims))
select_copy = _copying("select_copy", lambda input, dim, index: input.select(dim, index))
slice_copy = _copying("slice_copy", slice_of)
split_copy = _copying("split_copy", _split)
split_with_sizes_copy = _copying("split_with_sizes_copy", _split_with_sizes)
squeeze_copy = _copying("squeeze_copy", layout.squeeze)
t_copy = _copying("t_copy", layout.t)
transpose_copy = _copying("transpose_copy", layout.transpose)
unbind_copy = _copying("unbind_copy", shape.unbind)
unfold_copy = _copying("unfold_copy", _unfold)
unsqueeze_copy = _copying("unsqueeze_copy", layout.unsqueeze)
view_copy = _copying("view_copy", _view)
