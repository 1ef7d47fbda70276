"""Rows of a table by index, alone and in bags. With `sparse` the gradient of a table that is a leaf
is a sparse tensor, of the rows that were read (`frontend.sparse.gradients`)."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.eager.dispatch import CONTEXT, filled
from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.state import STATE, no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import order, pointwise, reduce, scatter, shape
from frontend.functions.arguments import index_of
from frontend.functions.declarations import public
from frontend.functions.norms import norm
from frontend.nn.checks import fail, scalar_name, sizes
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError, IndexRangeError, ShapeError
from graphc.ir.types import DType
from graphc.ops import composite, indexing
from graphc.ops.nn.embedding import NO_ROW, checked_rows
from graphc.ops.nn.embedding import embedding as rows_of
from graphc.system import import_module


@public(at="nn.functional")
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of weight [rows, features] at the indices `input` [*]: [*, features].

    The row at `padding_idx` takes no gradient. With `max_norm`, rows that are read and whose
    `norm_type`-norm is greater are first scaled down to it, in place. With `scale_grad_by_freq` a
    row's gradient is divided by how often it was read. With `sparse` the gradient of a weight that
    is a leaf is a COO tensor of the rows that were read; in a trace that raises TraceError once it
    is asked for. Raises IndexRangeError for an index out of range, RuntimeError for `sparse` with
    `scale_grad_by_freq`, where gradients are wanted.
    """
    _check_indices(input, "embedding")
    if weight.ndim != 2:
        raise fail(ShapeError, f"'weight' must be 2-D, got size {sizes(weight)}")
    row = NO_ROW
    padding_idx = index_of(padding_idx)
    if padding_idx is not None:
        if not -weight.shape[0] <= padding_idx < weight.shape[0]:
            raise AssertionError("Padding_idx must be within num_embeddings")
        row = padding_idx % weight.shape[0]
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    return _rows(input, weight, row, scale_grad_by_freq, sparse)


def _rows(input: Tensor, weight: Tensor, padding: int, by_frequency: bool, sparse: bool) -> Tensor:
    if sparse and _takes_rows(weight, by_frequency):
        read: Tensor = import_module("frontend.sparse.gradients").rows_read(weight, input, padding)
        return read
    attributes = {"padding": padding, "by_frequency": bool(by_frequency)}
    rows: Tensor = CONTEXT.apply(rows_of, (weight, input), attributes)[0]
    return rows


def _takes_rows(weight: Tensor, by_frequency: bool) -> bool:
    """Whether the gradient of a table is one of rows."""
    if not STATE.grad_enabled or not weight.requires_grad or weight.is_meta:
        return False
    if by_frequency:
        raise RuntimeError(
            "embedding_backward: scale_grad_by_freq not supported with sparse gradients"
        )
    return weight.is_leaf


def _check_indices(input: Tensor, name: str) -> None:
    if not input.dtype.is_integer:
        raise fail(
            DTypeError,
            "Expected tensor for argument #1 'indices' to have one of the following scalar types: "
            f"Long, Int; but got torch.{scalar_name(input)}Tensor instead (while checking "
            f"arguments for {name})",
        )


def _renormalise(weight: Tensor, input: Tensor, max_norm: float, norm_type: float) -> None:
    with no_grad():
        kind, count = weight.dtype, weight.shape[0]
        ones = filled(1, kind, tuple(input.shape))
        none = filled(0, kind, (count,))
        rows = checked_rows(input, count)
        used = CONTEXT.apply(indexing.index_add, (none, rows, ones), {"axis": 0})[0] > 0
        length = norm(weight.detach(), norm_type, 1)
        # PyTorch's constant, which keeps a scaled row just below the bound.
        scale = pointwise.where(used & (length > max_norm), max_norm / (length + 1e-7), 1.0)
        weight._assign(weight.detach() * scale.unsqueeze(1))


# -- bags ----------------------------------------------------------------------------------------


@public(at="nn.functional", node="EmbeddingBag")
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """The sum, mean or maximum of rows of weight [rows, features] in each bag: [bags, features].

    Bags are the rows of a 2-d `input`, or stretches of a 1-d one that begin at `offsets` [bags],
    whose last element ends the last bag with `include_last_offset`. An empty bag gives zeros.
    Rows at `padding_idx` do not count; `per_sample_weights` (of the input's shape) scale rows of a
    sum. The rest as `embedding`. Raises ValueError, RuntimeError.
    """
    if weight.dtype is DType.i64 and input.dtype.is_float:
        warnings.warn(
            "Argument order of nn.functional.embedding_bag was changed. Usage `embedding_bag("
            "weight, input, ...)` is deprecated, and should now be `embedding_bag(input, weight, "
            "...)`.",
            stacklevel=asked_from(2),
        )
        weight, input = input, weight
    _check_bags(input, offsets, mode, per_sample_weights, weight)
    if mode == "max" and (scale_grad_by_freq or sparse):
        what = "scaling the gradient by the frequency" if scale_grad_by_freq else "sparse weights"
        raise ValueError(f"max mode does not support {what}")
    row = _padding_row(weight, padding_idx)
    if max_norm is not None:
        _renormalise(weight, input, max_norm, norm_type)
    rows = _rows(input, weight, row, scale_grad_by_freq, sparse)
    kept = None if row == NO_ROW else input != row
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if input.ndim == 2:
        return _over_rows(rows, kept, mode)
    assert offsets is not None
    return _over_stretches(rows, kept, mode, offsets, include_last_offset)


def _check_bags(
    input: Tensor, offsets: Tensor | None, mode: str, weights: Tensor | None, table: Tensor
) -> None:
    if weights is not None and weights.shape != input.shape:
        raise ValueError(
            f"embedding_bag: If per_sample_weights ({weights.shape!r}) is not None, then it must "
            f"have the same shape as the input ({input.shape!r})"
        )
    if input.ndim not in (1, 2):
        raise ValueError(
            f"input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}"
        )
    if input.ndim == 2 and offsets is not None:
        raise ValueError(
            "if input is 2D, then offsets has to be None, as input is treated is a mini-batch of "
            f"fixed length sequences. However, found offsets of type {type(offsets)}"
        )
    if input.ndim == 1 and not isinstance(offsets, Tensor):
        raise ValueError(f"offsets has to be a 1D Tensor but got {offsets}")
    if offsets is not None and offsets.ndim != 1:
        raise ValueError("offsets has to be a 1D Tensor")
    if mode not in ("sum", "mean", "max"):
        raise ValueError("mode has to be one of sum, mean or max")
    if weights is not None and mode != "sum":
        raise NotImplementedError(
            "embedding_bag: per_sample_weights was not None. per_sample_weights is only supported "
            f"for mode='sum' (got mode='{mode}')."
        )
    _check_indices(input, "embedding_bag")
    if weights is not None and weights.dtype is not table.dtype:
        raise fail(
            DTypeError,
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument "
            f"#1 'per_sample_weights'; but type {table.type()} does not equal {weights.type()} "
            "(while checking arguments for embedding_bag)",
        )


def _padding_row(weight: Tensor, padding_idx: int | None) -> int:
    if padding_idx is None:
        return NO_ROW
    count = weight.shape[0]
    if not -count <= padding_idx < count:
        raise fail(
            AttributeValueError,
            f"padding_idx must be within the number of embeddings, {-count} through {count - 1}, "
            f"but got {padding_idx}",
        )
    return padding_idx % count


def _over_rows(rows: Tensor, kept: Tensor | None, mode: str) -> Tensor:
    """Bags [B, N, features] over their axis 1; `kept` [B, N] says which elements count."""
    if mode == "max":
        return _greatest(rows, kept)
    if kept is None:
        return rows.sum(1) / (max(rows.shape[1], 1) if mode == "mean" else 1)
    mask = casted(kept, rows.dtype)
    total = (rows * mask.unsqueeze(-1)).sum(1)
    if mode == "sum":
        return total
    return total / pointwise.clamp(mask.sum(1), min=1.0).unsqueeze(1)


def _greatest(rows: Tensor, kept: Tensor | None) -> Tensor:
    if not rows.shape[1]:
        return rows.sum(1)
    if kept is None:
        return reduce.max(rows, 1)[0]
    best = reduce.max(pointwise.where(kept.unsqueeze(-1), rows, float("-inf")), 1)[0]
    return pointwise.where(kept.any(1).unsqueeze(1), best, 0.0)


def _over_stretches(
    rows: Tensor, kept: Tensor | None, mode: str, offsets: Tensor, include_last: bool
) -> Tensor:
    """Bags of consecutive rows [n, features]; `kept` [n] says which count."""
    count, bags = rows.shape[0], offsets.shape[0] - bool(include_last)
    if bags < 0:
        raise fail(ShapeError, "include_last_offset: number of offset should be at least 1")
    if not bags:
        return rows[:0]
    starts = casted(_checked_offsets(offsets, count)[:bags], DType.i64)
    # The bag of a row is the last one that starts at or before it.
    begun = _added(filled(1, DType.i64, (bags,)), starts, count + 1)
    bag = order.cumsum(begun, 0)[:count] - 1
    if mode == "max" and count:
        # Rows that do not count go to one more bag; a bag without rows stays 0.
        bag = bag if kept is None else pointwise.where(kept, bag, bags)
        none = filled(0, rows.dtype, (bags + 1, rows.shape[1]))
        return scatter.index_reduce(none, 0, bag, rows, "amax", include_self=False)[:bags]
    mask = filled(1, rows.dtype, (count,)) if kept is None else casted(kept, rows.dtype)
    total = _added(rows * mask.unsqueeze(1), bag, bags)
    if mode == "sum":
        return total
    return total / pointwise.clamp(_added(mask, bag, bags), min=1.0).unsqueeze(1)


def _added(values: Tensor, bag: Tensor, bags: int) -> Tensor:
    zero = filled(0, values.dtype, (bags, *values.shape[1:]))
    sums: Tensor = CONTEXT.apply(indexing.index_add, (zero, bag, values), {"axis": 0})[0]
    return sums


def _checked_offsets(offsets: Tensor, count: int) -> Tensor:
    first = _checked(
        offsets[:1], 1,
        "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
        "position 0. However, got {}",
    )  # fmt: skip
    rest = _checked(
        offsets[1:], count + 1,
        f"offsets[-1] can not be greater than input's length {count} but got offsets[-1] of {{}}",
    )  # fmt: skip
    return shape.cat([first, rest])


def _checked(values: Tensor, bound: int, message: str) -> Any:
    attributes = {"bound": bound, "message": message}
    return CONTEXT.apply(indexing.check_index, (values,), attributes)[0]


# -- classes -------------------------------------------------------------------------------------


@public(at="nn.functional")
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Classes [*] of int64 as int64 [*, num_classes] with a 1 at each class.

    `num_classes=-1` reads the greatest class from the data, so it is an error while tracing.
    Raises DTypeError, and IndexRangeError for a class out of range.
    """
    if tensor.dtype is not DType.i64:
        raise fail(DTypeError, "one_hot is only applicable to index tensor of type LongTensor.")
    num_classes = index_of(num_classes)
    if num_classes == -1:
        if not tensor.numel():
            raise fail(ShapeError, "Can not infer total number of classes from empty tensor.")
        if int(tensor.min()) < 0:
            raise fail(IndexRangeError, "Class values must be non-negative.")
        num_classes = int(tensor.max()) + 1
    if num_classes < 1:
        raise fail(AttributeValueError, "Class values must be smaller than num_classes.")
    return composite.one_hot(tensor, classes=num_classes)
