"""`special` against PyTorch, and against arithmetic of 40 digits where mpmath is installed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import frontend
from frontend.autograd import gradcheck, gradgradcheck

special = frontend.special
# Function, least and greatest argument.
ONE = [
    ("i0", -20, 20), ("i0e", -200, 200), ("i1", -20, 20),
    ("i1e", -200, 200), ("bessel_j0", -60, 60), ("bessel_j1", -60, 60),
    ("bessel_y0", 0.1, 60), ("bessel_y1", 0.1, 60),
    ("modified_bessel_i0", -20, 20), ("modified_bessel_i1", -20, 20),
    ("modified_bessel_k0", 0.1, 20), ("modified_bessel_k1", 0.1, 20),
    ("scaled_modified_bessel_k0", 0.1, 90), ("scaled_modified_bessel_k1", 0.1, 90),
    ("spherical_bessel_j0", -20, 20), ("erfcx", -5, 90),
    ("log_ndtr", -50, 10), ("ndtr", -10, 10), ("ndtri", 0.01, 0.99),
    ("entr", 0.01, 4), ("psi", 0.1, 9), ("gammaln", 0.1, 9),
    ("expit", -9, 9),
]  # fmt: skip
# PyTorch's have no gradients, or refuse them.
NO_GRADIENT = {name for name, *_ in ONE if "bessel" in name}


# PyTorch's are as exact as f32 beyond 5.
COARSE = {"bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1"}


@pytest.mark.parametrize(("name", "low", "high"), ONE)
def test_functions_of_one_number(peer: Any, name: str, low: float, high: float) -> None:
    x = np.linspace(low, high, 301)
    wanted = name not in NO_GRADIENT
    call = lambda t, x: getattr(t.special, name)(x if wanted else x.detach())  # noqa: E731
    fine = 4e-7 if name in COARSE else 1e-8 if name in ("psi", "log_ndtr", "ndtri") else 1e-11
    peer.function(call, x, bound=fine, gradients=wanted)
    peer.function(call, x.astype(np.float32), bound=2e-4, gradients=wanted)


def exactly(name: str, x: float) -> Any:
    """The function in arithmetic of 40 digits."""
    mp = pytest.importorskip("mpmath")
    mp.mp.dps = 40
    x = mp.mpf(x)
    order = int(name[-1]) if name[-1].isdigit() else int(name[1]) if name[0] == "i" else 0
    normal = lambda: mp.erfc(-x / mp.sqrt(2)) / 2  # noqa: E731
    table = {
        "i": lambda: mp.besseli(order, x), "ie": lambda: mp.besseli(order, x) * mp.exp(-abs(x)),
        "modified_bessel_i": lambda: mp.besseli(order, x),
        "modified_bessel_k": lambda: mp.besselk(order, x),
        "scaled_modified_bessel_k": lambda: mp.besselk(order, x) * mp.exp(x),
        "bessel_j": lambda: mp.besselj(order, x), "bessel_y": lambda: mp.bessely(order, x),
        "spherical_bessel_j": lambda: mp.sin(x) / x if x else mp.mpf(1),
        "erfcx": lambda: mp.exp(x * x) * mp.erfc(x), "ndtr": normal,
        "log_ndtr": lambda: mp.log(normal()), "entr": lambda: -x * mp.log(x),
        "ndtri": lambda: mp.sqrt(2) * mp.erfinv(2 * x - 1), "psi": lambda: mp.digamma(x),
        "gammaln": lambda: mp.loggamma(x), "expit": lambda: 1 / (1 + mp.exp(-x)),
    }  # fmt: skip
    return float(table["".join(letter for letter in name if not letter.isdigit())]())


@pytest.mark.parametrize(("name", "low", "high"), ONE)
def test_close_to_exact(name: str, low: float, high: float) -> None:
    """Within 1e-13 of the value, or of the greatest among the neighbours of a zero."""
    x = np.linspace(low, high, 97)
    expected = np.array([exactly(name, value) for value in x])
    computed = getattr(special, name)(frontend.tensor(x)).numpy()
    near = np.lib.stride_tricks.sliding_window_view(np.pad(np.abs(expected), 3, "edge"), 7)
    rises = name.startswith(("bessel", "spherical", "entr", "psi", "gammaln", "ndtri"))
    scale = near.max(axis=1) if rises else np.abs(expected)
    assert (np.abs(computed - expected) <= 1e-13 * scale).all()


@pytest.mark.parametrize(("name", "low", "high"), ONE)
def test_gradients(name: str, low: float, high: float) -> None:
    places = np.linspace(max(low, -6), min(high, 12), 9) + 0.0123
    places = np.clip(places, low, high - 1e-3)
    function = getattr(special, name)
    assert gradcheck(function, (frontend.tensor(places, requires_grad=True),))
    assert gradgradcheck(function, (frontend.tensor(places, requires_grad=True),), atol=1e-4)


AWKWARD = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-30, -1e-30, 1.0, -1.0, 8.0, 2.0, 1e4]


@pytest.mark.parametrize("name", [name for name, *_ in ONE if name not in ("psi", "gammaln")])
def test_awkward_arguments(peer: Any, name: str) -> None:
    x = np.array(AWKWARD)
    if name in ("bessel_y1", "i1e", "log_ndtr"):
        x = x[np.isfinite(x)]  # the limits of PyTorch's are NaN, or have no side
    call = lambda t, x: getattr(t.special, name)(x.detach())  # noqa: E731
    peer.function(call, x, bound=4e-7 if name in COARSE else 1e-11, gradients=False)


POLYNOMIALS = [
    "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
    "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u",
    "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w", "hermite_polynomial_h",
    "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
]  # fmt: skip


@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(peer: Any, name: str) -> None:
    x = np.linspace(-0.9, 1.9, 29)

    def call(t: Any, x: Any) -> Any:
        function = getattr(t.special, name)
        return [function(x.detach(), n) for n in (-1, 0, 1, 2, 5)]

    def of_tensors(t: Any, x: Any) -> Any:
        return getattr(t.special, name)(x.detach()[:5], t.tensor([0, 1, 2, 4, -1]))

    peer.function(call, x, bound=1e-11, gradients=False)
    peer.function(of_tensors, x, bound=1e-11, gradients=False)
    function = getattr(special, name)
    assert gradcheck(lambda x: function(x, 4), (frontend.tensor(x[:5], requires_grad=True),))


CALLS = """
t.special.xlog1py(p, v) | t.special.xlog1py(p - p.detach(), v) | t.special.xlog1py(p, 2.0)
t.special.multigammaln(p + 2, 3) | t.mvlgamma(p + 2, 1) | p.mvlgamma(1) | t.i0(v) | v.i0()
t.special.xlogy(v, p) | t.special.sinc(v) | t.special.softmax(v, 0) | t.special.logsumexp(v, 0)
t.special.log_softmax(v, 0) | t.special.exp2(v) | t.special.expm1(v) | t.special.log1p(p)
t.special.erf(v) | t.special.erfc(v) | t.special.erfinv(v / 9) | t.special.digamma(p)
t.special.polygamma(1, p) | t.special.round(v) | t.special.logit(p / 9) | t.copysign(v, p)
t.hypot(v, p) | t.ldexp(v, p.detach()) | v.clone().i0_() | t.i0_(v.clone())
"""
EAGER = """
t.special.gammainc(p.detach(), p * 2) | t.special.gammaincc(p.detach(), p * 2)
t.igamma(p.detach(), v.abs()) | p.detach().igammac(v.abs() * 9) | t.special.zeta(2.0, p.detach())
t.special.zeta(t.tensor([1.0, 0.5, 2.0]), t.tensor([1.0, 2, 0]))
t.special.zeta(p.detach() + 1, 2.5)
t.special.gammainc(t.tensor([1.0, 2, 5, 50, 0, 100]), t.tensor([0.5, 2, 20, 45, 1, 130.0]))
t.special.gammaincc(t.tensor([1.0, 2, 5, 50, 0, 100]), t.tensor([0.5, 2, 20, 45, 1, 130.0]))
t.special.gammainc(t.tensor([-1.0, 2, INF, 0]), t.tensor([0.5, -2, 1, 0]))
t.special.ndtri(t.tensor([1e-30, 1e-10, -1, 2.0, 0, 1])) | t.special.entr(t.tensor([-1.0, 0]))
t.special.xlog1py(t.tensor([0.0, 0, 2]), t.tensor([-2.0, NAN, -1]))
"""


def parts(text: str) -> list[str]:
    return [part.strip() for line in text.strip().splitlines() for part in line.split(" | ")]


@pytest.mark.parametrize("text", parts(CALLS) + parts(EAGER))
def test_calls(peer: Any, text: str) -> None:
    v, p = peer.random.standard_normal(7), np.abs(peer.random.standard_normal(7)) + 0.2
    names = {"INF": np.inf, "NAN": np.nan}
    call = lambda t, v, p: eval(text, {"t": t, "v": v, "p": p, **names})  # noqa: E731
    modes = ["eager"] if text in parts(EAGER) else ["eager", "compiled"]
    peer.function(call, v, p, modes=modes, bound=1e-6 if "tensor" in text else 1e-8)


def test_zeta_has_a_gradient() -> None:
    q = frontend.tensor([0.5, 1.5, 4.0], dtype=frontend.float64, requires_grad=True)
    assert gradcheck(lambda q: special.zeta(3.0, q), (q,))
    expected = [np.pi**2 / 2, 4.934802200544679 - 4, 0.2838229557371153]
    np.testing.assert_allclose(special.zeta(2.0, q).detach().numpy(), expected, rtol=1e-14)
    compiled = frontend.compile(lambda q: special.zeta(2.0, q))(q.detach())
    np.testing.assert_allclose(compiled.numpy(), expected, rtol=1e-14)


def test_the_incomplete_gamma_function_compiled() -> None:
    a, x = frontend.tensor([0.5, 2, 7]), frontend.tensor([0.1, 3, 5])
    for function in (special.gammainc, special.gammaincc):
        np.testing.assert_array_equal(
            frontend.compile(function)(a, x).numpy(), function(a, x).numpy()
        )


def test_the_airy_function(peer: Any) -> None:
    # PyTorch's own is off by 3e-6, and has no gradient.
    x = np.concatenate([np.linspace(-12, 12, 97), [np.inf, -np.inf, np.nan]])
    peer.function(lambda s, x: s.special.airy_ai(x.detach()), x, gradients=False)
