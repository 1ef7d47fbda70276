"""idx files, and what is refused; transforms of images."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.vision import datasets, transforms

RANDOM = np.random.default_rng(0)
IMAGES = RANDOM.integers(0, 256, (5, 28, 28), dtype=np.uint8)
LABELS = np.array([3, 1, 4, 1, 5], np.uint8)


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return struct.pack(f">HBB{array.ndim}i", 0, kind, array.ndim, *array.shape) + array.tobytes()


def written(folder: Path, images: bytes, labels: bytes, ending: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    pack = gzip.compress if ending else bytes
    (folder / f"train-images-idx3-ubyte{ending}").write_bytes(pack(images))
    (folder / f"train-labels-idx1-ubyte{ending}").write_bytes(pack(labels))
    return folder


@pytest.mark.parametrize("ending", ["", ".gz"])
@pytest.mark.parametrize("inside", ["", "FashionMNIST", "FashionMNIST/raw"])
def test_folders_and_compression(tmp_path: Path, inside: str, ending: str) -> None:
    written(tmp_path / inside, idx(IMAGES), idx(LABELS), ending)
    data = datasets.FashionMNIST(tmp_path)
    assert len(data) == 5 and data.classes[9] == "Ankle boot"
    assert data.data.dtype is torch.uint8 and data.targets.tolist() == [3, 1, 4, 1, 5]
    image, label = data[2]
    assert label == 4 and np.array_equal(np.asarray(image), IMAGES[2])


def test_transforms_are_applied(tmp_path: Path) -> None:
    written(tmp_path, idx(IMAGES), idx(LABELS))
    pipeline = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])
    data = datasets.MNIST(tmp_path, transform=pipeline, target_transform=lambda y: y * 10)
    image, label = data[0]
    assert label == 30 and image.shape == (1, 28, 28)
    expected = (IMAGES[0] / 255 - 0.5) / 0.25
    np.testing.assert_allclose(image[0].numpy(), expected, rtol=1e-4, atol=1e-6)
    loader = torch.utils.data.DataLoader(data, batch_size=2)
    assert [x.shape[0] for x, _ in loader] == [2, 2, 1]


@pytest.mark.parametrize(
    ("images", "labels", "message"),
    [
        (b"", idx(LABELS), "is not an idx file"),
        (b"what is this", idx(LABELS), "is not an idx file"),
        (idx(IMAGES)[:9], idx(LABELS), "cut short in its header"),
        (idx(IMAGES)[:-1], idx(LABELS), "bytes of elements, its header"),
        (idx(IMAGES) + b"x", idx(LABELS), "bytes of elements, its header"),
        (idx(IMAGES), idx(LABELS[:4]), "holds 5 images, .* 4 labels"),
        (idx(LABELS), idx(LABELS), "not images"),
        (idx(IMAGES), idx(IMAGES), "not labels"),
        (struct.pack(">HBB3i", 0, 8, 3, -1, 28, 28), idx(LABELS), "its header"),
    ],
)
def test_damaged_files_are_refused(
    tmp_path: Path, images: bytes, labels: bytes, message: str
) -> None:
    written(tmp_path, images, labels)
    with pytest.raises(RuntimeError, match=message):
        datasets.MNIST(tmp_path)


def test_missing_files_and_downloads(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match=r"Dataset not found.*dataset-fashion-mnist"):
        datasets.FashionMNIST(tmp_path)
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        datasets.FashionMNIST(tmp_path, download=True)
    written(tmp_path, idx(IMAGES), idx(LABELS), ".gz")
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(RuntimeError, match="is damaged"):
        datasets.FashionMNIST(tmp_path)


def test_images_to_tensors() -> None:
    image = RANDOM.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    tensor = transforms.ToTensor()(image)
    assert tensor.shape == (3, 4, 6) and tensor.dtype is torch.float32
    np.testing.assert_array_equal(tensor.numpy(), image.transpose(2, 0, 1) / np.float32(255))
    floats = RANDOM.random((4, 6))
    assert transforms.ToTensor()(floats).dtype is torch.float64
    assert transforms.PILToTensor()(image).dtype is torch.uint8
    with pytest.raises(TypeError, match="PIL Image or ndarray"):
        transforms.ToTensor()(torch.ones(2, 2))
    with pytest.raises(ValueError, match="2/3 dimensional"):
        transforms.ToTensor()(np.ones(3))


def test_normalize() -> None:
    image = torch.ones(2, 3, 3)
    result = transforms.Normalize((0.5, 1.0), (0.5, 2.0))(image)
    assert (
        result[0, 0, 0].item() == 1 and result[1, 0, 0].item() == 0 and image[0, 0, 0].item() == 1
    )
    transforms.Normalize((0.5, 1.0), (0.5, 2.0), inplace=True)(image)
    assert image[1, 2, 2].item() == 0
    with pytest.raises(ValueError, match="std evaluated to zero"):
        transforms.Normalize((0.5,), (0.0,))(image)
    with pytest.raises(TypeError, match="float tensor"):
        transforms.Normalize((0.5,), (1.0,))(torch.ones(1, 2, 2, dtype=torch.int64))


def test_crops_flips_and_frames() -> None:
    image = torch.arange(12.0).reshape(1, 3, 4)
    assert transforms.RandomHorizontalFlip(1.0)(image)[0, 0].tolist() == [3, 2, 1, 0]
    assert transforms.RandomHorizontalFlip(0.0)(image) is image
    assert transforms.CenterCrop((1, 2))(image).tolist() == [[[5, 6]]]
    assert transforms.Pad((1, 0))(image).shape == (1, 3, 6)
    torch.manual_seed(0)
    crop: Any = transforms.RandomCrop(2, padding=1)
    assert crop(image).shape == (1, 2, 2)
    with pytest.raises(ValueError, match="larger than input image"):
        transforms.RandomCrop(9)(image)
