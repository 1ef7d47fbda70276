"""Windows and their greatest, mean or normed values."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.graphs import OnnxNode
from frontend.onnx.importing.ops.convolution import padded, pads_of
from frontend.onnx.importing.ops.shapes import product


def _results(
    size: Any, kernel: int, stride: int, dilation: int, low: Any, high: Any, ceil: bool
) -> Any:
    """How many windows there are: with `ceil` also one that goes beyond the end, but none that
    starts there."""
    room = size + low + high - dilation * (kernel - 1) - 1
    if not ceil:
        return room // stride + 1
    count = -(-room // stride) + 1
    return count - 1 if (count - 1) * stride >= size + low else count


def _ends(
    x: Tensor, kernel: Any, strides: Any, dilations: Any, auto_pad: str, pads: Any, ceil: bool
) -> list[Any]:
    """Pads, with what windows beyond the end reach."""
    rank = len(kernel)
    ends = pads_of(x, auto_pad, pads, kernel, strides, dilations)
    if not ceil:
        return ends
    for i in range(rank):
        low, high = ends[i], ends[i + rank]
        count = _results(x.shape[2 + i], kernel[i], strides[i], dilations[i], low, high, True)
        reach = (count - 1) * strides[i] + dilations[i] * (kernel[i] - 1) + 1
        ends[i + rank] = max(high, reach - x.shape[2 + i] - low)
    return ends


@onnx_op("MaxPool")
def max_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    kernel_shape: Any, pads: Any = None, storage_order: int = 0, strides: Any = None,
    node: OnnxNode,
) -> Any:  # fmt: skip
    rank, kernel = len(kernel_shape), kernel_shape
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    ends = _ends(x, kernel, strides, dilations, auto_pad, pads, bool(ceil_mode))
    dtype = x.dtype
    wide = x if dtype.is_float else x.to(torch.float32 if dtype.itemsize < 4 else torch.float64)
    even = ends[:rank] == ends[rank:] and all(e * 2 <= k for e, k in zip(ends, kernel))
    pool = getattr(F, f"max_pool{rank}d")
    if node.results > 1:
        even = even and not any(ends)
    if not even:
        wide = padded(wide, ends, float("-inf"))
    values = pool(
        wide, kernel, strides, ends[:rank] if even else 0, dilations,
        return_indices=node.results > 1,
    )  # fmt: skip
    if node.results == 1:
        return values.to(dtype)
    values, places = values
    return [values.to(dtype), _whole_places(x, wide, places, ends, storage_order)]


def _whole_places(x: Tensor, wide: Tensor, places: Tensor, ends: Any, storage_order: int) -> Tensor:
    """Places in a padded plane as places in the whole tensor."""
    rank = x.dim() - 2
    coordinates: list[Any] = []
    for i in reversed(range(rank)):
        coordinates.insert(0, places % wide.shape[2 + i] - ends[i])
        places = places // wide.shape[2 + i]
    order = range(rank) if not storage_order else reversed(range(rank))
    flat: Any = 0
    for i in order:
        flat = flat * x.shape[2 + i] + coordinates[i]
    n, c = x.shape[:2]
    planes = torch.arange(n * c).reshape(n, c, *[1] * rank)
    return planes * product(x.shape[2:]) + flat


@onnx_op("AveragePool")
def average_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, count_include_pad: int = 0,
    dilations: Any = None, kernel_shape: Any, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank, kernel = len(kernel_shape), kernel_shape
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    plain = pads_of(x, auto_pad, pads, kernel, strides, dilations)
    even = plain[:rank] == plain[rank:] and all(e * 2 <= k for e, k in zip(plain, kernel))
    if even and all(d == 1 for d in dilations) and not ceil_mode and rank <= 3:
        return getattr(F, f"avg_pool{rank}d")(
            x, kernel, strides, plain[:rank], count_include_pad=bool(count_include_pad)
        )
    ends = _ends(x, kernel, strides, dilations, auto_pad, pads, bool(ceil_mode))
    # What is beyond the pads counts never, the pads do where they are to.
    beyond = [e - p for e, p in zip(ends, plain)]
    ones = torch.ones([1, 1, *x.shape[2:]], dtype=x.dtype)
    ones = padded(padded(ones, plain, 1.0 if count_include_pad else 0.0), beyond)
    total = _summed(padded(x, ends), kernel, strides, dilations)
    return total / _summed(ones, kernel, strides, dilations)


def _summed(x: Tensor, kernel: Any, strides: Any, dilations: Any) -> Any:
    """Sums over windows, each channel alone."""
    n, c = x.shape[:2]
    rank = len(kernel)
    if rank not in (1, 2, 3):
        raise OnnxNotHere(f"windows over {rank} axes", hint="1, 2 and 3 are here")
    ones = torch.ones(1, 1, *kernel, dtype=x.dtype)
    planes = x.reshape(n * c, 1, *x.shape[2:])
    sums = getattr(F, f"conv{rank}d")(planes, ones, None, strides, 0, dilations)
    return sums.reshape(n, c, *sums.shape[2:])


@onnx_op("LpPool")
def lp_pool(
    x: Tensor, *, auto_pad: str = "NOTSET", ceil_mode: int = 0, dilations: Any = None,
    kernel_shape: Any, p: float = 2, pads: Any = None, strides: Any = None,
) -> Any:  # fmt: skip
    rank = len(kernel_shape)
    strides, dilations = strides or [1] * rank, dilations or [1] * rank
    ends = _ends(x, kernel_shape, strides, dilations, auto_pad, pads, bool(ceil_mode))
    powers = padded(x.abs() ** p, ends)
    return _summed(powers, kernel_shape, strides, dilations) ** (1.0 / p)
