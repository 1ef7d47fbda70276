"""`deform_conv2d`: a convolution that reads at offsets of its own (J. Dai et al., "Deformable
Convolutional Networks", 2017; with a mask, X. Zhu et al., "Deformable ConvNets v2", 2018)."""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.dispatch import CONTEXT
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.functions.shape import stack
from graphc.ops.nn.sampling import weighted_rows


def deform_conv2d(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor, stride_h: int,
    stride_w: int, pad_h: int, pad_w: int, dilation_h: int, dilation_w: int, groups: int,
    offset_groups: int, use_mask: bool,
) -> Tensor:  # fmt: skip
    """A convolution of `input` [N, C, H, W] with `weight` [O, C / groups, Kh, Kw], whose tap (i, j)
    at place (y, x) of the result lies `offset` [N, 2 · offset_groups · Kh · Kw, Oh, Ow] (y, then x,
    in pixels) beside its own; between pixels it is interpolated, outside it is 0. With `use_mask`
    it is multiplied by `mask` [N, offset_groups · Kh · Kw, Oh, Ow]. `bias` [O]. Gradients are those
    of all five. Raises RuntimeError for shapes that do not fit."""
    images, channels, height, width = input.shape
    kernel = (weight.shape[2], weight.shape[3])
    places = (offset.shape[2], offset.shape[3])
    _check(input, weight, offset, mask if use_mask else None, groups, offset_groups)
    for size, extent, pad, dilation, taps, stride in zip(
        places, (height, width), (pad_h, pad_w), (dilation_h, dilation_w), kernel,
        (stride_h, stride_w),
    ):  # fmt: skip
        expected = (extent + 2 * pad - (dilation * (taps - 1) + 1)) // stride + 1
        if size != expected:
            raise RuntimeError(
                f"offset output dims: ({places[0]}, {places[1]}) - the convolution gives {expected}"
            )
    shape = (images, offset_groups, *kernel, 2, *places)
    moved_y, moved_x = offset.reshape(shape).unbind(4)
    y = _grid(kernel[0], places[0], stride_h, pad_h, dilation_h, offset)
    x = _grid(kernel[1], places[1], stride_w, pad_w, dilation_w, offset)
    rows = _taps(moved_y + y[:, None, :, None], height)
    columns = _taps(moved_x + x[None, :, None, :], width)
    index = rows[0].unsqueeze(-1) * width + columns[0].unsqueeze(-2)
    weights = rows[1].unsqueeze(-1) * columns[1].unsqueeze(-2)
    if use_mask:
        weights = weights * mask.reshape(*shape[:4], *places)[..., None, None]
    depth = channels // offset_groups
    table = input.reshape(images, offset_groups, depth, height * width)
    table = table.permute(0, 1, 3, 2).reshape(-1, depth)
    own = arange(images * offset_groups).reshape(images, offset_groups, *[1] * 6)
    index = index + own * (height * width)
    (sampled,) = CONTEXT.apply(weighted_rows, (table, index.flatten(6), weights.flatten(6)), {})
    # [N, G, Kh, Kw, Oh, Ow, C / G], to columns in the order of the weight's
    taps = kernel[0] * kernel[1]
    lines = sampled.permute(0, 1, 6, 2, 3, 4, 5).reshape(
        images, groups, channels // groups * taps, places[0] * places[1]
    )
    result = weight.reshape(groups, weight.shape[0] // groups, -1) @ lines
    out: Tensor = result.reshape(images, weight.shape[0], *places) + bias[:, None, None]
    return out


def _check(
    input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor | None, groups: int,
    offset_groups: int,
) -> None:  # fmt: skip
    """Raise RuntimeError where sizes that have to divide each other do not."""
    channels, taps = input.shape[1], weight.shape[2] * weight.shape[3]
    if weight.shape[1] * groups != channels or weight.shape[0] % groups:
        raise RuntimeError(
            f"weight {tuple(weight.shape)} with {groups} groups does not fit input "
            f"{tuple(input.shape)}"
        )
    if channels % offset_groups or offset.shape[1] != 2 * offset_groups * taps:
        raise RuntimeError(
            "offset.shape[1] is not valid: got: "
            f"{offset.shape[1]} expected: {2 * offset_groups * taps}"
        )
    if mask is not None and mask.shape[1] != offset_groups * taps:
        raise RuntimeError(
            f"mask.shape[1] is not valid: got: {mask.shape[1]} expected: {offset_groups * taps}"
        )
    for name, x in (("offset", offset), ("mask", mask)):
        if x is not None and (x.shape[0] != input.shape[0] or x.shape[2:] != offset.shape[2:]):
            raise RuntimeError(f"invalid batch size or output size of {name}: {tuple(x.shape)}")


def _grid(taps: int, places: Any, stride: int, pad: int, dilation: int, like: Tensor) -> Tensor:
    """Where the taps of each place lie without an offset, [taps, places]."""
    at = (arange(taps) * dilation - pad)[:, None] + arange(places) * stride
    return at.to(like.dtype)


def _taps(at: Tensor, extent: Any) -> tuple[Tensor, Tensor]:
    """The two pixels around each place on an axis, and their weights, 0 for a pixel outside: the
    shape of `at`, and 2."""
    low = at.detach().floor()
    part = at - low
    near = low.clamp(-2, extent + 1).long()  # far outside is outside, whatever i64 makes of it
    places = stack([near, near + 1], -1)
    weights = stack([1 - part, part], -1)
    inside = (places >= 0) & (places < extent)
    return where(inside, places, 0), where(inside, weights, 0.0)
