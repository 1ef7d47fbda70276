"""Convolutions and their transposed forms: options of the layers, and what they compute, as loops.
`tests/frontend/nn` holds each to the loops in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray

CONVOLUTIONS: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1},
    {"dilation": 2, "padding": 2, "bias": False},
    {"groups": 2, "padding": 1},
    {"groups": 4},
    {"padding": "same", "kernel_size": 2},
    {"padding": "valid"},
    {"padding": 1, "padding_mode": "reflect"},
    {"padding": "same", "padding_mode": "replicate", "dilation": 2, "kernel_size": 2},
    {"padding": 2, "padding_mode": "circular", "stride": 2},
]
"""Options of `Conv{1,2,3}d(4, 8, …)`, whose kernel size is 3 where it is not said."""

TRANSPOSED: list[dict[str, Any]] = [
    {},
    {"stride": 2, "padding": 1, "output_padding": 1},
    {"stride": 3, "output_padding": 2, "bias": False},
    {"groups": 2, "stride": 2},
    {"groups": 4, "dilation": 2, "padding": 1},
    {"dilation": 3, "output_padding": 2, "padding": 1},
]
"""Options of `ConvTranspose{1,2,3}d(4, 8, 3, …)`."""

NUMPY_MODES = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}
SIZES = (6, 5, 4)


def named(options: dict[str, Any]) -> str:
    return ", ".join(f"{key}={value}" for key, value in options.items()) or "plain"


def make_conv(nn: Any, axes: int, options: dict[str, Any]) -> Any:
    """The layer, of either system's `nn`."""
    return getattr(nn, f"Conv{axes}d")(4, 8, **{"kernel_size": 3, **options})


def make_transposed(nn: Any, axes: int, options: dict[str, Any]) -> Any:
    return getattr(nn, f"ConvTranspose{axes}d")(4, 8, 3, **options)


def conv_layer(layer: Any, x: Array) -> Array:
    """What a convolution layer in float64 gives."""
    if layer.padding == "same":
        total = [d * (k - 1) for d, k in zip(layer.dilation, layer.kernel_size)]
        low = [t // 2 for t in total]
        high = [t - a for t, a in zip(total, low)]
    else:
        low = high = [0] * (x.ndim - 2) if layer.padding == "valid" else list(layer.padding)
    if layer.padding_mode != "zeros":
        x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)], mode=NUMPY_MODES[layer.padding_mode])
        low = high = [0] * (x.ndim - 2)
    weight = layer.weight.detach().numpy()
    return _biased(layer, conv(x, weight, layer.stride, low, high, layer.dilation, layer.groups))


def transposed_layer(layer: Any, x: Array) -> Array:
    """What a transposed convolution layer in float64 gives."""
    weight = layer.weight.detach().numpy()
    geometry = layer.stride, layer.padding, layer.output_padding, layer.dilation, layer.groups
    return _biased(layer, transposed(x, weight, *geometry))


def _biased(layer: Any, out: Array) -> Array:
    if layer.bias is None:
        return out
    return out + layer.bias.detach().numpy().reshape(-1, *(1,) * (out.ndim - 2))


def conv(
    x: Array, w: Array, stride: Any, low: Any, high: Any, dilation: Any, groups: int
) -> Array:  # fmt: skip
    """[N, C, *size] by [O, C/groups, *kernel], one output element at a time."""
    x = np.pad(x, [(0, 0), (0, 0), *zip(low, high)])
    spans = [d * (k - 1) + 1 for d, k in zip(dilation, w.shape[2:])]
    counts = [(size - span) // s + 1 for size, span, s in zip(x.shape[2:], spans, stride)]
    out = np.zeros((x.shape[0], w.shape[0], *counts))
    depth, share = w.shape[1], w.shape[0] // groups
    for o, *at in np.ndindex(w.shape[0], *counts):
        first = o // share * depth
        window = tuple(
            slice(i * s, i * s + span, d) for i, s, span, d in zip(at, stride, spans, dilation)
        )
        part = x[:, first : first + depth, *window]
        out[:, o, *at] = (part * w[o]).sum(axis=tuple(range(1, x.ndim)))
    return out


def transposed(
    x: Array, w: Array, stride: Any, padding: Any, more: Any, dilation: Any, groups: int
) -> Array:
    """[N, C, *size] by [C, O/groups, *kernel]: each element of x puts the kernel down once."""
    axes = zip(x.shape[2:], w.shape[2:], stride, dilation)
    whole = [(n - 1) * s + d * (k - 1) + 1 for n, k, s, d in axes]
    full = np.zeros((len(x), w.shape[1] * groups, *(n + m for n, m in zip(whole, more))))
    share = x.shape[1] // groups
    for c, *at in np.ndindex(x.shape[1], *x.shape[2:]):
        first = c // share * w.shape[1]
        kernel = tuple(
            slice(i * s, i * s + d * (k - 1) + 1, d)
            for i, s, d, k in zip(at, stride, dilation, w.shape[2:])
        )
        element = x[:, c, *at].reshape(-1, *(1,) * (w.ndim - 1))
        full[:, first : first + w.shape[1], *kernel] += element * w[c]
    inside = tuple(slice(p, n - p) for p, n in zip(padding, full.shape[2:]))
    return full[:, :, *inside]
