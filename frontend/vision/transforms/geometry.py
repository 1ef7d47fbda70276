"""Where pixels are: sizes, crops, mirrors, turns. Random ones draw from the default generator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn.modules.module import Module
from frontend.vision.transforms import functional
from frontend.vision.transforms.image_types import (
    InterpolationMode,
    drawn,
    drawn_integer,
    get_dimensions,
    interpolation_mode,
    two,
)

__all__ = [
    "CenterCrop", "FiveCrop", "Pad", "RandomCrop", "RandomErasing", "RandomHorizontalFlip",
    "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize", "TenCrop",
]  # fmt: skip


class Resize(Module):
    """Another size: see `functional.resize`."""

    def __init__(
        self, size: Any, interpolation: Any = InterpolationMode.BILINEAR,
        max_size: int | None = None, antialias: bool | None = True,
    ):  # fmt: skip
        super().__init__()
        if not isinstance(size, int | Sequence):
            raise TypeError(f"Size should be int or sequence. Got {type(size)}")
        self.size = size
        self.max_size = max_size
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        return functional.resize(
            img, self.size, self.interpolation, self.max_size, self.antialias
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"Resize(size={self.size}, interpolation={self.interpolation.value}, "
            f"max_size={self.max_size}, antialias={self.antialias})"
        )


class CenterCrop(Module):
    """The middle of an image."""

    def __init__(self, size: Any):
        super().__init__()
        self.size = two(size)

    def forward(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)

    def __repr__(self) -> str:
        return f"CenterCrop(size={self.size})"


class FiveCrop(Module):
    """The corners and the middle, as a tuple."""

    def __init__(self, size: Any):
        super().__init__()
        self.size = two(size)

    def forward(self, img: Any) -> tuple[Any, ...]:
        return functional.five_crop(img, self.size)

    def __repr__(self) -> str:
        return f"FiveCrop(size={self.size})"


class TenCrop(Module):
    """The corners and the middle, of the image and of its mirror image, as a tuple."""

    def __init__(self, size: Any, vertical_flip: bool = False):
        super().__init__()
        self.size = two(size)
        self.vertical_flip = vertical_flip

    def forward(self, img: Any) -> tuple[Any, ...]:
        return functional.ten_crop(img, self.size, self.vertical_flip)

    def __repr__(self) -> str:
        return f"TenCrop(size={self.size}, vertical_flip={self.vertical_flip})"


class Pad(Module):
    """A frame: see `functional.pad`."""

    def __init__(self, padding: Any, fill: Any = 0, padding_mode: str = "constant"):
        super().__init__()
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def forward(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)

    def __repr__(self) -> str:
        return f"Pad(padding={self.padding}, fill={self.fill}, padding_mode={self.padding_mode})"


class RandomCrop(Module):
    """A part of an image, anywhere in it; padded first by `padding`, and with `pad_if_needed` to
    `size`."""

    def __init__(
        self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: Any = 0,
        padding_mode: str = "constant",
    ):  # fmt: skip
        super().__init__()
        self.size = two(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """Top, left, height and width. Raises ValueError where the image is smaller."""
        _, rows, columns = get_dimensions(img)
        height, width = output_size
        if rows < height or columns < width:
            raise ValueError(
                f"Required crop size {(height, width)} is larger than input image size "
                f"{(rows, columns)}"
            )
        top, left = drawn_integer(rows - height + 1), drawn_integer(columns - width + 1)
        return top, left, height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill, self.padding_mode)
        _, rows, columns = get_dimensions(img)
        missing = [max(self.size[1] - columns, 0), max(self.size[0] - rows, 0)]
        if self.pad_if_needed and any(missing):
            img = functional.pad(img, missing, self.fill, self.padding_mode)
        return functional.crop(img, *self.get_params(img, self.size))

    def __repr__(self) -> str:
        return f"RandomCrop(size={self.size}, padding={self.padding})"


class RandomHorizontalFlip(Module):
    """An image mirrored left to right with probability p."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return functional.hflip(img) if drawn() < self.p else img

    def __repr__(self) -> str:
        return f"RandomHorizontalFlip(p={self.p})"


class RandomVerticalFlip(Module):
    """An image mirrored top to bottom with probability p."""

    def __init__(self, p: float = 0.5):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        return functional.vflip(img) if drawn() < self.p else img

    def __repr__(self) -> str:
        return f"RandomVerticalFlip(p={self.p})"


def _drawn_box(
    rows: int, columns: int, scale: Sequence[float], ratio: Sequence[float]
) -> tuple[int, int]:
    """Height and width of a box: its share of the area, and width over height, both drawn."""
    area = rows * columns * drawn(scale[0], scale[1])
    aspect = math.exp(drawn(math.log(ratio[0]), math.log(ratio[1])))
    return round(math.sqrt(area / aspect)), round(math.sqrt(area * aspect))


ATTEMPTS = 10
"""How often a box that does not fit is drawn anew."""


class RandomResizedCrop(Module):
    """A part of an image at another size: it has `scale` of the area, `ratio` is width over height;
    where ten such do not fit, the middle."""

    def __init__(
        self, size: Any, scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR, antialias: bool | None = True,
    ):  # fmt: skip
        super().__init__()
        self.size = two(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation_mode(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width."""
        _, rows, columns = get_dimensions(img)
        for _ in range(ATTEMPTS):
            height, width = _drawn_box(rows, columns, scale, ratio)
            if 0 < width <= columns and 0 < height <= rows:
                top, left = drawn_integer(rows - height + 1), drawn_integer(columns - width + 1)
                return top, left, height, width
        aspect = min(max(columns / rows, min(ratio)), max(ratio))
        height, width = min(rows, round(columns / aspect)), min(columns, round(rows * aspect))
        return (rows - height) // 2, (columns - width) // 2, height, width

    def forward(self, img: Any) -> Any:
        part = self.get_params(img, self.scale, self.ratio)
        return functional.resized_crop(
            img, *part, self.size, self.interpolation, antialias=self.antialias
        )

    def __repr__(self) -> str:
        return (
            f"RandomResizedCrop(size={self.size}, scale={tuple(round(s, 4) for s in self.scale)}, "
            f"ratio={tuple(round(r, 4) for r in self.ratio)}, "
            f"interpolation={self.interpolation.value}, antialias={self.antialias})"
        )


class RandomRotation(Module):
    """An image turned by an angle of -degrees … degrees, or of a range."""

    def __init__(
        self, degrees: Any, interpolation: Any = InterpolationMode.NEAREST, expand: bool = False,
        center: Any = None, fill: Any = 0,
    ):  # fmt: skip
        super().__init__()
        if isinstance(degrees, int | float):
            if degrees < 0:
                raise ValueError("If degrees is a single number, it must be positive.")
            degrees = (-degrees, degrees)
        if len(degrees) != 2:
            raise ValueError("degrees should be a sequence of length 2.")
        self.degrees = [float(d) for d in degrees]
        self.interpolation = interpolation_mode(interpolation)
        self.expand = expand
        self.center = center
        self.fill = fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """The angle."""
        return drawn(float(degrees[0]), float(degrees[1]))

    def forward(self, img: Any) -> Any:
        angle = self.get_params(self.degrees)
        return functional.rotate(
            img, angle, self.interpolation, self.expand, self.center, self.fill
        )  # fmt: skip

    def __repr__(self) -> str:
        return (
            f"RandomRotation(degrees={self.degrees}, interpolation={self.interpolation.value}, "
            f"expand={self.expand}, fill={self.fill})"
        )


class RandomErasing(Module):
    """A tensor image of which, with probability p, a box is filled: with numbers of `value`, or,
    where that is "random", normal ones."""

    def __init__(
        self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3), value: Any = 0, inplace: bool = False,
    ):  # fmt: skip
        super().__init__()
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    def _filling(self, img: Tensor, height: int, width: int) -> Tensor:
        channels = img.shape[-3]
        if self.value == "random":
            return img.new_empty((channels, height, width)).normal_()
        numbers = [self.value] if isinstance(self.value, int | float) else list(self.value)
        if len(numbers) not in (1, channels):
            raise ValueError(
                f"If value is a sequence, it should have either a single value or {channels} "
                "(number of input channels)"
            )
        return img.new_tensor(numbers).reshape(-1, 1, 1)

    def forward(self, img: Tensor) -> Tensor:
        if drawn() >= self.p:
            return img
        rows, columns = img.shape[-2:]
        for _ in range(ATTEMPTS):
            height, width = _drawn_box(rows, columns, self.scale, self.ratio)
            if height < rows and width < columns:
                top, left = drawn_integer(rows - height + 1), drawn_integer(columns - width + 1)
                filling = self._filling(img, height, width)
                return functional.erase(img, top, left, height, width, filling, self.inplace)
        return img

    def __repr__(self) -> str:
        return (
            f"RandomErasing(p={self.p}, scale={self.scale}, ratio={self.ratio}, "
            f"value={self.value}, inplace={self.inplace})"
        )
