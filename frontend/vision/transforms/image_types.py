"""What an image is: a tensor [..., C, H, W], or one of PIL's. Pillow is needed for the latter
alone, and imported when one is met."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.random import randint, uniform


class InterpolationMode(Enum):
    """How pixels between pixels are found. PIL's images take all, tensors the first four."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


PIL_NUMBERS = {
    InterpolationMode.NEAREST: 0, InterpolationMode.LANCZOS: 1, InterpolationMode.BILINEAR: 2,
    InterpolationMode.BICUBIC: 3, InterpolationMode.BOX: 4, InterpolationMode.HAMMING: 5,
    InterpolationMode.NEAREST_EXACT: 0,
}  # fmt: skip
"""`PIL.Image.Resampling` of each."""


def interpolation_mode(mode: Any) -> InterpolationMode:
    """A mode, from one or from Pillow's number. Raises TypeError for others."""
    if isinstance(mode, InterpolationMode):
        return mode
    for known, number in PIL_NUMBERS.items():
        if not isinstance(mode, bool) and mode == number:
            return known
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer "
        f"constant, not {mode!r}"
    )


def pillow(use: str) -> Any:
    """The package PIL. Raises ImportError, naming what it is for, where it is not installed."""
    try:
        for name in ("Image", "ImageEnhance", "ImageOps"):
            import_module(f"PIL.{name}")
    except ModuleNotFoundError as error:
        raise ImportError(f"{use} needs Pillow: pip install pillow") from error
    return import_module("PIL")


def is_pil(img: Any) -> bool:
    """Whether it is an image of PIL's (which is then imported)."""
    return hasattr(img, "getbands") and isinstance(img, pillow("an image").Image.Image)


def need_image(img: Any) -> None:
    """Raises TypeError for what is no image."""
    if isinstance(img, Tensor):
        if img.dim() < 2:
            raise TypeError("Tensor is not a torch image.")
    elif not is_pil(img):
        raise TypeError(f"img should be PIL Image or Tensor. Got {type(img)}")


def get_dimensions(img: Any) -> list[int]:
    """Channels, height and width."""
    need_image(img)
    if isinstance(img, Tensor):
        return [1 if img.dim() == 2 else img.shape[-3], img.shape[-2], img.shape[-1]]
    width, height = img.size
    return [len(img.getbands()), height, width]


def get_image_size(img: Any) -> list[int]:
    """Width and height."""
    return get_dimensions(img)[:0:-1]


def two(size: Any, name: str = "size") -> tuple[int, int]:
    """Height and width from one number or a sequence of one or two. Raises ValueError."""
    if isinstance(size, int | float):
        return int(size), int(size)
    if len(size) not in (1, 2):
        raise ValueError(f"{name} takes one or two numbers, not {len(size)}")
    return int(size[0]), int(size[-1])


# -- chance --------------------------------------------------------------------------------------


def drawn(low: float = 0.0, high: float = 1.0) -> float:
    """A number in [low, high) from the default generator."""
    return float(uniform((), low=low, high=high).item())


def drawn_integer(high: int) -> int:
    """A number of 0 … high - 1 from the default generator."""
    return int(randint(0, high, ()).item())
