"""Normalisations without running statistics: layers, shapes of inputs, and definitions.
`tests/frontend/nn` holds each to its definition in float64 and to numeric gradients,
`tests/frontend/peers` to PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Normalization:
    """`make(nn)` gives the layer of either system, `normalized(x, layer)` what it makes of float64
    numbers ahead of its weight and bias, which lie along the last axes, or along the channels."""

    name: str
    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    normalized: Callable[[Array, Any], Array]
    along_channels: bool = False

    def __str__(self) -> str:
        return self.name

    def definition(self, x: Array, layer: Any) -> Array:
        """What the layer gives."""
        out = self.normalized(x, layer)
        weight, bias = (getattr(layer, name, None) for name in ("weight", "bias"))
        for values, combine in ((weight, np.multiply), (bias, np.add)):
            if values is not None:
                array = values.detach().numpy()
                out = combine(out, channels(array, x) if self.along_channels else array)
        return out


def standard(x: Array, axes: tuple[int, ...], eps: float = 1e-5) -> Array:
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axes, keepdims=True) + eps)


def channels(values: Array, x: Array) -> Array:
    """One value per channel, to go with `x` of shape [N, C, …]."""
    return values.reshape(1, -1, *(1,) * (x.ndim - 2))


def _last(x: Array, layer: Any) -> tuple[int, ...]:
    return tuple(range(x.ndim - len(layer.normalized_shape), x.ndim))


def layer_norm(x: Array, layer: Any) -> Array:
    return standard(x, _last(x, layer), layer.eps)


def group_norm(x: Array, layer: Any) -> Array:
    grouped = x.reshape(x.shape[0], layer.num_groups, -1)
    return standard(grouped, (2,), layer.eps).reshape(x.shape)


def rms_norm(x: Array, layer: Any) -> Array:
    eps = np.finfo(np.float64).eps if layer.eps is None else layer.eps
    return x / np.sqrt((x**2).mean(_last(x, layer), keepdims=True) + eps)


def local_response(x: Array, layer: Any) -> Array:
    size, count = layer.size, x.shape[1]
    rest = [(0, 0)] * (x.ndim - 2)
    padded = np.pad(x**2, [(0, 0), (size // 2, size), *rest])
    total = sum(padded[:, i : i + count] for i in range(size))
    return x / (layer.k + layer.alpha * total / size) ** layer.beta


NORMALIZATIONS = [
    Normalization("layer", lambda nn: nn.LayerNorm(6), (4, 6), layer_norm),
    Normalization(
        "layer of two axes", lambda nn: nn.LayerNorm((3, 5), eps=1e-3), (2, 4, 3, 5), layer_norm
    ),
    Normalization(
        "layer without bias", lambda nn: nn.LayerNorm(6, bias=False), (2, 3, 6), layer_norm
    ),
    Normalization(
        "layer, plain", lambda nn: nn.LayerNorm(6, elementwise_affine=False), (2, 3, 6), layer_norm
    ),
    Normalization("group", lambda nn: nn.GroupNorm(2, 6), (3, 6, 4, 5), group_norm, True),
    Normalization("group of all", lambda nn: nn.GroupNorm(1, 6, eps=0.1), (3, 6), group_norm, True),
    Normalization(
        "group of one", lambda nn: nn.GroupNorm(4, 4, bias=False), (2, 4, 9), group_norm, True
    ),
    Normalization(
        "group, plain", lambda nn: nn.GroupNorm(2, 4, affine=False), (2, 4, 9), group_norm, True
    ),
    Normalization("rms", lambda nn: nn.RMSNorm(6), (4, 6), rms_norm),
    Normalization(
        "rms of two axes", lambda nn: nn.RMSNorm((3, 5), eps=0.1), (2, 4, 3, 5), rms_norm
    ),
    Normalization(
        "rms, plain", lambda nn: nn.RMSNorm(6, elementwise_affine=False), (2, 3, 6), rms_norm
    ),
    Normalization(
        "local response", lambda nn: nn.LocalResponseNorm(3, 0.3, 0.6, 2.0), (2, 5, 3, 4),
        local_response,
    ),
    Normalization(
        "local response, even", lambda nn: nn.LocalResponseNorm(4, 0.5), (2, 6, 7), local_response
    ),
    Normalization(
        "local response of itself", lambda nn: nn.LocalResponseNorm(1, 0.3), (2, 6, 4),
        local_response,
    ),
    Normalization(
        "local response, wider than the channels", lambda nn: nn.LocalResponseNorm(9, 0.3),
        (2, 6, 4), local_response,
    ),
]  # fmt: skip
