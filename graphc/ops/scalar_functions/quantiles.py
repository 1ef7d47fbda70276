"""The normal distribution's quantile, and Hurwitz's zeta function. Computed in f64 whatever the
dtype."""

from __future__ import annotations

import math
from typing import Any

from graphc.ops import elementwise as e
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import FLOATS, SampleDrawer
from graphc.ops.scalar_functions.special import BERNOULLI, CENTRE, FLANK, SHIFT, TAIL, polynomial


def _ndtri(s: Any, x: Any) -> Any:
    """Wichura's algorithm AS 241, as in `erfinv`, from the nearer end: exact also close to 0."""
    p = s.wide(x)

    def ratio(of: Any, at: Any) -> Any:
        return s.div(polynomial(s, of[0], at), polynomial(s, of[1], at))

    zero, one, half = s.constant(0, p), s.constant(1, p), s.constant(0.5, p)
    centre = s.sub(p, half)
    inner = s.mul(centre, ratio(CENTRE, s.sub(s.constant(0.180625, p), s.mul(centre, centre))))
    end = s.minimum(p, s.sub(one, p))
    root = s.sqrt(s.neg(s.log(end)))
    flank = ratio(FLANK, s.sub(root, s.constant(1.6, p)))
    tail = ratio(TAIL, s.sub(root, s.constant(5, p)))
    outer = s.select(s.le(root, s.constant(5, p)), flank, tail)
    outer = s.select(s.eq(end, zero), s.constant(math.inf, p), outer)
    signed = s.select(s.lt(centre, zero), s.neg(outer), outer)
    result = s.select(s.le(s.abs(centre), s.constant(0.425, p)), inner, signed)
    inside = s.logical_and(s.ge(p, zero), s.le(p, one))
    return s.narrow(s.select(inside, result, s.constant(math.nan, p)), x)


def _shares(m: SampleDrawer) -> list[Any]:
    """Between 0 and 1."""
    drawn = (m.positive(3, 5), m.positive(), m.positive(0), m.positive(37))
    return [m(x / (1 + x)) for x in drawn]


ndtri = elementwise(
    "ndtri", _ndtri, dtypes=FLOATS, cost=80, ulps=4, samples=_shares,
    vjp=lambda g, out, x: (g * e.exp(out * out * 0.5) * math.sqrt(2 * math.pi),),
)  # fmt: skip


def _zeta(s: Any, x: Any, q: Any) -> Any:
    """Σ (q + k)⁻ˣ for k from 0, by Euler and Maclaurin's formula from k = 10. Infinite where x is 1
    or q is 0 or a negative whole number, poles; NaN where x is below 1 or q below 0."""
    exponent, start = s.wide(x), s.wide(q)
    zero, one = s.constant(0, start), s.constant(1, start)
    minus = s.neg(exponent)
    total = s.pow(start, minus)
    for k in range(1, SHIFT):
        total = s.add(total, s.pow(s.add(start, s.constant(k, start)), minus))
    far = s.add(start, s.constant(SHIFT, start))
    power = s.pow(far, minus)
    total = s.add(total, s.mul(power, s.constant(0.5, start)))
    total = s.add(total, s.div(s.mul(power, far), s.sub(exponent, one)))
    factor, inverse = exponent, s.div(one, far)
    term = s.mul(power, inverse)
    for k, number in enumerate(BERNOULLI, 1):
        scale = s.constant(number / math.factorial(2 * k), start)
        total = s.add(total, s.mul(s.mul(factor, term), scale))
        for step in (2 * k - 1, 2 * k):
            factor = s.mul(factor, s.add(exponent, s.constant(step, start)))
        term = s.mul(s.mul(term, inverse), inverse)
    nan, infinity = s.constant(math.nan, start), s.constant(math.inf, start)
    pole = s.logical_and(s.le(start, zero), s.eq(start, s.floor(start)))
    total = s.select(s.lt(start, zero), nan, total)
    total = s.select(pole, infinity, total)
    total = s.select(s.lt(exponent, one), nan, total)
    total = s.select(s.eq(exponent, one), infinity, total)
    return s.narrow(total, x)


zeta: Any = elementwise(
    "zeta", _zeta, dtypes=FLOATS, cost=400, ulps=8,
    samples=lambda m: [m(m.positive(3, 5) + 1.2, m.positive(3, 5))],
    exempt={"gradient": "there is none for the exponent, as in PyTorch"},
    vjp=lambda g, out, x, q: (None, lambda: -(g * x * zeta(x + 1, q))),
)  # fmt: skip
