"""Transforms of single images as functions: of tensors [..., C, H, W], and of PIL's images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.vision.transforms import pil_images, tensor_images
from frontend.vision.transforms.image_types import (
    PIL_NUMBERS,
    InterpolationMode,
    get_dimensions,
    get_image_size,
    interpolation_mode,
    need_image,
    two,
)

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_saturation", "center_crop", "convert_image_dtype", "crop", "erase", "five_crop",
    "gaussian_blur", "get_dimensions", "get_image_size", "hflip", "normalize", "pad",
    "pil_to_tensor", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "ten_crop",
    "to_grayscale", "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip

_PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


# -- conversion ----------------------------------------------------------------------------------


def to_tensor(pic: Any) -> Tensor:
    """An image [H, W, C] as a tensor [C, H, W]: of uint8 as numbers in [0, 1] of the default dtype,
    of other types as they are."""
    array = np.ascontiguousarray(pil_images.to_pixels(pic).transpose(2, 0, 1))
    if getattr(pic, "mode", None) == "1":
        array = array.astype(np.uint8) * np.uint8(255)
    if array.dtype != np.uint8:
        return from_data(array, copy=False)
    dtype = STATE.default_dtype.numpy
    return from_data(array.astype(dtype) / dtype.type(255), copy=False)


def pil_to_tensor(pic: Any) -> Tensor:
    """An image [H, W, C] as a tensor [C, H, W] of the same numbers."""
    array = pil_images.to_pixels(pic).transpose(2, 0, 1)
    return from_data(np.array(array, order="C"), copy=False)


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor [C, H, W] or [H, W], or an array [H, W, C] or [H, W], as an image of PIL's; floats
    are those of [0, 1]. Raises TypeError, ValueError for what PIL has no image for."""
    if isinstance(pic, Tensor):
        array = pic.detach().numpy()
        pic = array.transpose(1, 2, 0) if array.ndim == 3 else array
    elif not isinstance(pic, np.ndarray):
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    return pil_images.from_pixels(pic, mode)


def convert_image_dtype(image: Tensor, dtype: Any = None) -> Tensor:
    """Numbers in [0, 1] of floats, in [0, greatest] of integers."""
    if not isinstance(image, Tensor):
        raise TypeError("Input img should be Tensor Image")
    return tensor_images.convert_dtype(image, STATE.default_dtype if dtype is None else dtype)


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
    if not np.asarray(std, tensor.dtype.numpy).all():
        raise ValueError(f"std evaluated to zero after conversion to {tensor.dtype}")
    shift, scale = (_per_channel(x, tensor.dtype) for x in (mean, std))
    return tensor.sub_(shift).div_(scale) if inplace else (tensor - shift) / scale


def _per_channel(numbers: Any, dtype: Any) -> Tensor:
    values = list(numbers) if isinstance(numbers, Sequence | np.ndarray) else [numbers]
    return from_data(values, dtype).reshape(-1, 1, 1)


# -- geometry ------------------------------------------------------------------------------------


def _resized(height: int, width: int, size: Any, longest: int | None) -> list[int]:
    """Height and width where the shorter edge becomes `size`, or both are given."""
    sizes = [size] if isinstance(size, int) else [int(n) for n in size]
    if len(sizes) not in (1, 2):
        raise ValueError(f"Size must be an int or a 1 or 2 element sequence, not {len(sizes)}")
    if len(sizes) == 2:
        if longest is not None:
            raise ValueError("max_size should only be passed if size is that of the shorter edge")
        return sizes
    short, long = sorted((height, width))
    new_short, new_long = sizes[0], int(sizes[0] * long / short)
    if longest is not None and longest <= new_short:
        raise ValueError(f"max_size = {longest} must be strictly greater than size = {size}")
    if longest is not None and new_long > longest:
        new_short, new_long = int(longest * new_short / new_long), longest
    return [new_short, new_long] if height <= width else [new_long, new_short]


def resize(
    img: Any, size: Any, interpolation: Any = InterpolationMode.BILINEAR,
    max_size: int | None = None, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """The image with height and width `size`; of one number, with that as its shorter edge, the
    longer one at most `max_size`. PIL's images are always smoothed (`antialias`)."""
    mode = interpolation_mode(interpolation)
    _, height, width = get_dimensions(img)
    new = _resized(height, width, size, max_size)
    if new == [height, width]:
        return img
    if isinstance(img, Tensor):
        return tensor_images.resize(img, new, mode.value, bool(antialias))
    return pil_images.resize(img, new, PIL_NUMBERS[mode])


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """A frame: one width, (left and right, top and bottom), or (left, top, right, bottom); of
    `fill`, or of the image continued ("edge", "reflect", "symmetric")."""
    need_image(img)
    widths = [padding] if isinstance(padding, int) else list(padding)
    if len(widths) not in (1, 2, 4):
        raise ValueError(f"Padding must be 1, 2 or 4 numbers, not {len(widths)}")
    if padding_mode not in _PADDING_MODES:
        raise ValueError(f"Padding mode should be one of {_PADDING_MODES}, not {padding_mode!r}")
    images = tensor_images if isinstance(img, Tensor) else pil_images
    return images.pad(img, widths * (4 // len(widths)), fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of the image; what lies outside of it is 0."""
    _, rows, columns = get_dimensions(img)
    if not isinstance(img, Tensor):
        return pil_images.crop(img, top, left, height, width)
    outside = [max(-left, 0), max(-top, 0), max(left + width - columns, 0)]
    outside.append(max(top + height - rows, 0))
    part = img[..., max(top, 0) : max(top + height, 0), max(left, 0) : max(left + width, 0)]
    return pad(part, outside) if any(outside) else part


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle of the image, with zeros around it where it is smaller."""
    height, width = two(output_size)
    _, rows, columns = get_dimensions(img)
    across, down = max(width - columns, 0), max(height - rows, 0)
    if across or down:
        img = pad(img, [across // 2, down // 2, (across + 1) // 2, (down + 1) // 2])
        _, rows, columns = get_dimensions(img)
    return crop(img, round((rows - height) / 2), round((columns - width) / 2), height, width)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Any,
    interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """A part of the image at another size."""
    part = crop(img, top, left, height, width)
    return resize(part, size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """The image mirrored left to right."""
    need_image(img)
    return img.flip(-1) if isinstance(img, Tensor) else pil_images.flip(img, False)


def vflip(img: Any) -> Any:
    """The image mirrored top to bottom."""
    need_image(img)
    return img.flip(-2) if isinstance(img, Tensor) else pil_images.flip(img, True)


def five_crop(img: Any, size: Any) -> tuple[Any, ...]:
    """The corners (top left, top right, bottom left, bottom right) and the middle."""
    height, width = two(size)
    _, rows, columns = get_dimensions(img)
    if height > rows or width > columns:
        raise ValueError(
            f"Requested crop size {(height, width)} is bigger than input size {(rows, columns)}"
        )
    corners = [(top, left) for top in (0, rows - height) for left in (0, columns - width)]
    parts = [crop(img, top, left, height, width) for top, left in corners]
    return (*parts, center_crop(img, (height, width)))


def ten_crop(img: Any, size: Any, vertical_flip: bool = False) -> tuple[Any, ...]:
    """The five crops of the image, and those of its mirror image."""
    mirrored = vflip(img) if vertical_flip else hflip(img)
    return five_crop(img, size) + five_crop(mirrored, size)


def rotate(
    img: Any, angle: float, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
    center: Any = None, fill: Any = None,
) -> Any:  # fmt: skip
    """The image turned by `angle` degrees counter-clockwise around `center` (x, y from the top
    left; its middle by default). With `expand` the result is as large as it has to be."""
    mode = interpolation_mode(interpolation)
    channels, height, width = get_dimensions(img)
    if not isinstance(img, Tensor):
        return pil_images.rotate(img, angle, PIL_NUMBERS[mode], expand, center, fill)
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError(f"Interpolation mode {mode.value!r} is unsupported with Tensor input")
    cosine, sine = math.cos(math.radians(angle)), math.sin(math.radians(angle))
    turn = np.array([[cosine, -sine], [sine, cosine]])
    middle = np.array([width / 2, height / 2])
    pivot = np.zeros(2) if center is None else np.array(center) - middle
    matrix = np.column_stack([turn, pivot - turn @ pivot])
    colours = None if fill is None else [fill] if isinstance(fill, int | float) else list(fill)
    if colours is not None and len(colours) not in (1, channels):
        raise ValueError(f"fill has {len(colours)} numbers, the image {channels} channels")
    return tensor_images.transform(img, matrix, mode.value, expand, colours)


def erase(
    img: Tensor, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False
) -> Tensor:  # fmt: skip
    """The tensor image with `v` (a number, or a tensor that fits) at rows i … i + h, columns
    j … j + w."""
    if not isinstance(img, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(img)}")
    result = img if inplace else img.clone()
    result[..., i : i + h, j : j + w] = v
    return result


# -- colour --------------------------------------------------------------------------------------


def _not_negative(factor: float, name: str) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """0 is black, 1 the image, 2 twice as bright."""
    need_image(img)
    _not_negative(brightness_factor, "brightness_factor")
    if not isinstance(img, Tensor):
        return pil_images.enhance(img, "Brightness", brightness_factor)
    return tensor_images.blended(img, img.new_zeros(()), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """0 is grey, 1 the image."""
    need_image(img)
    _not_negative(contrast_factor, "contrast_factor")
    if not isinstance(img, Tensor):
        return pil_images.enhance(img, "Contrast", contrast_factor)
    return tensor_images.blended(img, tensor_images.mean_of_grey(img), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """0 is without colour, 1 the image."""
    need_image(img)
    _not_negative(saturation_factor, "saturation_factor")
    if not isinstance(img, Tensor):
        return pil_images.enhance(img, "Color", saturation_factor)
    if img.shape[-3] == 1:
        return img
    return tensor_images.blended(img, tensor_images.grey(img), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Hues turned by -0.5 … 0.5 of the circle."""
    need_image(img)
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not isinstance(img, Tensor):
        return pil_images.shift_hue(img, hue_factor)
    if img.shape[-3] == 1:
        return img
    floats = tensor_images.convert_dtype(img, img.dtype if img.is_floating_point() else "float32")
    return tensor_images.convert_dtype(tensor_images.shift_hue(floats, hue_factor), img.dtype)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain · image ** gamma, with brightness in [0, 1]."""
    need_image(img)
    _not_negative(gamma, "gamma")
    if not isinstance(img, Tensor):
        return pil_images.gamma(img, gamma, gain)
    floats = tensor_images.convert_dtype(img, img.dtype if img.is_floating_point() else "float32")
    return tensor_images.convert_dtype((gain * floats**gamma).clamp(0, 1), img.dtype)


def rgb_to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Luminance in one or three channels."""
    need_image(img)
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    images = tensor_images if isinstance(img, Tensor) else pil_images
    return images.grey(img, num_output_channels)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Luminance of an image of PIL's in one or three channels."""
    if isinstance(img, Tensor):
        raise TypeError("Input should be PIL Image")
    return rgb_to_grayscale(img, num_output_channels)


def gaussian_blur(img: Any, kernel_size: Any, sigma: Any = None) -> Any:
    """Each pixel is a mean of those around it, weighted by a Gaussian: odd sizes and deviations,
    one number or (across, down). By default the deviation is 0.15 · size + 0.35."""
    need_image(img)
    sizes = two(kernel_size, "kernel_size")
    if min(sizes) < 1 or not all(size % 2 for size in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    spreads = [size * 0.15 + 0.35 for size in sizes] if sigma is None else sigma
    sigmas = (
        [float(spreads)] * 2 if isinstance(spreads, int | float) else [float(s) for s in spreads]
    )
    sigmas = sigmas * 2 if len(sigmas) == 1 else sigmas
    if len(sigmas) != 2 or min(sigmas) <= 0:
        raise ValueError(f"sigma should be one or two positive numbers. Got {sigma}")
    if isinstance(img, Tensor):
        return tensor_images.gaussian_blur(img, sizes, sigmas)
    return to_pil_image(tensor_images.gaussian_blur(pil_to_tensor(img), sizes, sigmas), img.mode)
