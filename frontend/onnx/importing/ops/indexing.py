"""Elements by their places: gather, scatter, the greatest ones, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.ops.shapes import product


def _from_start(index: Tensor, size: Any) -> Tensor:
    """Places counted from the start, those from the end too."""
    index = index.long()
    return torch.where(index < 0, index + size, index)


def _taken(x: Any, index: Any, axis: int = 0) -> Any:
    return np.take(x, index.astype(np.int64), axis)


@onnx_op("Gather", on_numbers=_taken)
def gather(x: Tensor, index: Tensor, *, axis: int = 0) -> Any:
    axis = axis % x.dim()
    index = _from_start(index, x.shape[axis])
    if index.dim() == 0:
        return x.index_select(axis, index.reshape(1)).squeeze(axis)
    if axis == 0 and x.dim() == 2 and x.dtype.is_float:
        return F.embedding(index, x)
    if index.dim() == 1:
        return x.index_select(axis, index)
    shape = (*x.shape[:axis], *index.shape, *x.shape[axis + 1 :])
    return x.index_select(axis, index.reshape(-1)).reshape(shape)


@onnx_op("GatherElements")
def gather_elements(x: Tensor, index: Tensor, *, axis: int = 0) -> Any:
    return x.gather(axis, _from_start(index, x.shape[axis]))


@onnx_op("GatherND")
def gather_nd(x: Tensor, index: Tensor, *, batch_dims: int = 0) -> Any:
    depth = index.shape[-1]
    places = []
    for axis in range(batch_dims):
        own = torch.arange(x.shape[axis])
        places.append(own.reshape(-1, *[1] * (index.dim() - 2 - axis)))
    places += [_from_start(index[..., k], x.shape[batch_dims + k]) for k in range(depth)]
    return x[tuple(places)]


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


def _scatter_elements(
    x: Tensor, index: Tensor, updates: Tensor, *, axis: int = 0, reduction: str = "none"
) -> Any:
    index = _from_start(index, x.shape[axis])
    if reduction == "none":
        return x.scatter(axis, index, updates)
    return x.scatter_reduce(axis, index, updates, _REDUCTIONS[reduction])


onnx_op("ScatterElements")(_scatter_elements)
onnx_op("Scatter")(_scatter_elements)


@onnx_op("ScatterND")
def scatter_nd(x: Tensor, index: Tensor, updates: Tensor, *, reduction: str = "none") -> Any:
    places = tuple([_from_start(index[..., k], x.shape[k]) for k in range(index.shape[-1])])
    if reduction == "none":
        return x.index_put(places, updates)
    if reduction == "add":
        return x.index_put(places, updates, accumulate=True)
    # By the flat place of each slice.
    depth = index.shape[-1]
    flat: Any = 0
    for k in range(depth):
        flat = flat * x.shape[k] + places[k]
    width = product(x.shape[depth:])
    rows = x.reshape(-1, width)
    at = flat.reshape(-1, 1).expand(-1, width)
    values = updates.reshape(-1, width)
    return rows.scatter_reduce(0, at, values, _REDUCTIONS[reduction]).reshape(x.shape)


@onnx_op("TensorScatter")
def tensor_scatter(
    past: Tensor, update: Tensor, write_indices: Tensor | None = None, *, axis: int = -2,
    mode: str = "linear",
) -> Any:  # fmt: skip
    """Rows of `update` written into `past` along `axis`, from each batch's own place on."""
    axis = axis % past.dim()
    steps = torch.arange(update.shape[axis])
    first = (
        torch.zeros(past.shape[0], dtype=torch.int64) if write_indices is None else write_indices
    )
    places = first.reshape(-1, 1) + steps
    if mode == "circular":
        places = places % past.shape[axis]
    shape = [1] * past.dim()
    shape[0], shape[axis] = places.shape[0], places.shape[1]
    return past.scatter(axis, places.reshape(shape).expand(update.shape), update)


@onnx_op("OneHot")
def one_hot(index: Tensor, depth: Numbers, values: Tensor, *, axis: int = -1) -> Any:
    size = depth[0]
    size = int(size) if isinstance(size, float) else size
    places = index.long()
    places = torch.where(places < 0, places + size, places)
    hot = places.unsqueeze(-1) == torch.arange(size)
    return torch.where(hot, values[1], values[0]).movedim(-1, axis)


@onnx_op("TopK")
def top_k(x: Tensor, k: Numbers, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    count = min(k[0], x.shape[axis])
    if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
        wide = x.to(torch.int64)
        flipped = wide ^ torch.full((), -(1 << 63), dtype=torch.int64)
        order = flipped.argsort(axis, bool(largest), stable=True).narrow(axis, 0, count)
        return wide.gather(axis, order).to(x.dtype), order
    # Of equal ones the first comes first: a stable order, as ONNX says.
    order = x.argsort(axis, bool(largest), stable=True).narrow(axis, 0, count)
    return x.gather(axis, order), order


@onnx_op("NonZero")
def non_zero(x: Tensor) -> Any:
    return torch.nonzero(x).t()


@onnx_op("Compress")
def compress(x: Tensor, condition: Tensor, *, axis: int | None = None) -> Any:
    x, axis = (x.reshape(-1), 0) if axis is None else (x, axis)
    return x.index_select(axis, torch.nonzero(condition).reshape(-1))


@onnx_op("Unique")
def unique(x: Tensor, *, axis: int | None = None, sorted: int = 1) -> Any:
    """Computed by NumPy: how many there are is known when it has run."""
    values, first, inverse, counts = np.unique(x.detach().numpy(), True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first)
        values = np.take(values, order, axis=axis or 0)
        rank = np.empty_like(order)
        rank[order] = np.arange(len(order))
        first, inverse, counts = first[order], rank[inverse], counts[order]
    return [
        torch.from_numpy(np.ascontiguousarray(each)) for each in (values, first, inverse, counts)
    ]


@onnx_op("Trilu")
def trilu(x: Tensor, k: Numbers | None = None, *, upper: int = 1) -> Any:
    return (torch.triu if upper else torch.tril)(x, k[0] if k else 0)


@onnx_op("MaxUnpool")
def max_unpool(
    x: Tensor, index: Tensor, output_shape: Numbers | None = None, *, kernel_shape: Any,
    pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    """Each value at its place in the smallest plane it came from, which is the first part of a
    larger one that is asked for."""
    rank = len(kernel_shape)
    strides, pads = strides or [1] * rank, pads or [0] * (2 * rank)
    plane = [
        (x.shape[2 + i] - 1) * strides[i] + kernel_shape[i] - pads[i] - pads[i + rank]
        for i in range(rank)
    ]
    # Places count over the whole tensor, of the shape that was pooled.
    n, c = x.shape[:2]
    size = product(plane)
    zeros = torch.zeros(n * c * size, dtype=x.dtype)
    whole = zeros.scatter(0, index.reshape(-1), x.reshape(-1)).reshape(n, c, *plane)
    if output_shape is None:
        return whole
    if list(output_shape[:2]) != [n, c]:
        raise OnnxNotHere("an output_shape of another batch or other channels")
    more = [want - size for want, size in zip(output_shape[2:], plane)]
    return F.pad(whole, [end for extra in reversed(more) for end in (0, extra)])


@onnx_op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(x: Tensor, index: Tensor) -> Any:
    taken = x.index_select(-1, index.reshape(-1))
    return taken.reshape(1, -1) if x.dim() == 1 else taken
