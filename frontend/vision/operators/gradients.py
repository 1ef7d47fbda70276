"""torchvision's operators of gradients by name. Gradients of the operators come with what those are
made of; these say the same to whoever calls them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.eager.gradients import grad as gradients
from frontend.engine.tensors.state import enable_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros
from frontend.functions.pointwise import where
from frontend.functions.ranges import arange
from frontend.vision.operators.deformable import deform_conv2d
from frontend.vision.operators.regions import ps_roi_align, ps_roi_pool, roi_align


def _of_linear(
    gradient: Tensor, shape: tuple[int, ...], operator: Callable[..., Any], *rest: Any
) -> Tensor:
    """The gradient of the images, of `shape`, of an operator that is linear in them."""
    with enable_grad():
        images = zeros(shape, dtype=gradient.dtype).requires_grad_()
        result = operator(images, *rest)
        result = result[0] if isinstance(result, tuple) else result
        (of_images,) = gradients.grad(result, images, gradient)
    return of_images


def _roi_align_backward(
    grad: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int,
    batch_size: int, channels: int, height: int, width: int, sampling_ratio: int, aligned: bool,
) -> Tensor:  # fmt: skip
    """The gradient of `roi_align`'s images [N, C, H, W]."""
    return _of_linear(
        grad, (batch_size, channels, height, width), roi_align, rois, spatial_scale, pooled_height,
        pooled_width, sampling_ratio, aligned,
    )  # fmt: skip


def _ps_roi_align_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, sampling_ratio: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of `ps_roi_align`'s images."""
    return _of_linear(
        grad, (batch_size, channels, height, width), ps_roi_align, rois, spatial_scale,
        pooled_height, pooled_width, sampling_ratio,
    )  # fmt: skip


def _ps_roi_pool_backward(
    grad: Tensor, rois: Tensor, channel_mapping: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of `ps_roi_pool`'s images."""
    return _of_linear(
        grad, (batch_size, channels, height, width), ps_roi_pool, rois, spatial_scale,
        pooled_height, pooled_width,
    )  # fmt: skip


def _roi_pool_backward(
    grad: Tensor, rois: Tensor, argmax: Tensor, spatial_scale: float, pooled_height: int,
    pooled_width: int, batch_size: int, channels: int, height: int, width: int,
) -> Tensor:  # fmt: skip
    """The gradient of `roi_pool`'s images: what each bin got, where its greatest pixel was."""
    planes = rois[:, :1].long() * channels + arange(channels)
    places = planes[:, :, None, None] * (height * width) + argmax.clamp(min=0)
    flat = zeros(batch_size * channels * height * width, dtype=grad.dtype)
    flat = flat.index_add(0, places.reshape(-1), where(argmax >= 0, grad, 0.0).reshape(-1))
    return flat.reshape(batch_size, channels, height, width)


def _deform_conv2d_backward(
    grad: Tensor, input: Tensor, weight: Tensor, offset: Tensor, mask: Tensor, bias: Tensor,
    *rest: Any,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradients of the five tensors of `deform_conv2d`, of its mask zeros without `use_mask`;
    `rest` as there."""
    with enable_grad():
        taken: Any = [x.detach().requires_grad_() for x in (input, weight, offset, mask, bias)]
        result = deform_conv2d(*taken, *rest)
        return tuple(gradients.grad(result, taken, grad, materialize_grads=True))
