"""Attention: masks, shapes and options, and the formulas. `tests/frontend/nn` holds each to its
formula in float64, `tests/frontend/peers` to PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray
Shape = tuple[int, ...]

# -- scaled_dot_product_attention -----------------------------------------------------------------


def hidden_row(*shape: int) -> Array:
    """A mask in which row 1 sees nothing and the others something."""
    mask = np.random.default_rng(3).random(shape) < 0.7
    mask[..., 0] = True
    mask[..., 1, :] = False
    return mask


def added(mask: Array) -> Array:
    return np.where(mask, np.float32(0.25), np.float32(-np.inf))


MASKS: dict[str, Array | None] = {
    "none": None,
    "bool": hidden_row(3, 4),
    "bool per head": hidden_row(2, 1, 3, 4),
    "bool of a row": np.array([[True, False, True, True]]),
    "float": added(hidden_row(3, 4)),
    "float of a row": np.array([[0.5, 1.0, -2.0, 0.0]], np.float32),
}
"""Of queries [2, 2, 3, 5], keys [2, 2, 4, 5] and values [2, 2, 4, 6]."""
SCALES = {"default": None, "scale": 0.3}
CAUSAL_SIZES = [(3, 4), (4, 3), (3, 3), (2, 9)]
"""How many queries and keys."""
SHAPES: dict[str, tuple[Shape, Shape, Shape]] = {
    "no batch": ((3, 5), (4, 5), (4, 6)),
    "broadcast": ((1, 2, 3, 5), (2, 1, 4, 5), (2, 1, 4, 6)),
    "no keys": ((2, 3, 5), (2, 0, 5), (2, 0, 6)),
    "no queries": ((2, 0, 5), (2, 4, 5), (2, 4, 6)),
    "one": ((1, 1), (1, 1), (1, 1)),
}
HEADS = [(4, 2, 2), (4, 1, 2), (3, 1, 1)]
"""How many heads queries, keys and values have, with `enable_gqa=True`."""


def scores_to_weights(scores: Array, mask: Array | None) -> Array:
    """Softmax over the keys that a bool mask shows, or after adding a float one; 0 where a row sees
    none."""
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    greatest = scores.max(-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isinf(greatest), 0, greatest))
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total)


def attention(
    q: Array, k: Array, v: Array, mask: Array | None = None, scale: float | None = None
) -> Array:
    factor = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    out: Array = scores_to_weights(q @ np.swapaxes(k, -2, -1) * factor, mask) @ v
    return out


# -- MultiheadAttention ---------------------------------------------------------------------------

OPTIONS: dict[str, dict[str, Any]] = {
    "plain": {},
    "no bias": {"bias": False},
    "batch first": {"batch_first": True},
    "sizes": {"kdim": 3, "vdim": 5},
    "added": {"add_bias_kv": True, "add_zero_attn": True},
    "sizes added": {"kdim": 3, "vdim": 5, "add_bias_kv": True, "bias": False},
    "zero": {"add_zero_attn": True, "batch_first": True},
}
"""Options of `MultiheadAttention(8, 2, …)`."""
ATTENTION_MASKS: dict[str, Callable[..., dict[str, Array]]] = {
    "no mask": lambda: {},
    "bool": lambda: {"attn_mask": ~np.tri(3, 4, dtype=bool)},
    "float": lambda: {"attn_mask": np.random.default_rng(1).random((3, 4), np.float32)},
    "per head": lambda: {"attn_mask": ~np.tri(3, 4, dtype=bool)[None].repeat(4, 0)},
    "padding": lambda: {"key_padding_mask": np.array([[False] * 4, [False, False, True, True]])},
    "both": lambda: {
        "attn_mask": ~np.tri(3, 4, dtype=bool),
        "key_padding_mask": np.array([[False] * 4, [False, False, True, True]]),
    },
}
WEIGHTS: dict[str, dict[str, bool]] = {
    "average": {}, "none": {"need_weights": False}, "per head": {"average_attn_weights": False},
}  # fmt: skip
"""Which weights a call returns."""


def shapes_of(options: dict[str, Any]) -> list[Shape]:
    """Of two batches of 3 queries, 4 keys and 4 values."""
    sizes = ((3, 8), (4, options.get("kdim", 8)), (4, options.get("vdim", 8)))
    first = "batch_first" in options
    return [(2, n, size) if first else (n, 2, size) for n, size in sizes]


def heads(
    layer: Any, q: Array, k: Array, v: Array, attn_mask: Array | None = None,
    key_padding_mask: Array | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """The output, and the weights [batch, head, query, key], of a layer in float64. Masks hide
    where they are True, as the layer's do."""
    if layer.batch_first:
        q, k, v = (x.swapaxes(0, 1) for x in (q, k, v))
    projected = [
        x @ weight.T + bias for x, weight, bias in zip((q, k, v), *_projections(layer), strict=True)
    ]
    extra = 0
    if layer.bias_k is not None:
        for i, bias in ((1, layer.bias_k), (2, layer.bias_v)):
            row = np.broadcast_to(_array(bias), (1, *projected[i].shape[1:]))
            projected[i] = np.concatenate([projected[i], row])
        extra += 1
    if layer.add_zero_attn:
        for i in (1, 2):
            row = np.zeros((1, *projected[i].shape[1:]))
            projected[i] = np.concatenate([projected[i], row])
        extra += 1
    batch, count = q.shape[1], layer.num_heads
    parts = [x.reshape(len(x), batch, count, -1).transpose(1, 2, 0, 3) for x in projected]
    scores = parts[0] @ parts[1].swapaxes(-1, -2) / math.sqrt(parts[0].shape[-1])
    scores = scores + _bias_of(attn_mask, key_padding_mask, (batch, count, len(q), len(k)), extra)
    weights = scores_to_weights(scores, None)
    out = (weights @ parts[2]).transpose(2, 0, 1, 3).reshape(*q.shape[:2], -1)
    out = out @ _array(layer.out_proj.weight).T
    if layer.out_proj.bias is not None:
        out = out + _array(layer.out_proj.bias)
    return (out.swapaxes(0, 1) if layer.batch_first else out), weights


def _projections(layer: Any) -> tuple[list[Array], list[Any]]:
    """The three weights and biases of the inputs."""
    if layer.in_proj_weight is not None:
        weights = np.split(_array(layer.in_proj_weight), 3)
    else:
        weights = [_array(getattr(layer, f"{name}_proj_weight")) for name in "qkv"]
    bias = layer.in_proj_bias
    return weights, [0, 0, 0] if bias is None else list(np.split(_array(bias), 3))


def _bias_of(attn_mask: Array | None, padding: Array | None, shape: Shape, extra: int) -> Array:
    """What is added to scores of that shape; `extra` keys behind are always seen."""
    bias = np.zeros(shape)
    if attn_mask is not None:
        term = np.where(attn_mask, -np.inf, 0) if attn_mask.dtype == bool else attn_mask
        bias = bias + (term.reshape(shape) if term.ndim == 3 else term)
    if padding is not None:
        bias = bias + np.where(padding, -np.inf, 0)[:, None, None]
    return np.concatenate([bias, np.zeros((*shape[:-1], extra))], -1)


def _array(tensor: Any) -> Array:
    values: Array = tensor.detach().numpy()
    return values
