"""Images read at positions that are data: `grid_sample`, and the positions of an affine map.

Positions run from -1 to 1 over the image: between the centres of its outermost elements with
`align_corners`, else between their outer edges. The last coordinate of a position counts rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import from_numpy, zeros
from frontend.functions.declarations import public
from frontend.nn.checks import c_name, fail, require_float, sizes
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType
from graphc.ops.nn.resampling import CUBIC


@public(at="nn.functional", autocast="float32")
def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """`input` [N, C, H, W] at `grid` [N, *, *, 2] of positions (x, y): [N, C, *, *]. Three spatial
    axes likewise, with positions (x, y, z).

    `mode` is "bilinear", "nearest" or "bicubic" (two axes); what lies outside is 0 ("zeros"), the
    nearest element ("border") or mirrored ("reflection"). Raises ValueError, ShapeError, DTypeError
    or AttributeValueError.
    """
    _check_modes(mode, padding_mode)
    if align_corners is None:
        _warn_of_default("grid_sample")
    _check_operands(input, grid, mode)
    count = input.ndim - 2
    extents = input.shape[2:]
    # Per spatial axis of the input: x runs along the last.
    unit = [grid[..., count - 1 - axis] for axis in range(count)]
    places = [_unnormalised(u, n, bool(align_corners)) for u, n in zip(unit, extents)]
    reader = _GridReader(input, grid.shape[1:-1], padding_mode, bool(align_corners))
    if mode == "nearest":
        read = reader.element([p.round() for p in map(reader.inside, places, extents)])
        # The positions take part in the result, with gradient 0.
        never = zeros(1, dtype=DType.bool)
        return unit[0].unsqueeze(1).where(never, read)
    if mode == "bilinear":
        return reader.weighted(
            [_linear_taps(p) for p in map(reader.inside, places, extents)], folded=True
        )
    return reader.weighted([_cubic_taps(p) for p in places], folded=False)


Taps = list[tuple[Tensor, Tensor]]  # along one axis: positions (whole numbers, float) and weights


def _unnormalised(unit: Tensor, extent: int, align_corners: bool) -> Tensor:
    if align_corners:
        return (unit + 1) * ((extent - 1) / 2)
    return ((unit + 1) * extent - 1) * 0.5


def _linear_taps(place: Tensor) -> Taps:
    low = place.floor().detach()
    part = place - low
    return [(low, 1 - part), (low + 1, part)]


def _cubic_taps(place: Tensor) -> Taps:
    first = place.floor().detach()
    part = place - first

    def near(d: Tensor) -> Tensor:
        return ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1

    def far(d: Tensor) -> Tensor:
        return ((CUBIC * d - 5 * CUBIC) * d + 8 * CUBIC) * d - 4 * CUBIC

    weights = [far(part + 1), near(part), near(1 - part), far(2 - part)]
    return [(first + offset, w) for offset, w in zip(range(-1, 3), weights)]


class _GridReader:
    """Reads an image at whole positions, given per axis as float tensors [N, *out]."""

    def __init__(self, x: Tensor, out: Sequence[int], padding_mode: str, align_corners: bool):
        self.extents = x.shape[2:]
        self.lead = x.shape[:2]
        self.out = tuple(out)
        self.flat = x.reshape(*self.lead, math.prod(self.extents))
        self.padding_mode = padding_mode
        self.align_corners = align_corners

    def inside(self, place: Tensor, extent: int) -> Tensor:
        """A position brought into the image, as `padding_mode` says."""
        if self.padding_mode == "zeros":
            return place
        if self.padding_mode == "reflection":
            low, span = (0.0, extent - 1.0) if self.align_corners else (-0.5, float(extent))
            place = _reflected(place, low, span)
        return place.clamp(0, extent - 1)

    def element(self, places: list[Tensor]) -> Tensor:
        """[N, C, *out]: the elements at `places`, 0 outside of the image."""
        index: Any = 0
        held = None
        for place, extent in zip(places, self.extents):
            index = index * extent + place.clamp(0, extent - 1).detach().to(DType.i64)
            if self.padding_mode == "zeros":
                inside = (place >= 0).logical_and(place <= extent - 1)
                held = inside if held is None else held.logical_and(inside)
        count = math.prod(self.out)
        spread = index.reshape(self.lead[0], 1, count).expand(*self.lead, count)
        read = self.flat.gather(2, spread).reshape(*self.lead, *self.out)
        return read if held is None else read.where(held.unsqueeze(1), 0.0)

    def weighted(self, axes: list[Taps], folded: bool) -> Tensor:
        """The sum over all combinations of taps; `folded`: their positions are in the image."""
        total: Any = None
        for taps in np.ndindex(*map(len, axes)):
            chosen = [axis[tap] for axis, tap in zip(axes, taps)]
            places = [place for place, _ in chosen]
            if not folded:
                places = [self.inside(p, n) for p, n in zip(places, self.extents)]
                places = [p.floor() for p in places]
            weight = math.prod([w for _, w in chosen[1:]], start=chosen[0][1])
            part = self.element(places) * weight.unsqueeze(1)
            total = part if total is None else total + part
        return total


def _reflected(place: Tensor, low: float, span: float) -> Tensor:
    """Mirrored at `low` and `low + span` as often as it takes."""
    if span == 0:
        return place * 0
    distance = (place - low).abs()
    flips = (distance / span).floor().detach()
    rest = distance - flips * span
    even = flips - (flips * 0.5).floor() * 2 == 0
    return rest.where(even, span - rest) + low


def _check_modes(mode: str, padding_mode: str) -> None:
    if mode not in ("bilinear", "nearest", "bicubic"):
        raise ValueError(
            "nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', "
            f"but got: '{mode}'"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or "
            f"'reflection', but got: '{padding_mode}'"
        )


def _check_operands(x: Tensor, grid: Tensor, mode: str) -> None:
    shown = f"input with sizes {sizes(x)} and grid with sizes {sizes(grid)}"
    if x.ndim not in (4, 5) or grid.ndim != x.ndim:
        raise fail(
            ShapeError,
            "grid_sampler(): expected 4D or 5D input and grid with same number of dimensions, but "
            f"got {shown}",
        )
    if x.shape[0] != grid.shape[0]:
        raise fail(
            ShapeError,
            f"grid_sampler(): expected grid and input to have same batch size, but got {shown}",
        )
    if grid.shape[-1] != x.ndim - 2:
        raise fail(
            ShapeError,
            f"grid_sampler(): expected grid to have size {x.ndim - 2} in last dimension, but got "
            f"grid with sizes {sizes(grid)}",
        )
    if 0 in x.shape[2:]:
        raise fail(
            ShapeError,
            "grid_sampler(): expected input to have non-empty spatial dimensions, but input has "
            f"sizes {sizes(x)}",
        )
    if mode == "bicubic" and x.ndim != 4:
        raise fail(
            AttributeValueError, "grid_sampler(): bicubic interpolation only supports 4D input"
        )
    if x.dtype != grid.dtype:
        raise fail(
            DTypeError,
            "grid_sampler(): expected input and grid to have same dtype, but input has "
            f"{c_name(x)} and grid has {c_name(grid)}",
        )
    require_float(x, "grid_sampler")


def _warn_of_default(name: str) -> None:
    warnings.warn(
        f"Default {name} behavior has align_corners=False since 1.3.0. Specify align_corners=True "
        "if the old behavior is desired.",
        stacklevel=asked_from(3),
    )


# -- affine maps ---------------------------------------------------------------------------------


@public(at="nn.functional")
def affine_grid(theta: Tensor, size: Sequence[int], align_corners: bool | None = None) -> Tensor:
    """The positions [N, H, W, 2] that `theta` [N, 2, 3] maps those of an image of `size`
    (N, C, H, W) to; with three axes [N, D, H, W, 3] by [N, 3, 4]. Raises ValueError or
    NotImplementedError."""
    if not theta.dtype.is_float:
        raise ValueError(f"Expected theta to have floating point type, but got {theta.dtype}")
    wanted = tuple(number.__index__() for number in size)
    if len(wanted) not in (4, 5):
        raise NotImplementedError(
            "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, "
            f"respectively. Got size {wanted}."
        )
    count = len(wanted) - 2
    if theta.ndim != 3 or tuple(theta.shape[1:]) != (count, count + 1):
        raise ValueError(
            f"Expected a batch of {count}D affine matrices of shape Nx{count}x{count + 1} for "
            f"size {wanted}. Got {theta.shape}."
        )
    if align_corners is None:
        _warn_of_default("affine_grid")
    if min(wanted) <= 0:
        raise ValueError(f"Expected non-zero, positive output size. Got {wanted}")
    if theta.shape[0] != wanted[0]:
        raise fail(ShapeError, f"affine_grid: {theta.shape[0]} matrices for a batch of {wanted[0]}")
    base = from_numpy(_base_grid(wanted[2:], bool(align_corners), theta.dtype.numpy))
    mapped = base.unsqueeze(0) @ theta.transpose(1, 2)
    return mapped.reshape(wanted[0], *wanted[2:], count)


def _base_grid(extents: tuple[int, ...], align_corners: bool, dtype: Any) -> Any:
    """[positions, axes + 1]: (x, y, …, 1) of every element, row by row."""
    lines = []
    for extent in extents:
        line = np.linspace(-1.0, 1.0, extent) if extent > 1 else np.zeros(1)
        lines.append(line if align_corners else line * (extent - 1) / extent)
    grids = np.meshgrid(*lines, indexing="ij")[::-1]
    flat = [grid.reshape(-1) for grid in (*grids, np.ones(extents))]
    return np.stack(flat, axis=1).astype(dtype)
