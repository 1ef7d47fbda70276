"""Pooling against loops in NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn

Array = np.ndarray


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# -- pooling --------------------------------------------------------------------------------------


def windows(x: Array, kernel: Any, stride: Any, padding: Any, dilation: Any, ceil: bool) -> Any:
    """Per output position: the elements of the window inside x, and its size with padding."""
    counts = []
    for size, k, s, p, d in zip(x.shape[-2:], kernel, stride, padding, dilation):
        room = size + 2 * p - d * (k - 1) - 1
        count = (math.ceil if ceil else math.floor)(room / s) + 1
        counts.append(count - 1 if ceil and (count - 1) * s >= size + p else count)
    for i, j in np.ndindex(*counts):
        taps, spans = [], []
        for at, size, k, s, p, d in zip((i, j), x.shape[-2:], kernel, stride, padding, dilation):
            places = [at * s - p + t * d for t in range(k)]
            taps.append([q for q in places if 0 <= q < size])
            spans.append(sum(q < size + p for q in places))
        yield counts, (i, j), x[..., taps[0], :][..., taps[1]], spans[0] * spans[1]


POOLS = [
    {"kernel_size": 2}, {"kernel_size": (3, 2), "stride": (2, 1)},
    {"kernel_size": 3, "stride": 2, "padding": 1}, {"kernel_size": 2, "ceil_mode": True},
    {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True},
]  # fmt: skip


def pooled(x: Array, reduce: Any, options: dict[str, Any], dilation: int = 1) -> Array:
    kernel = options["kernel_size"]
    kernel = kernel if isinstance(kernel, tuple) else (kernel,) * 2
    stride = options.get("stride", kernel)
    stride = stride if isinstance(stride, tuple) else (stride,) * 2
    padding = (options.get("padding", 0),) * 2
    out: Any = None
    for counts, at, part, size in windows(
        x, kernel, stride, padding, (dilation,) * 2, options.get("ceil_mode", False)
    ):
        out = np.zeros((*x.shape[:-2], *counts)) if out is None else out
        out[(..., *at)] = reduce(part, size)
    return out


@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("dilation", [1, 2])
def test_max_pool2d(options: dict[str, Any], dilation: int) -> None:
    x = normal(2, 3, 7, 8)
    expected = pooled(x, lambda part, _: part.max((-2, -1)), options, dilation)
    made = nn.MaxPool2d(dilation=dilation, **options)(torch.tensor(x))
    np.testing.assert_array_equal(made.numpy(), expected)


@pytest.mark.parametrize("options", POOLS, ids=str)
@pytest.mark.parametrize("include", [True, False])
def test_avg_pool2d(options: dict[str, Any], include: bool) -> None:
    x = normal(2, 3, 7, 8)

    def mean(part: Array, size: int) -> Array:
        return part.sum((-2, -1)) / (size if include else part.shape[-1] * part.shape[-2])

    made = nn.AvgPool2d(count_include_pad=include, **options)(torch.tensor(x))
    np.testing.assert_allclose(made.numpy(), pooled(x, mean, options), rtol=1e-12)


def test_avg_pool2d_divisor() -> None:
    x = normal(1, 4, 4)
    made = F.avg_pool2d(torch.tensor(x), 2, divisor_override=3)
    expected = x.reshape(1, 2, 2, 2, 2).sum((2, 4)) / 3
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-12)


def test_max_pool_gradient_goes_to_the_first_of_equal_maxima() -> None:
    x = torch.ones(1, 2, 2, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[1, 0], [0, 0]]]


def test_pool_errors() -> None:
    x = torch.zeros(1, 3, 5, 5)
    with pytest.raises(RuntimeError, match=r"output size: \(3x0x0\). Output size is too small"):
        F.max_pool2d(torch.zeros(1, 3, 2, 2), 3)
    with pytest.raises(RuntimeError, match="but got pad=2, kernel_size=3 and dilation=1"):
        F.max_pool2d(x, 3, padding=2)
    with pytest.raises(RuntimeError, match=r"non-empty 3D or 4D \(batch mode\) tensor expected"):
        F.avg_pool2d(torch.zeros(5, 5), 2)
    with pytest.raises(RuntimeError, match="stride should be greater than zero"):
        F.max_pool2d(x, 3, stride=0)
