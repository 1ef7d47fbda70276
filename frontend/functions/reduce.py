"""Reductions: over all elements, or along `dim`, with PyTorch's `keepdim` (or NumPy's `axis` and
`keepdims`)."""

from __future__ import annotations

import builtins
import math
from itertools import pairwise
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, apply_reduction, filled
from frontend.engine.eager.promotion import casted, floating
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.tensor import Tensor
from frontend.engine.tensors.views import own
from frontend.functions import pointwise as f
from frontend.functions import return_types
from frontend.functions.arguments import (
    index_of,
    need_tensors,
    not_implemented,
    stored,
    stored_exactly,
)
from frontend.functions.declarations import public
from frontend.functions.logic import isnan, truth
from graphc.errors import DTypeError, IndexRangeError, ShapeError
from graphc.ir.builder import user_location
from graphc.ir.types import DType
from graphc.ops import composite, indexing, order, reduce, summaries
from graphc.ops import movement as m
from graphc.ops.linear_algebra import norms


def dimension(dim: int, rank: int) -> int:
    """`dim` counted from the front; a 0-d tensor counts as 1-d. Raises IndexError."""
    if type(dim) is int and -rank <= dim < rank:
        return dim if dim >= 0 else dim + rank
    dim = index_of(dim)
    bound = rank or 1
    if not -bound <= dim < bound:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], "
            f"but got {dim})"
        )
    return dim % bound


def axes_of(dim: Any, rank: int) -> tuple[int, ...]:
    """The axes named by `dim` (None, a number, several), sorted. Raises IndexError, TypeError, and
    RuntimeError where one is named twice."""
    if type(dim) is int and rank:
        return (dimension(dim, rank),)
    if dim is None or (isinstance(dim, list | tuple) and not dim):
        return tuple(range(rank))
    dim = index_of(dim)
    dims = (dim,) if isinstance(dim, int) else dim
    if not isinstance(dims, list | tuple):
        raise TypeError(f"argument 'dim' must be int or tuple of ints, not {type(dim).__name__}")
    axes = sorted(dimension(int(d), rank) for d in dims)
    for axis, following in pairwise(axes):
        if axis == following:
            raise RuntimeError(f"dim {axis} appears multiple times in the list of dims")
    return tuple(axes) if rank else ()


def reduced(op: Any, x: Tensor, dim: Any, keepdim: bool, **attributes: Any) -> Tensor:
    """`op` over `dim`, the reduced dimensions kept with size 1 where `keepdim`."""
    shape = x._sizes
    axes = axes_of(dim, len(shape))
    if attributes:
        result = CONTEXT.apply(op, (x,), {"axes": axes, **attributes})[0]
    else:
        result = apply_reduction(op, x, axes)
    if not keepdim:
        return result
    kept = tuple(1 if axis in axes else size for axis, size in enumerate(shape))
    shown = CONTEXT.apply(m.reshape, (result,), {"shape": kept})[0]
    return shown if result is x else own(shown)


# -- sums ----------------------------------------------------------------------------------------


def _summand(name: str, x: Any, dtype: Any) -> Tensor:
    """What sum and prod add up: integers and bools as int64."""
    if not isinstance(x, Tensor):
        need_tensors(name, input=x)
    if dtype is not None:
        return casted(x, as_dtype(dtype))
    return x if x.tensor_type.dtype.is_float else casted(x, DType.i64)


@public(method=True, numpy_names=True)
def sum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sum; integers and bools sum to int64, and with dtype=bool to whether one differs from
    0."""
    summand = _summand("sum", input, dtype)
    op = reduce.sum if dtype is None or summand.dtype is not DType.bool else reduce.any
    total = reduced(op, summand, dim, keepdim)
    return total if out is None else stored(total, out)


@public(method=True, node="Nansum", numpy_names=True)
def nansum(
    input: Tensor, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, out: Any = None
) -> Tensor:
    """The sum of what is not NaN."""
    x = input if dtype is None else casted(input, as_dtype(dtype))
    if x.dtype.is_float:
        x = f.where(isnan(x), 0.0, x)
    return sum(x, dim, keepdim, dtype=dtype, out=out)


@public(method=True, numpy_names=True, autocast="float32")
def prod(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """The product; integers and bools multiply to int64."""
    if dim is not None and not isinstance(dim, int):
        raise TypeError(f"prod(): argument 'dim' must be int, not {type(dim).__name__}")
    factors = _summand("prod", input, dtype)
    if factors.dtype is DType.bool:
        whole = reduced(reduce.prod, casted(factors, DType.i32), dim, keepdim)
        return stored(casted(whole, DType.bool), out)
    product = reduced(reduce.prod, factors, dim, keepdim)
    return product if out is None else stored(product, out)


@public(method=True, numpy_names=True)
def count_nonzero(input: Tensor, dim: Any = None) -> Tensor:
    """How many elements differ from 0 (int64)."""
    return sum(truth(input), dim)


# -- extremes ------------------------------------------------------------------------------------


def _needs_elements(name: str, x: Tensor, dim: Any) -> None:
    shape = x._sizes
    if 0 in shape and builtins.any(shape[axis] == 0 for axis in axes_of(dim, len(shape))):
        raise IndexRangeError(
            f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
            "reduction dim with the 'dim' argument."
            if dim is None
            else f"{name}(): Expected reduction dim {dim} to have non-zero size.",
            location=user_location(),
        )


@public(method=True, node="Amax", numpy_names=True)
def amax(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Tensor:
    """The greatest element; equal ones share the gradient."""
    return stored_exactly(_extreme("amax", reduce.max, input, dim, keepdim), out)


@public(method=True, node="Amin", numpy_names=True)
def amin(input: Tensor, dim: Any = (), keepdim: bool = False, *, out: Any = None) -> Tensor:
    """The smallest element; equal ones share the gradient."""
    return stored_exactly(_extreme("amin", reduce.min, input, dim, keepdim), out)


@public(method=True, numpy_names=True)
def aminmax(
    input: Tensor, *, dim: int | None = None, keepdim: bool = False, out: Any = None
) -> Any:
    """(min, max), over all elements or along `dim`; equal ones share the gradient."""
    low = _extreme("aminmax", reduce.min, input, dim, keepdim)
    high = _extreme("aminmax", reduce.max, input, dim, keepdim)
    return stored_exactly(return_types.aminmax(low, high), out)


def _extreme(name: str, op: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    if not isinstance(x, Tensor):
        need_tensors(name, input=x)
    if 0 in x.tensor_type.shape:
        _needs_elements(name, x, None if dim == () else dim)
    if x.tensor_type.dtype is not DType.bool:
        return reduced(op, x, dim, keepdim)
    return casted(reduced(op, casted(x, DType.i32), dim, keepdim), DType.bool)


@public(method=True, numpy_names=True)
def argmax(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None
) -> Tensor:
    """The position (int64) of the first greatest element, of the flattened tensor without dim."""
    return stored(_argument("argmax", reduce.argmax, input, dim, keepdim), out)


@public(method=True, numpy_names=True)
def argmin(
    input: Tensor, dim: int | None = None, keepdim: bool = False, *, out: Any = None
) -> Tensor:
    """The position (int64) of the first smallest element, of the flattened tensor without dim."""
    return stored(_argument("argmin", reduce.argmin, input, dim, keepdim), out)


def _argument(name: str, op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    need_tensors(name, input=x)
    if x.dtype is DType.bool:
        raise DTypeError(f"{name}(): does not support bool input", location=user_location())
    return _position(name, op, x, dim, keepdim)


def _position(name: str, op: Any, x: Tensor, dim: int | None, keepdim: bool) -> Tensor:
    _needs_elements(name, x, dim)
    if x.dtype is DType.bool:
        x = casted(x, DType.i32)
    if not x.dim():
        return filled(0, DType.i64, ()).clone()
    if dim is None:
        flat = CONTEXT.apply(m.reshape, (x,), {"shape": (x.numel(),)})[0]
        position = reduced(op, flat, 0, False)
        ones = (1,) * x.dim()
        return CONTEXT.apply(m.reshape, (position,), {"shape": ones})[0] if keepdim else position
    return reduced(op, x, dim, keepdim)


@public(method=True, node_along="MaxBackward0", numpy_names=True)
def max(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """`max(x)`: the greatest element, whose gradient equal ones share. `max(x, dim)`: (values,
    indices), the gradient goes to the first greatest. `max(x, y)`: as `maximum`."""
    if isinstance(dim, Tensor):
        return f.maximum(input, dim, out=out)
    if dim is None:
        return stored(_extreme("max", reduce.max, input, None, False), out)
    return stored(return_types.max(*_along("max", reduce.argmax, input, dim, keepdim)), out)


@public(method=True, node_along="MinBackward0", numpy_names=True)
def min(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Any:
    """`min(x)`: the smallest element, whose gradient equal ones share. `min(x, dim)`: (values,
    indices), the gradient goes to the first smallest. `min(x, y)`: as `minimum`."""
    if isinstance(dim, Tensor):
        return f.minimum(input, dim, out=out)
    if dim is None:
        return stored(_extreme("min", reduce.min, input, None, False), out)
    return stored(return_types.min(*_along("min", reduce.argmin, input, dim, keepdim)), out)


def _along(name: str, op: Any, x: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    need_tensors(name, input=x)
    if not isinstance(dim, int):
        raise TypeError(f"{name}(): argument 'dim' must be int, not {type(dim).__name__}")
    if not x.dim():
        dimension(dim, 0)
        return x.clone(), filled(0, DType.i64, ()).clone()
    axis = dimension(dim, x.dim())
    if x.dtype.is_computed and not x.dtype.is_storage and x.dtype is not DType.bool:
        _needs_elements(name, x, axis)
        least = op is reduce.argmin
        values, index = CONTEXT.apply(order.extreme, (x,), {"axis": axis, "least": least})
        if keepdim:
            kept = {"shape": x._sizes[:axis] + (1,) + x._sizes[axis + 1 :]}
            values, index = [CONTEXT.apply(m.reshape, (y,), kept)[0] for y in (values, index)]
        return values, index
    index = _position(name, op, x, axis, True)
    values = CONTEXT.apply(indexing.gather, (x, index), {"axis": axis})[0]
    if keepdim:
        return values, index
    shape = values._sizes
    squeezed = {"shape": shape[:axis] + shape[axis + 1 :]}
    return (
        CONTEXT.apply(m.reshape, (values,), squeezed)[0],
        CONTEXT.apply(m.reshape, (index,), squeezed)[0],
    )


# -- truth ---------------------------------------------------------------------------------------


@public(method=True, numpy_names=True)
def any(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Whether some element differs from 0; uint8 gives uint8."""
    return stored(_judged(reduce.any, input, dim, keepdim), out)


@public(method=True, numpy_names=True)
def all(input: Tensor, dim: Any = None, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """Whether no element is 0; uint8 gives uint8."""
    return stored(_judged(reduce.all, input, dim, keepdim), out)


def _judged(op: Any, x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    truths = truth(x)
    # Unlike elsewhere, an empty list of dims names none.
    verdict = truths if dim == () or dim == [] else reduced(op, truths, dim, keepdim)
    return casted(verdict, DType.u8) if x.dtype is DType.u8 else verdict


# -- compositions --------------------------------------------------------------------------------


@public(method=True, numpy_names=True)
def softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Any = None) -> Tensor:
    """exp(x) over its sum along `dim`. `dtype`: what the input is cast to first."""
    return stored(_normalised(composite.softmax, input, dim, dtype), out)


@public(method=True, numpy_names=True)
def log_softmax(input: Tensor, dim: int, dtype: Any = None, *, out: Any = None) -> Tensor:
    """The logarithm of softmax, exact where softmax underflows."""
    return stored(_normalised(composite.log_softmax, input, dim, dtype), out)


def _normalised(op: Any, x: Tensor, dim: int, dtype: Any) -> Tensor:
    need_tensors(op.name, input=x)
    axis = dimension(dim, x.dim())
    x = x if dtype is None else casted(x, as_dtype(dtype))
    if not x.dtype.is_float:
        raise not_implemented(f"{op.name}_kernel_impl", x.dtype)
    if x.dim():
        return CONTEXT.apply(op, (x,), {"axis": axis})[0]
    return own(CONTEXT.apply(op, (x.reshape(1),), {"axis": 0})[0].reshape(()))


@public(method=True, numpy_names=True)
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False, *, out: Any = None) -> Tensor:
    """log Σ exp(x) along `dim`, without overflow; of no elements -inf."""
    x = floating(input)
    axes = axes_of(dim, x.dim())
    if x.is_complex():
        greatest = amax(x.detach().real, axes, True) if x.dim() else x.detach().real
        total = sum(f.exp(x - f.where(f.abs(greatest) == math.inf, 0, greatest)), dim, keepdim)
        return stored(f.log(total) + greatest.reshape(total.shape), out)
    if math.prod(x._sizes[axis] for axis in axes):
        return stored(reduced(summaries.logsumexp, x, dim, keepdim), out)
    return stored(f.log(sum(f.exp(x), dim, keepdim)), out)


def vector_norm(
    name: str, x: Tensor, p: float, dim: Any, keepdim: bool, dtype: Any = None
) -> Tensor:
    """The p-norm over `dim`. Raises DTypeError for integers, ShapeError where an infinite norm has
    no elements to choose from."""
    kind = x.dtype if dtype is None else as_dtype(dtype)
    if not x.dtype.is_float or not kind.is_float:
        raise DTypeError(
            f"{name}: Expected a floating point or complex tensor as input. Got "
            f"{SCALAR_NAMES[kind if x.dtype.is_float else x.dtype]}",
            location=user_location(),
        )
    count = math.prod(x._sizes[axis] for axis in axes_of(dim, x.dim()))
    if not count and (p < 0 or math.isinf(p)):
        raise ShapeError(
            f"{name} cannot compute the {p} norm on an empty tensor because the operation does not "
            "have an identity",
            location=user_location(),
        )
    if count == 1 and p != 0:
        p = 1.0  # of every order the magnitude, whose powers may be infinite
    parts = casted(x, kind)
    if kind.is_complex:
        parts = f.abs(parts)
    return reduced(norms.norm, parts, dim, keepdim, p=float(p))


@public(at="", method=True)
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would repeat."""
    wanted = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else tuple(size)
    shape = self._sizes
    if not wanted:
        return sum(self)
    lead = len(shape) - len(wanted)
    tail = shape[lead:] if lead >= 0 else ()
    if lead < 0 or [w for w, s in zip(wanted, tail) if w not in (1, s)]:
        raise RuntimeError(f"size {{{list(wanted)}}} is not expandable to size {{{list(shape)}}}.")
    axes = [*range(lead), *(lead + i for i, (w, s) in enumerate(zip(wanted, tail)) if w != s)]
    return sum(self, axes, keepdim=True).reshape(wanted) if axes else self
