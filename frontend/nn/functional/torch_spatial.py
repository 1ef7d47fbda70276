"""Layers over windows and images that PyTorch also shows at the top level."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.nn.functional.adaptive import adaptive_max_pool1d_with_indices


@public()
def adaptive_max_pool1d(input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Maxima of adaptive windows over the last axis, and where they stand: at the top level the
    positions always come along."""
    pair: tuple[Tensor, Tensor] = adaptive_max_pool1d_with_indices(input, output_size)
    return pair
