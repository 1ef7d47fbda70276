"""FMAs of arrays, which NumPy does not have."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def fma32(a: Array, b: Array, c: Array) -> Array:
    """a*b + c of f32, rounded once.

    The product is exact in f64. The sum is rounded to odd there, by the error that Knuth's two-sum
    gives, so that rounding it again to f32 rounds the exact sum (Boldo and Melquiond, 2008).
    """
    product = a.astype(np.float64) * b.astype(np.float64)
    addend = c.astype(np.float64)
    total = product + addend
    back = total - product
    error = (product - (total - back)) + (addend - back)
    even = (total.view(np.int64) & 1) == 0
    wrong = np.isfinite(total) & (error != 0) & even
    odd = np.nextafter(total, np.where(error > 0, np.inf, -np.inf))
    return np.where(wrong, odd, total).astype(np.float32)
