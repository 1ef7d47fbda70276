"""Arithmetic and choice: rounding, powers, promotion, kinks, what has no derivative."""

from __future__ import annotations

import numpy as np
import pytest

import frontend as torch

X = [7.0, -7.0, 7.0, -7.0, 6.0]
Y = [2.0, 2.0, -2.0, -2.0, 3.0]


def both(function, *arguments):
    """The function eager and compiled."""
    return function(*arguments), torch.compile(function)(*arguments)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_remainders_and_quotients(dtype: torch.dtype) -> None:
    x, y = torch.tensor(X, dtype=dtype), torch.tensor(Y, dtype=dtype)
    a, b = np.array(X), np.array(Y)
    for actual in both(lambda x, y: (x % y, torch.fmod(x, y), x // y,
                                   torch.div(x, y, rounding_mode="trunc")), x, y):  # fmt: skip
        for got, want in zip(actual, (a % b, np.fmod(a, b), a // b, np.trunc(a / b)), strict=True):
            assert got.dtype is dtype
            np.testing.assert_array_equal(got.numpy(), want)


def test_gradients_of_remainders_and_rounded_division() -> None:
    def slopes(function):
        x, y = (torch.tensor(v, requires_grad=True) for v in (7.5, 2.0))
        function(x, y).backward()
        return x.grad.item(), y.grad.item()

    assert slopes(torch.remainder) == (1, -3)
    assert slopes(torch.fmod) == (1, -3)
    assert slopes(lambda x, y: torch.fmod(-x, y)) == (-1, 3)
    assert slopes(lambda x, y: torch.div(x, y, rounding_mode="floor")) == (0, 0)
    assert slopes(lambda x, y: torch.div(x, y, rounding_mode="trunc")) == (0, 0)


def test_integer_powers_are_exact_and_wrap() -> None:
    base = np.array([3, -2, 7, 1, -1, -1, 5, 0, 2])
    power = np.array([39, 63, 22, -3, -3, -4, -1, 0, 64])
    want = np.array([3**39, -(2**63), 7**22, 1, -1, 1, 0, 1, 0])
    for actual in both(lambda x, y: x**y, torch.tensor(base), torch.tensor(power)):
        np.testing.assert_array_equal(actual.numpy(), want)
    assert (torch.tensor([3]) ** 20).item() == 3**20
    assert (torch.tensor([True, False]) ** 2).tolist() == [1, 0]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        torch.tensor([2]) ** -1


def test_numbers_win_over_nan_in_fmax_and_fmin() -> None:
    x, y = torch.tensor([1.0, np.nan, 2.0, np.nan]), torch.tensor([np.nan, 3.0, 2.0, np.nan])
    for high, low in both(lambda x, y: (torch.fmax(x, y), torch.fmin(x, y)), x, y):
        np.testing.assert_array_equal(high.numpy(), [1, 3, 2, np.nan])
        np.testing.assert_array_equal(low.numpy(), [1, 3, 2, np.nan])
    x, y = (torch.tensor([2.0, 1.0], requires_grad=True) for _ in range(2))
    torch.fmax(x, y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1], [0, 0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("shape", [(), (3,)], ids=str)
def test_the_weight_of_lerp_is_promoted_where_it_has_no_dimensions(
    shape: tuple[int, ...], dtype: str
) -> None:
    weight = torch.tensor(0.25, dtype=getattr(torch, dtype), requires_grad=True)
    x = torch.full(shape, 1.0)
    result = torch.lerp(x, x + 2, weight)
    assert result.dtype is (torch.float64 if dtype == "float64" and not shape else torch.float32)
    assert (result == 1.5).all()
    result.sum().backward()
    assert weight.grad.dtype is weight.dtype and weight.grad.item() == 2 * x.numel()
    if shape:
        with pytest.raises(RuntimeError, match=r"expected dtype .* for `weight`"):
            torch.lerp(x, x, torch.ones(1, dtype=torch.float16))


def test_lerp_is_exact_at_its_ends() -> None:
    x, y = torch.tensor([1e8, 0.1]), torch.tensor([1.0, 0.3])
    for weight in (0.0, torch.tensor(0.0)):
        assert torch.equal(torch.lerp(x, y, weight), x)
    for weight in (1.0, torch.tensor(1.0)):
        assert torch.equal(x.lerp(y, weight), y)
    with pytest.raises(RuntimeError, match="expected dtype"):
        torch.lerp(x, y.double(), 0.5)


def test_clamp() -> None:
    x = torch.tensor([-2, 0, 5])
    assert x.clamp(-1, 1).tolist() == [-1, 0, 1]
    assert x.clamp_min(1).tolist() == [1, 1, 5]
    assert torch.clamp(x, max=0.5).dtype is torch.float32
    assert torch.tensor([300], dtype=torch.int32).clamp(max=255).item() == 255
    with pytest.raises(TypeError, match="both numbers or both tensors"):
        torch.clamp(x, x, 2)


def test_floor_divide_has_no_derivative_and_the_rest_has() -> None:
    def call(x):
        return x // 2, x * 3

    for function in (call, torch.compile(call)):
        for _ in range(2):  # the second call finds what the first compiled
            x = torch.tensor([3.0, 5.0], requires_grad=True)
            halves, triples = function(x)
            assert halves.tolist() == [1, 2]
            assert halves.requires_grad and "NotImplemented" in repr(halves.grad_fn)
            triples.sum().backward()
            assert x.grad.tolist() == [3, 3]
            with pytest.raises(RuntimeError, match="aten::floor_divide is not implemented"):
                halves.sum().backward()
    assert not (torch.tensor([3.0]) // 2).requires_grad
    only = torch.compile(lambda x: x // 2)(torch.tensor([3.0], requires_grad=True))
    with pytest.raises(RuntimeError, match="not implemented"):
        only.backward()


def test_alpha() -> None:
    x, b = torch.tensor([1, 2]), torch.tensor([True, False])
    assert torch.add(x, x, alpha=3).tolist() == [4, 8]
    assert torch.add(b, ~b, alpha=True).tolist() == [True, True]
    assert torch.rsub(x, 10, alpha=2).tolist() == [8, 6]
    with pytest.raises(RuntimeError, match="must not be a floating point"):
        torch.add(x, x, alpha=0.5)
    with pytest.raises(RuntimeError, match="Boolean alpha"):
        torch.add(x, x, alpha=True)


def test_addcdiv_refuses_integers() -> None:
    x = torch.tensor([4.0])
    assert torch.addcdiv(x, x, x, value=2).item() == 6
    with pytest.raises(RuntimeError, match="Integer division with addcdiv"):
        torch.addcdiv(x, x.long(), x.long())


def test_a_difference_takes_the_alpha_whose_opposite_fits() -> None:
    """As PyTorch, which adds -alpha times the other."""
    x, y = torch.tensor([5, -7], dtype=torch.int8), torch.tensor([3, 2], dtype=torch.int8)
    expected = (np.array([5, -7]) - 128 * np.array([3, 2])).astype(np.int8)
    assert torch.sub(x, y, alpha=128).tolist() == expected.tolist()
    assert x.clone().sub_(y, alpha=128).tolist() == expected.tolist()
    for call in (lambda: torch.sub(x, y, alpha=-128), lambda: torch.add(x, y, alpha=128)):
        with pytest.raises(RuntimeError, match="to type int8 without overflow"):
            call()
