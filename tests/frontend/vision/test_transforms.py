"""Transforms against NumPy, random ones, folders and made-up images; with and without Pillow.
(Beside torchvision: tests/zoo/test_vision.py.)"""

from __future__ import annotations

import math
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend as torch
from frontend.vision import datasets, transforms, utils
from frontend.vision.transforms import functional as F

RANDOM = np.random.default_rng(0)
IMAGE = torch.from_numpy(RANDOM.integers(0, 256, (3, 12, 16), dtype=np.uint8))
needs_pillow = pytest.mark.skipif(find_spec("PIL") is None, reason="Pillow is not installed")


def test_resize_takes_the_shorter_edge() -> None:
    assert F.resize(IMAGE, 6).shape == (3, 6, 8)
    assert F.resize(IMAGE.transpose(1, 2), [6], max_size=7).shape == (3, 7, 5)
    halves = IMAGE.double().reshape(3, 6, 2, 8, 2).mean((2, 4))
    halved = F.resize(IMAGE.double(), [6, 8], antialias=False)
    np.testing.assert_allclose(halved.numpy(), halves.numpy(), rtol=1e-12)
    with pytest.raises(ValueError, match="strictly greater"):
        F.resize(IMAGE, 6, max_size=6)


def test_turns_of_a_right_angle_are_exact() -> None:
    expected = np.rot90(IMAGE.numpy(), axes=(1, 2))
    assert np.array_equal(F.rotate(IMAGE, 90, expand=True).numpy(), expected)
    around = F.rotate(IMAGE, 180, center=[8, 6]).numpy()
    assert np.array_equal(around, IMAGE.numpy()[:, ::-1, ::-1])


def test_hues_turn_around_the_circle() -> None:
    red, green, blue = np.eye(3, dtype=np.float32)[:, :, None, None]
    turned = F.adjust_hue(torch.from_numpy(red), 1 / 3).numpy()
    np.testing.assert_allclose(turned, green, atol=1e-6)
    turned = F.adjust_hue(torch.from_numpy(red), -1 / 3).numpy()
    np.testing.assert_allclose(turned, blue, atol=1e-6)
    with pytest.raises(ValueError, match=r"\[-0.5, 0.5\]"):
        F.adjust_hue(IMAGE, 0.6)


def test_a_blur_is_a_product_of_two_gaussians() -> None:
    image = RANDOM.random((1, 9, 11))
    weights = [math.exp(-0.5 * (n / 1.5) ** 2) for n in range(-2, 3)]
    kernel = np.outer(weights, weights) / sum(weights) ** 2
    framed = np.pad(image[0], 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(framed, (5, 5))
    blurred = F.gaussian_blur(torch.from_numpy(image), 5, 1.5)[0].numpy()
    np.testing.assert_allclose(blurred, (windows * kernel).sum((2, 3)), rtol=1e-12)


def test_random_transforms_stay_in_bounds() -> None:
    torch.manual_seed(0)
    for _ in range(20):
        top, left, height, width = transforms.RandomResizedCrop.get_params(
            IMAGE, (0.1, 1), (0.5, 2)
        )
        assert 0 <= top <= 12 - height and 0 <= left <= 16 - width and height > 0 and width > 0
    assert transforms.RandomResizedCrop.get_params(IMAGE, (9, 9), (1, 1)) == (0, 2, 12, 12)
    chain = transforms.Compose([
        transforms.RandomApply([transforms.ColorJitter(0.4, 0.4, 0.4, 0.1)], p=1.0),
        transforms.RandomRotation(10, fill=3), transforms.RandomGrayscale(1.0),
        transforms.GaussianBlur(3), transforms.RandomCrop(20, pad_if_needed=True),
        transforms.RandomOrder([transforms.RandomVerticalFlip(), transforms.Pad(1)]),
        transforms.RandomChoice([transforms.CenterCrop(8), transforms.Resize((8, 8))]),
        transforms.ConvertImageDtype(torch.float32), transforms.RandomErasing(1.0, value="random"),
    ])  # fmt: skip
    assert chain(IMAGE).shape == (3, 8, 8) and "RandomErasing(p=1.0" in repr(chain)
    erased = transforms.RandomErasing(1.0, (0.2, 0.3), value=[1, 2, 3])(IMAGE.float() + 9)
    for channel, number in zip(erased, (1, 2, 3)):
        assert 0 < int((channel == number).sum()) < 12 * 16
    same = transforms.Compose(
        [transforms.RandomHorizontalFlip(0), transforms.RandomVerticalFlip(0)]
    )
    assert same(IMAGE) is IMAGE


def test_a_transform_is_a_module_that_compiles() -> None:
    chain = torch.nn.Sequential(
        transforms.CenterCrop(8), transforms.Normalize([0.5] * 3, [2.0] * 3)
    )
    image = IMAGE.float()
    np.testing.assert_array_equal(torch.compile(chain)(image).numpy(), chain(image).numpy())


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (
            lambda: F.resize(IMAGE, [1, 2, 3]),
            ValueError,
            "Size must be an int or a 1 or 2 element sequence, not 3",
        ),
        (
            lambda: F.resize(IMAGE, 4, "bilinear"),
            TypeError,
            "Argument interpolation should be a InterpolationMode",
        ),
        (
            lambda: F.rotate(IMAGE, 3, F.InterpolationMode.BICUBIC),
            ValueError,
            "Interpolation mode 'bicubic' is unsupported",
        ),
        (lambda: F.pad(IMAGE, [1, 2, 3]), ValueError, "Padding must be 1, 2 or 4 numbers, not 3"),
        (
            lambda: F.pad(IMAGE, 1, padding_mode="around"),
            ValueError,
            "Padding mode should be one of",
        ),
        (
            lambda: F.gaussian_blur(IMAGE, 4),
            ValueError,
            "kernel_size should have odd and positive integers",
        ),
        (lambda: F.adjust_contrast(IMAGE, -1), ValueError, "is not non-negative"),
        (lambda: F.hflip("image"), TypeError, "img should be PIL Image or Tensor"),
        (lambda: transforms.RandomCrop(99)(IMAGE), ValueError, "is larger than input image size"),
        (lambda: transforms.ColorJitter(hue=0.7), ValueError, "hue values should be between"),
        (lambda: utils.make_grid("images"), TypeError, "tensor or list of tensors expected"),
        (
            lambda: datasets.DatasetFolder(".", open),
            ValueError,
            "Both extensions and is_valid_file cannot be None",
        ),
    ],
)
def test_what_is_refused(call: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_without_pillow_tensors_work(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, name, None)
    assert F.center_crop(F.hflip(IMAGE), 4).shape == (3, 4, 4)
    with pytest.raises(ImportError, match="pip install pillow"):
        utils.save_image(IMAGE.float(), "nowhere.png")


def test_grids() -> None:
    grid = utils.make_grid([torch.full((1, 2, 3), float(n)) for n in range(3)], nrow=2, padding=1)
    assert grid.shape == (3, 7, 9)
    assert grid[0, :, 1].tolist() == [0, 0, 0, 0, 2, 2, 0]
    assert grid[2, 1].tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 0]


@needs_pillow
def test_folders_of_images(tmp_path: Path) -> None:
    for name, value in (("b/deep/1.png", 10), ("a/0.PNG", 20), ("a/2.png", 30)):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        utils.save_image(torch.full((3, 4, 5), value / 255), path, format="png")
    (tmp_path / "a" / "notes.txt").write_text("no image")
    data = datasets.ImageFolder(tmp_path, transform=transforms.PILToTensor())
    assert data.classes == ["a", "b"] and data.targets == [0, 0, 1]
    assert [(int(image.max()), label) for image, label in data] == [(20, 0), (30, 0), (10, 1)]
    (tmp_path / "c").mkdir()
    with pytest.raises(FileNotFoundError, match="no valid file for the class c"):
        datasets.ImageFolder(tmp_path)


@needs_pillow
def test_made_up_images_are_the_same_each_time() -> None:
    data = datasets.FakeData(3, (3, 8, 8), num_classes=5, transform=transforms.ToTensor())
    state = torch.get_rng_state()
    image, label = data[1]
    assert torch.equal(image, data[1][0]) and 0 <= label < 5 and image.shape == (3, 8, 8)
    assert torch.equal(torch.get_rng_state(), state) and not torch.equal(image, data[2][0])
    with pytest.raises(IndexError, match="index out of range: 3 of 3"):
        data[3]
