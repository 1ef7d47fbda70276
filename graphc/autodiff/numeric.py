"""Numeric gradients: central differences in float64, to hold derived gradients against."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def numeric_gradients(
    function: Callable[..., Sequence[Array]],
    arrays: Sequence[Array],
    cotangents: Sequence[Array | None],
    wrt: Sequence[int],
    step: float = 1e-5,
) -> list[Array]:
    """d(Σ cotangent · output) / d arrays[i] for i in `wrt`, by central differences.

    `function` takes float64 arrays and returns its outputs; a cotangent of None leaves that
    output out. The error is of the order step² plus 1e-16 / step.
    """

    def total(values: list[Array]) -> float:
        outputs = function(*values)
        pairs = zip(outputs, cotangents, strict=True)
        return float(sum(np.sum(out * c) for out, c in pairs if c is not None))

    results = []
    for position in wrt:
        gradient = np.zeros(arrays[position].shape, np.float64)
        for at in np.ndindex(*gradient.shape):
            values = [np.array(array) for array in arrays]
            values[position][at] += step
            above = total(values)
            values[position][at] -= 2 * step
            gradient[at] = (above - total(values)) / (2 * step)
        results.append(gradient)
    return results
