"""Resizing images and sequences: [N, C, *size] to [N, C, *new size], one axis after the other."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.nn.checks import fail, require_float, sizes
from frontend.nn.functional.adaptive import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
)
from frontend.nn.functional.antialiasing import antialiased
from frontend.nn.geometry import by
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import ShapeError
from graphc.ir.types import DType
from graphc.ops.nn import resampling

_RULES = {
    "nearest": "nearest", "nearest-exact": "nearest_exact", "linear": "linear",
    "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic",
}  # fmt: skip
_RANKS = {"linear": 3, "bilinear": 4, "bicubic": 4, "trilinear": 5}
_AREA = (adaptive_avg_pool1d, adaptive_avg_pool2d, adaptive_avg_pool3d)


@public(at="nn.functional")
def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """`input` [N, C, *size] resized to `size`, or by `scale_factor` rounded down; one number each,
    or one per axis.

    `mode` is "nearest", "nearest-exact", "area", "linear" (3-d), "bilinear", "bicubic" (4-d) or
    "trilinear" (5-d). With `align_corners` the centres of the outermost elements are mapped onto
    each other, otherwise their outer edges. Positions come from the given `scale_factor`, or with
    `recompute_scale_factor` from the sizes. With `antialias` ("bilinear" and "bicubic") an element
    is the weighted mean of all it covers, as Pillow resizes. Raises ValueError, NotImplementedError
    or ShapeError.
    """
    new, scales = _sizes(input, size, scale_factor, recompute_scale_factor)
    _check_mode(input, mode, align_corners, antialias)
    old = input.shape[2:]
    if min((*old, *new)) < 1 or input.shape[1] < 1:
        raise fail(
            ShapeError,
            f"Input and output sizes should be greater than 0, but got input {sizes(input)} and "
            f"output ({by(new)})",
        )
    if mode == "area":
        return _AREA[input.ndim - 3](input, new)
    if input.dtype is DType.u8 and mode in ("nearest", "nearest-exact"):
        # Images of bytes: their elements are picked, so a float holds them exactly.
        floats = interpolate(input.float(), size, scale_factor, mode, None, recompute_scale_factor)
        return floats.to(input.dtype)
    require_float(input, f"upsample_{mode}")
    if antialias:
        return antialiased(input, new, scales, mode, bool(align_corners))
    rule = _RULES[mode] + ("_aligned" if align_corners else "")
    result = input
    for axis in reversed(range(len(new))):
        geometry = old[axis], new[axis], _step(old[axis], new[axis], scales[axis], align_corners)
        if resampling.repeats(rule, *geometry, input.dtype) != 1:
            attributes = {"axis": axis + 2, "size": geometry[1], "rule": rule, "step": geometry[2]}
            result = resampling.resample(result, **attributes)
    return input.clone() if result is input else result


def _step(old: int, new: int, scale: float | None, align_corners: bool | None) -> float:
    """How far apart neighbours of the result lie in the input."""
    if align_corners:
        return (old - 1) / (new - 1) if new > 1 else 0.0
    return 1.0 / scale if scale is not None and scale > 0 else old / new


def _sizes(
    x: Tensor, size: Any, scale_factor: Any, recompute: bool | None
) -> tuple[tuple[int, ...], tuple[float | None, ...]]:
    """The new size, and the scales that positions are computed with, where they count."""
    if size is None and scale_factor is None:
        raise ValueError("either size or scale_factor should be defined")
    if size is not None and scale_factor is not None:
        raise ValueError("only one of size or scale_factor should be defined")
    count = x.ndim - 2
    if size is not None:
        if recompute:
            raise ValueError("recompute_scale_factor is not meaningful with an explicit size.")
        entries = _per_axis(x, size, "output size", "output size in (o1, o2, ...,oK)")
        if not all(hasattr(item, "__index__") for item in entries):
            raise TypeError(f"expected size to be one of int or Tuple of ints, but got {size!r}")
        return tuple(item.__index__() for item in entries), (None,) * count
    entries = _per_axis(x, scale_factor, "scale_factor", "scale_factor in (s1, s2, ...,sK)")
    scales = tuple(float(scale) for scale in entries)
    new = tuple(math.floor(n * scale) for n, scale in zip(x.shape[2:], scales))
    return new, (None,) * count if recompute else scales


def _per_axis(x: Tensor, value: Any, what: str, form: str) -> tuple[Any, ...]:
    count = x.ndim - 2
    if not isinstance(value, list | tuple):
        return (value,) * count
    if len(value) != count:
        shape = "of" if what == "output size" else "of shape"
        raise ValueError(
            "Input and output must have the same number of spatial dimensions, but got input with "
            f"spatial dimensions of {list(x.shape[2:])} and {what} {shape} {tuple(value)}. Please "
            f"provide input tensor in (N, C, d1, d2, ...,dK) format and {form} format."
        )
    return tuple(value)


def _check_mode(x: Tensor, mode: str, align_corners: bool | None, antialias: bool) -> None:
    if align_corners is not None and mode not in _RANKS:
        raise ValueError(
            "align_corners option can only be set with the interpolating modes: linear | bilinear "
            "| bicubic | trilinear"
        )
    if antialias and (mode not in ("bilinear", "bicubic") or x.ndim != 4):
        raise ValueError(
            "Anti-alias option is restricted to bilinear and bicubic modes and requires a 4-D "
            "tensor as input"
        )
    if x.ndim not in (3, 4, 5) or mode not in (*_RULES, "area"):
        raise NotImplementedError(
            f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {x.ndim}D) for the "
            f"modes: {' | '.join((*_RULES, 'area'))} (got {mode})"
        )
    if _RANKS.get(mode, x.ndim) != x.ndim:
        raise NotImplementedError(
            f"Got {x.ndim}D input, but {mode} mode needs {_RANKS[mode]}D input"
        )


# -- older names ---------------------------------------------------------------------------------


@public(at="nn.functional")
def upsample(
    input: Tensor, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:  # fmt: skip
    """`interpolate`, deprecated by PyTorch."""
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


@public(at="nn.functional")
def upsample_nearest(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None
) -> Tensor:
    """`interpolate(mode="nearest")`, deprecated by PyTorch."""
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


@public(at="nn.functional")
def upsample_bilinear(
    input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None
) -> Tensor:
    """`interpolate(mode="bilinear", align_corners=True)`, deprecated by PyTorch."""
    _deprecated("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(old: str, new: str) -> None:
    warnings.warn(
        f"`nn.functional.{old}` is deprecated. Use `nn.functional.{new}` instead.",
        stacklevel=asked_from(3),
    )
