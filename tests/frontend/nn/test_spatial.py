"""Pooling against loops in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from tests.frontend.layer_cases.convolutions import named
from tests.frontend.layer_cases.pooling import (
    ADAPTIVE_SIZES,
    DILATIONS,
    POOLS,
    POWERS,
    SIZES,
    adaptive_pool,
    avg_pool,
    lp_pool,
    make_pool,
    max_pool,
)

Array = np.ndarray
Check = Callable[..., None]


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


def image(axes: int) -> Array:
    return normal(2, 2, *SIZES[:axes])


@pytest.mark.sampled(24)
@pytest.mark.parametrize("dilation", DILATIONS)
@pytest.mark.parametrize("options", POOLS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_max_pool(axes: int, options: dict[str, Any], dilation: int, check: Check) -> None:
    x = image(axes)
    layer = make_pool(nn, "Max", axes, options, dilation=dilation, return_indices=True)
    values, places = layer(torch.tensor(x))
    expected, expected_places = max_pool(x, axes, options, dilation)
    check(values, expected)
    np.testing.assert_array_equal(places.numpy(), expected_places)


@pytest.mark.sampled(24)
@pytest.mark.parametrize("include", [True, False], ids=["padding counts", "does not"])
@pytest.mark.parametrize("options", POOLS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_avg_pool(
    axes: int, options: dict[str, Any], include: bool, check: Check, check_gradient: Check
) -> None:
    x = image(axes)
    layer = make_pool(nn, "Avg", axes, options, count_include_pad=include)
    check(layer(torch.tensor(x)), avg_pool(x, axes, options, include))
    check_gradient(layer, x)


@pytest.mark.parametrize("axes", [2, 3])
def test_avg_pool_with_a_divisor(axes: int, check: Check) -> None:
    x, options = image(axes), {"kernel_size": 3, "stride": 2, "padding": 1, "ceil_mode": True}
    layer = make_pool(nn, "Avg", axes, options, divisor_override=5)
    check(layer(torch.tensor(x)), avg_pool(x, axes, options, True, divisor=5))


@pytest.mark.parametrize("power", POWERS, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_lp_pool(axes: int, power: float, check: Check, check_gradient: Check) -> None:
    x = abs(image(axes)) + 0.1
    layer = getattr(nn, f"LPPool{axes}d")(power, 2, ceil_mode=True)
    check(layer(torch.tensor(x)), lp_pool(x, axes, power))
    check_gradient(layer, x)


@pytest.mark.sampled(20)
@pytest.mark.parametrize("size", ADAPTIVE_SIZES, ids=str)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_adaptive_pools(axes: int, size: int, check: Check, check_gradient: Check) -> None:
    x = image(axes)
    for kind, reduce in (("Avg", np.mean), ("Max", np.max)):
        layer = getattr(nn, f"Adaptive{kind}Pool{axes}d")(size)
        check(layer(torch.tensor(x)), adaptive_pool(x, axes, size, reduce))
        check_gradient(layer, x)


def test_max_pool_gradient_goes_to_the_first_of_equal_maxima() -> None:
    x = torch.ones(1, 2, 2, requires_grad=True)
    F.max_pool2d(x, 2).sum().backward()
    assert x.grad.tolist() == [[[1, 0], [0, 0]]]


def test_pool_errors() -> None:
    x = torch.zeros(1, 3, 5, 5)
    with pytest.raises(RuntimeError, match=r"output size: \(3x0x0\). Output size is too small"):
        F.max_pool2d(torch.zeros(1, 3, 2, 2), 3)
    with pytest.raises(RuntimeError, match="but got pad=2, kernel_size=3 and dilation=1"):
        F.max_pool2d(x, 3, padding=2)
    with pytest.raises(RuntimeError, match=r"non-empty 3D or 4D \(batch mode\) tensor expected"):
        F.avg_pool2d(torch.zeros(5, 5), 2)
    with pytest.raises(RuntimeError, match="stride should be greater than zero"):
        F.max_pool2d(x, 3, stride=0)


@pytest.mark.parametrize("compiled", [False, True])
def test_means_of_whole_numbers_are_whole_sums_divided(compiled: bool) -> None:
    """Also where the sums have no value in f64."""
    x = [2**62 - 1, 2**62 - 5, -7, 5, -(2**62), 3, 8]

    def means(x: Any) -> list[Any]:
        return [
            F.avg_pool1d(x, 2), F.avg_pool1d(x, 3, padding=1),
            F.avg_pool1d(x, 3, padding=1, count_include_pad=False),
        ]  # fmt: skip

    results = (torch.compile(means, fullgraph=True) if compiled else means)(torch.tensor([[x]]))

    def mean(at: int, upto: int, count: int) -> int:
        total = sum(x[max(at, 0) : upto])
        return total // count if total >= 0 else -(-total // count)

    wanted = [
        [mean(i, i + 2, 2) for i in (0, 2, 4)],
        [mean(i, i + 3, 3) for i in (-1, 2, 5)],
        [mean(i, i + 3, len(x[max(i, 0) : i + 3])) for i in (-1, 2, 5)],
    ]
    assert [result.tolist()[0][0] for result in results] == wanted
