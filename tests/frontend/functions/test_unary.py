"""Functions of one operand: against float64, at special values, their gradients, eager and
compiled."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import frontend as torch

INF, NAN = math.inf, math.nan
REFERENCES: dict[str, tuple[Callable[[np.ndarray], np.ndarray], float, float]] = {
    "exp2": (np.exp2, -140, 120), "expm1": (np.expm1, -20, 80), "log2": (np.log2, 1e-30, 1e30),
    "log10": (np.log10, 1e-30, 1e30), "log1p": (np.log1p, -0.9, 1e6), "tan": (np.tan, -50, 50),
    "asin": (np.arcsin, -1, 1), "acos": (np.arccos, -1, 1), "atan": (np.arctan, -1e3, 1e3),
    "sinh": (np.sinh, -50, 50), "cosh": (np.cosh, -50, 50), "asinh": (np.arcsinh, -1e6, 1e6),
    "acosh": (np.arccosh, 1, 1e6), "atanh": (np.arctanh, -0.99, 0.99),
    "erfc": (np.vectorize(math.erfc), -3, 9), "square": (np.square, -9, 9),
    "trunc": (np.trunc, -9, 9), "sgn": (np.sign, -9, 9), "reciprocal": (np.reciprocal, 0.1, 9),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_within_a_few_units_of_float64(name: str) -> None:
    reference, low, high = REFERENCES[name]
    random = np.random.default_rng(0)
    x = random.uniform(low, high, 500).astype(np.float32)
    exact = reference(x.astype(np.float64))
    function = getattr(torch, name)
    for run in (function, torch.compile(lambda x: function(x))):
        got = run(torch.tensor(x)).numpy()
        assert got.dtype == np.float32
        assert (np.abs(got - exact) <= 5 * np.spacing(np.abs(exact).astype(np.float32))).all()
    np.testing.assert_allclose(function(torch.tensor(x).double()).numpy(), exact, 1e-14, 1e-300)


KNOWN = {
    "expm1": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (1e-30, 1e-30)],
    "log1p": [(0.0, 0.0), (-0.0, -0.0), (INF, INF), (-1.0, -INF), (-2.0, NAN), (1e-30, 1e-30)],
    "log2": [(8.0, 3.0), (0.0, -INF), (-1.0, NAN), (INF, INF), (2.0**-140, -140.0)],
    "exp2": [(10.0, 1024.0), (-INF, 0.0), (200.0, INF), (-140.0, 2.0**-140)],
    "lgamma": [(1.0, 0.0), (2.0, 0.0), (0.0, INF), (-1.0, INF), (INF, INF), (0.5, 0.5723649)],
    "digamma": [(1.0, -0.5772157), (0.0, -INF), (-0.0, INF), (-2.0, NAN), (INF, INF), (-INF, NAN)],
    "erfinv": [(0.0, 0.0), (-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (0.5, 0.47693628)],
    "erfc": [(0.0, 1.0), (INF, 0.0), (-INF, 2.0)],
    "acosh": [(1.0, 0.0), (0.5, NAN), (INF, INF)],
    "atanh": [(1.0, INF), (-1.0, -INF), (2.0, NAN), (-0.0, -0.0)],
    "sign": [(NAN, 0.0), (-0.0, 0.0), (-INF, -1.0)],
    "trunc": [(-0.5, -0.0), (2.7, 2.0), (INF, INF), (NAN, NAN)],
    "round": [(0.5, 0.0), (1.5, 2.0), (-0.5, -0.0)],
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_values(name: str) -> None:
    x, want = np.array(KNOWN[name], np.float32).T.copy()
    function = getattr(torch, name)
    for run in (function, torch.compile(lambda x: function(x))):
        got = run(torch.tensor(x)).numpy()
        np.testing.assert_allclose(got, want, 2e-7)
        zeros = want == 0
        np.testing.assert_array_equal(np.signbit(got[zeros]), np.signbit(want[zeros]))


def test_polygamma() -> None:
    x = torch.tensor([1.0, 0.5, 1.5, -0.5], dtype=torch.float64)
    squared = math.pi**2
    want = [squared / 6, squared / 2, squared / 2 - 4, squared / 2 + 4]
    np.testing.assert_allclose(torch.polygamma(1, x).numpy(), want, 1e-14)
    zeta3 = 1.2020569031595942
    want = [-2 * zeta3, -14 * zeta3, -14 * zeta3 + 16]
    np.testing.assert_allclose(x[:3].polygamma(2).numpy(), want, 1e-13)
    assert torch.equal(torch.polygamma(0, x), torch.digamma(x))
    with pytest.raises(RuntimeError, match="does not support negative n"):
        torch.polygamma(-1, x)


@pytest.mark.parametrize(
    "name",
    ["exp2", "expm1", "log2", "log10", "log1p", "tan", "asin", "acos", "atan", "sinh", "cosh",
     "asinh", "atanh", "erfc", "erfinv", "lgamma", "digamma", "frac", "reciprocal", "square"],
)  # fmt: skip
def test_gradients(name: str) -> None:
    x = torch.tensor([0.15, 0.4, 0.85], dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(getattr(torch, name), (x,))


def test_dtypes() -> None:
    whole = torch.tensor([1, 2])
    assert torch.exp2(whole).dtype is torch.float32
    assert torch.trunc(whole).dtype is torch.int64
    assert torch.signbit(torch.tensor([-0.0, 0.0, -1.0])).tolist() == [True, False, True]
    assert torch.square(torch.tensor([True])).dtype is torch.int64
    assert torch.sign(torch.tensor([True])).dtype is torch.bool
    for call, words in (
        (torch.abs, "\"abs_cpu\" not implemented for 'Bool'"),
        (torch.floor, "\"floor_cpu\" not implemented for 'Bool'"),
        (torch.neg, "the `-` operator, on a bool tensor is not supported"),
        (torch.relu, "Boolean inputs not supported for relu"),
        (torch.positive, r"The `\+` operator, on a bool tensor is not supported"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call(torch.tensor([True]))
    with pytest.raises(TypeError, match="must be Tensor, not float"):
        torch.neg(1.0)
    x = torch.tensor([1.0])
    assert +x is x


def test_rounding_to_decimals() -> None:
    x = torch.tensor([1.25, -3.775, 1234.5])
    np.testing.assert_allclose(torch.round(x, decimals=1).numpy(), [1.2, -3.8, 1234.5], 1e-6)
    assert torch.round(x, decimals=-2).tolist() == [0, 0, 1200]


def test_erfinv_of_f32_as_in_f64() -> None:
    """Also beside 1, where the greatest x is 1 - 2^-24."""
    near_one = 1 - np.arange(1, 3000) * 2.0**-24
    x = np.concatenate([np.linspace(-0.999, 0.999, 9000), near_one, 10.0 ** np.arange(-38, 0)])
    x = torch.tensor(x.astype(np.float32))
    want = x.double().erfinv().numpy()
    unit = np.spacing(np.abs(want).astype(np.float32))
    for function in (torch.erfinv, torch.compile(torch.erfinv)):
        for operand in (x, x[::100]):  # NumPy computes few elements
            place = slice(None, None, 1 if operand is x else 100)
            error = np.abs(function(operand).numpy() - want[place]) / unit[place]
            assert error.max() <= 3


@pytest.mark.parametrize("eps", [0.0, 0.2, 0.5, 0.6, 1.0, 1.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_logit_with_bounds_in_any_order(eps: float, dtype: str) -> None:
    """What is below eps counts as eps, else what is above 1 - eps as that: for eps above 1/2 too,
    where everything is beyond one of them, and no gradient comes through."""
    numbers = np.array([-1, 0, 0.1, 0.3, 0.45, 0.55, 0.7, 1, 4, NAN], dtype)
    low, high = np.array(eps, dtype), 1 - np.array(eps, dtype)
    kept = np.where(numbers < low, low, np.where(numbers > high, high, numbers))
    with np.errstate(all="ignore"):
        expected = np.log(kept / (1 - kept))
        slope = np.where((numbers < low) | (numbers > high), 0, 1 / (kept * (1 - kept)))
    x = torch.tensor(numbers, requires_grad=True)
    for logit in (torch.logit, torch.compile(torch.logit)):
        x.grad = None
        y = logit(x, eps)
        y.sum().backward()
        np.testing.assert_allclose(y.detach().numpy(), expected, 1e-5, 1e-6)
        np.testing.assert_allclose(x.grad.numpy(), slope, 1e-5)
