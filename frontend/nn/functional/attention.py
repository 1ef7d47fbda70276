"""Attention."""

from __future__ import annotations

import math

import numpy as np

from frontend.nn.checks import fail, scalar_name, sizes
from frontend.nn.functional.activation import softmax
from frontend.nn.functional.dropout import dropout
from frontend.tensor import Tensor
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType
from graphc.ops import composite, elementwise

__all__ = ["scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value: query [*, L, E], key [*, S, E] and value [*, S, V]
    give [*, L, V]; `scale` is 1/√E by default.

    A bool `attn_mask` [*, L, S] says what takes part, a float one is added; `is_causal` lets
    position i see j <= i. A row that sees nothing gives zeros. `dropout_p` always applies.
    """
    _check_attention(query, key, value, attn_mask, is_causal)
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query * factor) @ key.transpose(-2, -1)
    mask = _causal(scores) if is_causal else attn_mask
    if mask is None:
        weights = softmax(scores, dim=-1)
    else:
        weights = _masked_softmax(scores, mask)
    if dropout_p:
        weights = dropout(weights, dropout_p)
    return weights @ value


def _causal(scores: Tensor) -> Tensor:
    length, source = scores.shape[-2:]
    return scores.context.constant(np.tri(length, source, dtype=bool))


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = broadcast_to(lift(-math.inf, scores), scores.shape)
    if mask.dtype is DType.bool:
        seen = broadcast_to(mask, scores.shape)
    else:
        added = broadcast_to(mask, scores.shape)
        seen = elementwise.ne(added, hidden)
        scores = scores + added
    weights = composite.softmax(elementwise.where(seen, scores, hidden), axis=scores.ndim - 1)
    return elementwise.where(seen, weights, broadcast_to(lift(0, scores), scores.shape))


def _check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, is_causal: bool
) -> None:
    if mask is not None and is_causal:
        raise fail(
            AttributeValueError,
            "_scaled_dot_product_attention: Explicit attn_mask should not be set when "
            "is_causal=True",
        )
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise fail(
            ShapeError,
            "Expected query, key, and value to all be  at least 2 dimensional, but got query.dim: "
            f"{query.ndim} key.dim: {key.ndim} and value.dim: {value.ndim} instead.",
        )
    if not query.dtype is key.dtype is value.dtype:
        raise fail(
            DTypeError,
            "Expected query, key, and value to have the same dtype, but got query.dtype: "
            f"{scalar_name(query)} key.dtype: {scalar_name(key)} and value.dtype: "
            f"{scalar_name(value)} instead.",
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise fail(
            ShapeError,
            f"attention of query {sizes(query)}, key {sizes(key)}, value {sizes(value)}: query and "
            "key share their last size, key and value their second-last",
        )
