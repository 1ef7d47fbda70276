"""Models of vit-pytorch and x-transformers, and functions of einops and einx."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Model = tuple[Any, dict[str, np.ndarray]]
_RANDOM = np.random.default_rng(7)
_IMAGE = _RANDOM.standard_normal((2, 3, 32, 32), dtype=np.float32)
_TEXT = np.random.default_rng(8).integers(0, 99, (2, 12))
_VIT = {
    "image_size": 32, "patch_size": 8, "num_classes": 10, "dim": 32, "depth": 2, "heads": 4,
    "mlp_dim": 64,
}  # fmt: skip


def _vit(module: str, kind: str, **options: Any) -> Callable[[], Model]:
    def build() -> Model:
        from importlib import import_module

        model = getattr(import_module(f"vit_pytorch.{module}"), kind)(**options)
        return _named(model, "img"), {"img": _IMAGE}

    return build


def _named(model: Any, name: str) -> Any:
    """A model that takes its one argument by this name."""
    import torch

    class Named(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, **inputs: Any) -> Any:
            return self.inner(inputs[name])

    return Named()


def _x_transformer(**options: Any) -> Callable[[], Model]:
    def build() -> Model:
        from x_transformers import Decoder, TransformerWrapper

        layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, **options)
        model = TransformerWrapper(num_tokens=99, max_seq_len=16, attn_layers=layers)
        return _named(model, "x"), {"x": _TEXT}

    return build


def _x_encoder() -> Model:
    from x_transformers import Encoder, ViTransformerWrapper

    layers = Encoder(dim=32, depth=2, heads=4, attn_dim_head=8)
    model = ViTransformerWrapper(image_size=32, patch_size=8, num_classes=10, attn_layers=layers)
    return _named(model, "img"), {"img": _IMAGE}


def _einops_layers() -> Model:
    import torch
    from einops.layers.torch import EinMix, Rearrange, Reduce

    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8),
        EinMix("b n i -> b n o", weight_shape="i o", bias_shape="o", i=192, o=16),
        torch.nn.GELU(),
        Reduce("b n o -> b o", "mean"),
    )
    return _named(model, "x"), {"x": _IMAGE}


def _einops_functions() -> Model:
    import torch
    from einops import einsum, pack, rearrange, reduce, repeat, unpack

    class Functions(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            heads = rearrange(x, "b c (h s) w -> b h s (c w)", h=4)
            scores = einsum(heads, heads, "b h i d, b h j d -> b h i j")
            packed, shapes = pack([scores, reduce(heads, "b h s d -> b h s", "max")], "b h *")
            first, second = unpack(packed, shapes, "b h *")
            return first, repeat(second, "b h s -> b h s r", r=2)

    return Functions(), {"x": _IMAGE}


def _einx_functions() -> Model:
    import einx
    import torch

    class Functions(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            patches = einx.id("b c (h p) (w q) -> b (h w) (p q c)", x, p=8, q=8)
            scores = einx.dot("b i [d], b j [d] -> b i j", patches, patches)
            return einx.softmax("b i [j]", scores), einx.mean("b [i] d", patches)

    return Functions(), {"x": _IMAGE}


OTHERS: dict[str, Callable[[], Model]] = {
    "vit_pytorch/vit": _vit("vit", "ViT", **_VIT),
    "vit_pytorch/simple_vit": _vit("simple_vit", "SimpleViT", **_VIT),
    "vit_pytorch/deepvit": _vit("deepvit", "DeepViT", **_VIT),
    "vit_pytorch/cait": _vit("cait", "CaiT", **_VIT, cls_depth=1),
    "vit_pytorch/parallel_vit": _vit("parallel_vit", "ViT", **_VIT),
    "vit_pytorch/vit_for_small_dataset": _vit("vit_for_small_dataset", "ViT", **_VIT),
    "x_transformers/decoder": _x_transformer(),
    "x_transformers/rotary": _x_transformer(rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True),
    "x_transformers/alibi": _x_transformer(alibi_pos_bias=True, alibi_num_heads=2),
    "x_transformers/vit": _x_encoder,
    "einops/layers": _einops_layers,
    "einops/functions": _einops_functions,
    "einx/functions": _einx_functions,
}
"""By name: what builds the model and its inputs by keyword."""
