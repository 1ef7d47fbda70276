"""Batch normalisation by the statistics of all ranks: what SyncBatchNorm computes.

in : [N, C, …] on each rank, N may differ
out: the normalised input, and the mean, variance and count of all ranks' batches

Forward exchanges each rank's count, mean and sum of squares about it, which are put together in the
order of the ranks in f64, the same bits on each; backward exchanges two sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from frontend.autograd.function import Function
from frontend.distributed.exchange import Round, all_gather, all_reduce
from frontend.distributed.groups import ProcessGroup, resolved
from frontend.distributed.reducer import add
from frontend.distributed.world import HERE, current
from frontend.engine.eager.host_ops import eager_only
from frontend.engine.tensors.tensor import Tensor, make
from graphc.ir.types import TensorType


def group_of(chosen: Any) -> ProcessGroup | None:
    """The group to exchange statistics with; None where there is nobody."""
    if HERE.world is None:
        return None
    group = resolved(chosen)
    return None if group is None or group.size() == 1 else group


def batch_norm(
    input: Tensor, weight: Any, bias: Any, eps: float, group: ProcessGroup
) -> tuple[Tensor, Tensor, Tensor, int]:
    """The normalised input; mean and variance [C] of all ranks, and of how many elements."""
    eager_only("SyncBatchNorm over several ranks")
    mean, variance, count = _statistics(input._array("SyncBatchNorm"), group)
    dtype = input.dtype.numpy
    shown = [_tensor(values.astype(dtype)) for values in (mean, variance)]
    inverse = _tensor((1 / np.sqrt(variance + eps)).astype(dtype))
    out: Tensor = _Normalized.apply(input, shown[0], inverse, count, group)
    shape = (1, -1) + (1,) * (input.dim() - 2)
    if weight is not None:
        out = out * weight.reshape(shape)
    if bias is not None:
        out = out + bias.reshape(shape)
    return out, shown[0], shown[1], count


def _tensor(array: np.ndarray) -> Tensor:
    return make(array, TensorType.of(array))


def _statistics(array: np.ndarray, group: ProcessGroup) -> tuple[np.ndarray, np.ndarray, int]:
    """Mean and variance of all ranks' elements, by channel, and their number."""
    channels = array.shape[1]
    columns = np.moveaxis(array, 1, 0).reshape(channels, -1).astype(np.float64)
    own = np.zeros(2 * channels + 1)
    own[-1] = columns.shape[1]
    if columns.shape[1]:
        own[:channels] = columns.mean(1)
        own[channels:-1] = np.square(columns - own[:channels, None]).sum(1)
    parts = np.empty((group.size(), len(own)))
    name = f"the statistics of SyncBatchNorm ({channels} channels)"
    steps = all_gather(Round(group._members, name), list(parts), own)
    current().start(name, steps, group._timeout).wait()
    counts, means, squares = parts[:, -1:], parts[:, :channels], parts[:, channels:-1]
    count = counts.sum()
    mean = (counts * means).sum(0) / count
    total = squares.sum(0) + (counts * np.square(means - mean)).sum(0)
    return mean, total / count, int(count)


class _Normalized(Function):
    """(x - mean) * inverse, where mean and inverse depend on all ranks' x."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, mean: Tensor, inverse: Tensor, count: int, group: Any) -> Any:
        shape = (1, -1) + (1,) * (x.dim() - 2)
        out = (x - mean.reshape(shape)) * inverse.reshape(shape)
        ctx.save_for_backward(out, inverse)
        ctx.count, ctx.group = count, group
        return out

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Any:
        out, inverse = ctx.saved_tensors
        axes = tuple(axis for axis in range(out.dim()) if axis != 1)
        sums = np.concatenate(
            [part.sum(axes)._array("SyncBatchNorm") for part in (gradient, gradient * out)]
        )
        name = "the gradients of SyncBatchNorm"
        steps = all_reduce(Round(ctx.group._members, name), sums, add)
        current().start(name, steps, ctx.group._timeout).wait()
        shape = (1, -1) + (1,) * (out.dim() - 2)
        first, second = (_tensor(part.copy() / ctx.count) for part in np.split(sums, 2))
        inner = gradient - first.reshape(shape) - out * second.reshape(shape)
        return inner * inverse.reshape(shape), None, None, None, None
