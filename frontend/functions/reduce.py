"""Reductions: over all elements, or along `dim`, with PyTorch's `keepdim`."""

from __future__ import annotations

import builtins
from collections import namedtuple
from typing import Any

import numpy as np

from frontend.dispatch import CONTEXT, filled
from frontend.dtypes import as_dtype
from frontend.functions import pointwise as f
from frontend.functions.logic import isfinite, truth
from frontend.promotion import casted, floating
from frontend.tensor import Tensor
from graphc.errors import DTypeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import composite, indexing, reduce
from graphc.ops import movement as m

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "count_nonzero", "log_softmax",
    "logsumexp", "max", "mean", "min", "norm", "prod", "softmax", "std", "sum", "var",
]  # fmt: skip
METHODS = (
    "sum prod mean var std amax amin argmax argmin max min any all softmax log_softmax logsumexp "
    "norm count_nonzero"
)

# PyTorch's `torch.return_types`: what reductions along a dimension return.
max_result: Any = namedtuple("max", "values indices")  # type: ignore[name-match]
min_result: Any = namedtuple("min", "values indices")  # type: ignore[name-match]


def dimension(dim: int, rank: int) -> int:
    """`dim` counted from the front; a 0-d tensor counts as 1-d. Raises IndexError."""
    bound = rank or 1
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
            f"but got {dim})"
        )
    return dim % bound


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The axes named by `dim` (None, a number, several), sorted. Raises IndexError."""
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(rank))
    dims = (dim,) if isinstance(dim, int) else dim
    axes = sorted(dimension(int(d), rank) for d in dims)
    if len(set(axes)) != len(axes):
        raise RuntimeError(f"dim {axes} appears multiple times in the list of dims")
    return tuple(axes) if rank else ()


def reduced(op: Any, x: Tensor, dim: Any, keepdim: bool, **attributes: Any) -> Tensor:
    """`op` over `dim`, the reduced dimensions kept with size 1 where `keepdim`."""
    shape = x.tensor_type.shape
    axes = axes_of(dim, len(shape))
    made = CONTEXT.apply(op, (x,), {"axes": axes, **attributes})[0]
    if not keepdim:
        return made
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    return CONTEXT.apply(m.reshape, (made,), {"shape": kept})[0]


def _summand(x: Tensor, dtype: Any) -> Tensor:
    """What sum and prod add up: integers and bools as int64."""
    if dtype is not None:
        return casted(x, as_dtype(dtype))
    return x if x.dtype.is_float else casted(x, DType.i64)


def sum(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The sum; integers and bools sum to int64."""
    return reduced(reduce.sum, _summand(input, dtype), dim, keepdim)


def prod(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The product; integers and bools multiply to int64."""
    return reduced(reduce.prod, _summand(input, dtype), dim, keepdim)


def mean(input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The arithmetic mean of a float tensor. Of no elements it is NaN."""
    x = input if dtype is None else casted(input, as_dtype(dtype))
    if not x.dtype.is_float:
        raise DTypeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or "
            f"complex dtype. Got: {x.dtype}",
            location=user_location(),
        )
    if builtins.any(x.shape[axis] == 0 for axis in axes_of(dim, x.dim())):
        return reduced(reduce.sum, x, dim, keepdim) / 0.0
    return reduced(composite.mean, x, dim, keepdim)


def _spread(input: Tensor, dim: Any, unbiased: Any, correction: Any, keepdim: bool) -> Tensor:
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None else int(unbiased)
    x = floating(input)
    if builtins.any(x.shape[axis] == 0 for axis in axes_of(dim, x.dim())):
        return reduced(reduce.sum, x, dim, keepdim) / 0.0
    return reduced(composite.var, x, dim, keepdim, correction=correction)


def var(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Tensor:  # fmt: skip
    """The variance: squared distance from the mean over (count - correction)."""
    return _spread(input, dim, unbiased, correction, keepdim)


def std(
    input: Tensor, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *,
    correction: Any = None,
) -> Tensor:  # fmt: skip
    """The square root of the variance."""
    return f.sqrt(_spread(input, dim, unbiased, correction, keepdim))


# -- extremes ------------------------------------------------------------------------------------


def _needs_elements(name: str, x: Tensor, dim: Any) -> None:
    if builtins.any(x.shape[axis] == 0 for axis in axes_of(dim, x.dim())):
        raise ShapeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
            if dim is None
            else f"{name}(): Expected reduction dim {dim} to have non-zero size.",
            location=user_location(),
        )


def amax(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The greatest element; equal ones share the gradient."""
    _needs_elements("amax", input, dim)
    return _extreme(reduce.max, input, dim, keepdim)


def amin(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """The smallest element; equal ones share the gradient."""
    _needs_elements("amin", input, dim)
    return _extreme(reduce.min, input, dim, keepdim)


def _extreme(op: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if x.dtype is not DType.bool:
        return reduced(op, x, dim, keepdim)
    return casted(reduced(op, casted(x, DType.i32), dim, keepdim), DType.bool)


def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position (int64) of the first greatest element, of the flattened tensor without dim."""
    return _position(reduce.argmax, input, dim, keepdim)


def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position (int64) of the first smallest element, of the flattened tensor without dim."""
    return _position(reduce.argmin, input, dim, keepdim)


def _position(op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    _needs_elements(op.name, x, dim)
    if x.dtype is DType.bool:
        x = casted(x, DType.i32)
    if not x.dim():
        return filled(0, DType.i64, ()).clone()
    if dim is None:
        flat = CONTEXT.apply(m.reshape, (x,), {"shape": (x.numel(),)})[0]
        made = reduced(op, flat, 0, False)
        ones = (1,) * x.dim()
        return CONTEXT.apply(m.reshape, (made,), {"shape": ones})[0] if keepdim else made
    return reduced(op, x, dim, keepdim)


def max(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """`max(x)`: the greatest element. `max(x, dim)`: (values, indices), the gradient goes to the
    first greatest. `max(x, y)`: as `maximum`."""
    if isinstance(dim, Tensor):
        return f.maximum(input, dim)
    if dim is None:
        return _whole("max", amax, input)
    return max_result(*_along(reduce.argmax, input, dim, keepdim))


def min(input: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    """`min(x)`: the smallest element. `min(x, dim)`: (values, indices), the gradient goes to the
    first smallest. `min(x, y)`: as `minimum`."""
    if isinstance(dim, Tensor):
        return f.minimum(input, dim)
    if dim is None:
        return _whole("min", amin, input)
    return min_result(*_along(reduce.argmin, input, dim, keepdim))


def _whole(name: str, reduction: Any, x: Tensor) -> Tensor:
    _needs_elements(name, x, None)
    return reduction(x)


def _along(op: Any, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    if not x.dim():
        dimension(dim, 0)
        return x.clone(), filled(0, DType.i64, ()).clone()
    axis = dimension(dim, x.dim())
    index = _position(op, x, axis, True)
    values = CONTEXT.apply(indexing.gather, (x, index), {"axis": axis})[0]
    if keepdim:
        return values, index
    shape = values.tensor_type.shape
    squeezed = {"shape": shape[:axis] + shape[axis + 1 :]}
    return (
        CONTEXT.apply(m.reshape, (values,), squeezed)[0],
        CONTEXT.apply(m.reshape, (index,), squeezed)[0],
    )


def any(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether some element differs from 0."""
    return reduced(reduce.any, truth(input), dim, keepdim)


def all(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0."""
    return reduced(reduce.all, truth(input), dim, keepdim)


# -- compositions --------------------------------------------------------------------------------


def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """exp(x) over its sum along `dim`."""
    return _normalised(composite.softmax, input, dim, dtype)


def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of softmax, exact where softmax underflows."""
    return _normalised(composite.log_softmax, input, dim, dtype)


def _normalised(op: Any, x: Tensor, dim: int, dtype: Any) -> Tensor:
    axis = dimension(dim, x.dim())
    x = floating(x) if dtype is None else casted(x, as_dtype(dtype))
    if x.dim():
        return CONTEXT.apply(op, (x,), {"axis": axis})[0]
    return CONTEXT.apply(op, (x.reshape(1),), {"axis": 0})[0].reshape(())


def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """log Σ exp(x) along `dim`, without overflow."""
    top = amax(input, dim, keepdim=True).detach()
    top = f.where(isfinite(top), top, 0.0)
    total = f.log(sum(f.exp(input - top), dim, keepdim=True)) + top
    return total if keepdim else total.squeeze(axes_of(dim, input.dim()))


def norm(
    input: Tensor, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """The p-norm over `dim`, or over all elements; "fro" is 2, inf the greatest magnitude."""
    x = input if dtype is None else casted(input, as_dtype(dtype))
    if p in (2, 2.0, "fro", None):
        return f.sqrt(sum(x * x, dim, keepdim))
    if p == np.inf:
        return amax(f.abs(x), () if dim is None else dim, keepdim)
    if p == -np.inf:
        return amin(f.abs(x), () if dim is None else dim, keepdim)
    if p == 0:
        return sum(casted(x != 0, x.dtype), dim, keepdim)
    if p == 1:
        return sum(f.abs(x), dim, keepdim)
    return f.pow(sum(f.pow(f.abs(x), p), dim, keepdim), 1 / p)


def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements differ from 0 (int64)."""
    return sum(truth(input), dim)
