"""Images of PIL's: what `functional` does with them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor
from frontend.vision.transforms.image_types import pillow

GREY_MODES = ("L", "1", "I", "F")
_CHANNEL_MODES = {2: ("LA",), 3: ("RGB", "YCbCr", "HSV"), 4: ("RGBA", "CMYK", "RGBX")}
_ONE_CHANNEL = {"uint8": "L", "int16": "I;16", "int32": "I", "float32": "F"}


def from_pixels(pixels: np.ndarray, mode: str | None = None) -> Any:
    """An image from an array [H, W] or [H, W, C]; floats are those of [0, 1]. Raises ValueError for
    other shapes, or a mode that does not fit, TypeError for dtypes that PIL does not have."""
    if pixels.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {pixels.ndim} dimensions.")
    channels = 1 if pixels.ndim == 2 else pixels.shape[-1]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if np.issubdtype(pixels.dtype, np.floating) and mode != "F":
        pixels = (pixels * 255).astype(np.uint8)
    if channels == 1:
        pixels = pixels.reshape(pixels.shape[:2])
    permitted = _CHANNEL_MODES.get(channels, (_ONE_CHANNEL.get(str(pixels.dtype)),))
    if permitted[0] is None or (channels > 1 and pixels.dtype != np.uint8):
        raise TypeError(f"Input type {pixels.dtype} is not supported")
    if mode is not None and mode not in permitted:
        raise ValueError(f"Incorrect mode ({mode}): {channels} channels are one of {permitted}")
    chosen = mode or permitted[0]
    size = (pixels.shape[1], pixels.shape[0])
    image = pillow("an image").Image
    return image.frombuffer(chosen, size, np.ascontiguousarray(pixels).data, "raw", chosen, 0, 1)


def to_pixels(pic: Any) -> np.ndarray:
    """An image (array [H, W] or [H, W, C], or PIL's) as an array [H, W, C]."""
    if isinstance(pic, Tensor) or not hasattr(pic, "__array_interface__"):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    array = np.asarray(pic)
    if array.ndim not in (2, 3):
        raise ValueError(f"pic should be 2/3 dimensional. Got {array.ndim} dimensions.")
    return array[:, :, None] if array.ndim == 2 else array


def _filling(img: Any, fill: Any) -> Any:
    """The colour of a frame, as PIL takes it for this image."""
    bands = len(img.getbands())
    values = list(fill) if isinstance(fill, Sequence) else [0 if fill is None else fill]
    if len(values) not in (1, bands):
        raise ValueError(
            f"The number of elements in 'fill' does not match the number of channels of the image "
            f"({len(values)} != {bands})"
        )
    values = values * bands if len(values) == 1 else values
    if img.mode != "F":
        values = [int(value) for value in values]
    return values[0] if bands == 1 else tuple(values)


def resize(img: Any, size: Sequence[int], number: int) -> Any:
    return img.resize(tuple(size)[::-1], number)


def pad(img: Any, sides: Sequence[int], fill: Any, mode: str) -> Any:
    """A frame: left, top, right, bottom."""
    if mode == "constant":
        expand = pillow("an image").ImageOps.expand
        return expand(img, border=tuple(sides), fill=_filling(img, fill))
    left, top, right, bottom = sides
    pixels = np.asarray(img)
    around = [(top, bottom), (left, right)] + [(0, 0)] * (pixels.ndim - 2)
    return from_pixels(np.pad(pixels, around, mode=mode), img.mode)  # type: ignore[call-overload]


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    return img.crop((left, top, left + width, top + height))


def flip(img: Any, upright: bool) -> Any:
    ways = pillow("an image").Image.Transpose
    return img.transpose(ways.FLIP_TOP_BOTTOM if upright else ways.FLIP_LEFT_RIGHT)


def rotate(img: Any, angle: float, number: int, expand: bool, center: Any, fill: Any) -> Any:
    return img.rotate(angle, number, expand, center, fillcolor=_filling(img, fill))


def enhance(img: Any, kind: str, factor: float) -> Any:
    """`kind` Brightness, Contrast or Color of PIL's ImageEnhance."""
    return getattr(pillow("an image").ImageEnhance, kind)(img).enhance(factor)


def shift_hue(img: Any, by: float) -> Any:
    if img.mode in GREY_MODES:
        return img
    hue, saturation, value = img.convert("HSV").split()
    shifted = (np.asarray(hue).astype(np.int32) + int(by * 255)).astype(np.uint8)
    parts = (from_pixels(shifted, "L"), saturation, value)
    return pillow("an image").Image.merge("HSV", parts).convert(img.mode)


def gamma(img: Any, power: float, gain: float) -> Any:
    table = [min(int((256 - 1e-3) * gain * (n / 255.0) ** power), 255) for n in range(256)]
    return img.convert("RGB").point(table * 3).convert(img.mode)


def grey(img: Any, channels: int) -> Any:
    """Luminance in one or three channels."""
    shades = img.convert("L")
    if channels == 1:
        return shades
    return pillow("an image").Image.merge("RGB", (shades,) * 3)
