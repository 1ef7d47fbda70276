"""torchvision's operators beside its own compiled library, where that loads beside PyTorch's (the
wheel that is made for CUDA does not)."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import frontend.vision.operators  # noqa: F401
from tests.frontend.vision import operator_cases as cases


def _loads() -> bool:
    spec = find_spec("torchvision")
    if spec is None or spec.origin is None:
        return False
    import torch

    try:
        torch.ops.load_library(str(Path(spec.origin).parent / "_C.so"))
    except OSError:
        return False
    import torchvision  # noqa: F401  (registers the gradients)

    return True


pytestmark = pytest.mark.skipif(not _loads(), reason="torchvision's compiled library does not load")

CASES = [(name, label) for name in cases.NAMES for label in cases.cases(name)]


@pytest.mark.parametrize(("name", "label"), CASES)
def test_operators(peer: Any, name: str, label: str) -> None:
    arrays, numbers = cases.cases(name)[label]
    if name == "ps_roi_pool":  # torchvision's gradients are of pixels that its forward leaves out
        arrays = (arrays[0], arrays[1].clip(1, 14))
    of_offsets = name == "deform_conv2d"
    taken = arrays if of_offsets and numbers[-1] else (*arrays[:3], arrays[4])
    taken = taken if of_offsets else arrays[:1]

    def call(system: Any, *tensors: Any) -> Any:
        kind = getattr(system, str(taken[0].dtype))
        rest = [system.tensor(each, dtype=kind) for each in arrays]
        if not of_offsets:
            tensors = (tensors[0], rest[1])
        elif not numbers[-1]:
            tensors = (*tensors[:3], rest[3], tensors[3])
        return getattr(system.ops.torchvision, name)(*tensors, *numbers)

    peer.function(call, *taken, modes=("eager",), bound=1e-12)


@pytest.mark.parametrize("name", cases.NAMES)
def test_gradients_by_name(peer: Any, name: str) -> None:
    (images, *others), numbers = next(iter(cases.cases(name).values()))
    if name == "ps_roi_pool":
        others[0] = others[0].clip(1, 14)
    split = 4 if name == "ps_roi_align" else 3

    def call(system: Any, *tensors: Any) -> Any:
        operators = system.ops.torchvision
        result = getattr(operators, name)(*tensors, *numbers)
        result, *more = result if isinstance(result, tuple) else (result,)
        backward = getattr(operators, f"_{name}_backward")
        ones = system.ones_like(result)
        if name == "deform_conv2d":
            return backward(ones, *tensors, *numbers)
        given = (*numbers[:split], *images.shape, *numbers[split:])
        return backward(ones, tensors[1], *more, *given)

    peer.function(call, images, *others, modes=("eager",), gradients=False, bound=1e-12)


def test_suppression(peer: Any) -> None:
    boxes = cases.boxes(np.random.default_rng(0), 300, 30).astype(np.float32)
    scores = np.random.default_rng(1).integers(0, 60, 300).astype(np.float32)
    for threshold in (0.0, 0.1, 0.5, 0.7, 1.0):
        call = lambda system, b, s: system.ops.torchvision.nms(b, s, threshold)  # noqa: E731, B023
        peer.function(call, boxes, scores, modes=("eager",), gradients=False)
