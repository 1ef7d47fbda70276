"""Image datasets in idx files, as torchvision's classes of the same names: nothing is downloaded.

Files are looked for in `root/NAME/raw` (torchvision's folders), `root/NAME` and `root` itself,
plain or compressed (.gz). Debian's package dataset-fashion-mnist has those of Fashion-MNIST, in one
folder.
"""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from frontend.engine.tensors.tensor import Tensor, from_data
from frontend.utils.data.dataset import Dataset
from graphc.system import IMPORTING

_ELEMENTS = {8: ">u1", 9: ">i1", 11: ">i2", 12: ">i4", 13: ">f4", 14: ">f8"}


def read_idx(path: Path) -> np.ndarray:
    """The array in an idx file (LeCun's format: two zero bytes, element type, rank, sizes, then the
    elements, all big-endian). Raises RuntimeError for a file that is damaged or something else."""
    try:
        data = path.read_bytes()
        if path.suffix == ".gz":
            data = gzip.decompress(data)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise RuntimeError(f"{path} is damaged: {error}") from error
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] not in _ELEMENTS:
        begin = data[:4].hex() or "nothing"
        raise RuntimeError(f"{path} is not an idx file (it begins with {begin})")
    rank = data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise RuntimeError(f"{path} is cut short in its header")
    shape = struct.unpack(f">{rank}i", data[4:start])
    element = np.dtype(_ELEMENTS[data[2]])
    expected = math.prod(shape) * element.itemsize
    if min(shape, default=0) < 0 or len(data) - start != expected:
        raise RuntimeError(
            f"{path} holds {len(data) - start} bytes of elements, its header {list(shape)} "
            f"asks for {expected}"
        )
    array = np.frombuffer(data, element, offset=start).reshape(shape)
    return array.astype(element.newbyteorder("="))


class MNIST(Dataset):
    """The handwritten digits of MNIST: `data` uint8 [N, 28, 28], `targets` int64 [N].

    An item is (image, label): a PIL image where Pillow is installed, as in torchvision, else a
    uint8 array [28, 28]; `transform` and `target_transform` are applied to them. Raises
    RuntimeError where files are missing, damaged or do not fit, or where `download` is asked.
    """

    classes = [
        "0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six",
        "7 - seven", "8 - eight", "9 - nine",
    ]  # fmt: skip
    source = "the four idx files of MNIST"

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ):
        self.root = root
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        prefix = "train" if train else "t10k"
        images = self._find(f"{prefix}-images-idx3-ubyte", download)
        labels = self._find(f"{prefix}-labels-idx1-ubyte", download)
        pixels, numbers = read_idx(images), read_idx(labels)
        if pixels.dtype != np.uint8 or pixels.ndim != 3:
            raise RuntimeError(f"{images} holds {pixels.dtype}{list(pixels.shape)}, not images")
        if numbers.dtype != np.uint8 or numbers.ndim != 1:
            raise RuntimeError(f"{labels} holds {numbers.dtype}{list(numbers.shape)}, not labels")
        if len(pixels) != len(numbers):
            raise RuntimeError(
                f"{images} holds {len(pixels)} images, {labels} {len(numbers)} labels"
            )
        self.data: Tensor = from_data(pixels, copy=False)
        self.targets: Tensor = from_data(numbers.astype(np.int64), copy=False)

    def _find(self, name: str, download: bool) -> Path:
        root = Path(self.root)
        folders = (self._folder / "raw", self._folder, root)
        for folder in folders:
            for file in (folder / name, folder / f"{name}.gz"):
                if file.is_file():
                    return file
        wanted = ", ".join(map(str, folders))
        asked = "download=True: nothing is downloaded. " if download else ""
        raise RuntimeError(
            f"{asked}Dataset not found: no {name} or {name}.gz in {wanted}. Put {self.source} there"
        )

    @property
    def _folder(self) -> Path:
        return Path(self.root) / type(self).__name__

    @property
    def raw_folder(self) -> str:
        return str(self._folder / "raw")

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        image, label = _image(self.data.numpy()[index]), int(self.targets.numpy()[index])
        if self.transform is not None:
            image = self.transform(image)
        return image, label if self.target_transform is None else self.target_transform(label)

    def __repr__(self) -> str:
        lines = [f"Number of datapoints: {len(self)}", f"Root location: {self.root}"]
        lines.append(f"Split: {'Train' if self.train else 'Test'}")
        return "\n    ".join([f"Dataset {type(self).__name__}", *lines])


class FashionMNIST(MNIST):
    """Fashion-MNIST (Xiao, Rasul, Vollgraf, 2017): clothes in the format of MNIST."""

    classes = [
        "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
        "Ankle boot",
    ]  # fmt: skip
    source = "the four idx files of Fashion-MNIST (Debian's package dataset-fashion-mnist has them)"


class KMNIST(MNIST):
    """Kuzushiji-MNIST (Clanuwat et al., 2018): cursive Japanese in the format of MNIST."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
    source = "the four idx files of KMNIST"


def _image(pixels: np.ndarray) -> Any:
    """A PIL image where Pillow is installed, else the array."""
    try:
        with IMPORTING:
            from PIL import Image  # type: ignore[import-not-found, unused-ignore]
    except ModuleNotFoundError:
        return pixels
    return Image.fromarray(pixels, mode="L")
