"""Sorting, and running sums, products and extremes along a dimension. Equal elements keep their
order, NaN is greater than all numbers, and gradients go to the elements that were picked."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, apply_one
from frontend.engine.eager.promotion import casted, promote_types
from frontend.engine.tensors.dtypes import SCALAR_NAMES, as_dtype
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.engine.tensors.views import own
from frontend.functions import return_types
from frontend.functions import shape as s
from frontend.functions.arguments import (
    fail,
    index_of,
    need_tensors,
    not_implemented,
    refuse_overlap,
    stored,
)
from frontend.functions.declarations import public
from frontend.functions.logic import bitwise_xor
from frontend.functions.reduce import dimension
from graphc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops import indexing
from graphc.ops import order as o


def _as_ranked(result: Tensor, x: Tensor) -> Tensor:
    return result if x.dim() else own(s.reshape(result, ()))


# -- sorting -------------------------------------------------------------------------------------


def order_of(x: Tensor, axis: int, descending: bool = False, count: int | None = None) -> Tensor:
    """The positions that sort `x` along an axis, stably: all of them, or the first ones."""
    keys = casted(x, DType.i32) if x.dtype is DType.bool else x
    if x.dtype is DType.u64:  # with the top bit turned, the bits have the same order as i64
        keys = bitwise_xor(casted(x, DType.i64), -(2**63))
    keys, descending = keys.detach(), bool(descending)
    if count is None:
        return apply_one(o.argsort, keys, axis=axis, descending=descending)
    return apply_one(o.argtopk, keys, axis=axis, descending=descending, count=count)


def picked(x: Tensor, positions: Tensor, axis: int) -> Tensor:
    """The elements of `x` at positions along an axis."""
    return apply_one(indexing.gather, x, positions, axis=axis)


@public(method=True, node="Sort", numpy_names=True)
def sort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False,
    out: Any = None,
) -> Any:  # fmt: skip
    """(values, indices) of the elements in order along `dim`; always stable."""
    need_tensors("sort", input=input)
    axis = dimension(dim, input.dim())
    x = s.as_line(input)
    indices = order_of(x, axis, descending)
    pair = picked(x, indices, axis), indices
    return stored(return_types.sort(*(_as_ranked(each, input) for each in pair)), out)


@public(method=True, numpy_names=True, out=True)
def argsort(
    input: Tensor, dim: int = -1, descending: bool = False, *, stable: bool = False
) -> Tensor:
    """The indices of `sort`."""
    need_tensors("argsort", input=input)
    axis = dimension(dim, input.dim())
    return _as_ranked(order_of(s.as_line(input), axis, descending), input)


@public(method=True)
def msort(input: Tensor, *, out: Any = None) -> Tensor:
    """The values of `sort` along the first dimension."""
    return stored(sort(input, 0).values, out)


_BY_ONE_OP = (DType.f32, DType.f64, DType.i32, DType.i64)


@public(method=True, node="Topk")
def topk(
    input: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True, *,
    out: Any = None,
) -> Any:  # fmt: skip
    """(values, indices) of the `k` greatest (or smallest) elements along `dim`, in order. Raises
    RuntimeError where there are fewer."""
    need_tensors("topk", input=input)
    if input.dtype is DType.bool:
        raise fail(DTypeError, "topk does not support bool dtypes on CPU")
    axis, k = dimension(dim, input.dim()), index_of(k)
    x = s.as_line(input)
    if not 0 <= k <= x._sizes[axis]:
        raise fail(AttributeValueError, "selected index k out of range")
    if k and x.dtype in _BY_ONE_OP:
        attributes = {"k": k, "axis": axis, "largest": bool(largest)}
        pair = CONTEXT.apply(o.topk, (x,), attributes)
    else:
        indices = order_of(x, axis, largest, k)
        pair = picked(x, indices, axis), indices
    if k and not input.dim():
        pair = tuple([_as_ranked(each, input) for each in pair])
    whole = return_types.topk(*pair)
    return whole if out is None else stored(whole, out)


def one_of_line(kind: Any, input: Tensor, axis: int, index: Tensor, keepdim: bool) -> Any:
    """The result `kind` (values, indices) of one position per line, kept with size 1."""
    x = s.as_line(input)
    values = picked(x, index, axis)
    if keepdim and input.dim():
        return kind(values, index)
    shape = x._sizes
    kept = shape[:axis] + shape[axis + 1 :]
    return kind(own(s.reshape(values, kept)), own(s.reshape(index, kept)))


def need_elements(name: str, input: Tensor, axis: int) -> None:
    """Raise IndexError where lines along `axis` have no elements."""
    if input.dim() and not input._sizes[axis]:
        raise fail(
            IndexRangeError, f"{name}(): Expected reduction dim {axis} to have non-zero size."
        )


@public(method=True, node="Kthvalue", numpy_names=True)
def kthvalue(
    input: Tensor, k: int, dim: int = -1, keepdim: bool = False, *, out: Any = None
) -> Any:
    """(values, indices) of the `k`-th smallest element along `dim`, counted from 1."""
    need_tensors("kthvalue", input=input)
    refuse_overlap(out, input)
    if input.dtype is DType.bool:
        raise not_implemented("kthvalue_cpu", input.dtype)
    axis = dimension(dim, input.dim())
    need_elements("kthvalue", input, axis)
    x = s.as_line(input)
    if not 1 <= k <= x._sizes[axis]:
        raise fail(
            AttributeValueError,
            f"kthvalue(): selected number k out of range for dimension {axis}",
        )
    index = s.contiguous(s.narrow(order_of(x, axis), axis, k - 1, 1))
    return stored(one_of_line(return_types.kthvalue, input, axis, index, keepdim), out)


# -- running sums, products, extremes ------------------------------------------------------------


def _scanned(op: Any, name: str, input: Tensor, dim: int, dtype: Any) -> Tensor:
    need_tensors(name, input=input)
    axis = dimension(dim, input.dim())
    if dtype is not None:
        input = casted(input, as_dtype(dtype))
    elif not input.dtype.is_float:
        input = casted(input, DType.i64)
    return _as_ranked(apply_one(op, s.as_line(input), axis=axis), input)


@public(method=True, in_place=True, numpy_names=True)
def cumsum(input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor:
    """The sum of all elements up to each, along `dim`, one after the other; integers and bools sum
    to int64."""
    return stored(_scanned(o.cumsum, "cumsum", input, dim, dtype), out)


@public(method=True, in_place=True, numpy_names=True)
def cumprod(input: Tensor, dim: int, *, dtype: Any = None, out: Any = None) -> Tensor:
    """The product of all elements up to each, along `dim`; integers and bools multiply to int64.
    The gradient is right beside zeros too; a second derivative is, before the first zero of a
    line."""
    return stored(_scanned(o.cumprod, "cumprod", input, dim, dtype), out)


@public(method=True, numpy_names=True)
def logcumsumexp(input: Tensor, dim: int, *, out: Any = None) -> Tensor:
    """log Σ exp(x) over all elements up to each, along `dim`, without overflow."""
    need_tensors("logcumsumexp", input=input)
    if not input.dtype.is_float:
        raise not_implemented("logcumsumexp_out_cpu", input.dtype)
    axis = dimension(dim, input.dim())
    return stored(_as_ranked(apply_one(o.logcumsumexp, s.as_line(input), axis=axis), input), out)


def _running_best(op: Any, kind: Any, input: Tensor, dim: int) -> Any:
    need_tensors(kind.__name__, input=input)
    axis = dimension(dim, input.dim())
    x = s.as_line(input)
    keys = casted(x, DType.i32) if x.dtype is DType.bool else x
    indices = apply_one(op, keys.detach(), axis=axis)
    return kind(_as_ranked(picked(x, indices, axis), input), _as_ranked(indices, input))


@public(method=True, node="Cummax", numpy_names=True)
def cummax(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """(values, indices) of the greatest element up to each, along `dim`: of equal ones the last,
    and NaN from the first NaN on."""
    return stored(_running_best(o.argcummax, return_types.cummax, input, dim), out)


@public(method=True, node="Cummin", numpy_names=True)
def cummin(input: Tensor, dim: int, *, out: Any = None) -> Any:
    """(values, indices) of the smallest element up to each, along `dim`: of equal ones the last,
    and NaN from the first NaN on."""
    return stored(_running_best(o.argcummin, return_types.cummin, input, dim), out)


# -- searching in what is sorted -----------------------------------------------------------------


def _places(boundaries: Tensor, x: Tensor, right: bool, out_int32: bool) -> Tensor:
    """How many boundaries of its line stand before each element: by halving."""
    kind = promote_types(boundaries.dtype, x.dtype)
    if kind is DType.bool:
        raise not_implemented("searchsorted_out_cpu", kind)
    flat = s.ravel(x) if boundaries.dim() == 1 else x
    operands = casted(boundaries, kind).detach(), casted(flat, kind).detach()
    places = s.reshape(apply_one(o.searchsorted, *operands, right=right), x._sizes)
    return casted(places, DType.i32) if out_int32 else places


@public()
def searchsorted(
    sorted_sequence: Tensor, input: Any, *, out_int32: bool = False, right: bool = False,
    side: str | None = None, sorter: Tensor | None = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """The position in the sorted last dimension where each element of `input` would be put in:
    before equal ones, or (`right`, side "right") behind them. `sorter` sorts the sequence. Raises
    RuntimeError where shapes do not fit."""
    need_tensors("searchsorted", sorted_sequence=sorted_sequence)
    x = input if isinstance(input, Tensor) else from_data(input)
    sequence = sorted_sequence
    if side not in (None, "left", "right"):
        raise fail(
            AttributeValueError,
            f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}",
        )
    if side == "left" and right:
        raise fail(
            AttributeValueError,
            "torch.searchsorted(): side and right can't be set to opposites, got side of left "
            "while right was True",
        )
    lines = sequence._sizes
    if not x.dim() and len(lines) != 1:
        raise fail(
            ShapeError,
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor "
            f"dimension is 1, but we got boundaries tensor dim({len(lines)}) and input value's "
            f"dim(0) numel({x.numel()})",
        )
    if len(lines) != 1 and (not lines or lines[:-1] != x._sizes[:-1]):
        raise fail(
            ShapeError,
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 "
            "dimensions of boundaries tensor and input value tensor must match, but we got "
            f"boundaries tensor {list(lines)} and input value tensor {list(x.shape)}",
        )
    if sorter is not None:
        sequence = _sorted_by(sequence, sorter)
    return stored(_places(sequence, x, right or side == "right", out_int32), out)


def _sorted_by(sequence: Tensor, sorter: Tensor) -> Tensor:
    if sorter._sizes != sequence._sizes:
        raise fail(
            ShapeError,
            "torch.searchsorted(): boundary and sorter must have the same size, but got boundary "
            f"tensor {list(sequence.shape)} and got sorter tensor {list(sorter.shape)}",
        )
    if sorter.dtype is not DType.i64:
        raise fail(
            DTypeError,
            "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
            f"{SCALAR_NAMES[sorter.dtype]}",
        )
    attributes = {
        "bound": sequence._sizes[-1],
        "message": "torch.searchsorted(): sorter index {} out of range",
    }
    checked = apply_one(indexing.check_index, sorter, **attributes)
    return picked(sequence, checked, sequence.dim() - 1)


@public()
def bucketize(
    input: Any, boundaries: Tensor, *, out_int32: bool = False, right: bool = False,
    out: Any = None,
) -> Tensor:  # fmt: skip
    """`searchsorted` in the vector `boundaries`."""
    if boundaries.dim() != 1:
        raise fail(
            ShapeError, f"boundaries tensor must be 1 dimension, but got dim({boundaries.dim()})"
        )
    x = input if isinstance(input, Tensor) else from_data(input)
    return stored(_places(boundaries, x, right, out_int32), out)


@public(out=True)
def isin(
    elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Whether each element is one of `test_elements` (NaN is none): by sorting those."""
    x, tests = (
        each if isinstance(each, Tensor) else from_data(each) for each in (elements, test_elements)
    )
    kind = promote_types(x.dtype, tests.dtype)
    for each in (x, tests):
        if each.dtype is DType.bool:
            raise fail(DTypeError, "Unsupported input type encountered for isin(): Bool")
    line = s.ravel(casted(tests, kind)).detach()
    wanted = s.ravel(casted(x, kind)).detach()
    if not line.numel():
        absent = apply_one(e.ne, casted(wanted, DType.i64), casted(wanted, DType.i64))
    else:
        line = picked(line, order_of(line, 0), 0)
        place = apply_one(o.searchsorted, line, wanted, right=False).clamp(max=line.numel() - 1)
        absent = apply_one(e.eq, picked(line, place, 0), wanted)
    absent = s.reshape(absent, x._sizes)
    return apply_one(e.logical_not, absent) if invert else absent
