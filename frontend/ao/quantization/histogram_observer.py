"""The observer that chooses a range by a histogram of all numbers seen: one that leaves outliers
out where that makes quantization's squared error less.

It reads what tensors hold, so it calibrates in eager mode: in a compiled function it is refused.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontend.ao.quantization.observer import UniformQuantizationObserverBase
from frontend.engine.tensors.absent_dtypes import quint8
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full, tensor, zeros
from frontend.functions.order import bucketize
from frontend.functions.order_statistics import bincount, histc
from frontend.functions.ranges import linspace
from frontend.functions.repeating import repeat_interleave
from graphc.ir.types import DType

Floats = NDArray[np.float32]
STEP = 1e-5
"""The part of all numbers by which the search moves an end of the range."""
FINER = 16
"""Parts of a bin that are moved to bins of another range apart."""
LEVELS = 256


class HistogramObserver(UniformQuantizationObserverBase):
    """A histogram of `bins` between the least and the greatest number seen. `calculate_qparams`
    takes, of the ranges that leave the fewest numbers out at either end in turn, the first before
    the error rises. Raises NotImplementedError for schemes of channels."""

    histogram: Tensor

    def __init__(self, bins: int = 2048, dtype: Any = quint8, **kwargs: Any) -> None:
        if kwargs.get("is_dynamic", False):
            raise NotImplementedError("HistogramObserver doesn't support dynamic quantization")
        self.__dict__["bins"] = bins
        super().__init__(dtype, **kwargs)

    def _reset(self) -> None:
        self.register_buffer("histogram", zeros(self.bins))
        super()._reset()

    def forward(self, x_orig: Tensor) -> Tensor:
        x = x_orig.detach().to(DType.f32).reshape(-1)
        finite = x[~x.isinf()]
        if finite.numel():
            self._see(finite)
        return x_orig

    def _see(self, x: Tensor) -> None:
        kept = float(self.min_val), float(self.max_val)
        first = math.inf in kept or -math.inf in kept
        least, most = float(x.min()), float(x.max())
        if not first:
            least, most = min(least, kept[0]), max(most, kept[1])
        new = histc(x, self.bins, min=least, max=most)
        if not first:
            new = new + self._moved(kept, (least, most))
        self.histogram.copy_(new)
        self.min_val.copy_(full((), least))
        self.max_val.copy_(full((), most))

    def _moved(self, kept: tuple[float, float], range: tuple[float, float]) -> Tensor:
        """The histogram over another range, which holds its own: bins are moved in parts, each to
        the bin that its middle is in."""
        if kept == range:
            return self.histogram
        if kept[0] == kept[1]:
            one = histc(full((1,), kept[0]), self.bins, min=range[0], max=range[1])
            return one * self.histogram.sum()
        count = self.bins * FINER
        parts = repeat_interleave(self.histogram, FINER) / FINER
        size = (tensor(kept[1]) - tensor(kept[0])) / count
        middles = linspace(*kept, count + 1)[:-1] + 0.5 * size
        places = bucketize(middles, linspace(*range, self.bins + 1), right=True) - 1
        moved = bincount(places.clamp(0, self.bins - 1), weights=parts, minlength=self.bins)
        return moved.to(DType.f32)

    def calculate_qparams(self) -> Any:
        if float(self.min_val) > float(self.max_val):
            return self._calculate_qparams(self.min_val, self.max_val)
        width = (self.max_val - self.min_val) / self.bins
        first, last = _search(self.histogram.numpy(), float(self.max_val) - float(self.min_val))
        return self._calculate_qparams(
            self.min_val + width * first, self.min_val + width * (last + 1)
        )


def _search(histogram: Floats, span: float) -> tuple[int, int]:
    """The first and the last bin of the range to quantize."""
    total, sums = float(histogram.sum()), np.cumsum(histogram, dtype=np.float64)
    below: list[float] = sums.astype(np.float32).tolist()
    width = span / len(histogram)
    low, high, least = 0.0, 1.0, math.inf
    first, last = 0, len(histogram) - 1
    while low < high:
        next_low, next_high = low + STEP, high - STEP
        left, right = first, last
        while left < last and below[left] < next_low * total:
            left += 1
        while right > first and below[right] > next_high * total:
            right -= 1
        if left - first > last - right:
            low, moved = next_low, (left, last)
        else:
            high, moved = next_high, (first, right)
        if moved == (first, last):
            continue
        error = _error(histogram, width, *moved)
        if error > least:
            break
        least, (first, last) = error, moved
    return first, last


def _error(histogram: Floats, width: float, first: int, last: int) -> float:
    """The squared error of a range of bins that is quantized: each bin's numbers spread evenly,
    those outside go to the nearest end."""
    level = width * (last - first + 1) / LEVELS
    if level == 0.0:
        return 0.0
    f32 = np.float32
    begin = (np.arange(len(histogram)) - first).astype(f32) * f32(width)
    end = begin + f32(width)
    own, others = (
        np.clip(np.floor(each / f32(level)), 0, LEVELS - 1).astype(f32) for each in (begin, end)
    )
    density = histogram / f32(width)
    half = f32(level / 2)
    error = density * _cubes(begin - (own + f32(0.5)) * f32(level), half)
    error += (others - own - 1) * (density * _cubes(-half, half))
    error += density * _cubes(-half, end - (others * f32(level) + half))
    return float(error.sum())


def _cubes(begin: Any, end: Any) -> Any:
    """∫ x² from begin to end."""
    return (end * end * end - begin * begin * begin) / np.float32(3)


default_histogram_observer = HistogramObserver.with_args(quant_min=0, quant_max=127)
