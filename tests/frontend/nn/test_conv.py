"""Convolution and its transposed form against loops in NumPy, in float64, eager and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import frontend as torch
import frontend.nn.functional as F
from frontend import nn
from graphc.errors import GraphError
from tests.frontend.layer_cases.convolutions import (
    CONVOLUTIONS,
    SIZES,
    TRANSPOSED,
    conv,
    conv_layer,
    make_conv,
    make_transposed,
    named,
    transposed,
    transposed_layer,
)

Array = np.ndarray


def normal(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape)


# -- against the loops ----------------------------------------------------------------------------


@pytest.mark.sampled(20)
@pytest.mark.parametrize("options", CONVOLUTIONS, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv(axes: int, options: dict[str, Any], check: Any) -> None:
    layer, x = make_conv(nn, axes, options).double(), normal(2, 4, *SIZES[:axes])
    expected = conv_layer(layer, x)
    check(layer(torch.tensor(x)), expected)
    check(layer(torch.tensor(x[0])), expected[0])


@pytest.mark.sampled(20)
@pytest.mark.parametrize("options", TRANSPOSED, ids=named)
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_conv_transpose(axes: int, options: dict[str, Any], check: Any) -> None:
    layer, x = make_transposed(nn, axes, options).double(), normal(2, 4, *SIZES[:axes])[..., :3]
    check(layer(torch.tensor(x)), transposed_layer(layer, x))


@st.composite
def geometries(draw: Any) -> tuple[Any, ...]:
    """Axes, input and weight shape, stride, padding, dilation, groups."""
    axes = draw(st.integers(1, 3))

    def numbers(low: int, high: int) -> tuple[int, ...]:
        return tuple(draw(st.lists(st.integers(low, high), min_size=axes, max_size=axes)))

    groups = draw(st.integers(1, 2))
    kernel, dilation, padding = numbers(1, 3), numbers(1, 2), numbers(0, 2)
    spare = numbers(0, 3)
    size = tuple(
        max(d * (k - 1) + 1 - 2 * p, 1) + extra
        for k, d, p, extra in zip(kernel, dilation, padding, spare)
    )
    channels = draw(st.integers(1, 2))
    x = (draw(st.integers(0, 2)), channels * groups, *size)
    weight = (draw(st.integers(1, 2)) * groups, channels, *kernel)
    return axes, x, weight, numbers(1, 3), padding, dilation, groups


def agree(call: Any, x: Array, w: Array, expected: Array) -> None:
    """Eager and compiled give `expected`, and the same gradients; x·dx = w·dw = the sum, since a
    convolution is linear in either."""
    seed = normal(*expected.shape, seed=3)
    for run in (call, torch.compile(call)):
        leaves = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
        out = run(*leaves)
        np.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-12, atol=1e-12)
        out.backward(torch.tensor(seed))
        total = float((expected * seed).sum())
        for tensor in leaves:
            assert (tensor.detach() * tensor.grad).sum().item() == pytest.approx(total, abs=1e-10)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(geometries())
def test_conv_of_any_geometry(geometry: tuple[Any, ...]) -> None:
    axes, size, kernel, stride, padding, dilation, groups = geometry
    x, w = normal(*size), normal(*kernel, seed=1)
    expected = conv(x, w, stride, padding, padding, dilation, groups)
    function = getattr(F, f"conv{axes}d")
    agree(lambda x, w: function(x, w, None, stride, padding, dilation, groups), x, w, expected)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(geometries(), st.integers(0, 2))
def test_conv_transpose_of_any_geometry(geometry: tuple[Any, ...], wanted: int) -> None:
    axes, size, kernel, stride, _, dilation, groups = geometry
    more = tuple(min(wanted, max(s, d) - 1) for s, d in zip(stride, dilation))
    axes_of = zip(size[2:], kernel[2:], stride, dilation, more)
    padding = tuple(
        min(1, ((n - 1) * s + d * (k - 1) + m) // 2) for n, k, s, d, m in axes_of
    )  # fmt: skip
    x = normal(size[0], kernel[0], *size[2:])
    w = normal(*kernel, seed=1)
    expected = transposed(x, w, stride, padding, more, dilation, groups)
    function = getattr(F, f"conv_transpose{axes}d")
    agree(
        lambda x, w: function(x, w, None, stride, padding, more, groups, dilation), x, w, expected
    )


def test_gradients_and_second_derivatives(check_gradient: Any) -> None:
    x, w, b = normal(2, 4, 5, 4), normal(4, 2, 2, 3, seed=1), normal(4, seed=2)
    check_gradient(lambda x, w, b: F.conv2d(x, w, b, (2, 1), 1, (1, 2), 2), x, w, b)
    check_gradient(lambda x, w, b: F.conv_transpose2d(x, w, b, 2, 1, 1, 2), x, w, b)

    def slope(x: Any, w: Any) -> Any:
        out = F.conv2d(x, w, stride=2, padding=1)
        (grad,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
        return grad

    x = normal(1, 2, 4, 3)
    w = normal(2, 2, 3, 2, seed=1)
    leaves = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    direction = torch.tensor(normal(*x.shape, seed=4))
    derivatives = torch.autograd.grad((slope(*leaves) * direction).sum(), leaves)
    for position, (tensor, second) in enumerate(zip(leaves, derivatives)):
        step = torch.tensor(normal(*tensor.shape, seed=5))

        def value(size: float, position: int = position, step: Any = step) -> float:
            moved = [t.detach() + step * size if i == position else t.detach()
                     for i, t in enumerate(leaves)]  # fmt: skip
            return float((slope(moved[0].requires_grad_(), moved[1]) * direction).sum().item())

        numeric = (value(1e-5) - value(-1e-5)) / 2e-5
        assert (second * step).sum().item() == pytest.approx(numeric, rel=1e-6)


# -- edges and errors -----------------------------------------------------------------------------


def test_no_images_no_channels() -> None:
    w = torch.zeros(4, 3, 3, requires_grad=True)
    out = F.conv1d(torch.zeros(0, 3, 5), w)
    assert out.shape == (0, 4, 3)
    out.sum().backward()
    assert w.grad.abs().sum().item() == 0
    assert F.conv_transpose1d(torch.zeros(0, 4, 5), w).shape == (0, 3, 7)
    assert F.conv1d(torch.zeros(1, 0, 5), torch.zeros(2, 0, 3)).tolist() == [[[0] * 3] * 2]


def test_output_size_fixes_what_the_stride_leaves_open() -> None:
    layer = nn.ConvTranspose2d(3, 2, 3, stride=2)
    x = torch.zeros(1, 3, 3, 4)
    assert layer(x).shape == (1, 2, 7, 9)
    assert layer(x, output_size=(8, 9)).shape == (1, 2, 8, 9)
    assert layer(x, [1, 2, 7, 10]).shape == (1, 2, 7, 10)
    with pytest.raises(ValueError, match=r"valid sizes range from \[7, 9\] to \[8, 10\]"):
        layer(x, output_size=(9, 9))
    with pytest.raises(ValueError, match=r"must have 2 or 4 elements \(got 3\)"):
        layer(x, output_size=(2, 8, 9))


CONV_ERRORS: list[tuple[tuple[Any, ...], str]] = [
    (((1, 2, 5, 5), (4, 3, 3, 3)), "to have 3 channels, but got 2 channels instead"),
    (((5, 5), (4, 3, 3, 3)), r"4D \(batched\) input to conv2d, but got input of size: \[5, 5\]"),
    (((1, 3, 2, 2), (4, 3, 3, 3)), r"input size per channel: \(2 x 2\). Kernel size: \(3 x 3\)"),
    (((1, 3, 4, 4), (4, 3, 3, 3), None, 1, 0, 2), r"Kernel size: \(3 x 3\) \(dilation 2 x 2\)"),
    (((1, 4, 5, 5), (4, 3, 3, 3), None, 1, 0, 1, 3), "weight to be divisible by 3 at dim"),
    (((1, 4, 5, 5), (4, 3, 3, 3), None, 1, 0, 1, 0), "non-positive groups"),
    (((1, 3, 5, 5), (4, 3, 3, 3), (5,)), r"4 elements, but got bias of size \[5\] instead"),
    (((1, 3, 5, 5), (4, 3, 3, 3), None, 2, "same"), "not supported for strided convolutions"),
    (((1, 3, 5, 5), (4, 3, 3, 3), None, 1, "foo"), "Invalid padding string: 'foo'"),
    (((1, 3, 5, 5), (4, 3, 3, 3), None, 0), "non-positive stride is not supported"),
    (((1, 3, 5, 5), (4, 3, 3, 3), None, 1, -1), "negative padding is not supported"),
    (((1, 3, 5, 5), (4, 3, 3, 3), None, (1, 1, 1)), r"a list of 2 values, but got stride"),
    (((1, 3, 5, 5), (4, 3, 3)), "Expected a weight of 4 dimensions"),
    (((1, 3, 5, 5), (4, 3, 0, 3)), "kernel size should be greater than zero, but got 0 x 3"),
    (((1, 3, 0, 5), (4, 3, 1, 1), None, 1, 1), "Only zero batch or zero channel inputs"),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "message"), CONV_ERRORS)
def test_conv_errors(arguments: tuple[Any, ...], message: str) -> None:
    tensors = [torch.zeros(shape) if shape else None for shape in arguments[:3]]
    with pytest.raises(RuntimeError, match=message) as eager:
        F.conv2d(*tensors, *arguments[3:])
    assert isinstance(eager.value, GraphError)
    assert eager.value.location.file.endswith("test_conv.py")
    # In a trace too, where it is met, not where the graph is compiled.
    with pytest.raises(RuntimeError, match=message):
        torch.compile(lambda x, w: F.conv2d(x, w, *tensors[2:], *arguments[3:]))(*tensors[:2])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (((1, 4, 3, 3), (3, 2, 1, 1)), "to have 3 channels, but got 4 channels instead"),
        (((1, 3, 3, 3), (3, 2, 1, 1), (3,)), "1-dimensional with 2 elements"),
        (((1, 3, 1, 1), (3, 2, 1, 1), None, 1, 1), r"\(-1 x -1\). Output size is too small"),
        (((1, 3, 3, 3), (3, 2, 1, 1), None, 1, 0, 1), "output padding must be smaller than either"),
        (((1, 3, 3, 3), (3, 2, 1, 1), None, 1, 0, -1), "negative output_padding"),
        (((1, 3, 3, 3), (3, 2, 1, 1), None, 1, 0, 0, 2), "weight to be divisible by 2"),
    ],
)
def test_conv_transpose_errors(arguments: tuple[Any, ...], message: str) -> None:
    tensors = [torch.zeros(shape) if shape else None for shape in arguments[:3]]
    with pytest.raises(RuntimeError, match=message):
        F.conv_transpose2d(*tensors, *arguments[3:])


def test_numbers_that_are_none() -> None:
    x, w = torch.zeros(1, 3, 5, 5), torch.zeros(4, 3, 3, 3)
    with pytest.raises(TypeError, match="stride must be an int or a tuple of ints"):
        F.conv2d(x, w, stride=1.5)
    with pytest.raises(TypeError, match="padding must be an int or a tuple of ints, not 'same'"):
        F.conv_transpose2d(x, w, padding="same")


def test_numbers_that_equal_others() -> None:
    """What is known of a call with ints does not hold for a float that equals one, nor for a tensor
    that is another number at the next call."""
    x, w = torch.zeros(1, 1, 5, 5), torch.zeros(1, 1, 3, 3)
    assert F.conv2d(x, w, stride=2).shape == F.conv2d(x, w, stride=(2, 2)).shape == (1, 1, 2, 2)
    with pytest.raises(TypeError, match=r"stride must be an int or a tuple of ints, not 2\.0"):
        F.conv2d(x, w, stride=2.0)
    stride = torch.tensor(2)
    assert F.conv2d(x, w, stride=stride).shape == F.max_pool2d(x, 2, stride).shape == (1, 1, 2, 2)
    stride.fill_(1)
    assert F.conv2d(x, w, stride=stride).shape == (1, 1, 3, 3)
    assert F.max_pool2d(x, 2, stride).shape == (1, 1, 4, 4)


def test_dtypes() -> None:
    x, w, b = torch.zeros(1, 3, 5, 5), torch.zeros(4, 3, 3, 3), torch.zeros(4)
    with pytest.raises(RuntimeError, match=r"Input type \(double\) and weight type \(float\)"):
        F.conv2d(x.double(), w, b)
    with pytest.raises(RuntimeError, match=r"Input type \(float\) and bias type \(double\)"):
        F.conv2d(x, w, b.double())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((3, 4, 3, 1, 0, 1, 2), "in_channels must be divisible by groups"),
        ((4, 3, 3, 1, 0, 1, 2), "out_channels must be divisible by groups"),
        ((4, 3, 3, 1, 0, 1, 0), "groups must be a positive integer"),
        ((4, 3, 3, 1, "x"), "Invalid padding string 'x', should be one of"),
        ((4, 3, 3, 2, "same"), "padding='same' is not supported for strided convolutions"),
        ((4, 3, 3, 1, 0, 1, 1, True, "wrap"), "but got padding_mode='wrap'"),
    ],
)
def test_layer_errors(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        nn.Conv2d(*arguments)
    if arguments[-1] == "wrap":
        with pytest.raises(ValueError, match='Only "zeros" padding mode is supported'):
            nn.ConvTranspose2d(4, 3, 3, padding_mode="circular")
