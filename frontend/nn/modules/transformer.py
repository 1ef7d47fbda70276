"""The transformer: encoder and decoder layers, their stacks, and the whole (Vaswani et al., 2017).

Sequences are [length, batch, d_model], [batch, length, d_model] with `batch_first`, or
[length, d_model] without a batch. Masks are those of `MultiheadAttention`: `…_mask` [L, S] or
[batch · heads, L, S], `…_key_padding_mask` [batch, S]; True hides, a float is added. `is_causal`,
`tgt_is_causal` and `memory_is_causal` are hints that the mask beside them is the causal one.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

from frontend.engine.tensors.state import STATE
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import full
from frontend.functions.select import triu
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.checks import fail
from frontend.nn.functional.multi_head import additive
from frontend.nn.modules.attention import MultiheadAttention
from frontend.nn.modules.container import ModuleList
from frontend.nn.modules.dropout import Dropout
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module
from frontend.nn.modules.normalization import LayerNorm
from graphc.errors import ShapeError

__all__ = [
    "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
    "TransformerEncoderLayer",
]  # fmt: skip

Activation = str | Callable[[Tensor], Tensor]


def _activation(named: Activation) -> Callable[[Tensor], Tensor]:
    if not isinstance(named, str):
        return named
    if named not in ("relu", "gelu"):
        raise RuntimeError(f"activation should be relu/gelu, not {named}")
    return F.relu if named == "relu" else F.gelu


def _copies(module: Module, count: int) -> ModuleList:
    """Deep copies, so that all start from the same values, as in PyTorch."""
    return ModuleList([copy.deepcopy(module) for _ in range(count)])


class TransformerEncoderLayer(Module):
    """Self-attention, then two linear maps with `activation` between them, each with dropout,
    added to its input and normalised: afterwards, or before with `norm_first`."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        src: Tensor,
        src_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        padding = additive(src_key_padding_mask, "src_key_padding_mask", src, src_mask, "src_mask")
        mask = additive(src_mask, "src_mask", src)
        if self.norm_first:
            x = src + self._sa_block(self.norm1(src), mask, padding, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(src + self._sa_block(src, mask, padding, is_causal))
        return self.norm2(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Self-attention."""
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
            need_weights=False,
        )  # fmt: skip
        return self.dropout1(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        """The linear maps."""
        return self.dropout2(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerDecoderLayer(Module):
    """Self-attention, attention to `memory`, then the linear maps; the rest as in the encoder's
    layer."""

    def __init__(
        self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
        norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        options = {"device": device, "dtype": dtype}
        self.self_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **options
        )
        self.multihead_attn = MultiheadAttention(
            d_model, nhead, dropout, bias, batch_first=batch_first, **options
        )
        self.linear1 = Linear(d_model, dim_feedforward, bias, **options)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **options)
        self.norm_first = norm_first
        self.norm1 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.norm2 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.norm3 = LayerNorm(d_model, layer_norm_eps, bias=bias, **options)
        self.dropout1 = Dropout(dropout)
        self.dropout2 = Dropout(dropout)
        self.dropout3 = Dropout(dropout)
        self.activation = _activation(activation)

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Tensor:
        own = (tgt_mask, tgt_key_padding_mask, tgt_is_causal)
        other = (memory_mask, memory_key_padding_mask, memory_is_causal)
        if self.norm_first:
            x = tgt + self._sa_block(self.norm1(tgt), *own)
            x = x + self._mha_block(self.norm2(x), memory, *other)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(tgt + self._sa_block(tgt, *own))
        x = self.norm2(x + self._mha_block(x, memory, *other))
        return self.norm3(x + self._ff_block(x))

    def _sa_block(
        self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Self-attention."""
        attended, _ = self.self_attn(
            x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, is_causal=is_causal,
            need_weights=False,
        )  # fmt: skip
        return self.dropout1(attended)

    def _mha_block(
        self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
        is_causal: bool = False,
    ) -> Tensor:  # fmt: skip
        """Attention to the memory."""
        attended, _ = self.multihead_attn(
            x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
            is_causal=is_causal, need_weights=False,
        )  # fmt: skip
        return self.dropout2(attended)

    def _ff_block(self, x: Tensor) -> Tensor:
        """The linear maps."""
        return self.dropout3(self.linear2(self.dropout(self.activation(self.linear1(x)))))


class TransformerEncoder(Module):
    """`num_layers` deep copies of a layer, one after the other, then `norm`.

    `enable_nested_tensor` and `mask_check` choose a faster way in PyTorch, which there also gives
    zeros at padded places; here they change nothing.
    """

    def __init__(
        self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
        enable_nested_tensor: bool = True, mask_check: bool = True,
    ):  # fmt: skip
        super().__init__()
        self.layers = _copies(encoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm
        self.enable_nested_tensor = enable_nested_tensor
        self.mask_check = mask_check

    def forward(
        self,
        src: Tensor,
        mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        is_causal: bool | None = None,
    ) -> Tensor:
        padding = additive(src_key_padding_mask, "src_key_padding_mask", src, mask, "mask")
        added = additive(mask, "mask", src)
        x = src
        for layer in self.layers:
            x = layer(x, src_mask=added, is_causal=bool(is_causal), src_key_padding_mask=padding)
        return x if self.norm is None else self.norm(x)


class TransformerDecoder(Module):
    """`num_layers` deep copies of a layer, each attending to `memory`, then `norm`."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None):
        super().__init__()
        self.layers = _copies(decoder_layer, num_layers)
        self.num_layers = num_layers
        self.norm = norm

    def forward(
        self,
        tgt: Tensor,
        memory: Tensor,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        x = tgt
        for layer in self.layers:
            x = layer(
                x, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
                tgt_key_padding_mask=tgt_key_padding_mask,
                memory_key_padding_mask=memory_key_padding_mask,
                tgt_is_causal=bool(tgt_is_causal), memory_is_causal=memory_is_causal,
            )  # fmt: skip
        return x if self.norm is None else self.norm(x)


class Transformer(Module):
    """An encoder of `src`, and a decoder of `tgt` that attends to what it gives: [T, N, d_model].

    `custom_encoder` and `custom_decoder` stand for the built ones. Matrices start from Xavier's
    uniform distribution. Raises RuntimeError where batches or sizes do not fit.
    """

    def __init__(
        self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6,
        num_decoder_layers: int = 6, dim_feedforward: int = 2048, dropout: float = 0.1,
        activation: Activation = F.relu, custom_encoder: Any = None, custom_decoder: Any = None,
        layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False,
        bias: bool = True, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        layer: tuple[Any, ...] = (
            d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first,
            norm_first, bias, device, dtype,
        )  # fmt: skip

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder
        if custom_encoder is None:
            first = TransformerEncoderLayer(*layer)
            self.encoder = TransformerEncoder(first, num_encoder_layers, norm())
        self.decoder = custom_decoder
        if custom_decoder is None:
            second = TransformerDecoderLayer(*layer)
            self.decoder = TransformerDecoder(second, num_decoder_layers, norm())
        self._reset_parameters()
        self.d_model = d_model
        self.nhead = nhead
        self.batch_first = batch_first

    def _reset_parameters(self) -> None:
        for weight in self.parameters():
            if weight.dim() > 1:
                init.xavier_uniform_(weight)

    def forward(
        self,
        src: Tensor,
        tgt: Tensor,
        src_mask: Tensor | None = None,
        tgt_mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
        src_is_causal: bool | None = None,
        tgt_is_causal: bool | None = None,
        memory_is_causal: bool = False,
    ) -> Tensor:
        axis = 0 if self.batch_first else 1
        if src.dim() == 3 and src.shape[axis] != tgt.shape[axis]:
            raise fail(ShapeError, "the batch number of src and tgt must be equal")
        if src.shape[-1] != self.d_model or tgt.shape[-1] != self.d_model:
            raise fail(ShapeError, "the feature number of src and tgt must be equal to d_model")
        memory = self.encoder(
            src, mask=src_mask, src_key_padding_mask=src_key_padding_mask, is_causal=src_is_causal
        )
        return self.decoder(
            tgt, memory, tgt_mask=tgt_mask, memory_mask=memory_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask, tgt_is_causal=tgt_is_causal,
            memory_is_causal=memory_is_causal,
        )  # fmt: skip

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """The causal mask [sz, sz]: 0 where a position may look, -∞ above the diagonal."""
        kind = STATE.default_dtype if dtype is None else dtype
        return triu(full((sz, sz), -math.inf, dtype=kind, device=device), 1)
