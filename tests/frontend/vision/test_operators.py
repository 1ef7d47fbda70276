"""torchvision's operators against NumPy, eager and compiled, and numeric gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import frontend
import frontend.vision.operators as operators
from graphc.errors import IndexRangeError, TraceError
from tests.frontend.vision import operator_cases as references

CASES = [(name, label) for name in references.NAMES for label in references.cases(name)]


@pytest.fixture
def by_numpy() -> Iterator[None]:
    """No kernel is compiled for each case."""
    frontend.set_eager_backend("numpy")
    yield
    frontend.set_eager_backend("native")


def run(name: str, tensors: Any, numbers: Any) -> frontend.Tensor:
    result = getattr(operators, name)(*tensors, *numbers)
    return result[0] if isinstance(result, tuple) else result


def as_tensors(arrays: Any, requires_grad: bool = False) -> list[frontend.Tensor]:
    return [frontend.tensor(each).requires_grad_(requires_grad) for each in arrays]


@pytest.mark.usefixtures("by_numpy")
@pytest.mark.parametrize(("name", "label"), CASES)
def test_values(name: str, label: str) -> None:
    arrays, numbers = references.cases(name)[label]
    expected = getattr(references, name)(*arrays, *numbers)
    if name == "ps_roi_align" and label == "samples by size":
        expected[1] = np.nan  # torchvision divides by the number of samples: there are none
    actual = run(name, as_tensors(arrays), numbers)
    np.testing.assert_allclose(actual.numpy(), expected, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", references.NAMES)
def test_natively_and_compiled(name: str) -> None:
    arrays, numbers = next(iter(references.cases(name).values()))
    expected = getattr(references, name)(*arrays, *numbers)
    tensors = as_tensors([each.astype(np.float32) for each in arrays])
    compiled = frontend.compile(lambda *tensors: run(name, tensors, numbers), fullgraph=True)
    for function in (lambda *tensors: run(name, tensors, numbers), compiled):
        np.testing.assert_allclose(function(*tensors).numpy(), expected, atol=2e-5)


@pytest.mark.usefixtures("by_numpy")
@pytest.mark.parametrize("name", references.NAMES)
def test_gradients_are_numeric_ones(name: str) -> None:
    arrays, numbers = next(iter(references.cases(name).values()))
    numbers = (*numbers[:-1], True) if name == "deform_conv2d" else numbers
    random = np.random.default_rng(3)
    reference = getattr(references, name)
    weights = random.standard_normal(reference(*arrays, *numbers).shape)
    tensors = as_tensors(arrays, True)
    (run(name, tensors, numbers) * frontend.tensor(weights)).sum().backward()
    for position in range(len(arrays)) if name == "deform_conv2d" else (0,):
        along = random.standard_normal(arrays[position].shape)
        along *= 1 if name != "roi_pool" else 1e-3  # which pixel is greatest stays
        values = []
        for step in (1e-6, -1e-6):
            moved = [a + step * along if i == position else a for i, a in enumerate(arrays)]
            values.append((reference(*moved, *numbers) * weights).sum())
        numeric = (values[0] - values[1]) / 2e-6
        slope = (tensors[position].grad.numpy() * along).sum()
        assert abs(slope - numeric) < 1e-4 * max(1, abs(numeric))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_suppression(dtype: Any) -> None:
    random = np.random.default_rng(5)
    for count, threshold in ((0, 0.5), (1, 0.5), (60, 0.5), (200, 0.5)):
        boxes = references.boxes(random, count, 30).astype(dtype)
        scores = random.integers(0, 40, count).astype(dtype)  # equal ones: the first comes first
        kept = operators.nms(frontend.tensor(boxes), frontend.tensor(scores), threshold)
        assert kept.dtype is frontend.int64
        assert kept.tolist() == references.nms(boxes, scores, threshold)


def test_what_suppression_refuses() -> None:
    with pytest.raises(RuntimeError, match="boxes should have 4 elements in dimension 1, got 5"):
        operators.nms(frontend.zeros(2, 5), frontend.zeros(2), 0.5)
    with pytest.raises(NotImplementedError, match="'Half'"):
        operators.nms(frontend.zeros(2, 4).half(), frontend.zeros(2).half(), 0.5)


def test_suppression_in_a_trace_runs_eagerly() -> None:
    boxes = frontend.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4], [5, 5, 9, 9]])
    scores = frontend.tensor([0.1, 0.3, 0.2])
    whole = frontend.compile(lambda b, s: operators.nms(b, s, 0.5), fullgraph=True)
    with pytest.raises(TraceError, match=r"nms\(\) runs eagerly only"):
        whole(boxes, scores)
    in_parts = frontend.compile(lambda b, s: operators.nms(b, s, 0.5) + 1)
    with pytest.warns(UserWarning, match="nms"):
        assert in_parts(boxes, scores).tolist() == [2, 3]


@pytest.mark.usefixtures("by_numpy")
def test_an_image_that_is_not_there_is_an_error() -> None:
    images, region = frontend.zeros(2, 3, 4, 4), frontend.tensor([[2.0, 0, 0, 2, 2]])
    for name, numbers in (("roi_align", (1.0, 2, 2, 2, True)), ("roi_pool", (1.0, 2, 2))):
        with pytest.raises(IndexRangeError, match="index"):
            run(name, (images, region), numbers)


@pytest.mark.usefixtures("by_numpy")
def test_in_halves_under_autocast() -> None:
    images, region = frontend.randn(1, 2, 6, 6), frontend.tensor([[0.0, 0, 0, 5, 5]])
    numbers = (1.0, 2, 2, 2, True)
    plain = run("roi_align", (images.bfloat16().float(), region), numbers)
    with frontend.autocast("cpu", dtype=frontend.bfloat16):
        half = run("roi_align", (images.bfloat16(), region), numbers)
        boxes = frontend.tensor([[0.0, 0, 4, 4], [0, 0, 4, 4]]).bfloat16()
        assert operators.nms(boxes, frontend.tensor([0.1, 0.2]), 0.5).tolist() == [1]
    assert half.dtype is frontend.bfloat16 and half.equal(plain.bfloat16())


@pytest.mark.usefixtures("by_numpy")
def test_gradients_by_name() -> None:
    random = np.random.default_rng(0)
    for name in references.NAMES:
        arrays, numbers = next(iter(references.cases(name).values()))
        tensors = as_tensors(arrays, True)
        made = getattr(operators, name)(*tensors, *numbers)
        result, *others = made if isinstance(made, tuple) else (made,)
        gradient = frontend.tensor(random.standard_normal(result.shape))
        result.backward(gradient)
        backward = getattr(frontend.ops.torchvision, f"_{name}_backward")
        if name == "deform_conv2d":
            assert backward(gradient, *tensors, *numbers)[2].equal(tensors[2].grad)
            continue
        split = 4 if name == "ps_roi_align" else 3
        given = (*numbers[:split], *arrays[0].shape, *numbers[split:])
        of_images = backward(gradient, tensors[1], *others, *given)
        assert of_images.allclose(tensors[0].grad, atol=1e-12), name


def test_a_library_is_known_by_its_file(tmp_path: Any) -> None:
    frontend.ops.load_library(str(tmp_path / "torchvision" / "_C.so"))
    assert frontend.ops.torchvision._cuda_version() == -1
    assert str(frontend.ops.torchvision.nms.default) == "torchvision.nms.default"
    with pytest.raises(NotImplementedError, match="torchvision::qnms"):
        frontend.ops.torchvision.qnms(frontend.zeros(0, 4), frontend.zeros(0), 0.5)
    with pytest.raises(OSError, match=r"torch\.library\.custom_op"):
        frontend.ops.load_library(str(tmp_path / "mine" / "_C.so"))
