"""Pointwise functions against PyTorch: values, gradients, promotion, special values, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

F32 = np.float32


def words(text: str) -> list[str]:
    return text.split()


INF, NAN = np.inf, np.nan
SPECIAL = np.array(
    [0.0, -0.0, 0.5, -0.5, 1, -1, 2, -2.5, 3, 20, -20, 90, -90, 1e-30, 1e30, INF, -INF, NAN], F32
)


def spread(peer: Any, low: float, high: float) -> np.ndarray:
    return peer.random.uniform(low, high, (3, 7)).astype(F32)


ANY = (-3, 3)
UNARY: dict[str, tuple[float, float]] = {
    **dict.fromkeys(words("exp exp2 expm1 sigmoid tanh sin cos tan sinh cosh asinh atan erf erfc"),
                    ANY),
    **dict.fromkeys(words("floor ceil trunc round abs neg sign sgn relu frac square sinc"), ANY),
    **dict.fromkeys(words("deg2rad rad2deg nan_to_num arctan arcsinh absolute negative fix"), ANY),
    **dict.fromkeys(words("log log2 log10 log1p sqrt rsqrt reciprocal lgamma digamma"), (0.1, 4)),
    **dict.fromkeys(words("asin acos atanh erfinv arcsin arccos arctanh"), (-0.95, 0.95)),
    **dict.fromkeys(words("acosh arccosh"), (1.1, 4)),
    "logit": (0.05, 0.95),
}  # fmt: skip
WHOLE = words("floor ceil trunc round abs neg sign sgn relu square absolute negative fix")


# PyTorch has no derivative of these forms, or a result that NumPy does not take.
NOT_IN_PLACE = words("asinh arcsinh atanh arctanh acosh arccosh")


@pytest.mark.parametrize("name", UNARY)
def test_unary(peer: Any, name: str) -> None:
    """As a function, a method, in place and with `out`."""

    def call(t: Any, x: Any) -> Any:
        results = [getattr(t, name)(x), getattr(x, name)()]
        if name not in NOT_IN_PLACE:
            results.append(getattr(x.clone(), f"{name}_")())
        if name != "relu":
            with t.no_grad():
                results.append(getattr(t, name)(x, out=t.zeros(3, 7)))
        return results

    peer.function(call, spread(peer, *UNARY[name]), bound=1e-5)


@pytest.mark.parametrize("name", UNARY)
def test_unary_on_integers_bools_and_no_elements(peer: Any, name: str) -> None:
    def call(t: Any, *xs: Any) -> Any:
        return [getattr(t, name)(x) for x in xs]

    whole = np.array([1, 2, 3, 1])
    peer.function(call, np.zeros((0, 3), F32), np.array(0.5, F32))
    for array in (whole, whole.astype(np.int32), np.array([True, True]), whole.astype(np.uint8)):
        tensor = peer.torch.tensor(array)
        try:
            getattr(peer.torch, name)(tensor)
        except (RuntimeError, NotImplementedError):
            peer.refusal(lambda t, array=array: getattr(t, name)(t.tensor(array)))
        else:
            peer.function(call, array)


@pytest.mark.parametrize("name", [name for name in UNARY if name not in ("lgamma", "digamma")])
def test_unary_at_special_values(peer: Any, name: str) -> None:
    """Values, and gradients where the value is a number."""
    with np.errstate(all="ignore"):
        peer.function(lambda t, x: getattr(t, name)(x), SPECIAL, gradients=False, bound=2e-6)

    def slopes(t: Any, x: Any) -> Any:
        y = getattr(t, name)(x)
        return t.autograd.grad(y, x, t.ones_like(y))[0]

    # Not where digits cancel, a square overflows, or PyTorch's zeros are of a special kind.
    if name not in ("sinc", "tan", "sgn"):
        peer.function(slopes, SPECIAL, gradients=False, modes=["eager"], bound=2e-6)


def test_gamma_functions_at_poles(peer: Any) -> None:
    x = np.array([0.0, -0.0, -1, -3, -1.5, -2.25, 0.001, 30, 1e10, INF, NAN], F32)
    peer.function(lambda t, x: (t.lgamma(x), t.digamma(x)), x, gradients=False)
    y = np.array([-2.25, -0.75, 0.25, 1, 4.5, 40], F32)
    for n in (0, 1, 2, 4):
        peer.function(lambda t, y, n=n: (t.polygamma(n, y), y.polygamma(n)), y[n > 1 and 2 :])


def test_float64_is_as_exact(peer: Any) -> None:
    x = peer.random.uniform(0.1, 0.9, 50)
    names = words("exp2 expm1 log2 log10 log1p tan asin acos atanh sinh erfc erfinv lgamma")
    peer.function(lambda t, x: [getattr(t, name)(x) for name in names], x, bound=1e-13)
    # PyTorch's trigamma has 11 digits.
    peer.function(lambda t, x: t.digamma(x), x, bound=1e-10)


def test_small_arguments_keep_their_digits(peer: Any) -> None:
    """To the last places of each number, not of the greatest."""
    x = np.concatenate([np.logspace(-38, -0.1, 200), -np.logspace(-38, -0.1, 200)]).astype(F32)
    t, f = peer.torch, peer.ours(x)
    for name in ("expm1", "log1p", "asinh", "atanh", "sinh", "tan", "erf", "erfinv", "sin"):
        exact = getattr(t, name)(t.tensor(x, dtype=t.float64)).numpy()
        got = getattr(f, name)().detach().numpy()
        spacing = np.spacing(np.abs(exact).astype(F32))
        assert (np.abs(got - exact) <= 4.5 * spacing).all(), name


# -- two operands --------------------------------------------------------------------------------

BINARY = words("add sub mul div true_divide pow remainder fmod maximum minimum fmax fmin")
FLOATS = words("atan2 arctan2 hypot logaddexp logaddexp2 xlogy copysign ldexp float_power")
ONLY_NEW = words("maximum minimum fmax fmin logaddexp logaddexp2 float_power")


@pytest.mark.parametrize("name", [*BINARY, *FLOATS, "floor_divide"])
def test_binary_with_broadcasting(peer: Any, name: str) -> None:
    positive = name in ("pow", "xlogy", "float_power")
    x = spread(peer, 0.2, 3) if positive else spread(peer, -3, 3)
    y = spread(peer, 0.3, 3)[:1] if positive else spread(peer, -3, 3)[:1]

    def call(t: Any, x: Any, y: Any) -> Any:
        results = [getattr(t, name)(x, y), getattr(x, name)(y)]
        if name not in ONLY_NEW:
            results.append(getattr(x.clone(), f"{name}_")(y))
        return results

    peer.function(call, x, y, gradients=name != "floor_divide")


@pytest.mark.parametrize("name", BINARY)
def test_binary_promotion(peer: Any, name: str) -> None:
    i = np.array([[5, -3, 7], [1, 4, -9]])
    operands = [i, i.astype(np.int32), i.astype(F32) + 0.25, np.array(2), np.array(2.5, F32),
                np.array([2, 3, 1]), np.array([2.5, 3, 1])]  # fmt: skip
    if name == "pow":
        operands = [np.asarray(np.abs(x)) for x in operands]

    def call(t: Any, *xs: Any) -> Any:
        return [getattr(t, name)(x, y) for x in xs for y in xs]

    peer.function(call, *operands, gradients=False)


NUMBERS = [2, 2.5, -3, True]


@pytest.mark.parametrize("name", words("add sub mul div remainder fmod floor_divide pow xlogy"))
def test_numbers_as_operands(peer: Any, name: str) -> None:
    def call(t: Any, *xs: Any) -> Any:
        results = []
        for x in xs:
            for number in NUMBERS:
                if name == "sub" and number is True:
                    continue
                if name == "pow" and number == -3 and not x.is_floating_point():
                    continue
                results.append(getattr(t, name)(x, number))
        return results

    xs = np.array([1.5, 2, 0.25], F32), np.array([4, 7, 1]), np.array([2, 5], np.int32)
    peer.function(call, *xs, gradients=name != "floor_divide")
    if name in ("pow", "remainder", "xlogy"):
        slopes = name != "remainder"  # PyTorch has none
        peer.function(lambda t, *xs: [getattr(t, name)(2.5, x) for x in xs], *xs, gradients=slopes)


def test_alpha_and_value(peer: Any) -> None:
    x, y, z = spread(peer, -2, 2), spread(peer, -2, 2), spread(peer, 0.5, 2)
    peer.function(
        lambda t, x, y, z: (
            t.add(x, y, alpha=2.5), x.sub(y, alpha=3), t.rsub(x, y, alpha=2), t.rsub(x, 3),
            t.addcmul(x, y, z, value=0.5), x.addcdiv(y, z, value=-2), t.addcdiv(x, y, z),
            t.add(x, 2, alpha=3), x.clone().addcmul_(y, z), x.clone().add_(y, alpha=-1),
        ),
        x, y, z,
    )  # fmt: skip
    i = np.array([1, 2, 3])
    peer.function(
        lambda t, i, b: (t.addcmul(i, i, i, value=2), t.add(i, i, alpha=3), t.add(b, b, alpha=2)),
        i, i > 1,
    )  # fmt: skip


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.7, 1.0, "tensor"])
def test_lerp(peer: Any, weight: Any) -> None:
    x, y, w = spread(peer, -2, 2), spread(peer, -2, 2), spread(peer, -1, 2)[0]

    def call(t: Any, x: Any, y: Any, w: Any) -> Any:
        operand = w if weight == "tensor" else weight
        return t.lerp(x, y, operand), x.lerp(y, operand), x.clone().lerp_(y, operand)

    peer.function(call, x, y, w)


def test_division_with_rounding(peer: Any) -> None:
    """Floats and integers of every sign; the gradient of rounded division is 0."""
    x, y = np.array([7, -7, 7, -7, 6, 0.0], F32), np.array([2, 2, -2, -2, 3, 5], F32)
    i, j = x.astype(np.int64), y.astype(np.int64)

    def call(t: Any, *xs: Any) -> Any:
        x, y, i, j = xs
        pairs = (x, y), (i, j), (x, 2.5), (i, 3)
        return [
            t.div(a, b, rounding_mode=mode) for a, b in pairs for mode in (None, "floor", "trunc")
        ]

    peer.function(call, x, y, i, j)


@pytest.mark.parametrize("name", ["floor_divide", "heaviside"])
def test_no_derivative(peer: Any, name: str) -> None:
    """The result requires grad, and backward through it raises, eager and compiled."""
    import frontend

    for t, wrap in ((peer.torch, None), (frontend, None), (frontend, frontend.compile)):
        function = lambda x, t=t: (getattr(t, name)(x, t.ones_like(x)), x * 2)  # noqa: E731
        x = t.tensor([1.0, 2.0], requires_grad=True)
        y, z = (wrap(function) if wrap else function)(x)
        z.sum().backward()
        assert x.grad.tolist() == [2, 2]
        assert y.requires_grad
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not"):
            y.sum().backward()


@pytest.mark.parametrize(
    "call",
    [
        lambda t, x, y: t.clamp(x, -1, 1),
        lambda t, x, y: t.clamp(x, max=0.5),
        lambda t, x, y: x.clamp(min=y),
        lambda t, x, y: x.clamp(y, y + 1),
        lambda t, x, y: x.clamp(y + 1, y),
        lambda t, x, y: t.clip(x, 1, -1),
        lambda t, x, y: t.clamp_min(x, 0.5),
        lambda t, x, y: x.clamp_max(y),
        lambda t, x, y: x.clone().clamp_(-1, 1).clamp_min_(0),
        lambda t, x, y: t.where(x > 0, x, y),
        lambda t, x, y: t.where(x > 0, 1.0, y),
        lambda t, x, y: t.where(x > 0, x, 2),
        lambda t, x, y: t.where(x > 0, 1, 2),
        lambda t, x, y: t.where(x > 0, 1.5, 2),
        lambda t, x, y: x.where(x > 0, y[:1]),
        lambda t, x, y: t.threshold(x, 0.5, -2),
        lambda t, x, y: t.heaviside(x.detach(), y.detach()),
        lambda t, x, y: (t.isposinf(x / 0), t.isneginf(x / 0), t.isreal(x), t.signbit(x)),
        lambda t, x, y: t.copysign(x, -0.0),
        lambda t, x, y: (+x, t.positive(x)),
        lambda t, x, y: t.round(x, decimals=1),
        lambda t, x, y: t.round(x * 100, decimals=-1),
        lambda t, x, y: t.logit(t.sigmoid(x), eps=0.3),
        lambda t, x, y: x.nan_to_num(1.0, 2.0, 3.0),
        lambda t, x, y: t.nan_to_num(x / 0, posinf=2.0),
    ],
)
def test_choice(peer: Any, call: Any) -> None:
    peer.function(call, spread(peer, -3, 3), spread(peer, -3, 3))


def test_special_values_of_two_operands(peer: Any) -> None:
    values = np.array([0.0, -0.0, 1, -1, 2.5, -3, INF, -INF, NAN], F32)
    x, y = (np.ascontiguousarray(grid.ravel()) for grid in np.meshgrid(values, values))
    names = (
        "atan2 hypot logaddexp logaddexp2 xlogy copysign fmax fmin maximum minimum fmod remainder "
        "heaviside pow floor_divide"
    )
    for name in words(names):
        peer.function(lambda t, x, y, name=name: getattr(t, name)(x, y), x, y, gradients=False)


@pytest.mark.parametrize("name", words("hypot atan2 xlogy copysign fmax fmin sinc logit logaddexp"))
def test_gradients_at_kinks(peer: Any, name: str) -> None:
    x = np.array([0.0, 0.0, 1, 1, 0, 0.5], F32)
    y = np.array([0.0, 2, 1, 0, -1, 0.5], F32)
    single = name in ("sinc", "logit")
    peer.function(lambda t, x, y: getattr(t, name)(x) if single else getattr(t, name)(x, y), x, y)


# -- integers ------------------------------------------------------------------------------------


def test_integer_powers(peer: Any) -> None:
    """Exact, wrapping; negative exponents give 0 but for 1 and -1."""
    base = np.array([3, -2, 7, 2, 1, -1, -1, 5, 0])
    power = np.array([39, 11, 22, 62, -3, -3, -4, -1, 0])

    def call(t: Any, x: Any, y: Any) -> Any:
        return x**y, x.int() ** y.int(), x**7, 3 ** y.abs(), x**20, x**2.0, x**0

    peer.function(call, base, power)


# -- errors --------------------------------------------------------------------------------------

REFUSED = """
t.exp(1.0) | t.exp('a') | t.add(1, 'a') | x + 'a' | t.neg(b) | +b | -b | t.abs(b) | t.floor(b)
t.frac(i) | t.round(i, decimals=1) | t.hypot(i, i) | t.hypot(x, 2.0) | t.logaddexp(i, i)
t.atan2(x, 2.0) | t.fmax(x, 1.0) | t.maximum(x, 1.0) | t.heaviside(x, x.double()) | t.fmod(b, b)
t.fmod(2, i) | t.fmod(i, 0) | t.remainder(i, 0) | i // 0 | t.div(i, i, rounding_mode='bad')
t.div(b, b, rounding_mode='trunc') | b // b | t.remainder(b, b) | t.positive(b) | t.ldexp(i, 2)
t.add(i, 1, alpha=2.5) | t.sub(i, i, alpha=True) | b - b | 1 - b | x.sub_(True) | t.relu(b)
t.clamp(x) | t.clamp(x, x, 2.0) | t.lerp(x, x.double(), 0.5) | t.lerp(x, x, i) | t.lerp(i, i, 0.5)
t.lerp(x, 2.0, 0.5) | t.addcdiv(i, i, i) | t.addcdiv(x, i, i) | t.pow(i, -1) | t.pow(b, b)
t.where(i, 1.0, 2) | t.where(b, 1) | t.polygamma(-1, x) | x + t.ones(5) | i.add_(1.5) | i.div_(2)
t.xlogy(2, 3) | t.copysign(1, x) | t.add(x, x, out=t.zeros(3, dtype=t.int64)) | t.exp(x, out=3)
t.exp(x.requires_grad_(), out=t.zeros(3)) | i.sqrt_() | t.add(x, x, out=t.empty(0))
"""


@pytest.mark.parametrize("text", [part.strip() for line in REFUSED.strip().splitlines()
                                  for part in line.split("|")])  # fmt: skip
def test_what_pytorch_refuses(peer: Any, text: str) -> None:
    def call(t: Any) -> Any:
        names = {"t": t, "x": t.tensor([1.0, 2.0, 3.0]), "i": t.tensor([1, 2, 3]),
                 "b": t.tensor([True, False, True])}  # fmt: skip
        return eval(text, names)

    peer.refusal(call)
