"""What attention refuses."""

from __future__ import annotations

from typing import Any

from tests.frontend.layer_cases.refusals.refusal import Refusal

SQUARE = ((1, 2, 3),) * 3


def attend(t: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    return t.nn.functional.scaled_dot_product_attention(*map(t.zeros, shapes), **options)


def layer(t: Any, *shapes: tuple[int, ...], **options: Any) -> Any:
    inputs = [t.zeros(shape) for shape in shapes] * (1 if len(shapes) == 3 else 3)
    return t.nn.MultiheadAttention(8, 2)(*inputs, **options)


def forward(t: Any, *qkv: Any, **options: Any) -> Any:
    """`multi_head_attention_forward` of ones, with weights of ones."""
    x = t.ones(3, 2, 8)
    named: dict[str, Any] = {
        "embed_dim_to_check": 8, "num_heads": 2, "in_proj_weight": t.ones(24, 8) / 8,
        "in_proj_bias": t.ones(24), "bias_k": None, "bias_v": None, "add_zero_attn": False,
        "dropout_p": 0.0, "out_proj_weight": t.ones(8, 8) / 8, "out_proj_bias": None,
    }  # fmt: skip
    return t.nn.functional.multi_head_attention_forward(*(qkv or (x, x, x)), **(named | options))


FUNCTION_REFUSALS = [
    Refusal(
        lambda t: attend(t, (3,), (3,), (3,)),
        RuntimeError,
        "Expected query, key, and value to all be  at least 2",
    ),
    Refusal(
        lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2), is_causal=True),
        RuntimeError,
        "_scaled_dot_product_attention: Explicit attn_mask should",
    ),
    Refusal(
        lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2).long()),
        RuntimeError,
        "Expected attn_mask dtype to be bool or float or to match",
    ),
    Refusal(
        lambda t: attend(t, *SQUARE, attn_mask=t.zeros(2, 2).double()),
        RuntimeError,
        "Expected attn_mask dtype to be bool or float or to match",
    ),
    Refusal(
        lambda t: attend(t, (1, 4, 2, 3), (1, 3, 2, 3), (1, 3, 2, 3), enable_gqa=True),
        RuntimeError,
        "Number of heads in key and value must divide the number of",
    ),
]

REFUSALS = [
    Refusal(
        lambda t: t.nn.MultiheadAttention(7, 2),
        AssertionError,
        "embed_dim must be divisible by num_heads",
    ),
    Refusal(
        lambda t: t.nn.MultiheadAttention(4, 0),
        ValueError,
        "embed_dim and num_heads must be greater than 0, got",
    ),
    Refusal(
        lambda t: layer(t, (1, 1, 3, 8)),
        AssertionError,
        "query should be unbatched 2D or batched 3D tensor but",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), (3, 8), (3, 8)),
        AssertionError,
        "For batched (3-D) `query`, expected `key` and `value` to be",
    ),
    Refusal(
        lambda t: layer(t, (3, 8), (3, 2, 8), (3, 2, 8)),
        AssertionError,
        "For unbatched (2-D) `query`, expected `key` and `value` to",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 7)),
        AssertionError,
        "was expecting embedding dimension of 8, but got 7",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), (3, 2, 7), (3, 2, 8)),
        AssertionError,
        "key shape torch.Size([3, 2, 7]) does not match value shape",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), (3, 2, 8), (4, 2, 8)),
        AssertionError,
        "key shape torch.Size([3, 2, 8]) does not match value shape",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(3).bool()),
        AssertionError,
        "For batched (3-D) `query`, expected `key_padding_mask` to",
    ),
    Refusal(
        lambda t: layer(t, (3, 8), key_padding_mask=t.zeros(2, 3).bool()),
        AssertionError,
        "For unbatched (2-D) `query`, expected `key_padding_mask` to",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(3, 3).bool()),
        AssertionError,
        "Expected key_padded_mask.shape[0] to be 2, but got 3",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), key_padding_mask=t.zeros(2, 3).long()),
        AssertionError,
        "only bool and floating types of key_padding_mask are",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(1, 1, 3, 3)),
        AssertionError,
        "For batched (3-D) `query`, expected `attn_mask` to be",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(3, 2)),
        RuntimeError,
        "The shape of the 2D attn_mask is torch.Size([3, 2]), but",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(2, 3, 3)),
        RuntimeError,
        "The shape of the 3D attn_mask is torch.Size([2, 3, 3]), but",
    ),
    Refusal(
        lambda t: layer(t, (3, 8), attn_mask=t.zeros(4, 3, 3)),
        AssertionError,
        "Expected `attn_mask` shape to be (2, 3, 3) but got",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), attn_mask=t.zeros(3, 3).long()),
        AssertionError,
        "only bool and floating types of attn_mask are supported",
    ),
    Refusal(
        lambda t: layer(t, (3, 2, 8), is_causal=True),
        RuntimeError,
        "Need attn_mask if specifying the is_causal hint. You may",
    ),
    Refusal(
        lambda t: forward(t, embed_dim_to_check=7),
        AssertionError,
        "was expecting embedding dimension of 7, but got 8",
    ),
    Refusal(
        lambda t: forward(t, num_heads=3),
        AssertionError,
        "embed_dim 8 not divisible by num_heads 3",
    ),
    Refusal(
        lambda t: forward(t, bias_k=t.zeros(1, 1, 8)),
        AssertionError,
        "bias_k is set but bias_v is None",
    ),
    Refusal(
        lambda t: forward(t, in_proj_weight=None),
        AssertionError,
        "use_separate_proj_weight is False but in_proj_weight is None",
    ),
    Refusal(
        lambda t: forward(t, use_separate_proj_weight=True),
        AssertionError,
        "use_separate_proj_weight is True but q_proj_weight is None",
    ),
    Refusal(
        lambda t: forward(t, static_k=t.zeros(4, 3, 3)),
        AssertionError,
        "expecting static_k.size(2) of 4, but got 3",
    ),
    Refusal(
        lambda t: forward(t, static_v=t.zeros(3, 3, 4)),
        AssertionError,
        "expecting static_v.size(0) of 4, but got 3",
    ),
    Refusal(
        lambda t: t.nn.MultiheadAttention(8, 2, kdim=3)(
            t.zeros(3, 2, 8), t.zeros(3, 2, 4), t.zeros(3, 2, 8)
        ),
        AssertionError,
        "expecting key weights shape of (8, 4), but got",
    ),
]
