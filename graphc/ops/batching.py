"""Batching rules: an op on one example as ops on a batch of them.

in : an op, its operands, which of those are batches (axis 0 counts the examples)
out: its results as batches

As gradient rules they are made of ops on handles, so they serve eager tensors and graphs alike. A
rule moves what an op's attributes say of axes one axis back; what is the same for all examples is
read where that costs nothing, else repeated by a `broadcast`, which copies nothing. Composites
without a rule are their definitions, where those have their gradient (`is_defined`), and what has
none goes example by example.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphc.ir.dims import Extent
from graphc.ir.handle import apply
from graphc.ir.types import Shape
from graphc.ops.composite import (
    gelu,
    log_softmax,
    mean,
    softmax,
    stack,
    stop_gradient,
    straight_through,
    var,
)
from graphc.ops.contract import conv, conv_input_grad, conv_weight_grad, matmul, paired_matmul
from graphc.ops.fourier import fft, irfft, rfft
from graphc.ops.generate import iota_like
from graphc.ops.indexing import check_index, index_add, index_set, take
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.elementwise import Elementwise
from graphc.ops.kinds.index import Gather, Scatter
from graphc.ops.kinds.op import Op
from graphc.ops.kinds.reduce import Reduce
from graphc.ops.kinds.scan import Scan
from graphc.ops.kinds.sort import Sort
from graphc.ops.linear_algebra.norms import norm
from graphc.ops.movement import broadcast, concat, pad, reshape, saved, slice_, transpose
from graphc.ops.nn.activations import tanhshrink
from graphc.ops.nn.attention import attention
from graphc.ops.nn.embedding import embedding
from graphc.ops.nn.losses import binary_cross_entropy, cross_entropy
from graphc.ops.nn.normalization import (
    batch_norm,
    batch_norm_by,
    group_norm,
    layer_norm,
    rms_norm,
)
from graphc.ops.nn.pooling import (
    adaptive_max_pool,
    adaptive_max_pool_indices,
    avg_pool,
    max_pool,
    max_pool_indices,
    max_unpool,
)
from graphc.ops.nn.products import addmm
from graphc.ops.nn.recurrent import gru_cell, lstm_cell
from graphc.ops.nn.resampling import resample
from graphc.ops.order import extreme, topk
from graphc.ops.paired_convolution import (
    paired_conv,
    paired_conv_input_grad,
    paired_conv_weight_grad,
)
from graphc.ops.parts import split
from graphc.ops.scalar_functions.special import logit
from graphc.ops.strided import diagonal, diagonal_embed, slide
from graphc.ops.summaries import logsumexp, std
from graphc.ops.windows import unwindows, windows

Mapped = Sequence[bool]
Rule = Callable[..., Any]
"""`rule(op, operands, mapped, size, **attributes)`: the result, or a tuple of them; None where it
does not hold for these operands."""

RULES: dict[Any, Rule] = {}
"""By op, or by kind of ops."""
SMOOTH = {
    addmm, attention, batch_norm, batch_norm_by, cross_entropy, group_norm, gru_cell, layer_norm,
    lstm_cell, rms_norm,
}  # fmt: skip
"""Composites whose own gradient saves work, and is that of their definition everywhere."""


def batched(
    op: Op, operands: Sequence[Any], mapped: Mapped, attributes: dict[str, Any], size: Extent
) -> tuple[Any, ...] | None:
    """The results of `op` for each of `size` examples, along axis 0. `mapped`: which operands are
    batches, one at least. None where there is no rule."""
    rule = RULES.get(op)
    if rule is None:
        kinds = (RULES[kind] for kind in type(op).__mro__ if kind in RULES)
        rule = next(kinds, None)
    results = None if rule is None else rule(op, operands, mapped, size, **attributes)
    if results is None:
        return None
    return results if isinstance(results, tuple) else (results,)


def is_defined(op: Op, recorded: bool) -> bool:
    """Whether an op without a rule may go by its definition, which has its gradient where the
    results are `recorded`."""
    if not isinstance(op, Composite):
        return False
    return not (recorded and op.has_own_gradient) or op in SMOOTH


def one_by_one(
    op: Op, operands: Sequence[Any], mapped: Mapped, attributes: dict[str, Any], size: int
) -> tuple[Any, ...]:
    """`batched` for any op: it runs for each example, and the results are stacked."""
    runs = [
        op_results(op, [_example(x, i) if is_batch else x for x, is_batch in zip(operands, mapped)],
                   attributes)
        for i in range(size)
    ]  # fmt: skip
    return tuple(stack(*column, axis=0) for column in zip(*runs))


def op_results(op: Op, operands: Sequence[Any], attributes: dict[str, Any]) -> tuple[Any, ...]:
    """The results of an op on handles, as a tuple."""
    results = apply(op, *operands, **attributes)
    return results if isinstance(results, tuple) else (results,)


def _example(x: Any, index: int) -> Any:
    shape = _shape(x)
    lead, rest = (index, *[0] * (len(shape) - 1)), (1, *shape[1:])
    return reshape(slice_(x, start=lead, size=rest, step=(1,) * len(shape)), shape=shape[1:])


def _shape(x: Any) -> Shape:
    shape: Shape = x.tensor_type.shape
    return shape


def _repeated(x: Any, is_batch: bool, size: Extent) -> Any:
    """A batch, also of what is the same for all."""
    return x if is_batch else broadcast(x, shape=(size, *_shape(x)))


def _batches(operands: Sequence[Any], mapped: Mapped, size: Extent) -> list[Any]:
    return [_repeated(x, is_batch, size) for x, is_batch in zip(operands, mapped)]


def rule_of(*ops: Any) -> Callable[[Rule], Rule]:
    """The function is the rule of these ops, or kinds."""

    def declare(rule: Rule) -> Rule:
        RULES.update(dict.fromkeys(ops, rule))
        return rule

    return declare


# -- one element, one line, whole tensors ----------------------------------------------------------


@rule_of(
    Elementwise,
    binary_cross_entropy,
    gelu,
    logit,
    saved,
    stop_gradient,
    straight_through,
    tanhshrink,
)
def _by_element(op: Op, operands: Any, mapped: Mapped, size: Extent, /, **attributes: Any) -> Any:
    return apply(op, *_batches(operands, mapped, size), **attributes)


@rule_of(Reduce, logsumexp, mean, norm, std, var)
def _along_axes(
    op: Op, operands: Any, mapped: Mapped, size: Extent, /, axes: tuple[int, ...], **rest: Any
) -> Any:
    return apply(op, *operands, axes=tuple(axis + 1 for axis in axes), **rest)


@rule_of(
    Scan, Sort, concat, extreme, fft, irfft, log_softmax, resample, rfft, slide, softmax, split,
    stack, topk,
)  # fmt: skip
def _along_axis(
    op: Op, operands: Any, mapped: Mapped, size: Extent, /, axis: int, **rest: Any
) -> Any:
    return apply(op, *_batches(operands, mapped, size), axis=axis + 1, **rest)


# -- movements -------------------------------------------------------------------------------------


@rule_of(reshape)
def _reshape(op: Op, operands: Any, mapped: Mapped, size: Extent, /, shape: Shape) -> Any:
    return reshape(*operands, shape=(size, *shape))


@rule_of(transpose)
def _transpose(op: Op, operands: Any, mapped: Mapped, size: Extent, /, permutation: Shape) -> Any:
    return transpose(*operands, permutation=(0, *(axis + 1 for axis in permutation)))


@rule_of(broadcast)
def _broadcast(op: Op, operands: Any, mapped: Mapped, size: Extent, /, shape: Shape) -> Any:
    (x,) = operands
    own = _shape(x)[1:]
    if len(own) < len(shape):
        x = reshape(x, shape=(size, *[1] * (len(shape) - len(own)), *own))
    return broadcast(x, shape=(size, *shape))


@rule_of(slice_)
def _slice(
    op: Op, operands: Any, mapped: Mapped, count: Extent, /, start: Shape, size: Shape, step: Shape
) -> Any:
    return slice_(*operands, start=(0, *start), size=(count, *size), step=(1, *step))


@rule_of(pad)
def _pad(op: Op, operands: Any, mapped: Mapped, size: Extent, /, **amounts: Shape) -> Any:
    x, fill = operands
    if mapped[1]:
        return None
    return pad(
        _repeated(x, mapped[0], size), fill, **{name: (0, *each) for name, each in amounts.items()}
    )


@rule_of(windows, unwindows)
def _windows(op: Op, operands: Any, mapped: Mapped, count: Extent, /, **window: Any) -> Any:
    if mapped[1]:
        return None
    return apply(op, *operands, **window)  # axes ahead of those they slide over are as many as may


@rule_of(
    adaptive_max_pool, adaptive_max_pool_indices, avg_pool, max_pool, max_pool_indices, max_unpool
)
def _pool(op: Op, operands: Any, mapped: Mapped, count: Extent, /, **window: Any) -> Any:
    return apply(op, *_batches(operands, mapped, count), **window)


@rule_of(diagonal, diagonal_embed)
def _diagonal(
    op: Op, operands: Any, mapped: Mapped, count: Extent, /, axis1: int, axis2: int, **rest: Any
) -> Any:
    if any(mapped[1:]):
        return None
    return apply(op, *operands, axis1=axis1 + 1, axis2=axis2 + 1, **rest)


# -- contractions ----------------------------------------------------------------------------------


@rule_of(matmul, paired_matmul)
def _matmul(op: Op, operands: Any, mapped: Mapped, size: Extent, /) -> Any:
    x, y = operands
    if all(mapped) or len(_shape(x)) - mapped[0] > 2:
        return apply(op, *_batches(operands, mapped, size))
    # One matrix for all: the rows of all examples are one product with it.
    if mapped[0]:
        return _rows(op, x, y)
    swapped = transpose(y, permutation=(0, 2, 1))
    product = _rows(op, swapped, transpose(x, permutation=(1, 0)))
    return transpose(product, permutation=(0, 2, 1))


def _rows(op: Op, x: Any, y: Any) -> Any:
    """[B, m, k] by [k, n], as one product."""
    size, rows, depth = _shape(x)
    product = apply(op, reshape(x, shape=(size * rows, depth)), y)
    return reshape(product, shape=(size, rows, _shape(y)[1]))


def _into(x: Any, axis: int) -> Any:
    """A batch whose examples lie one behind another along an axis of theirs."""
    shape = _shape(x)
    order = (*range(1, axis + 1), 0, *range(axis + 1, len(shape)))
    moved = shape[1:]
    whole = (*moved[:axis], shape[0] * moved[axis], *moved[axis + 1 :])
    return reshape(x if axis == 0 else transpose(x, permutation=order), shape=whole)


def _out_of(x: Any, axis: int, size: Extent) -> Any:
    """Undoes `_into`."""
    shape = _shape(x)
    parts = (*shape[:axis], size, shape[axis] // size, *shape[axis + 1 :])
    order = (axis, *range(axis), *range(axis + 1, len(parts)))
    split = reshape(x, shape=parts)
    return split if axis == 0 else transpose(split, permutation=order)


@rule_of(conv, conv_input_grad, paired_conv, paired_conv_input_grad)
def _convolution(
    op: Op, operands: Any, mapped: Mapped, count: Extent, /, groups: int, **geometry: Any
) -> Any:
    x, w = operands
    if not mapped[1]:  # more images
        return _out_of(apply(op, _into(x, 0), w, groups=groups, **geometry), 0, count)
    if not isinstance(count, int) or not count:
        return None
    # A weight for each example: as many groups of channels.
    x = _into(_repeated(x, mapped[0], count), 1)
    return _out_of(apply(op, x, _into(w, 0), groups=groups * count, **geometry), 1, count)


@rule_of(conv_weight_grad, paired_conv_weight_grad)
def _weight_gradient(
    op: Op, operands: Any, mapped: Mapped, count: Extent, /, groups: int, **geometry: Any
) -> Any:
    if not isinstance(count, int) or not count:
        return None
    x, g = (_into(each, 1) for each in _batches(operands, mapped, count))
    return _out_of(apply(op, x, g, groups=groups * count, **geometry), 0, count)


# -- elements by position --------------------------------------------------------------------------


@rule_of(Gather, Scatter)
def _at_positions(op: Op, operands: Any, mapped: Mapped, size: Extent, /, axis: int) -> Any:
    return apply(op, *_batches(operands, mapped, size), axis=axis + 1)


@rule_of(take)
def _take(op: Op, operands: Any, mapped: Mapped, size: Extent, /, axis: int) -> Any:
    x, index = operands
    if not mapped[1]:
        return take(x, index, axis=axis + 1)
    if mapped[0]:
        lines = _into(_axis_first(x, axis + 1), 0)
        taken = take(lines, _positions(index, axis, _shape(x)[axis + 1]), axis=0)
        return _axis_back(taken, len(_shape(index)) - 1, axis)
    taken = take(x, index, axis=axis)
    rank = len(_shape(taken))
    order = (axis, *range(axis), *range(axis + 1, rank))
    return taken if axis == 0 else transpose(taken, permutation=order)


@rule_of(embedding)
def _embedding(op: Op, operands: Any, mapped: Mapped, count: Extent, /, **rest: Any) -> Any:
    # A table for each example is a longer one, but for rows whose gradient is special; and what
    # counts how often a row is read counts that in an example.
    return None if mapped[0] or rest["by_frequency"] else apply(op, *operands, **rest)


@rule_of(index_add, index_set)
def _put(op: Op, operands: Any, mapped: Mapped, size: Extent, /, axis: int) -> Any:
    x, index, source = operands
    if not mapped[1]:
        x, source = _batches((x, source), (mapped[0], mapped[2]), size)
        return apply(op, x, index, source, axis=axis + 1)
    x, index, source = _batches(operands, mapped, size)
    first = _axis_first(x, axis + 1)
    moved = _indexed_first(source, len(_shape(index)) - 1, axis)
    positions = _positions(index, axis, _shape(x)[axis + 1])
    result = apply(op, _into(first, 0), positions, moved, axis=0)
    return _axis_back(_out_of(result, 0, size), 1, axis)


def _axis_first(x: Any, axis: int) -> Any:
    """A batch with an axis right behind that of the examples."""
    rest = (each for each in range(1, len(_shape(x))) if each != axis)
    return x if axis == 1 else transpose(x, permutation=(0, axis, *rest))


def _positions(index: Any, axis: int, length: Extent) -> Any:
    """Positions in the examples' lines along an axis, as positions in one line of all. One outside
    of its own line is an error, as it is there."""
    message = f"index {{}} is out of bounds for dimension {axis} with size {length}"
    checked = check_index(index, bound=length, message=message)
    return checked + iota_like(index, _shape(index), 0, index.dtype) * length


def _axis_back(x: Any, rank: int, axis: int) -> Any:
    """A batch whose `rank` axes behind that of the examples stand at `axis` of each example."""
    if axis == 0:
        return x
    behind = len(_shape(x)) - 1 - rank
    ahead = (each + 1 + rank for each in range(axis))
    after = (each + 1 + rank for each in range(axis, behind))
    return transpose(x, permutation=(0, *ahead, *range(1, rank + 1), *after))


def _indexed_first(x: Any, rank: int, axis: int) -> Any:
    """Undoes `_axis_back`."""
    if axis == 0:
        return x
    count = len(_shape(x))
    moved = range(axis + 1, axis + 1 + rank)
    rest = (each for each in range(1, count) if each not in moved)
    return transpose(x, permutation=(0, *moved, *rest))
