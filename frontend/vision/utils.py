"""`frontend.vision.utils`: batches of images to look at."""

from __future__ import annotations

import math
from typing import Any

from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.rearrange import cat, stack
from frontend.vision.transforms.image_types import pillow
from frontend.vision.transforms.pil_images import from_pixels

__all__ = ["make_grid", "save_image"]


def _batch(images: Any) -> Tensor:
    """Images as one tensor [N, C, H, W]; grey ones get three channels."""
    if isinstance(images, list) and all(isinstance(image, Tensor) for image in images):
        images = stack(images, dim=0)
    if not isinstance(images, Tensor):
        raise TypeError(f"tensor or list of tensors expected, got {type(images)}")
    while images.dim() < 4:
        images = images.unsqueeze(0)
    return cat([images] * 3, dim=1) if images.shape[1] == 1 else images


def _scaled(images: Tensor, value_range: tuple[float, float] | None) -> Tensor:
    """Numbers of the range (by default from the least to the greatest) in [0, 1]."""
    low, high = value_range or (float(images.min()), float(images.max()))
    return images.clamp(low, high).sub(low).div(max(high - low, 1e-5))


def make_grid(
    tensor: Any, nrow: int = 8, padding: int = 2, normalize: bool = False,
    value_range: tuple[float, float] | None = None, scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:  # fmt: skip
    """Images [N, C, H, W], or a list of them, as one [C, ·, ·]: `nrow` in a row, `padding` between
    and around them. `normalize` brings `value_range` to [0, 1], of all together or of each
    (`scale_each`). One image stays as it is."""
    images = _batch(tensor)
    if value_range is not None and not isinstance(value_range, tuple):
        raise TypeError("value_range has to be a tuple (min, max) if specified")
    if normalize and scale_each:
        images = stack([_scaled(image, value_range) for image in images])
    elif normalize:
        images = _scaled(images, value_range)
    count, channels, height, width = images.shape
    if count == 1:
        return images.squeeze(0)
    across = min(nrow, count)
    down = math.ceil(count / across)
    height, width = height + padding, width + padding
    grid = images.new_full((channels, height * down + padding, width * across + padding), pad_value)
    for number in range(count):
        top, left = (n * by + padding for n, by in zip(divmod(number, across), (height, width)))
        grid[:, top : top + height - padding, left : left + width - padding] = images[number]
    return grid


@no_grad()
def save_image(tensor: Any, fp: Any, format: str | None = None, **kwargs: Any) -> None:
    """Images with numbers in [0, 1] as a file (a path, or a file with `format`), several as the
    grid that `make_grid(**kwargs)` makes. Raises ImportError without Pillow."""
    pillow("save_image()")
    grid = make_grid(tensor, **kwargs)
    pixels = grid.mul(255).add(0.5).clamp(0, 255).permute(1, 2, 0).numpy().astype("uint8")
    from_pixels(pixels).save(fp, format=format)
