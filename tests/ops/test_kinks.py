"""Kinks, ties and NaN: what PyTorch does, the same by the reference and natively at each level."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ops import composite, reduce
from graphc.ops import elementwise as e
from graphc.ops.linear_algebra import norms
from graphc.ops.nn import activations as a
from graphc.ops.nn import losses, pooling

Array = np.ndarray[Any, Any]
NAN, INF = np.nan, np.inf


def gradients(function: Callable[..., Any], *arrays: Any) -> list[Array]:
    """d Σ f / d x for each operand, by the reference and natively."""
    g = graphc.GraphBuilder("f")
    contents = [np.asarray(a, np.float32) for a in arrays]
    inputs = [g.input(f"x{i}", graphc.TensorType.of(a)) for i, a in enumerate(contents)]
    out = function(*inputs)
    out = reduce.sum(out, axes=tuple(range(len(out.shape))))
    graph = graphc.joint(g.finish(out))
    expected = graphc.run(graph, *contents)
    for level in ("none", "exact"):
        for actual, wanted in zip(graphc.compile(graph, level)(*contents), expected, strict=True):
            np.testing.assert_array_equal(actual, wanted, err_msg=level)
    return [gradient.tolist() for gradient in expected[1:]]


def values(function: Callable[..., Any], *arrays: Any) -> list[Any]:
    """f, by the reference and natively."""
    g = graphc.GraphBuilder("f")
    contents = [np.asarray(a) for a in arrays]
    inputs = [g.input(f"x{i}", graphc.TensorType.of(a)) for i, a in enumerate(contents)]
    graph = g.finish(function(*inputs))
    (expected,) = graphc.run(graph, *contents)
    for level in ("none", "exact"):
        np.testing.assert_array_equal(graphc.compile(graph, level)(*contents)[0], expected)
    return expected.tolist()


def f32(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


# -- kinks ----------------------------------------------------------------------------------------


def test_relu_and_abs_have_slope_zero_at_zero() -> None:
    assert gradients(e.relu, [-1, -0.0, 0, 1]) == [[0, 0, 0, 1]]
    assert gradients(e.abs, [-2, -0.0, 0, 3]) == [[-1, 0, 0, 1]]


def test_relu_passes_the_gradient_where_it_is_nan() -> None:
    assert gradients(e.relu, [NAN, INF]) == [[1, 1]]


@pytest.mark.parametrize(
    ("op", "attributes", "points", "slopes"),
    [
        (a.leaky_relu, {"slope": 0.5}, [-1, 0, 1, NAN], [0.5, 0.5, 1, 0.5]),
        (a.elu, {"alpha": 2.0}, [0, 1], [2, 1]),
        (a.hardtanh, {}, [-1, 0, 1, NAN], [0, 1, 0, 0]),
        (a.hardsigmoid, {}, [-3, 3, 4], [0, 0, 0]),
        (a.hardswish, {}, [-4, -3, 3, 4], [0, 0, 1, 1]),
        (a.softshrink, {}, [-1, -0.5, 0, 0.5, 1, NAN], [1, 0, 0, 0, 1, 0]),
        (a.hardshrink, {}, [-1, -0.5, 0, 0.5, 1, NAN], [1, 0, 0, 0, 1, 0]),
        (a.softplus, {}, [INF, 20.5], [1, 1]),
        (a.log_sigmoid, {}, [-INF, INF], [1, 0]),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_activations_at_their_kinks_and_ends(
    op: Any, attributes: Any, points: list[float], slopes: list[float]
) -> None:
    assert gradients(lambda x: op(x, **attributes), points) == [slopes]


@pytest.mark.parametrize("p", [0.5, 1.0, 1.5, 2.0, 3.0])
def test_a_norm_has_no_gradient_at_zero(p: float) -> None:
    assert gradients(lambda x: norms.norm(x, p=p, axes=(0,)), [0, 0]) == [[0, 0]]


def test_the_infinite_norm_shares_its_gradient() -> None:
    assert gradients(lambda x: norms.norm(x, p=INF, axes=(0,)), [-2, 1, 2]) == [[-0.5, 0, 0.5]]


def test_probabilities_0_and_1_have_a_finite_gradient() -> None:
    x, t = [0, 1, 0, 1], [0, 1, 1, 0]
    by_x = gradients(lambda x: losses.binary_cross_entropy(x, x.context.constant(f32(*t))), x)[0]
    np.testing.assert_allclose(by_x, [0, 0, -1e12, 1e12], rtol=1e-6)


def test_clamp_passes_the_gradient_on_its_boundaries() -> None:
    low, high = [0] * 5, [1] * 5
    by_x, by_low, by_high = gradients(e.clamp, [-1, 0, 0.5, 1, 2], low, high)
    assert by_x == [0, 1, 1, 1, 0]
    assert by_low == [1, 0, 0, 0, 0]
    assert by_high == [0, 0, 0, 0, 1]


def test_clamp_with_crossed_bounds_gives_the_upper_one() -> None:
    assert values(e.clamp, f32(0, 5), f32(3, 3), f32(1, 1)) == [1, 1]
    assert gradients(e.clamp, [0, 5], [3, 3], [1, 1])[2] == [1, 1]


@pytest.mark.parametrize("op", [e.minimum, e.maximum])
def test_equal_operands_share_the_gradient(op: Any) -> None:
    by_x, by_y = gradients(op, [1, 2, 3], [3, 2, 1])
    assert by_x[1] == by_y[1] == 0.5
    assert [by_x[0] + by_y[0], by_x[2] + by_y[2]] == [1, 1]


@pytest.mark.parametrize("op", [reduce.max, reduce.min])
def test_equal_extrema_share_the_gradient_evenly(op: Any) -> None:
    sign = 1 if op is reduce.max else -1
    (by_x,) = gradients(
        lambda x: op(x, axes=(1,)), sign * f32(1, 3, 3, 0, 3, 3, 2, 2, 2, 2).reshape(2, 5)
    )
    third = float(np.float32(1) / np.float32(3))
    assert by_x == [[0, third, third, 0, third], [1, 0, 0, 0, 0]]


def test_max_pool_gives_the_gradient_to_the_first_of_equals() -> None:
    shape = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}
    x = f32(1, 1, 0, 2, 1, 1, 2, 2).reshape(1, 1, 2, 4)
    (by_x,) = gradients(lambda x: pooling.max_pool(x, **shape), x)
    assert by_x == [[[[1, 0, 0, 1], [0, 0, 0, 0]]]]


def test_overlapping_windows_add_up() -> None:
    shape = {"kernel": (2,), "stride": (1,), "padding": (0,), "dilation": (1,)}
    (by_x,) = gradients(lambda x: pooling.max_pool(x, **shape), f32(0, 3, 1, 1).reshape(1, 4))
    assert by_x == [[0, 2, 1, 0]]


def test_products_with_zeros_have_finite_gradients() -> None:
    (by_x,) = gradients(lambda x: reduce.prod(x, axes=(1,)), [[2, 0, 3], [0, 0, 1], [1, 2, 3]])
    assert by_x == [[0, 6, 0], [0, 0, 0], [6, 3, 2]]


def test_powers_of_zero_have_finite_gradients() -> None:
    by_x, by_y = gradients(lambda x, y: x**y, [0, 0, 0, 2], [0, 1, 2, 0])
    assert by_x == [0, 1, 0, 0]
    assert by_y[:3] == [0, 0, 0]


def test_ignored_targets_have_no_gradient() -> None:
    target = np.array([1, -100])
    (by_x,) = gradients(
        lambda x: losses.cross_entropy(x, x.context.constant(target)), np.ones((2, 2))
    )
    assert by_x == [[0.5, -0.5], [0, 0]]


# -- NaN, infinity, signed zero -------------------------------------------------------------------


def test_nan_wins_in_extrema() -> None:
    x = f32(1, NAN, 3).reshape(1, 3)
    for op in (reduce.max, reduce.min):
        assert np.isnan(values(lambda x, op=op: op(x, axes=(1,)), x)).all()
    for op in (e.minimum, e.maximum):
        assert np.isnan(values(op, f32(NAN, 1, NAN), f32(1, NAN, NAN))).all()


@pytest.mark.parametrize("length", [4, 100])
def test_the_first_nan_is_the_extremum(length: int) -> None:
    x = np.linspace(0, 1, 2 * length, dtype=np.float32).reshape(2, length)
    x[0, -2] = x[0, -1] = NAN
    x[1, 0] = x[1, 2] = -INF
    assert values(lambda x: reduce.argmax(x, axes=(1,)), x) == [length - 2, length - 1]
    assert values(lambda x: reduce.argmin(x, axes=(1,)), x) == [length - 2, 0]


def test_the_first_of_equal_extrema_counts() -> None:
    x = f32(2, 1, 2, 1, 2).reshape(1, 5)
    assert values(lambda x: reduce.argmax(x, axes=(1,)), x) == [0]
    assert values(lambda x: reduce.argmin(x, axes=(1,)), x) == [1]
    assert values(lambda x: reduce.argmax(x, axes=(1,)), f32(-INF, -INF).reshape(1, 2)) == [0]


def test_relu_keeps_nan_and_comparisons_refuse_it() -> None:
    relu = values(e.relu, f32(NAN, -INF, INF))
    assert np.isnan(relu[0]) and relu[1:] == [0, INF]
    assert values(e.eq, f32(NAN), f32(NAN)) == [False]
    assert values(e.ne, f32(NAN), f32(NAN)) == [True]
    assert values(e.ge, f32(NAN), f32(NAN)) == [False]


def test_softmax_of_large_and_masked_scores() -> None:
    x = f32(1e38, 1e38, -INF).reshape(1, 3)
    assert values(lambda x: composite.softmax(x, axis=1), x) == [[0.5, 0.5, 0]]
    all_masked = values(lambda x: composite.softmax(x, axis=1), f32(-INF, -INF).reshape(1, 2))
    assert np.isnan(all_masked).all()


def test_rounding_is_to_even_and_division_floors() -> None:
    assert values(e.round, f32(0.5, 1.5, 2.5, -0.5)) == [0, 2, 2, 0]
    seven = np.array([7, -7, 7, -7]), np.array([2, 2, -2, -2])
    assert values(e.floordiv, *seven) == [3, -4, -4, 3]
    assert values(e.mod, *seven) == [1, 1, -1, -1]
