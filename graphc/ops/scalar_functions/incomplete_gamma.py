"""The regularized incomplete gamma functions, on arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.ops.kinds.numpy_algebra import NUMPY


def incomplete_gamma(a: Any, x: Any) -> tuple[Any, Any]:
    """P and Q: by the series below a + 1, by Lentz's continued fraction above (Abramowitz and
    Stegun 6.5.29 and 6.5.31), until all have converged."""
    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    usual = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    b, y = np.where(usual, a, 1.0), np.where(usual, x, 1.0)
    front = np.exp(b * np.log(y) - y - NUMPY.lgamma(b))
    term = total = 1 / b
    low = y < b + 1
    for n in range(1, 10**5):
        term = np.where(low, term * y / (b + n), 0.0)
        total = total + term
        if not (np.abs(term) > np.abs(total) * 1e-17).any():
            break
    tiny = 1e-300
    start = y + 1 - b
    upper, lower = np.full_like(y, 1 / tiny), 1 / np.where(start == 0, tiny, start)
    fraction = lower
    for n in range(1, 10**5):
        factor = -n * (n - b)
        start = start + 2
        lower = factor * lower + start
        lower = 1 / np.where(lower == 0, tiny, lower)
        upper = start + factor / upper
        upper = np.where(upper == 0, tiny, upper)
        change = np.where(low, 1.0, lower * upper)
        fraction = np.where(low, fraction, fraction * change)
        if not (np.abs(change - 1) > 1e-16).any():
            break
    p = np.where(low, front * total, 1 - front * fraction)
    q = np.where(low, 1 - front * total, front * fraction)
    return _edges(a, x, usual, p, q)


def _edges(a: Any, x: Any, usual: Any, p: Any, q: Any) -> tuple[Any, Any]:
    """0 and 1 at the ends, NaN outside."""
    share = np.select(
        [usual, np.isnan(a) | np.isnan(x) | (a < 0) | (x < 0), (a == 0) & (x == 0)],
        [p, np.nan, np.nan],
        default=np.where((a == 0) | ((x == np.inf) & np.isfinite(a)), 1.0,
                         np.where((x == np.inf) & (a == np.inf), np.nan, 0.0)),
    )  # fmt: skip
    return share, np.where(usual, q, 1 - share)
