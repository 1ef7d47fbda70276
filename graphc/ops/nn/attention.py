"""Scaled dot product attention and its gradient, as composites.

With s = scale · q kᵀ, hidden entries at -∞, each row of the result is the mean of the rows of v
weighted by exp(s) (Vaswani et al., "Attention is all you need", 2017). What backward needs of the
weights is one number a row, logsumexp(s): they are computed again from it (Dao et al.,
"FlashAttention", 2022), so the matrix of the weights is never kept.

A row that sees nothing (all its entries are -∞, by the mask or by themselves) gives zeros, has the
logsumexp -∞, and passes no gradient on: what PyTorch does. A hidden entry has weight 0, which
still makes NaN of an infinity in v.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from graphc.errors import DTypeError, ShapeError
from graphc.ir.dims import Dim, Extent
from graphc.ir.handle import broadcast_to, filled_like, lift
from graphc.ir.size_guards import equal
from graphc.ir.types import DType
from graphc.ops import elementwise as e
from graphc.ops import reduce as r
from graphc.ops.composite import check_float
from graphc.ops.contract import matmul, swapped
from graphc.ops.generate import iota_like
from graphc.ops.kinds.composite import Composite
from graphc.ops.kinds.op import SampleDrawer

# For fewer rows of q the kernel would spend its time on the transpose of k, which products of the
# definition read as it lies (measured, 32 heads of 1024 columns: 1 row 1.2 times, 2 rows 1.5 times
# the time of the definition; level from 4 rows on).
FEW_ROWS = 4


def _attention(
    q: Any, k: Any, v: Any, *mask: Any, scale: float = 1.0, causal: bool = False
) -> tuple[Any, Any]:
    _check("attention", q, k, v, mask)
    rows, axis = q.shape[:-1], len(q.shape) - 1
    shape = (*rows, v.shape[-1])
    if equal(k.shape[-2], 0):
        return broadcast_to(lift(0, q), shape), broadcast_to(lift(-math.inf, q), rows)
    scores = _scores(q, k, mask, scale, causal)
    level = _finite(r.max(scores, axes=(axis,)))
    weights = e.exp(scores - r.spread(level, (axis,), scores.shape))
    total = r.sum(weights, axes=(axis,))
    # A row that sees nothing has total 0. Dividing after the product takes fewer divisions.
    divisor = e.where(e.eq(total, filled_like(0, total)), filled_like(1, total), total)
    out = matmul(weights, v) / r.spread(divisor, (axis,), shape)
    return out, level + e.log(total)


def _attention_vjp(
    g: Any, out: Any, q: Any, k: Any, v: Any, *mask: Any, scale: float, causal: bool
) -> tuple[Any, ...]:
    by_values, by_logsumexp = g
    values, logsumexp = out

    @functools.cache
    def by_out_and_delta() -> tuple[Any, Any]:
        """The gradient of the values, and what is taken from that of each weight."""
        axis = len(q.shape) - 1
        if by_values is None:
            return broadcast_to(lift(0, v), values.shape), -by_logsumexp
        delta = r.sum(by_values * values, axes=(axis,))
        return by_values, delta if by_logsumexp is None else delta - by_logsumexp

    @functools.cache
    def gradients() -> tuple[Any, Any, Any]:
        by_out, delta = by_out_and_delta()
        by_operands: tuple[Any, Any, Any] = attention_grad(
            by_out, q, k, v, logsumexp, delta, *mask, scale=scale, causal=causal
        )
        return by_operands

    def by_mask() -> Any:
        by_out, delta = by_out_and_delta()
        _, by_scores = _backward(by_out, q, k, v, logsumexp, delta, mask, scale, causal)
        lead = len(q.shape) - len(mask[0].shape)
        return r.sum(by_scores, axes=tuple(range(lead))) if lead else by_scores

    first = (lambda: gradients()[0], lambda: gradients()[1], lambda: gradients()[2])
    if not mask:
        return first
    return (*first, by_mask if mask[0].dtype.is_float else None)


def _attention_grad(
    g: Any, q: Any, k: Any, v: Any, logsumexp: Any, delta: Any, *mask: Any,
    scale: float = 1.0, causal: bool = False,
) -> tuple[Any, Any, Any]:  # fmt: skip
    _check("attention_grad", q, k, v, mask)
    rows = q.shape[:-1]
    parts = (g, (*rows, v.shape[-1])), (logsumexp, rows), (delta, rows)
    if any(x.shape != shape or x.dtype is not q.dtype for x, shape in parts):
        listed = ", ".join(str(x.tensor_type) for x, _ in parts)
        raise ShapeError(
            f"attention_grad of q {q.tensor_type}, v {v.tensor_type} with g, logsumexp, delta "
            f"{listed}: they have the types of the result and of its rows"
        )
    weights, by_scores = _backward(g, q, k, v, logsumexp, delta, mask, scale, causal)
    return (
        matmul(by_scores, k) * scale,
        matmul(swapped(by_scores), q * scale),
        matmul(swapped(weights), g),
    )


def _backward(
    g: Any, q: Any, k: Any, v: Any, logsumexp: Any, delta: Any, mask: tuple[Any, ...],
    scale: float, causal: bool,
) -> tuple[Any, Any]:  # fmt: skip
    """The weights, and the gradient of the scores: weights · (g vᵀ - delta)."""
    axis = len(q.shape) - 1
    scores = _scores(q, k, mask, scale, causal)
    weights = e.exp(scores - r.spread(_finite(logsumexp), (axis,), scores.shape))
    by_weights = matmul(g, swapped(v))
    return weights, weights * (by_weights - r.spread(delta, (axis,), scores.shape))


def _scores(q: Any, k: Any, mask: tuple[Any, ...], scale: float, causal: bool) -> Any:
    """scale · q kᵀ with the mask added, or -∞ where a row does not see a column."""
    scores = matmul(q * scale, swapped(k))
    if mask and mask[0].dtype.is_float:
        scores = scores + _to(mask[0], scores.shape)
    elif mask:
        scores = e.where(_to(mask[0], scores.shape), scores, filled_like(-math.inf, scores))
    if not causal:
        return scores
    square = scores.shape[-2:]
    seen = e.le(iota_like(q, square, 1), iota_like(q, square, 0))
    return e.where(_to(seen, scores.shape), scores, filled_like(-math.inf, scores))


def _to(mask: Any, shape: tuple[int, ...]) -> Any:
    """[.., L, S] from itself, or the same [L, S] for all that leads."""
    lead = tuple(range(len(shape) - len(mask.shape)))
    return r.spread(mask, lead, shape) if lead else mask


def _finite(x: Any) -> Any:
    """x, 0 where it is -∞: what may be subtracted from -∞."""
    return e.where(e.eq(x, filled_like(-math.inf, x)), filled_like(0, x), x)


def _check(op: str, q: Any, k: Any, v: Any, mask: tuple[Any, ...]) -> None:
    """Raise ShapeError or DTypeError unless the operands fit each other."""
    check_float(op, q)
    listed = f"{op} of q {q.tensor_type}, k {k.tensor_type}, v {v.tensor_type}"
    if not q.dtype is k.dtype is v.dtype:
        raise DTypeError(f"{listed}: their dtypes differ", hint="cast one of them")
    q_shape, k_shape, v_shape = q.shape, k.shape, v.shape
    if len(q_shape) < 2 or not len(q_shape) == len(k_shape) == len(v_shape):
        raise ShapeError(f"{listed}: their ranks are equal and at least 2")
    if not q_shape[:-2] == k_shape[:-2] == v_shape[:-2]:
        raise ShapeError(f"{listed}: their leading axes differ", hint="broadcast them")
    if q_shape[-1] != k_shape[-1] or k_shape[-2] != v_shape[-2]:
        raise ShapeError(f"{listed}: q and k share their last size, k and v their second-last")
    if not mask:
        return
    if len(mask) > 1:
        raise ShapeError(f"{op} takes one mask, not {len(mask)}")
    square = (q_shape[-2], k_shape[-2])
    if mask[0].shape not in (square, (*q_shape[:-2], *square)):
        raise ShapeError(
            f"{listed}: the mask {mask[0].tensor_type} is neither {list(square)} nor that with "
            "their leading axes",
            hint="broadcast it",
        )
    if mask[0].dtype not in (DType.bool, q.dtype):
        raise DTypeError(f"{listed}: the mask is bool or {q.dtype}, not {mask[0].dtype}")


# -- samples -------------------------------------------------------------------------------------


def _samples(m: SampleDrawer) -> list[Any]:
    hidden = m.bools(4, 5)
    hidden[:, 0] = True
    blind = hidden.copy()
    blind[1] = False  # a row that sees nothing
    added = np.where(blind, m.normal(2, 4, 5), -np.inf)
    each = m.bools(2, 4, 5) | ~hidden
    each[..., 0] = True
    return [
        m(m.normal(2, 3, 4, 5), m.normal(2, 3, 7, 5), m.normal(2, 3, 7, 6), scale=0.4),
        m(m.normal(6, 4), m.normal(6, 4), m.normal(6, 3), causal=True),
        m(m.normal(2, 9, 4), m.normal(2, 3, 4), m.normal(2, 3, 4), causal=True, scale=0.5),
        m(m.normal(2, 3, 4), m.normal(2, 9, 4), m.normal(2, 9, 4), causal=True, scale=-0.5),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), hidden),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), blind, scale=2.0,
          differentiable=False),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), each, causal=True),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), m.normal(4, 5)),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), m.normal(2, 4, 5), causal=True),
        m(m.normal(2, 4, 3), m.normal(2, 5, 3), m.normal(2, 5, 2), added, differentiable=False),
        m(m.normal(2, 3, 4), m.normal(2, 0, 4), m.normal(2, 0, 5), differentiable=False),
        m(m.normal(2, 0, 4), m.normal(2, 3, 4), m.normal(2, 3, 5)),
        m(m.normal(2, 3, 0), m.normal(2, 4, 0), m.normal(2, 4, 0)),
        m(m.normal(1, 70, 16), m.normal(1, 70, 16), m.normal(1, 70, 16), causal=True, scale=0.25),
    ]  # fmt: skip


def _grad_samples(m: SampleDrawer) -> list[Any]:
    def drawn(*masks: Any, L: int = 4, S: int = 5, E: int = 3, Ev: int = 2, **options: Any) -> Any:
        return m(
            m.normal(2, L, Ev), m.normal(2, L, E), m.normal(2, S, E), m.normal(2, S, Ev),
            m.positive(2, L), m.normal(2, L), *masks, **options,
        )  # fmt: skip

    hidden = m.bools(4, 5)
    hidden[1] = False
    return [
        drawn(scale=0.4), drawn(causal=True), drawn(L=6, S=3, causal=True, scale=-0.5),
        drawn(hidden), drawn(m.bools(2, 4, 5), causal=True), drawn(m.normal(4, 5)),
        drawn(m.normal(2, 4, 5), causal=True), drawn(S=0), drawn(L=0), drawn(E=0),
        drawn(L=35, S=40, E=16, Ev=16, scale=0.25, causal=True),
    ]  # fmt: skip


def _has_rows(rows: Extent) -> bool:
    """Whether there are enough for the kernel of its own, which also takes any number of them."""
    return isinstance(rows, Dim) or rows >= FEW_ROWS


# q [.., L, E], k [.., S, E], v [.., S, Ev] and a mask [L, S] or [.., L, S] (bool: True where a row
# sees a column; float: added to the scores) give the values [.., L, Ev] and the logsumexp [.., L].
# `causal`: row i sees the columns up to i. The own gradient keeps no weights.
attention = Composite(
    "attention", _attention, vjp=_attention_vjp, samples=_samples, recipe="attention",
    pays=lambda types: _has_rows(types[0].shape[-2]), stores_anywhere=True,
)  # fmt: skip

# The gradients of q, k and v from g, that of the values. `delta` [.., L] is Σ g · values, less the
# gradient of the logsumexp where that has one; it comes ready since it is cheap, serves all three,
# and lets the gradient of this gradient come through here again.
attention_grad = Composite(
    "attention_grad",
    _attention_grad,
    samples=_grad_samples,
    recipe="attention_grad",
    stores_anywhere=True,
)
