"""Images read between their pixels: Resize, Upsample, grids."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import Numbers, onnx_op
from frontend.onnx.importing.errors import OnnxNotHere
from frontend.onnx.importing.ops.shapes import is_number


@onnx_op("Resize", 11)
def resize(
    x: Tensor, roi: Numbers | None = None, scales: Numbers | None = None,
    sizes: Numbers | None = None, *, antialias: int = 0, axes: Any = None,
    coordinate_transformation_mode: str = "half_pixel", cubic_coeff_a: float = -0.75,
    exclude_outside: int = 0, extrapolation_value: float = 0.0,
    keep_aspect_ratio_policy: str = "stretch", mode: str = "nearest",
    nearest_mode: str = "round_prefer_floor",
) -> Any:  # fmt: skip
    """Axis by axis: each result is a sum of elements near its place."""
    over = [axis % x.dim() for axis in (range(x.dim()) if axes is None else axes)]
    out, by = _extents(x, over, scales, sizes, keep_aspect_ratio_policy)
    kernel = _Kernel(mode, nearest_mode, cubic_coeff_a, bool(exclude_outside))
    beyond: list[tuple[int, Tensor]] = []
    for i, axis in enumerate(over):
        ends = (roi[i], roi[i + len(over)]) if roi else (0.0, 1.0)
        cropped = coordinate_transformation_mode == "tf_crop_and_resize"
        same = type(by[i]) in (int, float) and by[i] == 1 and type(out[i]) is type(x.shape[axis])
        if same and not cropped and out[i] == x.shape[axis]:
            continue
        size = x.shape[axis]
        places = _places(coordinate_transformation_mode, out[i], size, by[i], ends)
        if cropped:
            beyond.append((axis, (places < 0) | (places > size - 1)))
        if antialias and mode != "nearest" and by[i] < 1:
            x = kernel.smoothed(x, axis, places, float(by[i]))
        else:
            x = kernel.read(x, axis, places)
    for axis, outside in beyond:
        shape = [1] * x.dim()
        shape[axis] = -1
        x = torch.where(outside.reshape(shape), extrapolation_value, x)
    return x


def _extents(
    x: Tensor, axes: list[int], scales: Any, sizes: Any, policy: str
) -> tuple[list[Any], list[Any]]:
    """The results' sizes, and by what they are larger."""
    if sizes:
        by = [size / x.shape[axis] for size, axis in zip(sizes, axes)]
        if policy == "stretch":
            return list(sizes), by
        one = (min if policy == "not_larger" else max)(by)
        return [math.floor(one * x.shape[axis] + 0.5) for axis in axes], [one] * len(by)
    out = []
    for scale, axis in zip(scales, axes):
        size = x.shape[axis]
        whole = float(scale).is_integer()
        out.append(size * int(scale) if whole else math.floor(size * scale))
    return out, list(scales)


def _places(mode: str, out: Any, size: Any, by: Any, ends: tuple[float, float]) -> Tensor:
    """Where along an axis each result lies, counted in the operand's elements, f64."""
    at = torch.arange(out, dtype=torch.float64)
    single = is_number(out, 1)
    if mode == "asymmetric":
        return at / by
    if mode == "half_pixel" or (mode == "pytorch_half_pixel" and not single):
        return (at + 0.5) / by - 0.5
    if mode == "pytorch_half_pixel":
        return at * 0
    if mode == "align_corners":
        return at * 0 if single else at * ((size - 1) / (by * size - 1))
    if mode == "half_pixel_symmetric":
        adjusted = out / (by * size)
        return size / 2 * (1 - adjusted) + (at + 0.5) / by - 0.5
    if mode == "tf_crop_and_resize":
        start, end = ends
        if single:
            return at * 0 + 0.5 * (start + end) * (size - 1)
        return at * ((end - start) * (size - 1) / (out - 1)) + start * (size - 1)
    raise OnnxNotHere(f"coordinate_transformation_mode {mode!r}")


class _Kernel:
    """How elements near a place make its value."""

    def __init__(self, mode: str, nearest: str, cubic: float, excludes: bool):
        if mode not in ("nearest", "linear", "cubic"):
            raise OnnxNotHere(f"mode {mode!r}")
        self.mode, self.nearest, self.cubic, self.excludes = mode, nearest, cubic, excludes

    def read(self, x: Tensor, axis: int, places: Tensor) -> Tensor:
        last = x.shape[axis] - 1
        if self.mode == "nearest":
            return x.index_select(axis, self._nearest(places).clamp(0, last).long())
        low = places.floor()
        part = places - low
        taps = self._taps(low, part)
        if self.excludes:
            taps = [(at, w * ((at >= 0) & (at <= last)).double()) for at, w in taps]
            total = sum(w for _, w in taps)
            taps = [(at, w / total) for at, w in taps]
        shape = [1] * x.dim()
        shape[axis] = -1
        read = [
            x.index_select(axis, at.clamp(0, last).long()) * w.to(x.dtype).reshape(shape)
            for at, w in taps
        ]
        return sum(read[1:], read[0])

    def _nearest(self, places: Tensor) -> Tensor:
        if self.nearest == "floor":
            return places.floor()
        if self.nearest == "ceil":
            return places.ceil()
        if self.nearest == "round_prefer_ceil":
            return (places + 0.5).floor()
        return (places - 0.5).ceil()

    def _taps(self, low: Tensor, part: Tensor) -> list[tuple[Tensor, Tensor]]:
        if self.mode == "linear":
            return [(low, 1 - part), (low + 1, part)]
        a = self.cubic

        def near(d: Tensor) -> Any:
            return ((a + 2) * d - (a + 3)) * d * d + 1

        def far(d: Tensor) -> Any:
            return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a

        return [
            (low - 1, far(part + 1)), (low, near(part)), (low + 1, near(1 - part)),
            (low + 2, far(2 - part)),
        ]  # fmt: skip

    def smoothed(self, x: Tensor, axis: int, places: Tensor, by: float) -> Tensor:
        """With the kernel stretched over as many elements as one result stands for."""
        size = int(x.shape[axis])
        centres = places.detach().numpy().reshape(-1, 1)
        reach = 2 if self.mode == "cubic" else 1
        margin = math.ceil(reach / by) + 1
        at = np.arange(-margin, size + margin)
        distance = np.abs(at - centres) * by
        a = self.cubic
        if self.mode == "linear":
            weights = np.maximum(0.0, 1.0 - distance)
        else:
            d = distance
            near = ((a + 2) * d - (a + 3)) * d * d + 1
            far = ((a * d - 5 * a) * d + 8 * a) * d - 4 * a
            weights = np.where(d <= 1, near, np.where(d < 2, far, 0.0))
        if self.excludes:
            weights = weights * ((at >= 0) & (at < size))
        weights = weights / weights.sum(1, keepdims=True)
        matrix = np.zeros((len(centres), size))
        np.add.at(matrix.T, np.clip(at, 0, size - 1), weights.T)
        return (x.movedim(axis, -1) @ torch.tensor(matrix).to(x.dtype).t()).movedim(-1, axis)


@onnx_op("Resize", 10)
def resize_before_11(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Any:
    return _upsampled(x, scales, mode)


@onnx_op("Upsample")
def upsample(x: Tensor, scales: Numbers, *, mode: str = "nearest") -> Any:
    return _upsampled(x, scales, mode)


def _upsampled(x: Tensor, scales: Any, mode: str) -> Any:
    mode = "linear" if mode == "bilinear" else mode
    return resize(
        x, None, scales, mode=mode, coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )  # fmt: skip


_MODES = {"bilinear": "bilinear", "linear": "bilinear", "nearest": "nearest", "cubic": "bicubic",
          "bicubic": "bicubic"}  # fmt: skip


@onnx_op("GridSample")
def grid_sample(
    x: Tensor, grid: Tensor, *, align_corners: int = 0, mode: str = "linear",
    padding_mode: str = "zeros",
) -> Any:  # fmt: skip
    return F.grid_sample(x, grid, _MODES[mode], padding_mode, bool(align_corners))


@onnx_op("AffineGrid")
def affine_grid(theta: Tensor, size: Numbers, *, align_corners: int = 0) -> Any:
    return F.affine_grid(theta, size, align_corners=bool(align_corners))
