"""Attention in several heads, each with its own part of projected queries, keys and values."""

from __future__ import annotations

import math
import warnings
from typing import NamedTuple

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import zeros
from frontend.functions.declarations import public
from frontend.functions.pointwise import where
from frontend.functions.shape import cat, expand
from frontend.nn.checks import fail, scalar_name
from frontend.nn.functional.activation import softmax
from frontend.nn.functional.attention import scaled_dot_product_attention
from frontend.nn.functional.dropout import dropout
from frontend.nn.functional.linear import linear
from frontend.nn.functional.padding import pad
from frontend.overrides.protocol import stacklevel as asked_from
from graphc.errors import AttributeValueError, DTypeError, ShapeError
from graphc.ir.types import DType
from graphc.ops.parts import split

Parts = tuple[Tensor, Tensor, Tensor]  # queries, keys, values


@public(at="nn.functional")
def multi_head_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim_to_check: int,
    num_heads: int,
    in_proj_weight: Tensor | None,
    in_proj_bias: Tensor | None,
    bias_k: Tensor | None,
    bias_v: Tensor | None,
    add_zero_attn: bool,
    dropout_p: float,
    out_proj_weight: Tensor,
    out_proj_bias: Tensor | None,
    training: bool = True,
    key_padding_mask: Tensor | None = None,
    need_weights: bool = True,
    attn_mask: Tensor | None = None,
    use_separate_proj_weight: bool = False,
    q_proj_weight: Tensor | None = None,
    k_proj_weight: Tensor | None = None,
    v_proj_weight: Tensor | None = None,
    static_k: Tensor | None = None,
    static_v: Tensor | None = None,
    average_attn_weights: bool = True,
    is_causal: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Queries [L, N, E], keys [S, N, Ek] and values [S, N, Ev] (or without N) give [L, N, E] and,
    with `need_weights`, the weights [N, L, S], averaged over the heads, or [N, heads, L, S].

    The inputs go through `in_proj_weight` [3E, E], or through weights of their own, then the heads
    attend to their E/heads columns, then comes `out_proj_weight`. `key_padding_mask` [N, S] and
    `attn_mask` [L, S] or [N·heads, L, S] hide where they are True, or are added. `is_causal` says
    that `attn_mask` is the causal one. `bias_k`, `bias_v` and `add_zero_attn` add a position each
    to the keys and values; `static_k` and `static_v` [N·heads, S, E/heads] stand for the projected
    ones. A row that sees nothing gives NaN with `need_weights`, else zeros. Raises AssertionError,
    RuntimeError where shapes or dtypes do not fit.
    """
    batched = _check_ranks(query, key, value, key_padding_mask, attn_mask, num_heads)
    same = (query is key, key is value)
    if not batched:
        query, key, value = (x.unsqueeze(1) for x in (query, key, value))
        key_padding_mask = None if key_padding_mask is None else key_padding_mask.unsqueeze(0)
    _check_sizes(query, key, value, embed_dim_to_check, num_heads, use_separate_proj_weight)
    padding = additive(key_padding_mask, "key_padding_mask", query, other=attn_mask)
    if is_causal and attn_mask is None:
        raise fail(
            AttributeValueError,
            "Need attn_mask if specifying the is_causal hint. You may use the Transformer module "
            "method `generate_square_subsequent_mask` to create this mask.",
        )
    # Where nothing else is hidden the hint stands for the mask.
    is_causal = is_causal and padding is None and not need_weights
    mask = None if is_causal else additive(attn_mask, "attn_mask", query)
    if use_separate_proj_weight:
        weights = _separate(q_proj_weight, k_proj_weight, v_proj_weight)
        q, k, v = _projected_apart((query, key, value), weights, in_proj_bias)
    else:
        assert in_proj_weight is not None, (
            "use_separate_proj_weight is False but in_proj_weight is None"
        )
        q, k, v = _projected((query, key, value), same, in_proj_weight, in_proj_bias)
    shape = _Heads(query.shape[1], num_heads, query.shape[2] // num_heads)
    if bias_k is not None and bias_v is not None:
        assert static_k is None, "bias cannot be added to static key."
        assert static_v is None, "bias cannot be added to static value."
        k, v = (cat((x, expand(b, (1, *x.shape[1:])))) for x, b in ((k, bias_k), (v, bias_v)))
    else:
        assert bias_k is None, "bias_k is set but bias_v is None"
        assert bias_v is None, "bias_v is set but bias_k is None"
    q = shape.split(q)
    k = shape.split(k) if static_k is None else shape.split_static(static_k, "static_k")
    v = shape.split(v) if static_v is None else shape.split_static(static_v, "static_v")
    if add_zero_attn:
        zero = zeros(shape.batch, shape.heads, 1, shape.size, dtype=k.dtype)
        k, v = cat((k, zero), 2), cat((v, zero), 2)
    added = k.shape[2] - key.shape[0] if static_k is None else int(add_zero_attn)
    seen = shape.merged(mask, padding, (query.shape[0], k.shape[2]), added)
    dropout_p = dropout_p if training else 0.0
    if need_weights:
        out, shares = _attend(q, k, v, seen, dropout_p)
        shares = shares.mean(1) if average_attn_weights else shares
        shares = shares if batched else shares.squeeze(0)
    else:
        out, shares = scaled_dot_product_attention(q, k, v, seen, dropout_p, is_causal), None
    out = linear(shape.joined(out), out_proj_weight, out_proj_bias)
    return out if batched else out.squeeze(1), shares


class _Heads(NamedTuple):
    """How [length, batch, heads · size] and [batch, heads, length, size] go into each other."""

    batch: int
    heads: int
    size: int

    def split(self, x: Tensor) -> Tensor:
        if x.shape[1] != self.batch:
            raise fail(ShapeError, f"query has batch size {self.batch}, key and value {x.shape[1]}")
        return x.reshape(x.shape[0], self.batch, self.heads, self.size).permute(1, 2, 0, 3)

    def split_static(self, x: Tensor, name: str) -> Tensor:
        """Keys or values [batch · heads, length, size] that are projected already."""
        for axis, wanted in ((0, self.batch * self.heads), (2, self.size)):
            assert x.shape[axis] == wanted, (
                f"expecting {name}.size({axis}) of {wanted}, but got {x.shape[axis]}"
            )
        return x.reshape(self.batch, self.heads, *x.shape[1:])

    def joined(self, x: Tensor) -> Tensor:
        return x.permute(2, 0, 1, 3).reshape(x.shape[2], self.batch, self.heads * self.size)

    def merged(
        self, mask: Tensor | None, padding: Tensor | None, shape: tuple[int, int], added: int
    ) -> Tensor | None:
        """Both masks as one that is added to scores [batch, heads, *shape]; the `added` last
        positions of the source are never hidden."""
        length, source = shape
        if mask is not None:
            wanted: tuple[int, ...] = (length, source - added)
            if mask.dim() == 3:
                wanted = (self.batch * self.heads, *wanted)
            if tuple(mask.shape) != wanted:
                raise fail(
                    ShapeError,
                    f"The shape of the {mask.dim()}D attn_mask is {mask.shape}, but should be "
                    f"{wanted}.",
                )
            mask = pad(mask, (0, added)) if added else mask
            if mask.dim() == 3:
                mask = mask.reshape(self.batch, self.heads, length, source)
        if padding is None:
            return mask
        for axis, (wanted_size, size) in enumerate(
            zip((self.batch, source - added), padding.shape)
        ):
            assert size == wanted_size, (
                f"Expected key_padded_mask.shape[{axis}] to be {wanted_size}, but got {size}"
            )
        padding = pad(padding, (0, added)) if added else padding
        padding = padding.reshape(self.batch, 1, 1, source)
        return padding if mask is None else mask + padding


def _attend(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float
) -> tuple[Tensor, Tensor]:
    """What the heads gather, and the weights with which they do."""
    scores = (q * (1 / math.sqrt(q.shape[-1]))) @ k.transpose(-2, -1)
    shares = softmax(scores if mask is None else scores + mask, dim=-1)
    shares = dropout(shares, dropout_p) if dropout_p else shares
    return shares @ v, shares


# -- masks ---------------------------------------------------------------------------------------


def additive(
    mask: Tensor | None, name: str, like: Tensor, other: Tensor | None = None, other_name: str = ""
) -> Tensor | None:
    """A mask as what is added to scores: a bool one is -∞ where it is True. Raises AssertionError
    for integers; warns where another mask is bool and this one is not, or the other way round."""
    if mask is None:
        return None
    assert mask.dtype is DType.bool or mask.dtype.is_float, (
        f"only bool and floating types of {name} are supported"
    )
    if other is not None and mask.dtype is not other.dtype:
        warnings.warn(
            f"Support for mismatched {name} and {other_name or 'attn_mask'} is deprecated. Use "
            "same type for both instead.",
            stacklevel=asked_from(3),
        )
    if mask.dtype is DType.bool:
        return where(mask, -math.inf, zeros((), dtype=like.dtype))
    if mask.dtype is not like.dtype:
        raise fail(
            DTypeError,
            f"{name} must be bool or of the query's dtype {scalar_name(like)}, but got "
            f"{scalar_name(mask)}",
        )
    return mask


# -- projections ---------------------------------------------------------------------------------


def _projected(
    inputs: Parts, same: tuple[bool, bool], weight: Tensor, bias: Tensor | None
) -> Parts:
    """Queries, keys and values through one weight [3E, E]; inputs that are one are projected by
    one product."""
    query, key = inputs[:2]
    size = query.shape[-1]
    if all(same):
        q, k, v = split(linear(query, weight, bias), sizes=(size,) * 3, axis=2)
        return q, k, v
    rows = (size, 2 * size) if same[1] else (size,) * 3
    weights = split(weight, sizes=rows, axis=0)
    biases = (None,) * len(rows) if bias is None else split(bias, sizes=rows, axis=0)
    if not same[1]:
        q, k, v = (linear(x, w, b) for x, w, b in zip(inputs, weights, biases))
        return q, k, v
    k, v = split(linear(key, weights[1], biases[1]), sizes=(size,) * 2, axis=2)
    return linear(query, weights[0], biases[0]), k, v


def _projected_apart(inputs: Parts, weights: Parts, bias: Tensor | None) -> Parts:
    size = inputs[0].shape[-1]
    for what, x, weight in zip(("query", "key", "value"), inputs, weights):
        wanted = (size, x.shape[-1])
        assert tuple(weight.shape) == wanted, (
            f"expecting {what} weights shape of {wanted}, but got {weight.shape}"
        )
    biases = (None,) * 3 if bias is None else split(bias, sizes=(size,) * 3, axis=0)
    q, k, v = (linear(x, weight, b) for x, weight, b in zip(inputs, weights, biases))
    return q, k, v


def _separate(q: Tensor | None, k: Tensor | None, v: Tensor | None) -> Parts:
    assert q is not None, "use_separate_proj_weight is True but q_proj_weight is None"
    assert k is not None, "use_separate_proj_weight is True but k_proj_weight is None"
    assert v is not None, "use_separate_proj_weight is True but v_proj_weight is None"
    return q, k, v


# -- checks: AssertionErrors, as PyTorch's -------------------------------------------------------


def _check_ranks(
    query: Tensor, key: Tensor, value: Tensor, padding: Tensor | None, mask: Tensor | None,
    num_heads: int,
) -> bool:  # fmt: skip
    """Whether there is a batch."""
    rank = query.dim()
    assert rank in (2, 3), (
        f"query should be unbatched 2D or batched 3D tensor but received {rank}-D query tensor"
    )
    kind = "batched (3-D)" if rank == 3 else "unbatched (2-D)"
    assert key.dim() == value.dim() == rank, (
        f"For {kind} `query`, expected `key` and `value` to be {rank}-D but found {key.dim()}-D "
        f"and {value.dim()}-D tensors respectively"
    )
    assert padding is None or padding.dim() == rank - 1, (
        f"For {kind} `query`, expected `key_padding_mask` to be `None` or {rank - 1}-D but found "
        f"{padding.dim()}-D tensor instead"
    )
    if mask is None:
        return rank == 3
    assert mask.dim() in (2, 3), (
        f"For {kind} `query`, expected `attn_mask` to be `None`, 2-D or 3-D but found "
        f"{mask.dim()}-D tensor instead"
    )
    if rank == 2 and mask.dim() == 3:
        wanted = (num_heads, query.shape[0], key.shape[0])
        assert tuple(mask.shape) == wanted, (
            f"Expected `attn_mask` shape to be {wanted} but got {mask.shape}"
        )
    return rank == 3


def _check_sizes(
    query: Tensor, key: Tensor, value: Tensor, embed_dim: int, num_heads: int, apart: bool
) -> None:
    size = query.shape[-1]
    assert size == embed_dim, f"was expecting embedding dimension of {embed_dim}, but got {size}"
    assert size % num_heads == 0, f"embed_dim {size} not divisible by num_heads {num_heads}"
    if not apart:
        assert key.shape == value.shape, (
            f"key shape {key.shape} does not match value shape {value.shape}"
        )
        return
    assert key.shape[:2] == value.shape[:2], (
        f"key's sequence and batch dims {key.shape[:2]} do not match value's {value.shape[:2]}"
    )
