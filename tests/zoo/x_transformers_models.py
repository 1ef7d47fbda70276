"""Models and modules of x-transformers, built small."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

_RANDOM = np.random.default_rng(8)
DIM, LENGTH, WORDS = 32, 12, 99


def _noise(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape, dtype=np.float32)


TEXT = np.random.default_rng(8).integers(0, WORDS, (2, LENGTH))
IMAGE = np.random.default_rng(7).standard_normal((2, 3, 32, 32), dtype=np.float32)
STATES, OTHERS = _noise(2, LENGTH, DIM), _noise(2, LENGTH, DIM)
HEADS = _noise(2, 4, LENGTH, 8)
SCORES = _noise(2, 4, LENGTH, LENGTH)
LAYERS: dict[str, Any] = {"dim": DIM, "depth": 2, "heads": 4, "attn_dim_head": 8}

Made = tuple[Any, tuple[Any, ...]]


def _class(name: str, file: str = "x_transformers") -> Any:
    return getattr(import_module(f"x_transformers.{file}"), name)


def _decoder(**options: Any) -> Any:
    layers = _class("Decoder")(**{**LAYERS, **options})
    return _class("TransformerWrapper")(num_tokens=WORDS, max_seq_len=16, attn_layers=layers)


def _text(**options: Any) -> Callable[[], Made]:
    return lambda: (_decoder(**options), (TEXT,))


def _module(name: str, *inputs: Any, **options: Any) -> Callable[[], Made]:
    return lambda: (_class(name)(**options), inputs)


def _encoder(**options: Any) -> Callable[[], Made]:
    def build() -> Made:
        layers = _class("Encoder")(**{**LAYERS, **options})
        wrapper = _class("TransformerWrapper")
        return wrapper(num_tokens=WORDS, max_seq_len=16, attn_layers=layers), (TEXT,)

    return build


def _vit() -> Made:
    layers = _class("Encoder")(**LAYERS)
    options = {"image_size": 32, "patch_size": 8, "num_classes": 10}
    return _class("ViTransformerWrapper")(**options, attn_layers=layers), (IMAGE,)


def _translator() -> Made:
    options = {
        f"{side}_{key}": value
        for side in ("enc", "dec")
        for key, value in (("num_tokens", WORDS), ("depth", 1), ("heads", 2), ("max_seq_len", 16))
    }
    return _class("XTransformer")(dim=DIM, **options), (TEXT, TEXT[:, ::-1].copy())


def _continuous() -> Made:
    wrapper = _class("ContinuousTransformerWrapper", "continuous")
    layers = _class("Decoder")(**LAYERS)
    return wrapper(dim_in=DIM, dim_out=8, max_seq_len=16, attn_layers=layers), (STATES,)


def _several_inputs() -> Made:
    wrapper = _class("MultiInputTransformerWrapper", "multi_input")
    layers = _class("Decoder")(**LAYERS)
    model = wrapper(num_tokens={"note": 20, "pitch": 30}, max_seq_len=16, attn_layers=layers)
    return model, ({"note": TEXT % 20, "pitch": TEXT % 30},)


def _with_numbers() -> Made:
    wrapper = _class("XValTransformerWrapper", "xval")
    layers = _class("Decoder")(**LAYERS)
    model = wrapper(
        num_tokens=WORDS, numerical_token_id=3, max_seq_len=16, attn_layers=layers
    )  # fmt: skip
    return model, (TEXT, _noise(2, LENGTH))


def _loss_of(file: str, name: str, **options: Any) -> Callable[[], Made]:
    """What wraps a decoder and gives its loss."""
    return lambda: (_class(name, file)(_decoder(), **options), (TEXT,))


def _neo_mlp() -> Made:
    options = {"dim_in": 5, "dim_hidden": 7, "dim_out": 4, "dim_model": DIM, "depth": 2}
    return _class("NeoMLP", "neo_mlp")(**options), (_noise(3, 5),)


def _in_file(file: str, name: str, *inputs: Any, **options: Any) -> Callable[[], Made]:
    return lambda: (_class(name, file)(**options), inputs)


def _free_transformer(file: str, name: str, **options: Any) -> Callable[[], Made]:
    return _in_file(file, name, TEXT, num_tokens=WORDS, dim=DIM, max_seq_len=16, **options)


def _residual(name: str, **options: Any) -> Callable[[], Made]:
    return _module(name, STATES, OTHERS, dim=DIM, **options)


def _norm(name: str, **options: Any) -> Callable[[], Made]:
    return _module(name, STATES, dim=DIM, **options)


def _around_linear(name: str, *arguments: Any) -> Callable[[], Made]:
    def build() -> Made:
        import torch

        return _class(name)(*arguments, torch.nn.Linear(DIM, DIM)), (STATES,)

    return build


_POSITIONS: dict[str, dict[str, Any]] = {
    "rotary": {"rotary_pos_emb": True, "use_rmsnorm": True, "ff_glu": True},
    "alibi": {"alibi_pos_bias": True, "alibi_num_heads": 2},
    "rotary_xpos": {"rotary_xpos": True},
    "relative_bias": {"rel_pos_bias": True},
    "dynamic_bias": {"dynamic_pos_bias": True, "dynamic_pos_bias_log_distance": False},
    "cope": {"attn_use_cope": True, "attn_cope_max_pos": 8},
}
_WAYS: dict[str, dict[str, Any]] = {
    "scale_norm": {"use_scalenorm": True},
    "simple_rms_norm": {"use_simple_rmsnorm": True},
    "dynamic_tanh": {"use_dynamic_tanh": True},
    "gated_residual": {"gate_residual": True},
    "sandwich": {"sandwich_norm": True},
    "macaron": {"macaron": True},
    "shifted": {"shift_tokens": 1},
    "talking_heads": {"attn_pre_talking_heads": True, "attn_post_talking_heads": True},
    "qk_norm": {"attn_qk_norm": True},
    "memory": {"attn_num_mem_kv": 4},
    "one_kv_head": {"attn_one_kv_head": True},
    "grouped_kv_heads": {"attn_kv_heads": 2},
    "sparse": {"attn_sparse_topk": 4},
    "swish": {"ff_swish": True, "ff_glu": True},
    "relu_squared": {"ff_relu_squared": True},
    "no_bias": {"ff_no_bias": True},
    "pre_norm_off": {"pre_norm": False},
    "value_gate": {"attn_gate_values": True},
    "flash": {"attn_flash": True},
    "value_residual": {"add_value_residual": True},
    "hyper_connections": {"num_residual_streams": 2},
}

NAMES: dict[str, Callable[[], Made]] = {
    "decoder": _text(),
    **{name: _text(**options) for name, options in {**_POSITIONS, **_WAYS}.items()},
    "encoder": _encoder(),
    "vit": _vit,
    "XTransformer": _translator,
    "ContinuousTransformerWrapper": _continuous,
    "MultiInputTransformerWrapper": _several_inputs,
    "XValTransformerWrapper": _with_numbers,
    "AutoregressiveWrapper": _loss_of("autoregressive_wrapper", "AutoregressiveWrapper"),
    "XLAutoregressiveWrapper": _loss_of("xl_autoregressive_wrapper", "XLAutoregressiveWrapper"),
    "NeoMLP": _neo_mlp,
    "TokenEmbedding": _module("TokenEmbedding", TEXT, dim=DIM, num_tokens=WORDS),
    "AbsolutePositionalEmbedding": _module(
        "AbsolutePositionalEmbedding", STATES, dim=DIM, max_seq_len=16
    ),
    "ScaledSinusoidalEmbedding": _module("ScaledSinusoidalEmbedding", STATES, dim=DIM),
    "RelativePositionBias": _module("RelativePositionBias", 6, 8, scale=0.5, heads=4),
    "DynamicPositionBias": _module("DynamicPositionBias", 6, 8, dim=16, heads=4, depth=2),
    "AlibiPositionalBias": _module("AlibiPositionalBias", 6, 8, heads=4),
    "DataDependentAlibi": _module("DataDependentAlibi", STATES, dim=DIM, heads=4),
    "PerRowDataDependentAlibi": _module("PerRowDataDependentAlibi", STATES, dim=DIM, heads=4),
    "CoPE": _module("CoPE", HEADS, SCORES, dim=8, heads=4, max_pos=8),
    "SoLU": _module("SoLU", STATES, dim=DIM),
    **{
        name: _norm(name)
        for name in ("LayerNorm", "ScaleNorm", "RMSNorm", "SimpleRMSNorm", "DynamicTanh", "Derf")
    },
    "MultiheadRMSNorm": _module("MultiheadRMSNorm", HEADS, dim=8, heads=4),
    "Residual": _residual("Residual"),
    "GRUGating": _residual("GRUGating"),
    "OrthogonalResidualUpdate": _residual("OrthogonalResidualUpdate"),
    "ShiftTokens": _around_linear("ShiftTokens", (0, 1)),
    "FoldAxially": _around_linear("FoldAxially", 3),
    "FeedForward": _module("FeedForward", STATES, dim=DIM),
    "Attention": _module("Attention", STATES, dim=DIM, heads=4, dim_head=8),
    "AttentionPool": _module("AttentionPool", STATES, dim=DIM),
    "RandomFourierEmbed": _in_file("neo_mlp", "RandomFourierEmbed", _noise(3, 5), dim=DIM),
    "RecirculationMixer": _in_file("recirculation", "RecirculationMixer", STATES, OTHERS, dim=DIM),
    **{
        name: _in_file("full_bandwidth", name, STATES, OTHERS, dim=DIM)
        for name in (
            "GLUCrossTransition", "ResidualTransition", "GRUGatingTransition", "LinearTransition",
            "ResidualGLUTransition",
        )
    },
    "MSECosineSimLoss": _in_file("next_latent_wrapper", "MSECosineSimLoss", STATES, OTHERS),
}  # fmt: skip
"""By name: what builds a model and its inputs, in order."""
