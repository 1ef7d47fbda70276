"""Transformer layers: options and masks, and the formulas. `tests/frontend/nn` holds each to its
formula in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.frontend.layer_cases.activations import gelu
from tests.frontend.layer_cases.attention import heads
from tests.frontend.layer_cases.normalizations import standard

Array = np.ndarray
Options = dict[str, Any]

OPTIONS: dict[str, Options] = {
    "plain": {},
    "norm first": {"norm_first": True},
    "batch first": {"batch_first": True},
    "gelu, no bias": {"activation": "gelu", "bias": False},
    "large eps": {"layer_norm_eps": 0.1, "norm_first": True, "batch_first": True},
}
"""Options of `Transformer{Encoder,Decoder}Layer(8, 2, 12, dropout=0.0, …)`."""
PADDING = np.array([[False, False, False], [False, False, True]])
CAUSAL = ~np.tri(3, dtype=bool)
ENCODER_MASKS: dict[str, dict[str, Array]] = {
    "no mask": {},
    "causal": {"src_mask": CAUSAL},
    "added": {"src_mask": np.random.default_rng(1).random((3, 3), np.float32)},
    "padding": {"src_key_padding_mask": PADDING},
    "both": {"src_mask": CAUSAL, "src_key_padding_mask": PADDING},
}
MEMORY_PADDING = np.array([[False] * 4, [False, False, True, True]])
DECODER_MASKS: dict[str, dict[str, Array]] = {
    "no mask": {},
    "causal": {"tgt_mask": CAUSAL},
    "memory": {"memory_mask": np.random.default_rng(1).random((3, 4)) < 0.3},
    "padding": {"tgt_key_padding_mask": PADDING, "memory_key_padding_mask": MEMORY_PADDING},
}


def shapes_of(options: Options, *lengths: int) -> list[tuple[int, ...]]:
    """Of two sequences of each length."""
    first = options.get("batch_first", False)
    return [(2, n, 8) if first else (n, 2, 8) for n in lengths]


# -- formulas -------------------------------------------------------------------------------------


def normalized(layer: Any, x: Array) -> Array:
    out = standard(x, (-1,), layer.eps) * layer.weight.detach().numpy()
    return out if layer.bias is None else out + layer.bias.detach().numpy()


def linear(layer: Any, x: Array) -> Array:
    out: Array = x @ layer.weight.detach().numpy().T
    return out if layer.bias is None else out + layer.bias.detach().numpy()


def maps(layer: Any, x: Array, activation: str) -> Array:
    hidden = linear(layer.linear1, x)
    return linear(layer.linear2, gelu(hidden) if activation == "gelu" else np.maximum(hidden, 0))


def in_blocks(x: Array, blocks: list[Any], first: bool) -> Array:
    """Each block, a norm and what it surrounds, around the way past it."""
    for norm, inner in blocks:
        x = x + inner(normalized(norm, x)) if first else normalized(norm, x + inner(x))
    return x


def encoder_layer(
    layer: Any, x: Array, options: Options, src_mask: Array | None = None,
    src_key_padding_mask: Array | None = None,
) -> Array:  # fmt: skip
    blocks = [
        (layer.norm1, lambda y: heads(layer.self_attn, y, y, y, src_mask, src_key_padding_mask)[0]),
        (layer.norm2, lambda y: maps(layer, y, options.get("activation", "relu"))),
    ]
    return in_blocks(x, blocks, options.get("norm_first", False))


def decoder_layer(
    layer: Any, x: Array, memory: Array, options: Options, tgt_mask: Array | None = None,
    memory_mask: Array | None = None, tgt_key_padding_mask: Array | None = None,
    memory_key_padding_mask: Array | None = None,
) -> Array:  # fmt: skip
    def own(y: Array) -> Array:
        return heads(layer.self_attn, y, y, y, tgt_mask, tgt_key_padding_mask)[0]

    def other(y: Array) -> Array:
        masks = (memory_mask, memory_key_padding_mask)
        return heads(layer.multihead_attn, y, memory, memory, *masks)[0]

    blocks = [
        (layer.norm1, own), (layer.norm2, other),
        (layer.norm3, lambda y: maps(layer, y, options.get("activation", "relu"))),
    ]  # fmt: skip
    return in_blocks(x, blocks, options.get("norm_first", False))
