"""Pointwise functions of two operands, and those made of several ops."""

from __future__ import annotations

import math

import numpy as np
import pytest

import frontend as torch

INF, NAN = math.inf, math.nan


def both(function, *arguments):
    return function(*arguments), torch.compile(function)(*arguments)


@pytest.mark.parametrize(
    ("name", "reference"),
    [("atan2", np.arctan2), ("hypot", np.hypot), ("logaddexp", np.logaddexp),
     ("logaddexp2", np.logaddexp2), ("copysign", np.copysign)],
)  # fmt: skip
def test_against_float64(name: str, reference: np.ufunc) -> None:
    x, y = np.random.default_rng(0).standard_normal((2, 3, 50)).astype(np.float32) * 5
    function = getattr(torch, name)
    for actual in both(lambda x, y: function(x, y), torch.tensor(x), torch.tensor(y)):
        np.testing.assert_allclose(actual.numpy(), reference(x.astype(float), y), 2e-6)
    tensors = [torch.tensor(v[0, :3], dtype=torch.float64, requires_grad=True) for v in (x, y)]
    assert torch.autograd.gradcheck(function, tensors)


def test_special_values() -> None:
    values = [INF, -INF, NAN, 0.0, -0.0, 1.0, -1.0]
    x, y = (torch.tensor(grid.ravel()) for grid in np.meshgrid(values, values))
    for function, reference in ((torch.logaddexp, np.logaddexp), (torch.hypot, np.hypot),
                                (torch.atan2, np.arctan2)):  # fmt: skip
        with np.errstate(all="ignore"):
            want = reference(x.numpy(), y.numpy())
        for actual in both(lambda x, y: function(x, y), x, y):  # noqa: B023
            np.testing.assert_allclose(actual.numpy(), want, 1e-14)


def test_xlogy() -> None:
    x, y = torch.tensor([0.0, 0.0, 0.0, 2.0, 1.0]), torch.tensor([0.0, -1.0, NAN, 3.0, 0.0])
    for result in both(torch.xlogy, x, y):
        np.testing.assert_allclose(result.numpy(), [0, 0, NAN, 2 * math.log(3), -INF], 1e-6)
    x = torch.tensor([0.0, 0.0], requires_grad=True)
    torch.xlogy(x, torch.tensor([2.0, -1.0])).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), [math.log(2), 0], 1e-6)
    assert torch.xlogy(2, torch.tensor([math.e])).item() == pytest.approx(2)


def test_logit_and_sinc() -> None:
    x = torch.tensor([0.0, 0.5, 1.0, 2.0], requires_grad=True)
    y = torch.logit(x)
    np.testing.assert_array_equal(y.detach().numpy(), [-INF, 0, INF, NAN])
    y.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), [INF, 4, INF, NAN])
    x = torch.tensor([0.0, 0.5, 1.0], requires_grad=True)
    torch.logit(x, eps=0.25).sum().backward()
    assert x.grad.tolist() == [0, 4, 0]
    x = torch.tensor([0.0, 0.5], requires_grad=True)
    torch.sinc(x).sum().backward()
    np.testing.assert_allclose(torch.sinc(x).detach().numpy(), [1, 2 / math.pi], 1e-6)
    np.testing.assert_allclose(x.grad.numpy(), [0, -4 / math.pi], 1e-5)


def test_heaviside() -> None:
    x, v = torch.tensor([-1.0, 0.0, 2.0, NAN]), torch.full((4,), 0.5)
    assert torch.heaviside(x, v).tolist() == [0, 0.5, 1, 0]
    with pytest.raises(RuntimeError, match="different dtypes"):
        torch.heaviside(x, v.double())
    with pytest.raises(RuntimeError, match="aten::heaviside is not implemented"):
        torch.heaviside(x.requires_grad_(), v).sum().backward()


def test_infinities_and_nan() -> None:
    x = torch.tensor([NAN, INF, -INF, 1.0])
    assert x.nan_to_num(2.0).tolist()[0] == 2
    np.testing.assert_array_equal(
        torch.nan_to_num(x).numpy(),
        [0, np.finfo(np.float32).max, np.finfo(np.float32).min, 1],
    )
    assert torch.nan_to_num(x.half()).tolist() == [0, 65504, -65504, 1]
    assert torch.isposinf(x).tolist() == [False, True, False, False]
    assert torch.isneginf(torch.tensor([1])).tolist() == [False]
    assert torch.isreal(x).all()


def test_only_floats() -> None:
    whole = torch.tensor([1, 2])
    with pytest.raises(NotImplementedError, match="'Long'"):
        torch.hypot(whole, whole)
    with pytest.raises(TypeError, match=r"'other' .* must be Tensor, not float"):
        torch.atan2(whole, 2.0)
    assert torch.atan2(whole, whole).dtype is torch.float32
    assert torch.ldexp(whole, whole).tolist() == [2, 8]
    assert torch.float_power(whole, 2).dtype is torch.float64


def test_polynomials_of_degrees_in_a_tensor() -> None:
    """Compiled, the terms are a loop whose end depends on the degrees."""
    x = np.linspace(-0.9, 1.9, 6)
    degrees = [[2.0, 0, -1, 7, 1, 3], [NAN, 1, INF, 9, 2.7, 12]]
    compiled = torch.compile(torch.special.legendre_polynomial_p)
    for row in degrees:
        want = [
            np.polynomial.Legendre.basis(int(n))(v) if n >= 0 and n < INF else 0.0
            for n, v in zip(row, x)
        ]
        for function in (torch.special.legendre_polynomial_p, compiled):
            values = function(torch.tensor(x), torch.tensor(row).double())
            np.testing.assert_allclose(values.numpy(), want, 1e-11, 1e-11)
    assert compiled(torch.ones(0), torch.ones(0)).shape == (0,)


def test_polynomials_of_too_many_terms() -> None:
    x, many = torch.tensor([0.5]), torch.tensor([2.0**31])
    function = torch.special.chebyshev_polynomial_t
    for call in (function, torch.compile(function)):
        for degree in (many, 1 << 31):
            with pytest.raises(RuntimeError, match="degrees go up to 65536"):
                call(x, degree)


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "float64"])
def test_ldexp_keeps_its_dtype_and_rounds_once(name: str) -> None:
    """Of whole exponents, also where the power of two has no value in the dtype."""
    dtype = getattr(torch, name)
    draw = np.random.default_rng(1)
    values = np.array([0.0, -0.0, INF, NAN, 1.5, 2.0**-24, 2.0**-140, 2.0**-1074, 1.7e308])
    drawn = draw.normal(size=40) * 2.0 ** draw.integers(-1060, 1000, 40)
    x = torch.tensor(np.concatenate([values, drawn]), dtype=torch.float64).to(dtype)
    for exponent in (0, 20, -26, 100, 200, -150, -280, -1023, -1074, 1024, 2097, -2100, 5000):
        with np.errstate(over="ignore"):
            exact = np.ldexp(x.double().numpy(), exponent)
        want = torch.tensor(exact).to(dtype).double().numpy()
        for result in both(torch.ldexp, x, torch.tensor(exponent)):
            assert result.dtype is dtype
            np.testing.assert_array_equal(result.double().numpy(), want)
