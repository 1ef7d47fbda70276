"""Images and tensors into each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.module import Module
from frontend.vision.transforms import functional

__all__ = ["ConvertImageDtype", "Normalize", "PILToTensor", "ToPILImage", "ToTensor"]


class ToTensor:
    """An image [H, W, C] as a float tensor [C, H, W] in [0, 1]: see `functional.to_tensor`."""

    def __call__(self, pic: Any) -> Tensor:
        return functional.to_tensor(pic)

    def __repr__(self) -> str:
        return "ToTensor()"


class PILToTensor:
    """An image [H, W, C] as a tensor [C, H, W] of the same numbers."""

    def __call__(self, pic: Any) -> Tensor:
        return functional.pil_to_tensor(pic)

    def __repr__(self) -> str:
        return "PILToTensor()"


class ToPILImage:
    """A tensor [C, H, W] or an array [H, W, C] as an image of PIL's."""

    def __init__(self, mode: str | None = None):
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return functional.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return "ToPILImage()" if self.mode is None else f"ToPILImage(mode={self.mode})"


class ConvertImageDtype(Module):
    """A tensor image in another dtype, scaled between integers and floats."""

    def __init__(self, dtype: Any):
        super().__init__()
        self.dtype = dtype

    def forward(self, image: Tensor) -> Tensor:
        return functional.convert_image_dtype(image, self.dtype)


class Normalize(Module):
    """(image - mean) / std, per channel."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False):
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def forward(self, tensor: Tensor) -> Tensor:
        return functional.normalize(tensor, self.mean, self.std, self.inplace)

    def __repr__(self) -> str:
        return f"Normalize(mean={self.mean}, std={self.std})"
