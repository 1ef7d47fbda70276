"""Differences of neighbours."""

from __future__ import annotations

from frontend.functions.logic import logical_xor
from frontend.functions.shape import cat, narrow
from frontend.tensors.tensor import Tensor
from graphc.ir.types import DType

__all__ = ["diff"]
METHODS = "diff"


def diff(
    input: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Each element along `dim` less the one before it, `n` times; of bools, whether they differ.
    `prepend` and `append` are put before and after first. Raises RuntimeError for a 0-d tensor and
    for a negative `n`."""
    if input.dim() == 0:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    parts = [part for part in (prepend, input, append) if part is not None]
    result = cat(parts, dim) if len(parts) > 1 else input
    if n == 0:
        return result
    for _ in range(min(n, result.shape[dim])):
        count = result.shape[dim] - 1
        after, before = narrow(result, dim, 1, count), narrow(result, dim, 0, count)
        result = logical_xor(after, before) if result.dtype is DType.bool else after - before
    return result
