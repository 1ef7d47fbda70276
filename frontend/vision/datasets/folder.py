"""Images in folders, a folder for each class."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from frontend.utils.data.dataset import Dataset
from frontend.vision.transforms.image_types import pillow

__all__ = ["DatasetFolder", "IMG_EXTENSIONS", "ImageFolder", "default_loader", "pil_loader"]

IMG_EXTENSIONS = (
    ".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp",
)  # fmt: skip


def has_file_allowed_extension(filename: str, extensions: str | Sequence[str]) -> bool:
    """Whether a file name ends, in letters of either case, in one of the extensions."""
    endings = extensions if isinstance(extensions, str) else tuple(extensions)
    return filename.lower().endswith(endings)


def is_image_file(filename: str) -> bool:
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def find_classes(directory: Any) -> tuple[list[str], dict[str, int]]:
    """The folders in a folder, in alphabetical order, and their numbers. Raises FileNotFoundError
    where there are none."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError(f"Couldn't find any class folder in {directory}.")
    return classes, {name: number for number, name in enumerate(classes)}


def pil_loader(path: Any) -> Any:
    """The image in a file, in red, green and blue. Needs Pillow."""
    image = pillow("reading images").Image
    with open(path, "rb") as file:
        return image.open(file).convert("RGB")


default_loader = pil_loader


class DatasetFolder(Dataset):
    """The files of `root/CLASS/…` that have one of the extensions, or that `is_valid_file`: an item
    is (what `loader` reads, number of the class), or what the transforms make of them.

    `classes`, `class_to_idx`, `samples` (path, number), `targets` as torchvision has them. Raises
    FileNotFoundError where a class is without files (unless `allow_empty`), ValueError unless one
    of `extensions` and `is_valid_file` is given.
    """

    def __init__(
        self, root: Any, loader: Callable[[str], Any], extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ):  # fmt: skip
        if (extensions is None) == (is_valid_file is None):
            raise ValueError(
                "Both extensions and is_valid_file cannot be None or not None at the same time"
            )
        self.root = root
        self.loader = loader
        self.extensions = extensions
        self.transform = transform
        self.target_transform = target_transform
        self.classes, self.class_to_idx = self.find_classes(root)
        self.samples = self._found(is_valid_file, allow_empty)
        self.targets = [number for _, number in self.samples]

    def find_classes(self, directory: Any) -> tuple[list[str], dict[str, int]]:
        """The classes and their numbers; a subclass may have others."""
        return find_classes(directory)

    def _found(
        self, is_valid: Callable[[str], bool] | None, allow_empty: bool
    ) -> list[tuple[str, int]]:
        extensions = tuple(self.extensions or ())
        valid = is_valid or (lambda path: has_file_allowed_extension(path, extensions))
        samples = []
        for name, number in sorted(self.class_to_idx.items()):
            files = [path for path in _files(os.path.join(self.root, name)) if valid(path)]
            if not files and not allow_empty:
                wanted = f" Supported extensions are: {', '.join(extensions)}" if extensions else ""
                raise FileNotFoundError(f"Found no valid file for the class {name}.{wanted}")
            samples += [(path, number) for path in files]
        return samples

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, label = self.samples[index]
        sample = self.loader(path)
        if self.transform is not None:
            sample = self.transform(sample)
        return sample, label if self.target_transform is None else self.target_transform(label)

    def __len__(self) -> int:
        return len(self.samples)


def _files(folder: str) -> list[str]:
    """All files below a folder, in alphabetical order of folders, then of files."""
    walked = sorted(os.walk(folder, followlinks=True))
    return [os.path.join(path, name) for path, _, names in walked for name in sorted(names)]


class ImageFolder(DatasetFolder):
    """The images of `root/CLASS/…`: see `DatasetFolder`."""

    def __init__(
        self, root: Any, transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = default_loader,
        is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False,
    ):  # fmt: skip
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(
            root, loader, extensions, transform, target_transform, is_valid_file, allow_empty
        )
        self.imgs = self.samples
