"""Transforms of single images as functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.functions.shape import padded
from frontend.tensors.dtypes import as_dtype
from frontend.tensors.state import STATE
from frontend.tensors.tensor import Tensor, from_data


def _pixels(image: Any, name: str) -> np.ndarray:
    """An image (array [H, W] or [H, W, C], or PIL's) as an array [H, W, C]."""
    if isinstance(image, Tensor):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(image)} in {name}")
    if not isinstance(image, np.ndarray):
        if not hasattr(image, "__array_interface__"):
            raise TypeError(f"pic should be PIL Image or ndarray. Got {type(image)}")
        image = np.asarray(image)
    if image.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {image.ndim} dimensions.")
    return image[:, :, None] if image.ndim == 2 else image


def to_tensor(pic: Any) -> Tensor:
    """An image [H, W, C] as a tensor [C, H, W]: of uint8 as numbers in [0, 1] of the default dtype,
    of other types as they are."""
    array = np.ascontiguousarray(_pixels(pic, "to_tensor").transpose(2, 0, 1))
    if array.dtype != np.uint8:
        return from_data(array, copy=False)
    dtype = STATE.default_dtype.numpy
    return from_data(array.astype(dtype) / dtype.type(255), copy=False)


def pil_to_tensor(pic: Any) -> Tensor:
    """An image [H, W, C] as a tensor [C, H, W] of the same numbers."""
    array = _pixels(pic, "pil_to_tensor").transpose(2, 0, 1)
    return from_data(np.array(array, order="C"), copy=False)


def convert_image_dtype(image: Tensor, dtype: Any = None) -> Tensor:
    """uint8 images to floats in [0, 1] and back; floats to floats."""
    kind = STATE.default_dtype if dtype is None else as_dtype(dtype)
    if image.dtype is kind:
        return image
    if image.dtype.is_float:
        return image.to(kind) if kind.is_float else (image * 255.999).to(kind)
    return image.to(kind) / 255 if kind.is_float else image.to(kind)


def normalize(
    tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """(image - mean) / std per channel of a float tensor [..., C, H, W]. Raises TypeError,
    ValueError."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"Input tensor should be a torch tensor. Got {type(tensor)}.")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.dim() < 3:
        raise ValueError(
            f"Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{tensor.size()}"
        )
    shift, scale = (from_data(list(x), tensor.dtype).reshape(-1, 1, 1) for x in (mean, std))
    if (scale._array("normalize()") == 0).any():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}")
    return tensor.sub_(shift).div_(scale) if inplace else (tensor - shift) / scale


def hflip(img: Tensor) -> Tensor:
    """A tensor image mirrored left to right."""
    return img.flip(-1)


def vflip(img: Tensor) -> Tensor:
    """A tensor image mirrored top to bottom."""
    return img.flip(-2)


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A part of a tensor image."""
    return img[..., top : top + height, left : left + width]


def pad(img: Tensor, padding: Any, fill: float = 0) -> Tensor:
    """A tensor image with a frame: one width, (left and right, top and bottom), or (left, top,
    right, bottom)."""
    widths = [padding] if isinstance(padding, int) else list(padding)
    if len(widths) not in (1, 2, 4):
        raise ValueError(f"padding takes 1, 2 or 4 numbers, not {len(widths)}")
    left, top, right, bottom = widths * (4 // len(widths))
    around = [(0, 0)] * (img.dim() - 2) + [(top, bottom), (left, right)]
    return padded(img, around, fill)


def center_crop(img: Tensor, output_size: Any) -> Tensor:
    """The middle of a tensor image."""
    height, width = (output_size,) * 2 if isinstance(output_size, int) else output_size
    top = round((img.shape[-2] - height) / 2.0)
    left = round((img.shape[-1] - width) / 2.0)
    if top < 0 or left < 0:
        raise ValueError(f"cannot crop {height}x{width} out of {list(img.shape[-2:])}")
    return crop(img, top, left, height, width)
