"""The frontend's transforms beside torchvision's, where that and PyTorch are installed."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

MISSING = [name for name in ("torch", "torchvision", "PIL") if find_spec(name) is None]
if MISSING:
    pytest.skip(f"not installed: {', '.join(MISSING)}", allow_module_level=True)
# See worker.py: torchvision's wheel beside another PyTorch than its own.
_STUB = "torchvision._meta_registrations"
sys.modules.setdefault(_STUB, types.ModuleType(_STUB))

import torch  # noqa: E402
import torchvision.transforms as theirs  # noqa: E402
import torchvision.utils  # noqa: E402
from PIL import Image  # noqa: E402

import frontend  # noqa: E402
from frontend.vision import transforms as ours  # noqa: E402
from frontend.vision import utils  # noqa: E402

RANDOM = np.random.default_rng(0)
BYTES = RANDOM.integers(0, 256, (3, 37, 50), dtype=np.uint8)
FLOATS = RANDOM.random((2, 3, 20, 31), dtype=np.float32)
GREY = RANDOM.integers(0, 256, (1, 20, 30), dtype=np.uint8)

Call = Callable[[Any, Any], Any]  # (the functions, an image)
CASES: dict[str, Call] = {
    "resize to a size": lambda f, x: f.resize(x, [25, 21]),
    "resize the shorter edge": lambda f, x: f.resize(x, 13),
    "resize up": lambda f, x: f.resize(x, [71, 60], f.InterpolationMode.BICUBIC),
    "resize at most": lambda f, x: f.resize(x, [10], max_size=12),
    "resize nearest": lambda f, x: f.resize(x, [25, 61], f.InterpolationMode.NEAREST),
    "crop": lambda f, x: f.crop(x, 3, 4, 10, 11),
    "crop outside": lambda f, x: f.crop(x, -3, 4, 30, 51),
    "center crop": lambda f, x: f.center_crop(x, [11, 14]),
    "center crop larger": lambda f, x: f.center_crop(x, [60, 15]),
    "resized crop": lambda f, x: f.resized_crop(x, 2, 3, 12, 14, [8, 8]),
    "five crops": lambda f, x: f.five_crop(x, 9),
    "ten crops": lambda f, x: f.ten_crop(x, [9, 8], vertical_flip=True),
    "pad": lambda f, x: f.pad(x, [1, 2, 3, 4], fill=7),
    "pad two": lambda f, x: f.pad(x, [1, 2]),
    "pad edge": lambda f, x: f.pad(x, [3], padding_mode="edge"),
    "pad reflect": lambda f, x: f.pad(x, [5, 3], padding_mode="reflect"),
    "pad symmetric": lambda f, x: f.pad(x, [5, 3, 0, 2], padding_mode="symmetric"),
    "hflip": lambda f, x: f.hflip(x),
    "vflip": lambda f, x: f.vflip(x),
    "rotate": lambda f, x: f.rotate(x, 33.0),
    "rotate smoothly": lambda f, x: f.rotate(x, -70.0, f.InterpolationMode.BILINEAR),
    "rotate around": lambda f, x: f.rotate(x, 20.0, center=[3, 5]),
    "rotate expanding": lambda f, x: f.rotate(x, 50.0, expand=True, fill=[9]),
    "brightness": lambda f, x: f.adjust_brightness(x, 1.7),
    "contrast": lambda f, x: f.adjust_contrast(x, 0.6),
    "saturation": lambda f, x: f.adjust_saturation(x, 1.9),
    "hue": lambda f, x: f.adjust_hue(x, 0.3),
    "hue back": lambda f, x: f.adjust_hue(x, -0.4),
    "gamma": lambda f, x: f.adjust_gamma(x, 1.8, 0.9),
    "grey": lambda f, x: f.rgb_to_grayscale(x, 3),
    "blur": lambda f, x: f.gaussian_blur(x, [5, 3], [1.1, 0.7]),
    "blur by size": lambda f, x: f.gaussian_blur(x, 7),
}
ONE_APART = ("resize", "rotate smoothly", "hue", "gamma", "blur", "contrast")
"""What rounds, to bytes: a sum in another order may be on the other side."""
IMAGES = {"bytes": BYTES, "floats": FLOATS, "grey": GREY}


def arrays(value: Any) -> list[np.ndarray]:
    if isinstance(value, tuple | list):
        return [array for each in value for array in arrays(each)]
    return [np.asarray(value).astype(np.float64)]


def compare(actual: Any, expected: Any, name: str, integers: bool) -> None:
    tolerance = 1.0 if integers and name.startswith(ONE_APART) else 2e-5
    actual, expected = arrays(actual), arrays(expected)
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected):
        np.testing.assert_allclose(one, other, rtol=0, atol=tolerance)


@pytest.mark.parametrize("kind", IMAGES)
@pytest.mark.parametrize("name", CASES)
def test_tensor_images(name: str, kind: str) -> None:
    if (name, kind) == ("grey", "grey"):
        pytest.skip("torchvision gives one channel where its documentation says three")
    call, image = CASES[name], IMAGES[kind]
    expected = call(theirs.functional, torch.from_numpy(image))
    actual = call(ours.functional, frontend.from_numpy(image.copy()))
    compare(actual, expected, name, image.dtype == np.uint8)


@pytest.mark.parametrize("kind", ["bytes", "grey"])
@pytest.mark.parametrize("name", CASES)
def test_images_of_pil(name: str, kind: str) -> None:
    pixels = IMAGES[kind].transpose(1, 2, 0).squeeze()
    results = []
    for functions in (ours.functional, theirs.functional):
        result = CASES[name](functions, Image.fromarray(pixels))
        results.append([(x.mode, x) for x in (result if isinstance(result, tuple) else (result,))])
    assert [mode for mode, _ in results[0]] == [mode for mode, _ in results[1]]
    compare(*([x for _, x in each] for each in results), name, True)


@pytest.mark.parametrize("mode", ["RGB", "L", "1", "RGBA", "LA", "I", "F", "CMYK"])
def test_conversions(mode: str) -> None:
    image = Image.fromarray(BYTES.transpose(1, 2, 0)).convert(mode)
    for name in ("to_tensor", "pil_to_tensor"):
        actual = getattr(ours.functional, name)(image)
        expected = getattr(theirs.functional, name)(image)
        assert str(actual.dtype) == str(expected.dtype)
        compare(actual, expected, name, False)
    if mode != "1":
        back = ours.functional.to_pil_image(ours.functional.pil_to_tensor(image), mode)
        assert back.mode == mode and back.tobytes() == image.tobytes()


@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32", "float32", "float64"])
def test_dtypes_of_images(dtype: str) -> None:
    for image in (BYTES, FLOATS, BYTES.astype(np.int32) * 999):
        actual = ours.functional.convert_image_dtype(
            frontend.from_numpy(image.copy()), getattr(frontend, dtype)
        )
        if not (image is FLOATS and dtype == "int32"):  # which torchvision refuses
            expected = theirs.functional.convert_image_dtype(
                torch.from_numpy(image), getattr(torch, dtype)
            )
            compare(actual, expected, "dtype", False)


def test_grids_and_files(tmp_path: Any) -> None:
    images = RANDOM.standard_normal((5, 1, 6, 7), dtype=np.float32)
    for options in (
        {"nrow": 2}, {"normalize": True, "padding": 1}, {"normalize": True, "scale_each": True},
        {"normalize": True, "value_range": (-1, 1), "pad_value": 0.5},
    ):  # fmt: skip
        grids = [
            module.make_grid(make(images.copy()), **options)
            for module, make in (
                (utils, frontend.from_numpy), (torchvision.utils, torch.from_numpy),
            )
        ]  # fmt: skip
        compare(*grids, "grid", False)
    for module, make in ((utils, frontend.from_numpy), (torchvision.utils, torch.from_numpy)):
        module.save_image(make(images[0]), tmp_path / f"{module.__name__}.png", normalize=True)
    written = [np.asarray(Image.open(path)) for path in tmp_path.iterdir()]
    assert np.array_equal(*written) and written[0].shape == (6, 7, 3)
