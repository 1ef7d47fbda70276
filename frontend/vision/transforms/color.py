"""What pixels show: brightness, colour, sharpness. Random ones draw from the default generator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frontend.functions.random import randperm
from frontend.nn.modules.module import Module
from frontend.vision.transforms import functional
from frontend.vision.transforms.image_types import drawn, get_dimensions, two

__all__ = ["ColorJitter", "GaussianBlur", "Grayscale", "RandomGrayscale"]

Range = tuple[float, float] | None


def _range(value: Any, name: str, middle: float, least: float, most: float) -> Range:
    """The range of a factor, from a width around `middle` or from its ends; None where it is one
    number that changes nothing. Raises ValueError."""
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        value = (max(middle - value, least), middle + value)
    low, high = float(value[0]), float(value[1])
    if not least <= low <= high <= most:
        raise ValueError(f"{name} values should be between ({least}, {most}), but got {value}.")
    return None if low == high == middle else (low, high)


class ColorJitter(Module):
    """Brightness, contrast, saturation and hue by factors drawn from ranges, in any order. A number
    is how far from 1 (hue: from 0) they go."""

    def __init__(
        self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0
    ):  # fmt: skip
        super().__init__()
        infinite = float("inf")
        self.brightness = _range(brightness, "brightness", 1, 0, infinite)
        self.contrast = _range(contrast, "contrast", 1, 0, infinite)
        self.saturation = _range(saturation, "saturation", 1, 0, infinite)
        self.hue = _range(hue, "hue", 0, -0.5, 0.5)

    @staticmethod
    def get_params(
        brightness: Range, contrast: Range, saturation: Range, hue: Range
    ) -> tuple[Any, float | None, float | None, float | None, float | None]:
        """The order (a permutation of four), and the factors, None for what stays."""
        order = randperm(4)
        factors = [
            None if ends is None else drawn(ends[0], ends[1])
            for ends in (brightness, contrast, saturation, hue)
        ]
        return order, factors[0], factors[1], factors[2], factors[3]

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(
            self.brightness, self.contrast, self.saturation, self.hue
        )  # fmt: skip
        adjust = (
            functional.adjust_brightness, functional.adjust_contrast,
            functional.adjust_saturation, functional.adjust_hue,
        )  # fmt: skip
        for which in order.tolist():
            if factors[which] is not None:
                img = adjust[which](img, factors[which])
        return img

    def __repr__(self) -> str:
        return (
            f"ColorJitter(brightness={self.brightness}, contrast={self.contrast}, "
            f"saturation={self.saturation}, hue={self.hue})"
        )


class Grayscale(Module):
    """Luminance in one or three channels."""

    def __init__(self, num_output_channels: int = 1):
        super().__init__()
        self.num_output_channels = num_output_channels

    def forward(self, img: Any) -> Any:
        return functional.rgb_to_grayscale(img, self.num_output_channels)

    def __repr__(self) -> str:
        return f"Grayscale(num_output_channels={self.num_output_channels})"


class RandomGrayscale(Module):
    """Luminance, in as many channels as before, with probability p."""

    def __init__(self, p: float = 0.1):
        super().__init__()
        self.p = p

    def forward(self, img: Any) -> Any:
        if drawn() >= self.p:
            return img
        return functional.rgb_to_grayscale(img, get_dimensions(img)[0])

    def __repr__(self) -> str:
        return f"RandomGrayscale(p={self.p})"


class GaussianBlur(Module):
    """A blurred image: see `functional.gaussian_blur`; the deviation is drawn from a range."""

    def __init__(self, kernel_size: Any, sigma: float | Sequence[float] = (0.1, 2.0)):
        super().__init__()
        self.kernel_size = two(kernel_size, "kernel_size")
        ends = (sigma, sigma) if isinstance(sigma, int | float) else tuple(sigma)
        if len(ends) != 2 or not 0 < ends[0] <= ends[1]:
            raise ValueError(f"sigma values should be positive and of the form (min, max): {sigma}")
        self.sigma = ends

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The deviation."""
        return drawn(sigma_min, sigma_max)

    def forward(self, img: Any) -> Any:
        return functional.gaussian_blur(img, self.kernel_size, self.get_params(*self.sigma))

    def __repr__(self) -> str:
        return f"GaussianBlur(kernel_size={self.kernel_size}, sigma={self.sigma})"
