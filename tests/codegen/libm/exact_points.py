"""Exact values of functions of f64, for test_double_math.py.

    python -m tests.codegen.libm.exact_points            writes exact_points.json
    python -m tests.codegen.libm.exact_points 20000      measures native code on so many points

Needs mpmath, which no test does. A value is the nearest f64 and what it is off, both as hexadecimal
floats; points are drawn from all magnitudes, where the function is steep, near its zeros and ends.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
FILE = Path(__file__).with_suffix(".json")
FEW = 45


def _every(random: np.random.Generator, count: int, least: float = -308.0) -> Array:
    sizes = 10.0 ** random.uniform(least, 308, count)
    return np.asarray(sizes * random.choice([-1, 1], count))


def _mixed(*parts: Callable[[np.random.Generator, int], Array]) -> Callable[..., list[Array]]:
    """One operand: a share of the points from each."""

    def draw(random: np.random.Generator, count: int) -> list[Array]:
        share = -(-count // len(parts))
        return [np.concatenate([part(random, share) for part in parts])[:count]]

    return draw


def _within(low: float, high: float) -> Callable[[np.random.Generator, int], Array]:
    return lambda random, count: random.uniform(low, high, count)


def _near(*places: float) -> Callable[[np.random.Generator, int], Array]:
    """Within 1e-16 to 1e-2 of one of them."""

    def draw(random: np.random.Generator, count: int) -> Array:
        apart = 10.0 ** random.uniform(-16, -2, count) * random.choice([-1, 1], count)
        return np.asarray(random.choice(places, count) + apart)

    return draw


def _angles(random: np.random.Generator, count: int) -> Array:
    """Close to multiples of a right angle, of all sizes."""
    whole = np.floor(2.0 ** random.uniform(0, 52, count))
    return np.asarray(whole * (math.pi / 2))


def _pairs(random: np.random.Generator, count: int) -> list[Array]:
    third = -(-count // 3)
    alike = _every(random, third) * 1e-3
    one = np.concatenate([random.normal(0, 1, third), _every(random, third), alike])[:count]
    alike = alike * 10.0 ** random.uniform(-3, 3, third)
    other = np.concatenate([random.normal(0, 1, third), _every(random, third), alike])[:count]
    return [one, other]


def _powers(random: np.random.Generator, count: int) -> list[Array]:
    """Results over the whole range."""
    base = np.concatenate(
        [np.abs(_every(random, count // 2)), random.uniform(0.5, 2, count - count // 2)]
    )
    return [base, random.uniform(-744, 709, count) / np.log(base)]


FRACTION = _mixed(_within(-1, 1), _near(0.0), lambda r, n: np.clip(_near(1.0, -1.0)(r, n), -1, 1))
ANGLE = _mixed(_within(-10, 10), _every, _angles, _near(0.0))
POSITIVE = _mixed(lambda r, n: np.abs(_every(r, n)), _within(0.01, 30), _near(1.0))
POINTS: dict[str, Callable[..., list[Array]]] = {
    "exp": _mixed(_within(-745, 709), _within(-2, 2), _near(0.0)),
    "exp2": _mixed(_within(-1074, 1024), _within(-2, 2), _near(0.0)),
    "expm1": _mixed(_within(-40, 709), _within(-2, 2), _near(0.0)),
    "log": POSITIVE,
    "log2": POSITIVE,
    "log10": POSITIVE,
    "log1p": _mixed(lambda r, n: np.abs(_every(r, n)), _within(-1, 3), _near(0.0)),
    "sigmoid": _mixed(_within(-745, 40), _within(-5, 5)),
    "sin": ANGLE,
    "cos": ANGLE,
    "tan": ANGLE,
    "asin": FRACTION,
    "acos": FRACTION,
    "atan": _mixed(_within(-10, 10), _every, _near(0.0, math.sqrt(2) - 1, 1, math.sqrt(2) + 1)),
    "sinh": _mixed(_within(-710, 710), _within(-3, 3), _near(0.0)),
    "cosh": _mixed(_within(-710, 710), _within(-3, 3)),
    "tanh": _mixed(_within(-22, 22), _within(-1, 1), _near(0.0)),
    "asinh": _mixed(_every, _within(-10, 10), _near(0.0)),
    "acosh": _mixed(lambda r, n: 1 + np.abs(_every(r, n)), _within(1, 10),
                    lambda r, n: 1 + np.abs(_near(0.0)(r, n))),
    "atanh": FRACTION,
    "erf": _mixed(_within(-6, 6), _within(-1.5, 1.5), _near(0.0)),
    "erfc": _mixed(_within(-6, 27.2), _within(-1.5, 1.5)),
    "lgamma": _mixed(_within(0, 20), lambda r, n: np.abs(_every(r, n)) ** 0.9, _near(1.0, 2.0)),
    "pow": _powers,
    "atan2": _pairs,
    "hypot": _pairs,
}  # fmt: skip
BELOW_ZERO = _within(-30, 0)
"""Where lgamma is held to an absolute bound: it has a zero beside each negative integer."""


def exact(name: str, operands: list[Array]) -> tuple[Array, Array]:
    """The nearest f64 of each value and the rest."""
    import mpmath as mp

    mp.mp.prec = 1400  # for the angles
    functions: dict[str, Callable[..., Any]] = {
        "exp2": lambda x: mp.power(2, x),
        "log2": lambda x: mp.log(x) / mp.log(2),
        "sigmoid": lambda x: 1 / (1 + mp.exp(-x)),
        "erfc": lambda x: mp.erfc(x),
        "lgamma": lambda x: mp.log(abs(mp.gamma(x))) if x < 1000 else mp.loggamma(x),
        "pow": mp.power,
    }
    function = functions.get(name) or getattr(mp, name)
    highs, lows = [], []
    for point in zip(*(map(float, operand) for operand in operands)):
        mp.mp.prec = 1400 if name in ("sin", "cos", "tan") else 240
        value = function(*(mp.mpf(x) for x in point))
        high = float(value)
        highs.append(high)
        lows.append(float(value - mp.mpf(high)) if math.isfinite(high) else 0.0)
    return np.array(highs), np.array(lows)


def write() -> None:
    random = np.random.default_rng(0)
    lines = []
    for name, draw in {**POINTS, "lgamma below 0": lambda r, n: [BELOW_ZERO(r, n)]}.items():
        operands = draw(random, FEW)
        columns = [*operands, *exact(name.split()[0], operands)]
        rows = [[float(x).hex() for x in row] for row in zip(*columns)]
        lines.append(f"{json.dumps(name)}: {json.dumps(rows)}")
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def measure(count: int) -> None:
    from tests.codegen.libm.test_double_math import native, units

    for name, draw in POINTS.items():
        operands = [x[: count // 8 * 8].copy() for x in draw(np.random.default_rng(1), count)]
        high, low = exact(name, operands)
        with np.errstate(all="ignore"):
            errors = units(native(name, operands), high, low)
        worst = int(np.nanargmax(np.where(np.isfinite(high), errors, 0)))
        place = ", ".join(repr(float(x[worst])) for x in operands)
        print(f"{name:8} {errors[worst]:8.3f} at {place}")


if __name__ == "__main__":
    measure(int(sys.argv[1])) if len(sys.argv) > 1 else write()
