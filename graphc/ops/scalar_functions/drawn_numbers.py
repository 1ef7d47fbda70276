"""Numbers drawn from distributions that take a varying count of uniform ones: NumPy's generators,
seeded by a key that is drawn from the stream, compute them; so that a graph draws what eager mode
does. Parameters out of range give NaN."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.types import DType, TensorType
from graphc.ops.kinds.host import Host
from graphc.ops.kinds.op import FLOATS
from graphc.ops.scalar_functions.special import digamma

Array = np.ndarray[Any, Any]


def _types(key: TensorType, first: TensorType, *others: TensorType) -> TensorType:
    if key != TensorType(DType.i64, (2,)):
        raise DTypeError(f"the key is i64[2], not {key}")
    if first.dtype not in FLOATS:
        raise DTypeError(f"floats of 32 or 64 bits wanted, not {first}")
    if any(other != first for other in others):
        raise ShapeError(f"parameters of one type wanted, not {first} and {others[0]}")
    return first


def _drawing(
    name: str, draw: Callable[..., Any], valid: Callable[..., Any], samples: Callable[[Any], Any],
    positive: bool = False,
) -> Host:  # fmt: skip
    """`positive`: what rounds to 0 in the dtype is its least normal number."""

    def function(key: Array, *parameters: Array) -> Array:
        generator = np.random.Generator(np.random.Philox(key=key.astype(np.uint64)))
        wide = [x.astype(np.float64) for x in parameters]
        fits = valid(*wide)
        numbers = draw(generator, *[np.where(fits, x, 1.0) for x in wide])
        drawn = np.asarray(np.where(fits, numbers, np.nan), parameters[0].dtype)
        return np.asarray(np.maximum(drawn, np.finfo(drawn.dtype).tiny)) if positive else drawn

    def drawn(m: Any) -> Any:
        key = np.array([3, 2**40 + 7])
        return [m(key, *parameters) for parameters in samples(m)]

    return Host(name, function, _types, cost=200, samples=drawn)


def _gamma(generator: Any, shape: Array) -> Any:
    """Standard gamma numbers; below a shape of 1 by the power of a uniform number (Marsaglia and
    Tsang, 2000)."""
    small = shape < 1
    numbers = generator.standard_gamma(np.where(small, shape + 1, shape))
    powers = np.log1p(-generator.random(shape.shape)) / np.where(small, shape, 1.0)
    return np.where(small, numbers * np.exp(powers), numbers)


def _finite(x: Array) -> Any:
    return np.isfinite(x)


drawn_gamma = _drawing(
    "drawn_gamma", _gamma, lambda a: _finite(a) & (a > 0),
    lambda m: [(m.positive(3, 4),), (m.positive(),), (np.array([0.01, 40.0]),)],
    positive=True,
)  # fmt: skip
drawn_poisson = _drawing(
    "drawn_poisson", lambda g, rate: g.poisson(rate), lambda rate: (rate >= 0) & (rate < 2.0**62),
    lambda m: [(m.positive(3, 4),), (m.positive(),), (np.array([0.0, 1e4]),)],
)  # fmt: skip
drawn_binomial = _drawing(
    "drawn_binomial", lambda g, n, p: g.binomial(n.astype(np.int64), p),
    lambda n, p: (n >= 0) & (n < 2.0**62) & (p >= 0) & (p <= 1),
    lambda m: [
        (np.array([3.0, 0.0, 9.0]), np.array([0.5, 0.5, 1.0])), (np.array(4.0), np.array(0.1)),
    ],
)  # fmt: skip
drawn_von_mises = _drawing(
    "drawn_von_mises", lambda g, kappa: g.vonmises(0.0, kappa), lambda k: _finite(k) & (k >= 0),
    lambda m: [(m.positive(3, 4),), (m.positive(),)],
)  # fmt: skip

# -- gradients of gamma numbers by their shape ---------------------------------------------------


_BLOCK = 1024


def _nodes(count: int = 96, reach: float = 3.2) -> tuple[Array, Array, Array]:
    """Places u in (0, 1), 1 - u and weights of the tanh-sinh rule (Takahasi and Mori, 1974)."""
    steps = np.linspace(-reach, reach, count)
    inner = np.pi * np.sinh(steps)
    near, far = 1 / (1 + np.exp(-inner)), 1 / (1 + np.exp(inner))
    weights = np.pi * np.cosh(steps) * near * far * (steps[1] - steps[0])
    return near, far, weights


def _by_shape(shape: Array, x: Array) -> Any:
    """dx/da of a gamma number x of shape a where its place P(a, x) among all of them is kept,
    -(∂P/∂a) / (∂P/∂x): with p the density, ∫ (log t - digamma(a)) p(t)/p(x) dt over t above x, or
    the same with the other sign below: on the side of a on which x lies, where next to nothing
    cancels."""
    a, x = (np.asarray(each, np.float64)[..., None] for each in (shape, x))
    (mean_log,) = digamma.compute((a,), {})
    near, far, weights = _nodes()
    # Below: t = x·s^(1/b), so that t^(a-1) has no pole where a < 1; s crowds where p is narrow.
    b, narrow = np.minimum(a, 1.0), np.sqrt(np.maximum(a, 1.0))
    whole = far + narrow * near
    s, rest = narrow * near / whole, far / whole
    log_u = np.where(s < 0.5, np.log(s), np.log1p(-np.where(s < 0.5, 0.0, rest))) / b
    away = -np.expm1(log_u)  # 1 - t/x
    grown = np.exp((a - b) * log_u + x * away)
    below = (mean_log - np.log(x) - log_u) * grown * (x / b * narrow) / whole**2
    # Above: t = x + y with y from 0 to infinity, as a multiple of the width of what is left there.
    y = 2.0 * np.sqrt(np.maximum(x, 1.0)) * near / far
    shrunk = np.exp((a - 1) * np.log1p(y / x) - y)
    above = (np.log(x + y) - mean_log) * shrunk * (y / near / far)
    inside = x < a
    terms = np.where(inside, below, above) * weights
    return np.where(np.isfinite(terms), terms, 0.0).sum(-1)


def _shape_gradient(shape: Array, x: Array) -> Array:
    fits = (shape > 0) & (x > 0) & np.isfinite(shape) & np.isfinite(x)
    usual, places = (np.where(fits, each, 1.0).ravel() for each in (shape, x))
    # In blocks, since each number takes a row of nodes.
    blocks = [
        _by_shape(usual[start : start + _BLOCK], places[start : start + _BLOCK])
        for start in range(0, usual.size, _BLOCK)
    ]
    joined = np.concatenate([*blocks, np.empty(0)]).reshape(shape.shape)
    return np.asarray(np.where(fits, joined, np.nan), shape.dtype)


def _alike(shape: TensorType, x: TensorType) -> TensorType:
    if shape.dtype not in FLOATS or x != shape:
        raise DTypeError(f"two operands of one float type wanted, not {shape} and {x}")
    return shape


gamma_shape_gradient = Host(
    "gamma_shape_gradient", _shape_gradient, _alike, cost=2000,
    samples=lambda m: [m(m.positive(3, 4), m.positive(3, 4)), m(m.positive(), m.positive())],
)  # fmt: skip
"""Of standard gamma numbers with respect to their shape."""
