"""Tensors made of a shape: constants, ranges, windows, random numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.onnx.importing.declarations import Numbers, Value, onnx_op
from frontend.onnx.importing.element_types import dtype_of
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.graphs import OnnxNode
from frontend.onnx.importing.numbers import MOST_NUMBERS, FloatSizes, to_tensor
from frontend.onnx.importing.ops.shapes import product


def _constant_numbers(shape: Any, value: Any = None) -> Any:
    """Few integers are numbers, as shapes are made of them."""
    if shape.dtype == object or value is None or value.dtype.kind not in "iub":
        return NotImplemented
    sizes = shape.reshape(-1).tolist()
    if product(sizes) > MOST_NUMBERS:
        return NotImplemented
    return np.full(sizes, value.reshape(-1)[0])


@onnx_op("ConstantOfShape", on_numbers=_constant_numbers)
def constant_of_shape(shape: Numbers, *, value: Any = None) -> Any:
    if value is None:
        return torch.zeros(tuple(shape), dtype=torch.float32)
    first = torch.tensor(value.reshape(-1)[:1])
    return first.reshape([1] * len(shape)).expand(tuple(shape)) if shape else first.reshape(())


@onnx_op("EyeLike")
def eye_like(x: Tensor, *, dtype: int | None = None, k: int = 0) -> Any:
    rows = torch.arange(x.shape[0]).reshape(-1, 1)
    ones = rows + k == torch.arange(x.shape[1])
    return ones.to(x.dtype if dtype is None else dtype_of(dtype))


def _whole_numbers(value: Any) -> Any:
    """Floats that are whole, as integers; None for others, and for a tensor."""
    if isinstance(value, FloatSizes):
        return value.sizes
    if isinstance(value, np.ndarray) and value.dtype != object and (value == np.rint(value)).all():
        return value.astype(np.int64)
    return None


@onnx_op("Range")
def range_(start: Value, limit: Value, delta: Value, *, stash_type: int = 1) -> Any:
    ends = (start, limit, delta)
    if any(isinstance(value, FloatSizes) for value in ends):
        whole = [_whole_numbers(value) for value in ends]
        if all(value is not None for value in whole):
            return to_tensor(range_(*whole)).to(to_tensor(start).dtype)
    if all(isinstance(value, np.ndarray) for value in ends):
        if any(value.dtype == object for value in ends):
            first, last, step = (value.reshape(-1).tolist()[0] for value in ends)
            return torch.arange(first, last, step, dtype=torch.int64)
        result = np.arange(*(value.reshape(-1)[0] for value in ends), dtype=start.dtype)
        return (
            result
            if result.dtype.kind in "iu" and result.size <= MOST_NUMBERS
            else (torch.tensor(result))
        )
    dtype = to_tensor(start).dtype
    first, last, step = (to_tensor(value).detach().reshape(()).item() for value in ends)
    if not dtype.is_float:
        return torch.arange(first, last, step, dtype=dtype)
    count = max(0, math.ceil((last - first) / step))
    places = torch.arange(count, dtype=torch.float64)
    return (places * step + first).to(dtype)


# -- windows -------------------------------------------------------------------------------------


def _window(name: str, function: str) -> None:
    def window(size: Numbers, *, output_datatype: int = 1, periodic: int = 1) -> Any:
        options: dict[str, Any] = {"periodic": bool(periodic), "dtype": torch.float64}
        if function == "hamming_window":  # ONNX: 25/46 and 21/46
            options.update(alpha=25 / 46, beta=21 / 46)
        return getattr(torch, function)(size[0], **options).to(dtype_of(output_datatype))

    onnx_op(name)(window)


_window("HannWindow", "hann_window")
_window("HammingWindow", "hamming_window")
_window("BlackmanWindow", "blackman_window")


# -- random numbers, of this process's generator -------------------------------------------------


@onnx_op("RandomNormal")
def random_normal(
    *, shape: Any, dtype: int = 1, mean: float = 0.0, scale: float = 1.0, seed: float | None = None
) -> Any:
    return (torch.randn(shape) * scale + mean).to(dtype_of(dtype))


@onnx_op("RandomUniform")
def random_uniform(
    *, shape: Any, dtype: int = 1, high: float = 1.0, low: float = 0.0, seed: float | None = None
) -> Any:
    return (torch.rand(shape) * (high - low) + low).to(dtype_of(dtype))


@onnx_op("RandomNormalLike")
def random_normal_like(
    x: Tensor, *, dtype: int | None = None, mean: float = 0.0, scale: float = 1.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    drawn = torch.randn(tuple(x.shape)) * scale + mean
    return drawn.to(x.dtype if dtype is None else dtype_of(dtype))


@onnx_op("RandomUniformLike")
def random_uniform_like(
    x: Tensor, *, dtype: int | None = None, high: float = 1.0, low: float = 0.0,
    seed: float | None = None,
) -> Any:  # fmt: skip
    drawn = torch.rand(tuple(x.shape)) * (high - low) + low
    return drawn.to(x.dtype if dtype is None else dtype_of(dtype))


@onnx_op("Bernoulli")
def bernoulli(x: Tensor, *, dtype: int | None = None, seed: float | None = None) -> Any:
    return torch.bernoulli(x).to(x.dtype if dtype is None else dtype_of(dtype))


@onnx_op("Multinomial")
def multinomial(
    x: Tensor, *, dtype: int = 6, sample_size: int = 1, seed: float | None = None, node: OnnxNode
) -> Any:
    if not x.dtype.is_float:
        raise OnnxNotHere(f"logarithms of probabilities of dtype {x.dtype}")
    drawn = torch.multinomial(torch.softmax(x, -1), sample_size, replacement=True)
    return drawn.to(dtype_of(dtype))
