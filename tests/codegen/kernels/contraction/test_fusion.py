"""What is fused around a contraction, and operands that are views, against float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc
from graphc.ops import composite, contract, movement, reduce
from graphc.ops import elementwise as e

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
PRODUCTS = [(1, 1, 1), (7, 19, 5), (33, 65, 40), (64, 96, 600), (1, 70, 33), (50, 1, 20)]


def drawn(seed: int, *shape: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def compiled(function: Callable[..., Any], *arrays: Array) -> tuple[Array, ...]:
    """`function` over handles of the arrays, compiled and called."""
    g = graphc.GraphBuilder("fused")
    handles = (g.input(f"x{i}", graphc.TensorType.of(array)) for i, array in enumerate(arrays))
    results = function(*handles)
    graph = g.finish(*(results if isinstance(results, tuple) else (results,)))
    return graphc.compile(graph)(*arrays)


def close(actual: Array, exact: Array) -> None:
    assert actual.shape == exact.shape
    np.testing.assert_allclose(actual, exact, rtol=2e-5, atol=2e-5 * max(1, np.abs(exact).max()))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("shape", PRODUCTS)
def test_row_maxima_and_sums_behind_a_product(shape: tuple[int, int, int]) -> None:
    """With the product itself as an output, and without."""
    m, n, k = shape
    x, y = drawn(1, m, k), drawn(2, k, n)
    exact = x.astype(np.float64) @ y.astype(np.float64)

    def along(axis: int, keep: bool) -> Callable[..., Any]:
        def function(a: Any, b: Any) -> tuple[Any, ...]:
            c = a @ b
            results = reduce.max(c, axes=(axis,)), reduce.sum(c, axes=(axis,))
            return (c, *results) if keep else results

        return function

    for axis in (0, 1):
        for keep in (False, True):
            *rest, greatest, total = compiled(along(axis, keep), x, y)
            close(greatest, exact.max(axis))
            close(total, exact.sum(axis))
            for product in rest:
                close(product, exact)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("shape", PRODUCTS)
def test_softmax_behind_a_product(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    x, y = drawn(1, m, k), drawn(2, k, n)
    (result,) = compiled(lambda a, b: composite.softmax(a @ b * 0.25, axis=1), x, y)
    scores = np.exp(0.25 * (x.astype(np.float64) @ y.astype(np.float64)))
    close(result, scores / scores.sum(1, keepdims=True))


PROLOGUES: dict[str, tuple[Callable[..., Any], Callable[..., Array]]] = {
    "relu": (lambda a, row: e.relu(a), lambda a, row: np.maximum(a, 0)),
    "scaled": (lambda a, row: a * 0.5 + 1.0, lambda a, row: a * 0.5 + 1),
    "by column": (lambda a, row: a * row, lambda a, row: a * row),
    "tanh": (lambda a, row: e.tanh(a + row), lambda a, row: np.tanh(a + row)),
}


@pytest.mark.parametrize("name", PROLOGUES)
@pytest.mark.parametrize("side", [0, 1])
def test_elementwise_ahead_of_either_operand(name: str, side: int) -> None:
    x, y, row = drawn(1, 35, 51), drawn(2, 51, 51), drawn(3, 51)
    on_handles, on_arrays = PROLOGUES[name]

    def function(a: Any, b: Any, r: Any) -> Any:
        return on_handles(a, r) @ b if side == 0 else a @ on_handles(b, r)

    wide = x.astype(np.float64), y.astype(np.float64)
    left = on_arrays(wide[0], row) if side == 0 else wide[0]
    right = on_arrays(wide[1], row) if side == 1 else wide[1]
    close(compiled(function, x, y, row)[0], left @ right)


def test_heads_are_views_of_one_array() -> None:
    """Attention's products, with the heads beside each other in memory on both sides."""
    n, t, heads, d = 2, 21, 3, 10
    q, k = drawn(1, n, t, heads * d), drawn(2, n, t, heads * d)

    def function(a: Any, b: Any) -> Any:
        a, b = (movement.reshape(v, shape=(n, t, heads, d)) for v in (a, b))
        a = movement.transpose(a, permutation=(0, 2, 1, 3))
        b = movement.transpose(b, permutation=(0, 2, 3, 1))
        out = movement.transpose(contract.matmul(a, b), permutation=(0, 2, 1, 3))
        return movement.reshape(out, shape=(n, t, heads * t))

    apart = [v.astype(np.float64).reshape(n, t, heads, d).transpose(0, 2, 1, 3) for v in (q, k)]
    exact = (apart[0] @ apart[1].mT).transpose(0, 2, 1, 3).reshape(n, t, heads * t)
    close(compiled(function, q, k)[0], exact)


def test_operands_may_be_slices_with_steps() -> None:
    x, y = drawn(1, 40, 50), drawn(2, 60, 33)

    def function(a: Any, b: Any) -> Any:
        a = movement.slice_(a, start=(38, 1), size=(17, 20), step=(-2, 2))
        b = movement.slice_(b, start=(59, 3), size=(20, 30), step=(-3, 1))
        return a @ b

    left = x.astype(np.float64)[38::-2][:17, 1::2][:, :20]
    close(compiled(function, x, y)[0], left @ y[59::-3][:20, 3:33])


@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_arrays_of_any_strides_are_taken(order: str) -> None:
    x, y = drawn(1, 18, 34), drawn(2, 34, 21)
    g = graphc.GraphBuilder("strides")
    call = graphc.compile(g.finish(g.input("x", "f32[18,34]") @ g.input("y", "f32[34,21]")))
    if order == "strided":
        strided = [np.repeat(array, 2, axis=1)[:, ::2] for array in (x, y)]
    else:
        strided = [np.asarray(array, order=order) for array in (x, y)]  # type: ignore[call-overload]
    close(call(*strided)[0], x.astype(np.float64) @ y)


def geometry(stride: int, padding: int, groups: int) -> dict[str, Any]:
    return {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1),
            "groups": groups}  # fmt: skip


CONVOLUTIONS: list[tuple[Shape, Shape, int, int, int]] = [
    ((2, 3, 7, 9), (5, 3, 3, 3), 1, 1, 1), ((1, 20, 6, 6), (33, 20, 3, 3), 2, 1, 1),
    ((2, 24, 5, 5), (24, 1, 3, 3), 1, 1, 24), ((2, 12, 6, 5), (20, 12, 1, 1), 1, 0, 1),
]  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_bias_scale_activation_and_residual_behind_a_convolution(case: Any) -> None:
    """A batch-norm's scale and shift by channel, then what a residual block does; the value before
    it is an output too."""
    x_shape, w_shape, stride, padding, groups = case
    x, w = drawn(1, *x_shape), drawn(2, *w_shape)
    scale, shift = drawn(3, w_shape[0], 1, 1), drawn(4, w_shape[0], 1, 1)
    options = geometry(stride, padding, groups)
    (plain,) = compiled(lambda a, b: contract.conv(a, b, **options), x, w)
    residual = drawn(5, *plain.shape)

    def function(a: Any, b: Any, s: Any, t: Any, r: Any) -> Any:
        before = contract.conv(a, b, **options)
        return before, e.relu(before * s + t + r)

    before, after = compiled(function, x, w, scale, shift, residual)
    close(before, plain.astype(np.float64))
    close(after, np.maximum(plain.astype(np.float64) * scale + shift + residual, 0))


@pytest.mark.parametrize("case", CONVOLUTIONS, ids=str)
def test_pooling_behind_a_convolution(case: Any) -> None:
    x_shape, w_shape, stride, padding, groups = case
    x, w = drawn(1, *x_shape), drawn(2, *w_shape)
    options = geometry(stride, padding, groups)
    window = {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0), "dilation": (1, 1)}

    def function(a: Any, b: Any) -> Any:
        return graphc.ops.max_pool(e.relu(contract.conv(a, b, **options)), **window)

    (plain,) = compiled(lambda a, b: contract.conv(a, b, **options), x, w)
    (result,) = compiled(function, x, w)
    high, wide = (size // 2 * 2 for size in plain.shape[2:])
    n, channels = plain.shape[:2]
    positive = np.maximum(plain, 0)[:, :, :high, :wide]
    blocks = positive.reshape(n, channels, high // 2, 2, wide // 2, 2)
    close(result, blocks.max((3, 5)))


def test_frozen_weights_give_the_bits_of_given_ones() -> None:
    """Weights that are constants of the graph may be packed ahead of the call."""
    x, w = drawn(1, 2, 20, 7, 7), drawn(2, 35, 20, 3, 3)
    options = geometry(1, 1, 1)
    (unfrozen,) = compiled(lambda a, b: contract.conv(a, b, **options), x, w)
    (frozen,) = compiled(lambda a: contract.conv(a, a.context.constant(w), **options), x)
    np.testing.assert_array_equal(unfrozen, frozen)
    flat = x.reshape(2, -1)[:, :700].reshape(40, 35)
    matrix = w.reshape(35, -1)
    (unfrozen,) = compiled(lambda a, b: a @ b, flat, matrix)
    (frozen,) = compiled(lambda a: a @ a.context.constant(matrix), flat)
    np.testing.assert_array_equal(unfrozen, frozen)
