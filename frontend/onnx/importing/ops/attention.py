"""Attention, and rotary positions."""

from __future__ import annotations

from typing import Any

import frontend as torch
from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.onnx.importing.declarations import onnx_op
from frontend.onnx.importing.element_types import dtype_of
from frontend.onnx.importing.errors import OnnxError
from frontend.onnx.importing.graphs import OnnxNode


def _heads(x: Tensor, count: int | None) -> Tensor:
    if x.dim() == 4:
        return x
    if count is None:
        raise OnnxError("three axes without a number of heads")
    return x.reshape(x.shape[0], x.shape[1], count, x.shape[2] // count).transpose(1, 2)


@onnx_op("Attention")
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, past_key: Tensor | None = None,
    past_value: Tensor | None = None, valid: Tensor | None = None, *, is_causal: int = 0,
    kv_num_heads: int | None = None, q_num_heads: int | None = None, qk_matmul_output_mode: int = 0,
    scale: float | None = None, softcap: float = 0.0, softmax_precision: int | None = None,
    left_window_size: int = -1, right_window_size: int = -1, node: OnnxNode,
) -> Any:  # fmt: skip
    """`valid` (nonpad_kv_seqlen): how many keys of each batch count."""
    flat = q.dim() == 3
    q, k, v = _heads(q, q_num_heads), _heads(k, kv_num_heads), _heads(v, kv_num_heads)
    past = 0
    if past_key is not None and past_value is not None:
        past = past_key.shape[2]
        k, v = torch.cat([past_key, k], 2), torch.cat([past_value, v], 2)
    present = [k, v]
    times = q.shape[1] // k.shape[1]
    if times != 1:
        k, v = k.repeat_interleave(times, 1), v.repeat_interleave(times, 1)
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    window = (left_window_size, right_window_size)
    allowed = _allowed(q.shape[2], k.shape[2], past, valid, bool(is_causal), window)
    bias = None
    if mask is not None:
        short = k.shape[2] - mask.shape[-1]
        if short != 0:
            hidden = False if mask.dtype is torch.bool else float("-inf")
            mask = F.pad(mask, [0, short], value=hidden)
        if mask.dtype is torch.bool:
            allowed = mask if allowed is None else allowed & mask
        else:
            bias = mask
    if node.results <= 3 and not softcap and softmax_precision is None and bias is None:
        y = F.scaled_dot_product_attention(q, k, v, allowed, scale=scale)
        if allowed is not None:
            y = torch.where(allowed.any(-1, keepdim=True), y, 0)
        stages: list[Any] = []
    else:
        y, stages = _written_out(q, k, v, scale, softcap, bias, allowed, softmax_precision)
    if flat:
        y = y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)
    return [y, *present, stages[qk_matmul_output_mode] if stages else None]


def _allowed(
    queries: Any, keys: Any, past: Any, valid: Tensor | None, causal: bool, window: tuple[int, int]
) -> Tensor | None:
    """Which keys a query sees, [batch or 1, 1, queries or 1, keys]; None where all."""
    left, right = window
    column = torch.arange(keys)
    parts = []
    offset: Any = past
    if valid is not None:
        valid = valid.reshape(-1, 1, 1, 1)
        parts.append(column < valid)
        offset = valid - queries if isinstance(past, int) and past == 0 else past
    row = torch.arange(queries).reshape(1, 1, -1, 1) + offset
    if causal:
        parts.append(column <= row)
    if left >= 0:
        parts.append(column >= row - left)
    if right >= 0:
        parts.append(column <= row + right)
    if not parts:
        return None
    both = parts[0]
    for part in parts[1:]:
        both = both & part
    return both


def _written_out(
    q: Tensor, k: Tensor, v: Tensor, scale: float, softcap: float, bias: Tensor | None,
    allowed: Tensor | None, precision: int | None,
) -> tuple[Tensor, list[Any]]:  # fmt: skip
    """The result, and the four stages of the weights."""
    root = scale**0.5
    raw = (q * root) @ (k * root).transpose(-1, -2)
    capped = softcap * (raw / softcap).tanh() if softcap else raw
    biased = capped if bias is None else capped + bias
    if allowed is not None:
        biased = torch.where(allowed, biased, float("-inf"))
    wide = biased if precision is None else biased.to(dtype_of(precision))
    weights = wide.softmax(-1).to(q.dtype)
    weights = torch.where((biased == float("-inf")).all(-1, keepdim=True), 0, weights)
    return weights @ v, [raw, capped, biased, weights]


@onnx_op("RotaryEmbedding")
def rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, position_ids: Tensor | None = None, *,
    interleaved: int = 0, num_heads: int | None = None, rotary_embedding_dim: int = 0,
) -> Any:  # fmt: skip
    flat = x.dim() == 3
    heads = x
    if flat:
        if not num_heads:
            raise OnnxError("three axes without num_heads")
        heads = x.reshape(x.shape[0], x.shape[1], num_heads, -1).transpose(1, 2)
    width = rotary_embedding_dim or heads.shape[-1]
    if position_ids is not None:
        cos, sin = F.embedding(position_ids.long(), cos), F.embedding(position_ids.long(), sin)
    cos, sin = cos[..., : width // 2].unsqueeze(1), sin[..., : width // 2].unsqueeze(1)
    part = heads[..., :width]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        rotated = torch.stack([a * cos - b * sin, b * cos + a * sin], -1).flatten(-2)
    else:
        a, b = part.chunk(2, -1)
        rotated = torch.cat([a * cos - b * sin, b * cos + a * sin], -1)
    if width != heads.shape[-1]:
        rotated = torch.cat([rotated, heads[..., width:]], -1)
    return rotated.transpose(1, 2).reshape(x.shape) if flat else rotated
