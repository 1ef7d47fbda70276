"""Attention as a layer."""

from __future__ import annotations

from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter

__all__ = ["MultiheadAttention"]


class NonDynamicallyQuantizableLinear(Linear):
    """A Linear under the name PyTorch prints for the projection of attention's output."""


class MultiheadAttention(Module):
    """Attention in `num_heads` heads (Vaswani et al., 2017): queries [L, N, embed_dim], keys
    [S, N, kdim] and values [S, N, vdim] ([N, L, embed_dim] … with `batch_first`; without N for one
    sequence) give the output, like the queries, and the weights [N, L, S] or None.

    The weights are averaged over the heads, or [N, heads, L, S] without `average_attn_weights`.
    `key_padding_mask` [N, S] and `attn_mask` [L, S] or [N·heads, L, S] hide where they are True, or
    are added; `is_causal` is a hint that `attn_mask` is the causal one. Equal sizes share
    `in_proj_weight` [3·embed_dim, embed_dim], others have `q_proj_weight`, `k_proj_weight` and
    `v_proj_weight`. `dropout` falls on the weights. Raises AssertionError, ValueError, RuntimeError
    where sizes do not fit.
    """

    in_proj_bias: Tensor | None

    def __init__(
        self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
        add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
        vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        if embed_dim <= 0 or num_heads <= 0:
            raise ValueError(
                f"embed_dim and num_heads must be greater than 0, got embed_dim={embed_dim} and "
                f"num_heads={num_heads} instead"
            )
        super().__init__()
        self.embed_dim = embed_dim
        self.kdim = embed_dim if kdim is None else kdim
        self.vdim = embed_dim if vdim is None else vdim
        self._qkv_same_embed_dim = self.kdim == self.vdim == embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.batch_first = batch_first
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim, "embed_dim must be divisible by num_heads"

        def parameter(*shape: int) -> Parameter:
            return Parameter(empty(shape, device=device, dtype=dtype))

        sizes = {"q_proj_weight": embed_dim, "k_proj_weight": self.kdim, "v_proj_weight": self.vdim}
        if self._qkv_same_embed_dim:
            self.in_proj_weight = parameter(3 * embed_dim, embed_dim)
        for name, size in sizes.items():
            apart = None if self._qkv_same_embed_dim else parameter(embed_dim, size)
            self.register_parameter(name, apart)
        if not self._qkv_same_embed_dim:
            self.register_parameter("in_proj_weight", None)
        self.register_parameter("in_proj_bias", parameter(3 * embed_dim) if bias else None)
        self.out_proj = NonDynamicallyQuantizableLinear(
            embed_dim, embed_dim, bias=bias, device=device, dtype=dtype
        )
        self.bias_k = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.bias_v = parameter(1, 1, embed_dim) if add_bias_kv else None
        self.add_zero_attn = add_zero_attn
        self._reset_parameters()

    def _reset_parameters(self) -> None:
        """Weights by Xavier's rule, biases 0."""
        for name in ("in_proj_weight", "q_proj_weight", "k_proj_weight", "v_proj_weight"):
            if self._parameters[name] is not None:
                init.xavier_uniform_(self._parameters[name])
        if self.in_proj_bias is not None:
            init.zeros_(self.in_proj_bias)
            init.zeros_(self.out_proj.bias)
        for bias in (self.bias_k, self.bias_v):
            if bias is not None:
                init.xavier_normal_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        swaps = self.batch_first and query.dim() == 3
        if swaps and key.dim() == value.dim() == 3:
            # What is one tensor stays one: its projections are then one product.
            swapped = {id(x): x.transpose(0, 1) for x in (query, key, value)}
            query, key, value = (swapped[id(x)] for x in (query, key, value))
        output, weights = F.multi_head_attention_forward(
            query, key, value, self.embed_dim, self.num_heads, self.in_proj_weight,
            self.in_proj_bias, self.bias_k, self.bias_v, self.add_zero_attn, self.dropout,
            self.out_proj.weight, self.out_proj.bias, training=self.training,
            key_padding_mask=key_padding_mask, need_weights=need_weights, attn_mask=attn_mask,
            use_separate_proj_weight=not self._qkv_same_embed_dim,
            q_proj_weight=self.q_proj_weight, k_proj_weight=self.k_proj_weight,
            v_proj_weight=self.v_proj_weight, average_attn_weights=average_attn_weights,
            is_causal=is_causal,
        )  # fmt: skip
        return output.transpose(0, 1) if swaps else output, weights
