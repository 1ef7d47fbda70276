"""Layers over windows and images that PyTorch also shows at the top level."""

from __future__ import annotations

from typing import Any

from frontend.nn.functional.adaptive import adaptive_avg_pool1d, adaptive_max_pool1d_with_indices
from frontend.nn.functional.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
)
from frontend.nn.functional.pooling import (
    avg_pool1d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool3d,
)
from frontend.nn.functional.vision import (
    channel_shuffle,
    native_channel_shuffle,
    pixel_shuffle,
    pixel_unshuffle,
)
from frontend.tensors.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d", "adaptive_max_pool1d", "avg_pool1d", "channel_shuffle", "conv1d",
    "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "max_pool1d", "max_pool1d_with_indices", "max_pool2d", "max_pool3d", "native_channel_shuffle",
    "pixel_shuffle", "pixel_unshuffle",
]  # fmt: skip


def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima of adaptive windows over the last axis, and where they stand: at the top level the
    positions always come along."""
    pair: tuple[Tensor, Tensor] = adaptive_max_pool1d_with_indices(input, output_size)
    return pair
