"""`frontend.vision.transforms`: what happens to an image before it is batched.

Random transforms draw from the default generator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from frontend.functions.random import randint, uniform
from frontend.tensors.tensor import Tensor
from frontend.vision.transforms import functional

__all__ = [
    "CenterCrop", "Compose", "ConvertImageDtype", "Lambda", "Normalize", "PILToTensor", "Pad",
    "RandomCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "ToTensor", "functional",
]  # fmt: skip


class Compose:
    """One transform after the other."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]):
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for transform in self.transforms:
            img = transform(img)
        return img

    def __repr__(self) -> str:
        return "Compose(\n" + "".join(f"    {t}\n" for t in self.transforms) + ")"


class _Transform:
    """A transform with its arguments in its text."""

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={value}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({shown})"


class ToTensor(_Transform):
    """An image [H, W, C] as a float tensor [C, H, W] in [0, 1]: see `functional.to_tensor`."""

    def __call__(self, pic: Any) -> Tensor:
        return functional.to_tensor(pic)


class PILToTensor(_Transform):
    """An image [H, W, C] as a tensor [C, H, W] of the same numbers."""

    def __call__(self, pic: Any) -> Tensor:
        return functional.pil_to_tensor(pic)


class ConvertImageDtype(_Transform):
    """A tensor image in another dtype, scaled between uint8 and floats."""

    def __init__(self, dtype: Any):
        self.dtype = dtype

    def __call__(self, image: Tensor) -> Tensor:
        return functional.convert_image_dtype(image, self.dtype)


class Normalize(_Transform):
    """(image - mean) / std, per channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False):
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def __call__(self, tensor: Tensor) -> Tensor:
        return functional.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"


class Lambda(_Transform):
    """A function as a transform."""

    def __init__(self, lambd: Callable[[Any], Any]):
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return "Lambda()"


class RandomHorizontalFlip(_Transform):
    """A tensor image mirrored left to right with probability p."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, img: Tensor) -> Tensor:
        return functional.hflip(img) if uniform(()).item() < self.p else img


class RandomVerticalFlip(_Transform):
    """A tensor image mirrored top to bottom with probability p."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def __call__(self, img: Tensor) -> Tensor:
        return functional.vflip(img) if uniform(()).item() < self.p else img


class Pad(_Transform):
    """A tensor image with a frame: see `functional.pad`."""

    def __init__(self, padding: Any, fill: float = 0):
        self.padding = padding
        self.fill = fill

    def __call__(self, img: Tensor) -> Tensor:
        return functional.pad(img, self.padding, self.fill)


class CenterCrop(_Transform):
    """The middle of a tensor image."""

    def __init__(self, size: Any):
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, img: Tensor) -> Tensor:
        return functional.center_crop(img, self.size)


class RandomCrop(_Transform):
    """A part of a tensor image, anywhere in it (padded first)."""

    def __init__(self, size: Any, padding: Any = None, fill: float = 0):
        self.size = (size, size) if isinstance(size, int) else tuple(size)
        self.padding = padding
        self.fill = fill

    def __call__(self, img: Tensor) -> Tensor:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill)
        height, width = self.size
        room = (img.shape[-2] - height, img.shape[-1] - width)
        if min(room) < 0:
            raise ValueError(
                f"Required crop size {self.size} is larger than input image size "
                f"{tuple(img.shape[-2:])}"
            )
        top, left = (randint(0, free + 1, ()).item() for free in room)
        return functional.crop(img, top, left, height, width)
