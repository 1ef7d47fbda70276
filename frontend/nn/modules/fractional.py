"""Fractional max pooling as modules."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.network_draws import drawn_inside
from frontend.nn import functional as F
from frontend.nn.geometry import ints
from frontend.nn.modules.module import Module

__all__ = ["FractionalMaxPool2d", "FractionalMaxPool3d"]


class _FractionalMaxPoolNd(Module):
    """Exactly one of `output_size` and `output_ratio` is given. `_random_samples` [N, C, axes] are
    the draws of every call; by default each makes its own."""

    axes: int

    def __init__(
        self, kernel_size: Any, output_size: Any = None, output_ratio: Any = None,
        return_indices: bool = False, _random_samples: Tensor | None = None,
    ):  # fmt: skip
        super().__init__()
        name, count = type(self).__name__, self.axes
        self.kernel_size = ints(kernel_size, count, "kernel_size")
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{name} requires specifying either an output size, or a pooling ratio"
                if output_size is None
                else "only one of output_size and output_ratio may be specified"
            )
        self.output_size = None if output_size is None else ints(output_size, count, "output_size")
        one = isinstance(output_ratio, int | float)
        self.output_ratio = (output_ratio,) * count if one else output_ratio
        if self.output_ratio is not None and not all(0 < share < 1 for share in self.output_ratio):
            raise ValueError(f"output_ratio must be between 0 and 1 (got {output_ratio})")

    def forward(self, input: Tensor) -> Any:
        samples: Any = self._random_samples
        if samples is None:
            lead = input.shape[: input.dim() - self.axes]
            batch = lead if len(lead) == 2 else (1, *lead)
            samples = drawn_inside((*batch, self.axes), input.dtype)
        pool = F.fractional_max_pool2d if self.axes == 2 else F.fractional_max_pool3d
        options = (self.output_size, self.output_ratio, self.return_indices)
        return pool(input, self.kernel_size, *options, _random_samples=samples)


class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """Maxima over drawn windows of the last two axes: see `F.fractional_max_pool2d`."""

    axes = 2


class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """Maxima over drawn windows of the last three axes: see `F.fractional_max_pool3d`."""

    axes = 3
