"""Elements and slices taken at index tensors, and written there. Where several go to one place they
are taken in row-major order: they add up, multiply, or the last one stays."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted, expanded
from frontend.engine.tensors.dtypes import SCALAR_NAMES
from frontend.engine.tensors.limits import fitting
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import pointwise as f
from frontend.functions import shape as s
from frontend.functions.arguments import fail, need_tensors, refuse_overlap, stored, stored_exactly
from frontend.functions.declarations import public
from frontend.functions.indices import wrapped
from frontend.functions.masks import fill_value
from frontend.functions.reduce import dimension
from graphc.errors import DTypeError, IndexRangeError, ShapeError
from graphc.ir.types import DType, broadcast_shapes
from graphc.ops import indexing
from graphc.ops import movement as m
from graphc.ops.reduce import highest, lowest


def _apply(op: Any, *operands: Tensor, **attributes: Any) -> Tensor:
    if operands[0].dtype is DType.bool and getattr(op, "combine", None) is not None:
        # Sums of bools are "or", products "and": counted, then asked whether they are 0.
        x, at, source = operands
        counts = _apply(op, casted(x, DType.i32), at, casted(source, DType.i32), **attributes)
        return casted(counts, DType.bool)
    result: Tensor = CONTEXT.apply(op, operands, attributes)[0]
    return result


def _need_integer(index: Tensor, message: str, *allowed: DType) -> None:
    if index.dtype not in (allowed or (DType.i32, DType.i64)):
        raise fail(DTypeError, f"{message}{SCALAR_NAMES[index.dtype] if allowed else ''}")


# -- along a dimension: the index has the tensor's rank ------------------------------------------


@public(method=True)
def gather(
    input: Tensor, dim: int, index: Tensor, *, sparse_grad: bool = False, out: Any = None
) -> Tensor:
    """Elements at `index` along `dim`: result[i][j] = input[index[i][j]][j] for dim 0. Raises
    RuntimeError where the index does not fit or is out of range; negative ones are."""
    need_tensors("gather", input=input)
    refuse_overlap(out, input, index)
    axis = dimension(dim, input.dim())
    if not index.numel() and index.dtype.is_integer:
        index = casted(index, DType.i64)
    _need_integer(index, "gather(): Expected dtype int32/int64 for index")
    x, at = s.as_line(input), s.as_line(index)
    shape, wanted = x._sizes, at._sizes
    if not at.numel():
        return stored(s.reshape(_apply(indexing.take, s.ravel(x), s.ravel(at), axis=0),
                                index._sizes), out)  # fmt: skip
    if len(shape) != len(wanted):
        raise fail(
            ShapeError, "Index tensor must have the same number of dimensions as input tensor"
        )
    for other, size in enumerate(wanted):
        if other != axis and size > shape[other]:
            raise fail(
                ShapeError,
                f"Size does not match at dimension {other} expected index {list(wanted)} to be no "
                f"larger than self {list(shape)} apart from dimension {axis}",
            )
    gathered = _apply(indexing.gather, x, at, axis=axis)
    return stored_exactly(gathered if index.dim() else s.reshape(gathered, ()), out)


@public(method=True)
def take_along_dim(
    input: Tensor, indices: Tensor, dim: int | None = None, *, out: Any = None
) -> Tensor:
    """`gather` after broadcasting the other dimensions; of the flat tensors without `dim`. Negative
    indices count from the end. Raises RuntimeError, IndexError."""
    if indices.dtype is not DType.i64:
        raise fail(
            DTypeError,
            "torch.take_along_dim(): dtype of indices should be Long but got "
            f"{SCALAR_NAMES[indices.dtype]}",
        )
    if dim is None:
        return take_along_dim(s.ravel(input), s.ravel(indices), 0, out=out)
    if input.dim() != indices.dim():
        raise fail(
            ShapeError,
            "torch.take_along_dim(): input and indices should have the same number of dimensions, "
            f"but got {input.dim()} dimensions for input, and {indices.dim()} dimensions for "
            "indices",
        )
    axis = dimension(dim, input.dim())
    x, at = list(input._sizes), list(indices._sizes)
    size, count = x[axis], at[axis]
    x[axis] = at[axis] = 1
    common = broadcast_shapes(tuple(x), tuple(at))
    wide = s.expand(input, (*common[:axis], size, *common[axis + 1 :]))
    index = s.expand(wrapped(indices, size, axis), (*common[:axis], count, *common[axis + 1 :]))
    return stored(_apply(indexing.gather, wide, index, axis=axis), out)


def _aligned(input: Tensor, dim: int, index: Tensor, src: Tensor) -> tuple[Any, Any, Any, int]:
    """Operand, index and source of a scatter, of one rank, the source cut to the index."""
    axis = dimension(dim, input.dim())
    _need_integer(index, "scatter(): Expected dtype int32/int64 for index")
    if src.dtype is not input.dtype:
        raise fail(DTypeError, "scatter(): Expected self.dtype to be equal to src.dtype")
    x, at, source = s.as_line(input), s.as_line(index), s.as_line(src)
    shape, wanted, have = x._sizes, at._sizes, source._sizes
    if not at.numel():
        nothing = filled(0, index.dtype, (*shape[:axis], 0, *shape[axis + 1 :]))
        if len(have) == len(wanted) and all(i <= d for i, d in zip(wanted, have)):
            source = s.reshape(_cut(source, wanted), *nothing._sizes)  # with its history
        else:
            source = filled(0, x.dtype, nothing._sizes)
        return x, nothing, source, axis
    for name, other in (("self", shape), ("src", have)):
        if len(other) != len(wanted):
            raise fail(
                ShapeError,
                f"Index tensor must have the same number of dimensions as {name} tensor",
            )
    inside = all(a == axis or i <= d for a, (i, d) in enumerate(zip(wanted, shape)))
    if not inside or any(i > d for i, d in zip(wanted, have)):
        raise fail(
            ShapeError,
            f"Expected index {list(wanted)} to be no larger than self {list(shape)} apart from "
            f"dimension {axis} and to be no larger size than src {list(have)}",
        )
    return x, at, _cut(source, wanted), axis


def _cut(source: Tensor, size: tuple[int, ...]) -> Tensor:
    if source._sizes == size:
        return source
    rank = len(size)
    return _apply(m.slice_, source, start=(0,) * rank, size=size, step=(1,) * rank)


def _scattered(op: Any, input: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    x, at, source, axis = _aligned(input, dim, index, src)
    result = _apply(op, x, at, source, axis=axis)
    return result if input.dim() else s.reshape(result, ())


def _source(input: Tensor, index: Tensor, src: Any, value: Any) -> Tensor:
    """The source of a scatter: a tensor, or a number for every index."""
    if (src is None) == (value is None):
        raise TypeError("scatter() takes either a tensor `src` or a number `value`")
    if isinstance(src, Tensor):
        return src
    number = src if value is None else value
    if isinstance(number, Tensor):
        return expanded(casted(number, input.dtype), index._sizes)
    return filled(fitting(number, input.dtype), input.dtype, index._sizes)


_REDUCTIONS = {"add": indexing.scatter_add, "multiply": indexing.scatter_mul}


@public(method=True, in_place=True)
def scatter(
    input: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None,
    reduce: str | None = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` with `src` (a tensor or a number) at `index` along `dim`: for dim 0,
    result[index[i][j]][j] = src[i][j]. Where an index occurs twice, the last source in row-major
    order stays, and it alone has a gradient. `reduce` "add" or "multiply" combines instead. Raises
    RuntimeError where shapes or dtypes do not fit, or an index is out of range."""
    need_tensors("scatter", input=input)
    source = _source(input, index, src, value)
    if reduce is None:
        return stored(_scattered(indexing.scatter_set, input, dim, index, source), out)
    if reduce not in _REDUCTIONS:
        raise RuntimeError("reduce argument must be either add or multiply.")
    if isinstance(src, Tensor):
        warnings.warn(
            "The reduce argument of torch.scatter with Tensor src is deprecated and will be "
            "removed in a future PyTorch release. Use torch.scatter_reduce instead for more "
            "reduction options.",
            UserWarning,
            stacklevel=2,
        )
    return stored(_scattered(_REDUCTIONS[reduce], input, dim, index, source), out)


@public(method=True, in_place=True)
def scatter_add(input: Tensor, dim: int, index: Tensor, src: Tensor, *, out: Any = None) -> Tensor:
    """A copy of `input` with `src` added at `index` along `dim`, in row-major order."""
    need_tensors("scatter_add", input=input)
    return stored(_scattered(indexing.scatter_add, input, dim, index, src), out)


_COMBINES = {
    "sum": (indexing.scatter_add, lambda dtype: 0), "mean": (indexing.scatter_add, lambda dtype: 0),
    "prod": (indexing.scatter_mul, lambda dtype: 1), "amax": (indexing.scatter_max, lowest),
    "amin": (indexing.scatter_min, highest),
}  # fmt: skip


@public(method=True, in_place=True)
def scatter_reduce(
    input: Tensor, dim: int, index: Tensor, src: Tensor, reduce: str, *,
    include_self: bool = True, out: Any = None,
) -> Tensor:  # fmt: skip
    """What goes to one place along `dim` combined: "sum", "prod", "mean" (integers rounded down),
    "amax" or "amin", with what stands there unless not `include_self`. Equal extremes share the
    gradient."""
    if reduce not in _COMBINES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    x, at, source, axis = _aligned(input, dim, index, src)
    op, start = _COMBINES[reduce]
    if not include_self:
        none = filled(start(x.dtype), x.dtype, at._sizes)
        x = _apply(indexing.scatter_set, x, at, none, axis=axis)
    result = _apply(op, x, at, source, axis=axis)
    if reduce == "mean":
        result = _mean(result, at, axis, include_self)
    return stored(result if input.dim() else s.reshape(result, ()), out)


def _mean(total: Tensor, index: Tensor, axis: int, include_self: bool) -> Tensor:
    before = filled(int(include_self), total.dtype, total._sizes)
    ones = filled(1, total.dtype, index._sizes)
    count = _apply(indexing.scatter_add, before, index, ones, axis=axis)
    # Where nothing came, the operand stays as it is.
    least = f.maximum(count, filled(1, count.dtype, count._sizes))
    return f.div(total, least) if total.dtype.is_float else f.floor_divide(total, least)


# -- whole slices: the index is a vector ---------------------------------------------------------


def _vector(index: Tensor, name: str) -> Tensor:
    if index.dim() > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector")
    return s.as_line(index)


@public(method=True, node="IndexSelect")
def index_select(input: Tensor, dim: int, index: Tensor, *, out: Any = None) -> Tensor:
    """The slices at the positions `index` [n] along `dim`. Raises IndexError."""
    need_tensors("index_select", input=input)
    axis = dimension(dim, input.dim())
    at = _vector(index, "index_select")
    _need_integer(index, "index_select(): Expected dtype int32 or int64 for index")
    rows = _apply(indexing.take, s.as_line(input), at, axis=axis)
    return stored(rows if input.dim() else s.reshape(rows, ()), out)


def _slices(name: str, input: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    """Operand, index and source of an op on slices, after PyTorch's checks."""
    axis = dimension(dim, input.dim())
    at = _vector(index, name)
    if source.dtype is not input.dtype:
        raise fail(
            DTypeError,
            f"{name}(): self ({SCALAR_NAMES[input.dtype]}) and source "
            f"({SCALAR_NAMES[source.dtype]}) must have the same scalar type",
        )
    x, values = s.as_line(input), s.as_line(source)
    shape, have, count = x._sizes, values._sizes, at.numel()
    size = have[axis] if axis < len(have) else 1
    if count != size:
        raise fail(
            IndexRangeError,
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim): "
            f"({size}), for dim: {axis}",
        )
    if have != (*shape[:axis], count, *shape[axis + 1 :]):
        raise fail(
            ShapeError,
            "source tensor shape must match self tensor shape, excluding the specified dimension. "
            f"Got self.shape = {list(input.shape)} source.shape = {list(source.shape)}",
        )
    return x, at, values, axis


@public(method=True, in_place=True)
def index_add(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, alpha: Any = 1, out: Any = None
) -> Tensor:
    """A copy of `input` with alpha · `source` added at the positions `index` [n] along `dim`, in
    row-major order."""
    need_tensors("index_add", input=input)
    _need_integer(index, "index_add_(): Expected dtype int32/int64 for index but got: ",
                  DType.i32, DType.i64)  # fmt: skip
    x, at, values, axis = _slices("index_add_", input, dim, index, source)
    if type(alpha) is not int or alpha != 1:
        fitting(alpha, input.dtype)
        if not input.dtype.is_float:  # a number of the dtype
            alpha = bool(alpha) if input.dtype is DType.bool else int(alpha)
        values = values * alpha
    result = _apply(indexing.index_add, x, at, values, axis=axis)
    return stored(result if input.dim() else s.reshape(result, ()), out)


@public(method=True, in_place=True, node="IndexCopy", autocast="promote")
def index_copy(
    input: Tensor, dim: int, index: Tensor, source: Tensor, *, out: Any = None
) -> Tensor:
    """A copy of `input` with `source` at the positions `index` [n] along `dim`; of several for one
    position the last stays."""
    need_tensors("index_copy", input=input)
    _need_integer(index, "index_copy_(): Expected a long tensor for index, but got ", DType.i64)
    x, at, values, axis = _slices("index_copy_", input, dim, index, source)
    result = _apply(indexing.index_set, x, at, values, axis=axis)
    return stored(result if input.dim() else s.reshape(result, ()), out)


@public(method=True, in_place=True, node="IndexFill")
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """A copy of `input` with a number or 0-d tensor at the positions `index` [n] along `dim`."""
    need_tensors("index_fill", input=input)
    if index.dtype is not DType.i64:
        raise IndexError("index_fill_(): Expected dtype int64 for index.")
    axis = dimension(dim, input.dim())
    x = s.as_line(input)
    shape = x._sizes
    at = wrapped(_vector(index, "index_fill_"), shape[axis], axis)
    spread = (*shape[:axis], at.numel(), *shape[axis + 1 :])
    filling = expanded(fill_value("index_fill_", x, value), spread)
    result = _apply(indexing.index_set, x, at, filling, axis=axis)
    return result if input.dim() else s.reshape(result, ())


@public(method=True, in_place=True)
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *,
    include_self: bool = True, out: Any = None,
) -> Tensor:  # fmt: skip
    """As `scatter_reduce`, of whole slices: "prod", "mean", "amax" or "amin"."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got "
            f"{reduce}."
        )
    x, at, values, axis = _slices("index_reduce", input, dim, index, source)
    shape = values._sizes
    along = s.reshape(at, *(shape[axis] if a == axis else 1 for a in range(len(shape))))
    result = scatter_reduce(
        x, axis, s.expand(along, shape), values, reduce, include_self=include_self
    )
    return stored(result if input.dim() else s.reshape(result, ()), out)


# -- flat positions ------------------------------------------------------------------------------


def _flat(name: str, input: Tensor, index: Tensor) -> Tensor:
    """Positions in the flattened tensor, negative ones counted from the end."""
    if index.dtype is not DType.i64:
        raise fail(
            DTypeError,
            f"{name}(): Expected a long tensor for index, but got {SCALAR_NAMES[index.dtype]}",
        )
    count = input.numel()
    if not count and index.numel():
        raise IndexError(f"{name}(): tried to {name} from an empty tensor")
    message = f"out of range: tried to access index {{}} on a tensor of {count} elements."
    return wrapped(index, count, 0, message)


@public(method=True, node="Take")
def take(input: Tensor, index: Tensor, *, out: Any = None) -> Tensor:
    """Elements at positions of the flattened tensor, in the shape of `index`. Raises IndexError."""
    need_tensors("take", input=input)
    refuse_overlap(out, input, index)
    at = _flat("take", input, index)
    return stored(_apply(indexing.take, s.ravel(input), at, axis=0), out)


@public(method=True, in_place=True)
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """A copy of `input` with `source` at positions of the flattened tensor, or added there."""
    if source.dtype is not input.dtype:
        raise fail(
            DTypeError,
            "put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{SCALAR_NAMES[input.dtype]} and source.dtype = {SCALAR_NAMES[source.dtype]}",
        )
    if source.numel() != index.numel():
        raise fail(
            IndexRangeError,
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.numel()}, index.numel() = {index.numel()}",
        )
    at = s.ravel(_flat("put_", input, index))
    op = indexing.index_add if accumulate else indexing.index_set
    line = _apply(op, s.ravel(input), at, s.ravel(source), axis=0)
    return s.reshape(line, input._sizes)
