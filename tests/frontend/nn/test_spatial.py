"""Convolution and pooling against loops in NumPy."""

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


def conv(x: Array, w: Array, stride: Any, low: Any, high: Any, dilation: Any, groups: int) -> Array:
    """[N, C, H, W] by [O, C/groups, KH, KW], one output element at a time."""
    x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    counts = [(size - span) // s + 1 for size, span, s in zip(x.shape[2:], spans, stride)]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    depth, share = w.shape[1], w.shape[0] // groups
    for o, i, j in np.ndindex(w.shape[0], *counts):
        first = o // share * depth
        part = x[:, first : first + depth,
                 i * stride[0] : i * stride[0] + spans[0] : dilation[0],
                 j * stride[1] : j * stride[1] + spans[1] : dilation[1]]  # fmt: skip
        out[:, o, i, j] = (part * w[o]).sum((1, 2, 3))
    return out


@pytest.mark.parametrize(
    "options",
    [
        {}, {"padding": 1}, {"stride": 2, "padding": (0, 1)}, {"dilation": (1, 2)},
        {"groups": 2}, {"padding": "same"}, {"padding": "same", "dilation": 2},
        {"padding": "valid"}, {"bias": False},
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("kernel", [(3, 3), (2, 3)])
def test_conv2d(options: dict[str, Any], kernel: tuple[int, int]) -> None:
    layer = nn.Conv2d(4, 6, kernel, **options).double()
    x = normal(2, 4, 7, 6)
    dilation = (options.get("dilation", 1),) * 2 if "dilation" not in options else layer.dilation
    if options.get("padding") == "same":
        total = [d * (k - 1) for d, k in zip(dilation, kernel)]
        low = [t // 2 for t in total]
        high = [t - a for t, a in zip(total, low)]
    else:
        low = high = (0, 0) if layer.padding == "valid" else layer.padding
    weight = layer.weight.detach().numpy()
    expected = conv(x, weight, layer.stride, low, high, dilation, layer.groups)
    if layer.bias is not None:
        expected += layer.bias.detach().numpy()[:, None, None]
    made = layer(torch.tensor(x))
    np.testing.assert_allclose(made.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
    single = layer(torch.tensor(x[0]))
    np.testing.assert_allclose(single.detach().numpy(), expected[0], rtol=1e-12, atol=1e-12)


def test_conv1d() -> None:
    x, w, b = normal(2, 3, 8), normal(4, 3, 3), normal(4)
    made = F.conv1d(torch.tensor(x), torch.tensor(w), torch.tensor(b), stride=2, padding=1)
    flat = conv(x[:, :, None], w[:, :, None], (1, 2), (0, 1), (0, 1), (1, 1), 1)[:, :, 0]
    np.testing.assert_allclose(made.numpy(), flat + b[:, None], rtol=1e-12, atol=1e-12)


def test_conv_gradients() -> None:
    x = torch.tensor(normal(2, 3, 5, 5), requires_grad=True)
    w = torch.tensor(normal(4, 3, 3, 3), requires_grad=True)
    b = torch.tensor(normal(4), requires_grad=True)
    weights = normal(2, 4, 5, 5, seed=5)
    (F.conv2d(x, w, b, padding=1) * torch.tensor(weights)).sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), weights.sum((0, 2, 3)), rtol=1e-12)
    # The loss is bilinear in x and w: x · dx = w · dw = the loss without bias.
    total = (conv(x.detach().numpy(), w.detach().numpy(), (1, 1), (1, 1), (1, 1), (1, 1), 1)
             * weights).sum()  # fmt: skip
    assert (x.detach() * x.grad).sum().item() == pytest.approx(total, rel=1e-10)
    assert (w.detach() * w.grad).sum().item() == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 2, 5, 5), (4, 3, 3, 3)), "to have 3 channels, but got 2 channels instead"),
        (
            ((5, 5), (4, 3, 3, 3)),
            r"4D \(batched\) input to conv2d, but got input of size: \[5, 5\]",
        ),
        (
            ((1, 3, 2, 2), (4, 3, 3, 3)),
            r"input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)",
        ),
        (((1, 4, 5, 5), (4, 3, 3, 3), None, 1, 0, 1, 3), "weight to be divisible by 3 at dim"),
        (((1, 3, 5, 5), (4, 3, 3, 3), (5,)), r"4 elements, but got bias of size \[5\] instead"),
        (((1, 3, 5, 5), (4, 3, 3, 3), None, 2, "same"), "not supported for strided convolutions"),
        (((1, 3, 5, 5), (4, 3, 3, 3), None, 1, "foo"), "Invalid padding string: 'foo'"),
        (((1, 3, 5, 5), (4, 3, 3, 3), None, 0), "non-positive stride is not supported"),
        (((1, 3, 5, 5), (4, 3, 3, 3), None, 1, -1), "negative padding is not supported"),
    ],
)
def test_conv_errors(arguments: tuple[Any, ...], message: str) -> None:
    tensors = [torch.zeros(shape) if shape else None for shape in arguments[:3]]
    with pytest.raises(RuntimeError, match=message):
        F.conv2d(*tensors, *arguments[3:])


def test_conv_dtypes() -> None:
    x, w, b = torch.zeros(1, 3, 5, 5), torch.zeros(4, 3, 3, 3), torch.zeros(4)
    with pytest.raises(RuntimeError, match=r"Input type \(double\) and weight type \(float\)"):
        F.conv2d(x.double(), w, b)
    with pytest.raises(RuntimeError, match=r"Input type \(float\) and bias type \(double\)"):
        F.conv2d(x, w, b.double())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 4, 3, 1, 0, 1, 2), "in_channels must be divisible by groups"),
        ((4, 3, 3, 1, 0, 1, 2), "out_channels must be divisible by groups"),
        ((4, 3, 3, 1, 0, 1, 0), "groups must be a positive integer"),
        ((4, 3, 3, 1, "x"), "Invalid padding string 'x', should be one of"),
        ((4, 3, 3, 2, "same"), "padding='same' is not supported for strided convolutions"),
    ],
)
def test_conv_layer_errors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(*arguments)


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
