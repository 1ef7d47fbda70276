"""Factorizations that NumPy does not have, on batches of arrays: loops over the columns, each step
vectorised over the batch. The dtype is kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def back_substitution(a: Array, b: Array, *, upper: bool, unitriangular: bool) -> Array:
    """x with a·x = b for triangular `a`: row by row, from the last one up (or the first one down).
    A zero on the diagonal gives infinities."""
    x = np.array(b)
    size = a.shape[-1]
    for i in reversed(range(size)) if upper else range(size):
        known = slice(i + 1, None) if upper else slice(0, i)
        x[..., i : i + 1, :] -= a[..., i : i + 1, known] @ x[..., known, :]
        if not unitriangular:
            x[..., i, :] /= a[..., i, i, None]
    return x


def lu(a: Array, *, pivot: bool = True) -> tuple[Array, Array, Array]:
    """L and U of P·a = L·U in one array; the rows swapped at each step, counted from 1; and the
    first step with a pivot of 0, counted from 1, or 0 (Golub and Van Loan, Matrix Computations,
    "Outer product Gaussian elimination with partial pivoting")."""
    rows, columns = a.shape[-2:]
    steps = min(rows, columns)
    flat = np.array(a).reshape(math.prod(a.shape[:-2]), rows, columns)
    batch = np.arange(len(flat))
    pivots = np.tile(np.arange(1, steps + 1, dtype=np.int32), (len(flat), 1))
    info = np.zeros(len(flat), np.int32)
    for k in range(steps):
        if pivot:
            best = k + sizes(flat[:, k:, k]).argmax(axis=1)
            pivots[:, k] = best + 1
            flat[batch, k], flat[batch, best] = flat[batch, best], flat[batch, k].copy()
        top = flat[:, k, k]
        info[(info == 0) & (top == 0)] = k + 1
        scale = np.where(top == 0, 1, top).astype(a.dtype)
        flat[:, k + 1 :, k] /= scale[:, None]
        flat[:, k + 1 :, k + 1 :] -= flat[:, k + 1 :, k, None] * flat[:, k, None, k + 1 :]
    lead = a.shape[:-2]
    return flat.reshape(a.shape), pivots.reshape(*lead, steps), info.reshape(lead)


def sizes(x: Array) -> Array:
    """What pivots are chosen by: of complex numbers, as in LAPACK, the sum of the parts' sizes."""
    sizes: Array = np.abs(x.real) + np.abs(x.imag) if x.dtype.kind == "c" else np.abs(x)
    return sizes


def permutation(pivots: Array, rows: int) -> Array:
    """P of a = P·L·U as matrices, from the rows swapped at each step."""
    lead, steps = pivots.shape[:-1], pivots.shape[-1]
    flat = pivots.reshape(math.prod(lead), steps).astype(np.int64) - 1
    order = np.tile(np.arange(rows), (len(flat), 1))
    batch = np.arange(len(flat))
    for k in range(steps):
        order[batch, k], order[batch, flat[:, k]] = order[batch, flat[:, k]], order[batch, k].copy()
    matrix = np.zeros((len(flat), rows, rows))
    np.put_along_axis(matrix, order[:, None, :], 1, axis=1)
    return matrix.reshape(*lead, rows, rows)


def leading_minor(a: Array) -> int:
    """The order of the first leading minor of one symmetric (or Hermitian) matrix that is not
    positive; 0 where all are."""
    lower = np.zeros_like(a)
    for k in range(a.shape[-1]):
        row = lower[k, :k].conj()
        rest = (a[k, k] - lower[k, :k] @ row).real
        if not rest > 0:
            return k + 1
        lower[k, k] = np.sqrt(rest)
        lower[k + 1 :, k] = (a[k + 1 :, k] - lower[k + 1 :, :k] @ row) / lower[k, k]
    return 0


def minors(a: Array, upper: bool = False) -> Array:
    """`leading_minor` of each matrix, of which the lower (upper) triangle is read, as int32."""
    whole = np.swapaxes(a, -2, -1).conj() if upper else a
    flat = whole.reshape(math.prod(whole.shape[:-2]), *whole.shape[-2:])
    return np.asarray([leading_minor(x) for x in flat], np.int32).reshape(whole.shape[:-2])


def each(
    function: Callable[..., Any], arrays: tuple[Array, ...], results: Sequence[tuple[Any, Any]]
) -> tuple[tuple[Array, ...], Array]:
    """`function` of every matrix of a batch, NaN where LAPACK fails; and where it did. `results`:
    shape (behind that of the batch) and dtype of each result."""
    lead = arrays[0].shape[:-2]
    count = math.prod(lead)
    parts = [x.reshape(count, *x.shape[-2:]) for x in arrays]
    stacked = tuple(np.full((count, *shape), np.nan, dtype) for shape, dtype in results)
    failed = np.zeros(count, bool)
    for i, items in enumerate(zip(*parts)):
        try:
            one_result = function(*items)
        except np.linalg.LinAlgError:
            failed[i] = True
            continue
        for whole, one in zip(
            stacked, one_result if isinstance(one_result, tuple) else (one_result,)
        ):
            whole[i] = one
    return tuple(x.reshape(*lead, *x.shape[1:]) for x in stacked), failed.reshape(lead)
