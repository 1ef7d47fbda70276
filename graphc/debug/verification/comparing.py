"""How far two arrays that should be the same are apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphc.records import record

Array = np.ndarray[Any, Any]


@record
class ArrayDifference:
    """`elements` of `size` differ; the worst stands at `index`, where there is `actual` and not
    `expected`, `ulps` units in the last place of the latter apart."""

    elements: int
    size: int
    index: tuple[int, ...]
    actual: float
    expected: float
    ulps: float

    def __str__(self) -> str:
        at = f"[{', '.join(map(str, self.index))}]"
        return (
            f"{self.elements} of {self.size} elements differ, most at {at}: {self.actual!r}, not "
            f"{self.expected!r} ({self.ulps:.3g} ulp)"
        )


def difference(actual: Array, expected: Array, bound: Any = 0.0) -> ArrayDifference | None:
    """Where `actual` is not `expected`: bit for bit with a bound of 0 (NaNs are equal, whatever
    their payload), else beyond `bound`, a number or one for each element. None where it is."""
    if actual.shape != expected.shape:
        raise ValueError(f"shapes {actual.shape} and {expected.shape} are compared")
    bits = isinstance(bound, float) and bound == 0
    if bits and actual.tobytes() == expected.tobytes():
        return None
    x, y = _numbers(actual), _numbers(expected)
    with np.errstate(all="ignore"):
        apart = ~((x == y) | ((x != x) & (y != y)))
        if bits:
            apart |= (np.signbit(x) != np.signbit(y)) & (x == x)
        else:
            apart &= ~(np.abs(x - y) <= bound)
    if not apart.any():
        return None
    return _worst(x, y, apart, expected)


def _worst(x: Array, y: Array, apart: Array, expected: Array) -> ArrayDifference:
    with np.errstate(all="ignore"):
        distance = np.where(apart, np.abs(x - y), 0.0)
        distance = np.where(apart & (distance != distance), np.inf, distance)
    index = np.unravel_index(int(np.argmax(distance)), x.shape)
    at = tuple(int(i) for i in index)
    ulps = float(distance[index]) / _spacing(expected, float(y[index]))
    number, wanted = float(x[index]), float(y[index])
    return ArrayDifference(int(apart.sum()), x.size, at, number, wanted, ulps)


def _numbers(array: Array) -> Array:
    """As float64, in which all differences of the narrower types are exact; wide integers as they
    are compared, which tells all but neighbours beyond 2**53 apart."""
    if array.dtype == np.int64:
        return array.astype(np.longdouble)
    return array.astype(np.float64)


def _spacing(array: Array, at: float) -> float:
    """One unit in the last place there; 1 for integers."""
    if array.dtype.kind in "iub":
        return 1.0
    kind: Any = array.dtype if array.dtype.kind == "f" else np.float32
    with np.errstate(all="ignore"):
        step = float(np.spacing(np.asarray(abs(at), kind)))
    return step if np.isfinite(step) and step > 0 else float(np.finfo(np.float32).tiny)
