"""Symmetric or Hermitian matrices that need not be definite: A = P·L·D·Lᵀ·Pᵀ (Lᴴ) with 1x1 and 2x2
blocks on D's diagonal (J. Bunch and L. Kaufman, "Some stable methods for calculating inertia and
solving symmetric linear systems", 1977). NumPy has no such factorization: these are its loops over
the columns, in the form that LAPACK keeps the factors in."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from graphc.ops.linear_algebra.matrix_kernels import sizes

Array = np.ndarray[Any, Any]

_ALPHA = (1 + math.sqrt(17)) / 8


# -- one matrix ------------------------------------------------------------------------------------


def _pivot(a: Array, k: int) -> tuple[int, int]:
    """(the row that comes to the diagonal, the block's size) at step k."""
    here, below = sizes(a[k, k]), sizes(a[k + 1 :, k])
    if not below.size or here >= _ALPHA * below.max():
        return k, 1
    row = k + 1 + int(below.argmax())
    beside = np.concatenate([a[row, k:row], a[row + 1 :, row]])
    greatest = sizes(beside).max()
    if here * greatest >= _ALPHA * below.max() ** 2:
        return k, 1
    return row, 1 if sizes(a[row, row]) >= _ALPHA * greatest else 2


def _conjugated(x: Array, hermitian: bool) -> Array:
    """What lies across the diagonal from `x`."""
    return x.conj() if hermitian else x


def _swap(a: Array, k: int, first: int, second: int, size: int, hermitian: bool) -> None:
    """Rows and columns `first` and `second` of the lower triangle from k exchanged."""
    if first == second:
        return
    lower = a[second + 1 :, [first, second]]
    a[second + 1 :, [second, first]] = lower
    between = a[first + 1 : second, first].copy()
    a[first + 1 : second, first] = _conjugated(a[second, first + 1 : second], hermitian)
    a[second, first + 1 : second] = _conjugated(between, hermitian)
    a[second, first] = _conjugated(a[second, first], hermitian)
    a[first, first], a[second, second] = a[second, second], a[first, first]
    if size == 2:
        a[first, k], a[second, k] = a[second, k], a[first, k]


def _block(a: Array, k: int, size: int, hermitian: bool) -> Array:
    """D's block at step k, both triangles."""
    block = a[k : k + size, k : k + size].copy()
    if size == 2:
        block[0, 1] = _conjugated(block[1, 0], hermitian)
    return block


def _eliminate(a: Array, k: int, size: int, hermitian: bool) -> None:
    """The rest of the matrix without what the block at k explains; its columns of L."""
    rest = slice(k + size, None)
    columns = a[rest, k : k + size].copy()
    if size == 1:
        factors = columns / a[k, k]
    else:
        factors = np.linalg.solve(_block(a, k, size, hermitian).T, columns.T).T
    a[rest, rest] -= np.tril(factors @ _conjugated(columns, hermitian).T)
    a[rest, k : k + size] = factors


def _factored(a: Array, hermitian: bool) -> tuple[Array, Array, int]:
    """L and D in one lower triangle; the rows exchanged, counted from 1, negative in 2x2 blocks;
    and the first step with a block of 0, counted from 1, or 0."""
    a = np.tril(a)
    count, info, k = len(a), 0, 0
    if hermitian:
        np.fill_diagonal(a, a.diagonal().real)
    pivots = np.zeros(count, np.int32)
    while k < count:
        if not a[k:, k].any():
            info = info or k + 1
            pivots[k] = k + 1
            k += 1
            continue
        row, size = _pivot(a, k)
        _swap(a, k, k + size - 1, row, size, hermitian)
        _eliminate(a, k, size, hermitian)
        if hermitian:
            np.fill_diagonal(a, a.diagonal().real)
        pivots[k : k + size] = row + 1 if size == 1 else -(row + 1)
        k += size
    return a, pivots, info


def _blocks(pivots: Array) -> list[tuple[int, int, int]]:
    """(step, size, the row exchanged with the block's last one) of each block."""
    blocks, k = [], 0
    while k < len(pivots):
        size = 1 if pivots[k] > 0 else 2
        blocks.append((k, size, abs(int(pivots[k])) - 1))
        k += size
    return blocks


def _solved(a: Array, pivots: Array, b: Array, hermitian: bool) -> Array:
    x = np.array(b)
    blocks = _blocks(pivots)
    for k, size, row in blocks:
        last, own = k + size - 1, slice(k, k + size)
        x[[last, row]] = x[[row, last]]
        x[k + size :] -= a[k + size :, own] @ x[own]
        block = _block(a, k, size, hermitian)
        x[own] = np.linalg.solve(block, x[own]) if np.linalg.det(block) else np.inf
    for k, size, row in reversed(blocks):
        last, own = k + size - 1, slice(k, k + size)
        x[own] -= _conjugated(a[k + size :, own], hermitian).T @ x[k + size :]
        x[[last, row]] = x[[row, last]]
    return x


# -- batches ---------------------------------------------------------------------------------------


def factor(a: Array, *, hermitian: bool) -> tuple[Array, Array, Array]:
    lead, size = a.shape[:-2], a.shape[-1]
    both, pivots = np.zeros_like(a), np.zeros((*lead, size), np.int32)
    info = np.zeros(lead, np.int32)
    for index in np.ndindex(lead):
        both[index], pivots[index], info[index] = _factored(a[index], hermitian)
    return both, pivots, info


def solve(a: Array, pivots: Array, b: Array, *, hermitian: bool) -> Array:
    x = np.zeros_like(b)
    for index in np.ndindex(b.shape[:-2]):
        x[index] = _solved(a[index], pivots[index], b[index], hermitian)
    return x
