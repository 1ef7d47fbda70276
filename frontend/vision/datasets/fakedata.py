"""Images of noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.generator import Generator
from frontend.functions.random import randint, randn
from frontend.utils.data.dataset import Dataset
from frontend.vision.transforms.functional import to_pil_image

__all__ = ["FakeData"]


class FakeData(Dataset):
    """`size` images of noise and labels, always the same for an index: image_size is (C, H, W), an
    item (PIL image, int), or what the transforms make of them. Needs Pillow."""

    def __init__(
        self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224),
        num_classes: int = 10, transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None, random_offset: int = 0,
    ):  # fmt: skip
        self.size = size
        self.image_size = image_size
        self.num_classes = num_classes
        self.transform = transform
        self.target_transform = target_transform
        self.random_offset = random_offset

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        if index >= len(self):
            raise IndexError(f"FakeData index out of range: {index} of {len(self)}")
        generator = Generator()
        generator.manual_seed(index + self.random_offset)
        image = to_pil_image(randn(*self.image_size, generator=generator))
        label: Any = int(randint(0, self.num_classes, (), generator=generator).item())
        if self.transform is not None:
            image = self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)

    def __len__(self) -> int:
        return self.size
