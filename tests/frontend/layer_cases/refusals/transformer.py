"""What transformers refuse."""

from __future__ import annotations

from typing import Any

from tests.frontend.layer_cases.refusals.refusal import Refusal


def whole(t: Any, source: tuple[int, ...], target: tuple[int, ...], **options: Any) -> Any:
    return t.nn.Transformer(8, 2, 1, 1, 8, **options)(t.zeros(source), t.zeros(target))


REFUSALS = [
    Refusal(
        lambda t: whole(t, (3, 2, 8), (3, 3, 8)),
        RuntimeError,
        "the batch number of src and tgt must be equal",
    ),
    Refusal(
        lambda t: whole(t, (2, 3, 8), (3, 3, 8), batch_first=True),
        RuntimeError,
        "the batch number of src and tgt must be equal",
    ),
    Refusal(
        lambda t: whole(t, (3, 2, 8), (3, 2, 7)),
        RuntimeError,
        "the feature number of src and tgt must be equal to d_model",
    ),
    Refusal(
        lambda t: t.nn.TransformerEncoderLayer(8, 2, activation="tanh"),
        RuntimeError,
        "activation should be relu/gelu, not tanh",
    ),
    Refusal(
        lambda t: t.nn.TransformerEncoderLayer(8, 2)(t.zeros(3, 2, 8), is_causal=True),
        RuntimeError,
        "Need attn_mask if specifying the is_causal hint. You may",
    ),
    Refusal(
        lambda t: t.nn.TransformerEncoderLayer(8, 2)(t.zeros(3, 2, 8), t.zeros(3, 3).long()),
        AssertionError,
        "only bool and floating types of src_mask are supported",
    ),
]
