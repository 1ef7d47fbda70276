"""The Airy function Ai, computed in f64 whatever the dtype: by its power series near 0, beyond 2 by
Gauss and Laguerre's quadrature of an integral (A. Gil, J. Segura and N. Temme, "Computing complex
Airy functions by numerical quadrature", 2002), and below -7.5 by its asymptotic series (Abramowitz
and Stegun 10.4.2 and 10.4.60)."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import FLOATS, SampleDrawer

LOW, HIGH = -7.5, 2.0
"""Where the series stand in for each other."""
AT_ZERO = 0.3550280538878172, 0.2588194037928068
"""Ai(0), and -Ai'(0)."""
TERMS = 44
NODES = 24
ASYMPTOTIC = 8


@functools.cache
def _rule() -> list[tuple[float, float]]:
    """Nodes and weights for t^(-1/6)·e^-t on t > 0 (G. Golub and J. Welsch, 1969)."""
    a, k = -1 / 6, np.arange(NODES)
    side = np.sqrt(k[1:] * (k[1:] + a))
    nodes, vectors = np.linalg.eigh(np.diag(2 * k + a + 1) + np.diag(side, 1) + np.diag(side, -1))
    weights = math.gamma(a + 1) * vectors[0] ** 2
    return [(float(node), float(weight)) for node, weight in zip(nodes, weights)]


def _near(s: Any, x: Any) -> Any:
    """Ai(0)·(1 + x³/(2·3) + …) + Ai'(0)·(x + x⁴/(3·4) + …)."""
    cube = s.mul(s.mul(x, x), x)
    even, odd = s.constant(1, x), x
    first, second = even, odd
    for k in range(1, TERMS):
        even = s.mul(s.mul(even, cube), s.constant(1 / (3 * k * (3 * k - 1)), x))
        odd = s.mul(s.mul(odd, cube), s.constant(1 / (3 * k * (3 * k + 1)), x))
        first, second = s.add(first, even), s.add(second, odd)
    value, slope = (s.constant(number, x) for number in AT_ZERO)
    return s.sub(s.mul(value, first), s.mul(slope, second))


def _above(s: Any, x: Any) -> Any:
    """e^-ζ · ∫ (2ζ + t)^(-1/6)·t^(-1/6)·e^-t dt, up to a constant, with ζ = 2/3·x^(3/2)."""
    zeta = s.mul(s.mul(x, s.sqrt(x)), s.constant(2 / 3, x))
    twice = s.add(zeta, zeta)
    total = s.constant(0, x)
    for node, weight in _rule():
        power = s.pow(s.add(twice, s.constant(node, x)), s.constant(-1 / 6, x))
        total = s.add(total, s.mul(power, s.constant(weight, x)))
    scale = 1 / (math.sqrt(math.pi) * 48 ** (1 / 6) * math.gamma(5 / 6))
    return s.mul(s.mul(s.exp(s.neg(zeta)), total), s.constant(scale, x))


def _below(s: Any, x: Any) -> Any:
    """(sin(ζ + π/4)·P - cos(ζ + π/4)·Q) / (√π·y^(1/4)) with y = -x and ζ = 2/3·y^(3/2)."""
    y = s.neg(x)
    root = s.sqrt(y)
    zeta = s.mul(s.mul(y, root), s.constant(2 / 3, y))
    inverse = s.div(s.constant(1, y), zeta)
    sums, factor, power = [s.constant(0, y)] * 2, 1.0, s.constant(1, y)
    for k in range(2 * ASYMPTOTIC):
        sign = -1 if k % 4 > 1 else 1
        sums[k % 2] = s.add(sums[k % 2], s.mul(power, s.constant(sign * factor, y)))
        j = k + 1
        factor *= (6 * j - 5) * (6 * j - 3) * (6 * j - 1) / (216 * j * (2 * j - 1))
        power = s.mul(power, inverse)
    angle = s.add(zeta, s.constant(math.pi / 4, y))
    wave = s.sub(s.mul(s.sin(angle), sums[0]), s.mul(s.cos(angle), sums[1]))
    return s.div(s.mul(wave, s.constant(1 / math.sqrt(math.pi), y)), s.sqrt(root))


def _airy(s: Any, x: Any) -> Any:
    at = s.wide(x)
    low, high = s.constant(LOW, at), s.constant(HIGH, at)
    near = _near(s, s.minimum(s.maximum(at, low), high))
    result = s.select(s.gt(at, high), _above(s, s.maximum(at, high)), near)
    result = s.select(s.lt(at, low), _below(s, s.minimum(at, low)), result)
    endless = s.eq(s.abs(at), s.constant(math.inf, at))
    undefined = s.logical_or(endless, s.ne(at, at))
    return s.narrow(s.select(undefined, s.constant(math.nan, at), result), x)


def _samples(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5) * 5), m(m.normal()), m(m.normal(0)), m(m.positive(37) * 9)]


airy_ai = elementwise(
    "airy_ai", _airy, dtypes=FLOATS, cost=900, ulps=8, samples=_samples, vjp=None,
    exempt={"gradient": "there is none in PyTorch"},
)  # fmt: skip
