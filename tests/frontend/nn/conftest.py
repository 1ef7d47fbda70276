"""What tests of layers share: comparison with a NumPy reference, and gradients against central
differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend

Array = np.ndarray


def _check(actual: Any, expected: Array, tolerance: float = 1e-12) -> None:
    """A tensor is this array."""
    assert tuple(actual.shape) == expected.shape
    np.testing.assert_allclose(actual.detach().numpy(), expected, rtol=tolerance, atol=tolerance)


def _check_gradient(function: Callable[..., Any], *arrays: Array) -> None:
    """The gradient of a weighted sum of the function's result, along one direction per float64
    argument, against central differences."""
    random = np.random.default_rng(9)
    tensors = [frontend.tensor(array, requires_grad=True) for array in arrays]
    out = function(*tensors)
    weights = random.standard_normal(tuple(out.shape))
    (out * frontend.tensor(weights)).sum().backward()
    for position, array in enumerate(arrays):
        direction = random.standard_normal(array.shape)

        def value(step: float, position: int = position, direction: Array = direction) -> float:
            moved = [a + step * direction if i == position else a for i, a in enumerate(arrays)]
            with frontend.no_grad():
                result = function(*map(frontend.tensor, moved))
            return float((result.numpy() * weights).sum())

        slope = (value(1e-6) - value(-1e-6)) / 2e-6
        derivative = float((tensors[position].grad.numpy() * direction).sum())
        assert derivative == pytest.approx(slope, rel=1e-6, abs=1e-6)


@pytest.fixture
def check() -> Callable[..., None]:
    return _check


@pytest.fixture
def check_gradient() -> Callable[..., None]:
    return _check_gradient
