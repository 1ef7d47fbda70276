"""Trigonometric and hyperbolic functions, their inverses, and the hypotenuse. All of them call the
C library lane by lane (sin and cos stand in `elementwise`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ops import elementwise as e
from graphc.ops.elementwise import elementwise
from graphc.ops.kinds.op import FLOATS, SampleDrawer

ULPS = 4


def _one(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5)), m(m.normal()), m(m.normal(0, 3)), m(m.normal(37))]


def _inside(m: SampleDrawer) -> list[Any]:
    """Between -1 and 1."""
    return [m(np.tanh(x)) for x in (m.normal(3, 5), m.normal(), m.normal(0), m.normal(37))]


def _above(m: SampleDrawer) -> list[Any]:
    """Above 1."""
    return [m(1 + m.positive(3, 5)), m(1 + m.positive()), m(m.positive(0)), m(1 + m.positive(37))]


def _pairs(m: SampleDrawer) -> list[Any]:
    return [m(m.normal(3, 5), m.normal(3, 5)), m(m.normal(), m.normal()),
            m(m.normal(0, 2), m.normal(0, 2)), m(m.normal(35), m.normal(35))]  # fmt: skip


def _of_one(name: str, slope: Any, samples: Any, cost: int = 25) -> Any:
    """The op `name` of one operand, whose gradient is `slope(g, out, x)`."""
    return elementwise(
        name,
        lambda s, x: getattr(s, name)(x),
        vjp=lambda g, out, x: (slope(g, out, x),),
        dtypes=FLOATS,
        cost=cost,
        ulps=ULPS,
        samples=samples,
    )


tan = _of_one("tan", lambda g, out, x: g * (1 + out * out), _one)
asin = _of_one("asin", lambda g, out, x: g * e.rsqrt(1 - x * x), _inside)
acos = _of_one("acos", lambda g, out, x: -(g * e.rsqrt(1 - x * x)), _inside)
atan = _of_one("atan", lambda g, out, x: g / (x * x + 1), _one)
sinh: Any = _of_one("sinh", lambda g, out, x: g * cosh(x), _one)
cosh: Any = _of_one("cosh", lambda g, out, x: g * sinh(x), _one)
asinh = _of_one("asinh", lambda g, out, x: g * e.rsqrt(x * x + 1), _one)
acosh = _of_one("acosh", lambda g, out, x: g * e.rsqrt(x * x - 1), _above)
atanh = _of_one("atanh", lambda g, out, x: g / (1 - x * x), _inside)


def _atan2_vjp(g: Any, out: Any, y: Any, x: Any) -> tuple[Any, Any]:
    # At the origin 0, as PyTorch has it, not 0 / 0.
    square = x * x + y * y
    flat = e.eq(square, square * 0)
    share = e.where(flat, square * 0, g / square)
    return lambda: share * x, lambda: -(share * y)


atan2 = elementwise("atan2", lambda s, y, x: s.atan2(y, x), vjp=_atan2_vjp, dtypes=FLOATS, cost=30,
                    ulps=ULPS, samples=_pairs)  # fmt: skip
hypot = elementwise(
    "hypot",
    lambda s, x, y: s.hypot(x, y),
    vjp=lambda g, out, x, y: (lambda: g * (x / out), lambda: g * (y / out)),
    dtypes=FLOATS,
    cost=20,
    ulps=ULPS,
    samples=_pairs,
)
