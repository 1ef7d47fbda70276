"""Attention of queries to keys."""

from __future__ import annotations

import math

import numpy as np

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.declarations import public
from frontend.functions.shape import expand, repeat_interleave
from frontend.nn.checks import c_name, fail, scalar_name, sizes
from frontend.nn.functional.activation import softmax
from frontend.nn.functional.dropout import dropout
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.handle import broadcast_to, lift
from graphc.ir.types import DType, broadcast_shapes
from graphc.ops import composite, elementwise
from graphc.ops.nn.attention import attention


@public(at="nn.functional", autocast="lower_precision")
def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_mask: Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Tensor:
    """softmax(query keyᵀ · scale + mask) value (Vaswani et al., 2017): query [*, L, E], key
    [*, S, E] and value [*, S, V] give [*, L, V]; `scale` is 1/√E by default.

    A bool `attn_mask` [*, L, S] says what takes part, a float one is added; `is_causal` lets
    position i see j <= i, and excludes a mask. A row that sees nothing gives zeros. `dropout_p`
    always applies. With `enable_gqa` there may be fewer heads (the third-last size) of keys and
    values: each serves a group of queries. Raises RuntimeError where shapes or dtypes do not fit.
    """
    _check_attention(query, key, value, attn_mask, is_causal)
    if not 0 <= dropout_p <= 1:
        raise fail(
            AttributeValueError,
            f"dropout probability has to be between 0 and 1, but got {dropout_p}",
        )
    if enable_gqa:
        key, value = _for_all_heads(query, key, value)
    factor = _default_scale(query) if scale is None else float(scale)
    if dropout_p:
        weights = _weights(query, key, attn_mask, is_causal, factor)
        return dropout(weights, dropout_p) @ value
    query, key, value = _aligned(query, key, value)
    mask = () if attn_mask is None else (_fitting(attn_mask, query, key),)
    return attention(query, key, value, *mask, scale=factor, causal=is_causal)[0]


def _default_scale(query: Tensor) -> float:
    return 1 / math.sqrt(query.shape[-1]) if query.shape[-1] else 1.0


def _for_all_heads(query: Tensor, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
    """Keys and values repeated so that each head of the query has its own."""
    if min(query.ndim, key.ndim, value.ndim) < 3:
        raise IndexError(
            "Dimension out of range: enable_gqa takes query, key and value of at least 3 "
            "dimensions, heads third-last"
        )
    heads = query.shape[-3]
    if any(not x.shape[-3] or heads % x.shape[-3] for x in (key, value)):
        raise fail(
            ShapeError,
            "Number of heads in key and value must divide the number of heads in query, but got "
            f"{key.shape[-3]}, {value.shape[-3]} and {heads}",
        )
    repeated = [
        x if x.shape[-3] == heads else repeat_interleave(x, heads // x.shape[-3], -3)
        for x in (key, value)
    ]
    return repeated[0], repeated[1]


def _aligned(*operands: Tensor) -> list[Tensor]:
    """Query, key and value with the same leading axes."""
    try:
        lead = broadcast_shapes(*(x.shape[:-2] for x in operands))
    except ShapeError:
        query, key, value = map(sizes, operands)
        raise fail(
            ShapeError,
            f"attention of query {query}, key {key}, value {value}: the leading sizes cannot be "
            "broadcast",
        ) from None
    return [expand(x, (*lead, *x.shape[-2:])) for x in operands]


def _fitting(mask: Tensor, query: Tensor, key: Tensor) -> Tensor:
    """The mask as [L, S], or with all leading axes (a view: nothing is copied); one that is added,
    in the query's dtype."""
    square = (query.shape[-2], key.shape[-2])
    lead = query.shape[:-2] if mask.ndim > 2 else ()
    mask = mask if mask.dtype is DType.bool else casted(mask, query.dtype)
    return expand(mask, (*lead, *square))


def _weights(
    query: Tensor, key: Tensor, mask: Tensor | None, is_causal: bool, factor: float
) -> Tensor:
    """The share of each key in the result of each query."""
    scores = (query * factor) @ key.transpose(-2, -1)
    if is_causal:
        length, source = scores.shape[-2:]
        mask = scores.context.constant(np.tri(length, source, dtype=bool))
    return softmax(scores, dim=-1) if mask is None else _masked_softmax(scores, mask)


def _masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    hidden = broadcast_to(lift(-math.inf, scores), scores.shape)
    if mask.dtype is DType.bool:
        seen = expand(mask, scores.shape)
    else:
        added = expand(casted(mask, scores.dtype), scores.shape)
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
            f"{c_name(query)} key.dtype: {c_name(key)} and value.dtype: {c_name(value)} instead.",
        )
    if not query.dtype.is_float:
        raise fail(DTypeError, f"expected scalar type Float but found {scalar_name(query)}")
    if mask is not None and mask.dtype not in (DType.bool, DType.f32, query.dtype):
        raise fail(
            DTypeError,
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got "
            f"attn_mask.dtype: {c_name(mask)} and  query.dtype: {c_name(query)} instead.",
        )
    if query.shape[-1] != key.shape[-1] or key.shape[-2] != value.shape[-2]:
        raise fail(
            ShapeError,
            f"attention of query {sizes(query)}, key {sizes(key)}, value {sizes(value)}: query and "
            "key share their last size, key and value their second-last",
        )
