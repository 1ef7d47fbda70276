"""Models of vit-pytorch, built small: the file, the class, its options, and what it is given.

What draws random numbers in its forward, and what is not here at all: vit_pytorch_wrappers.py.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

_RANDOM = np.random.default_rng(7)


def _noise(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape, dtype=np.float32)


IMAGE = _noise(2, 3, 32, 32)
LARGE = _noise(2, 3, 64, 64)
WIDE = _noise(1, 3, 224, 224)
VIDEO = _noise(2, 3, 4, 32, 32)
SERIES = _noise(2, 3, 32)
BASE: dict[str, Any] = {"dim": 32, "depth": 2, "heads": 4, "mlp_dim": 64, "num_classes": 10}
VIT: dict[str, Any] = {**BASE, "image_size": 32, "patch_size": 8}
CUBE: dict[str, Any] = {
    **BASE, "image_size": 32, "image_patch_size": 8, "frames": 4, "frame_patch_size": 2,
}  # fmt: skip
SPACES: dict[str, Any] = {**BASE, "ndim": 3, "input_shape": (4, 32, 32), "patch_size": (2, 8, 8)}
_STAGES = {
    f"s{n}_{key}": value
    for n, dim in ((1, 16), (2, 24), (3, 32))
    for key, value in (("emb_dim", dim), ("heads", 2), ("depth", 1))
}
_TWINS = {
    f"s{n}_{key}": value
    for n, dim in ((1, 8), (2, 16), (3, 24), (4, 32))
    for key, value in (("emb_dim", dim), ("depth", 1))
}

# Those that `ViT`'s own options and an image of 32 x 32 build: file and class.
_PLAIN = {
    "vit": "ViT", "simple_vit": "SimpleViT", "deepvit": "DeepViT", "parallel_vit": "ViT",
    "vit_for_small_dataset": "ViT", "rvt": "RvT", "vit_5": "ViT",
    "simple_uvit": "SimpleUViT", "simple_vit_attn_residual": "SimpleViTAttnResidual",
    "simple_vit_orthog_residual_update": "SimpleViT", "simple_vit_with_qk_norm": "SimpleViT",
    "simple_vit_with_patch_dropout": "SimpleViT", "simple_vit_with_register_tokens": "SimpleViT",
    "simple_vit_with_relative_proj_pos_bias": "SimpleViT",
    "simple_vit_with_sparse_gating": "SimpleViTWithSparseGating",
    "simple_vit_with_specialized_cls": "SimpleViT", "simple_vit_with_value_residual": "SimpleViT",
    "simple_flash_attn_vit": "SimpleViT", "vit_with_decorr": "ViT",
    "vit_with_keel_post_ln": "ViT", "vit_with_patch_dropout": "ViT",
    "vit_with_patch_merger": "ViT", "vit_detpool": "ViTDetPool", "normalized_vit": "nViT",
    "learnable_memory_vit": "ViT", "jumbo_vit": "JumboViT",
    "attn_residual_with_dca_simple_vit": "SimpleViT", "vat": "ViT", "mp3": "ViT",
}  # fmt: skip

# Name: (file, class, options, inputs).
TABLE: dict[str, tuple[str, str, dict[str, Any], tuple[np.ndarray, ...]]] = {
    name: (name, kind, VIT, (IMAGE,)) for name, kind in _PLAIN.items()
} | {
    "cait": ("cait", "CaiT", {**VIT, "cls_depth": 1}, (IMAGE,)),
    "xcit": ("xcit", "XCiT", {**VIT, "cls_depth": 1}, (IMAGE,)),
    "cct": (
        "cct", "CCT", {"img_size": 32, "embedding_dim": 32, "num_layers": 2, "num_heads": 2,
                       "num_classes": 10, "positional_embedding": "learnable"}, (IMAGE,),
    ),
    "cct_3d": (
        "cct_3d", "CCT", {"img_size": 32, "num_frames": 4, "embedding_dim": 32, "num_layers": 2,
                          "num_heads": 2, "num_classes": 10, "positional_embedding": "sine"},
        (VIDEO,),
    ),
    "cross_vit": (
        "cross_vit", "CrossViT",
        {"image_size": 32, "num_classes": 10, "depth": 1, "sm_dim": 16, "lg_dim": 32,
         "sm_patch_size": 8, "lg_patch_size": 16, "sm_enc_mlp_dim": 32, "lg_enc_mlp_dim": 64,
         "lg_enc_depth": 1, "cross_attn_depth": 1}, (IMAGE,),
    ),
    "crossformer": (
        "crossformer", "CrossFormer", {"dim": (32, 32, 64, 64), "depth": (1, 1, 1, 1),
                                       "num_classes": 10}, (WIDE,),
    ),
    "cvt": ("cvt", "CvT", {"num_classes": 10, **_STAGES}, (LARGE,)),
    "jet_vit": ("jet_vit", "JetViT", {**VIT, "window_size": 3, "dim_head": 8}, (IMAGE,)),
    "levit": (
        "levit", "LeViT", {"image_size": 64, "num_classes": 10, "stages": 2, "dim": (32, 64),
                           "depth": 1, "heads": (2, 4), "mlp_mult": 2}, (LARGE,),
    ),
    "look_vit": (
        "look_vit", "LookViT", {"dim": 32, "image_size": 64, "num_classes": 10, "depth": 1,
                                "patch_size": 16, "heads": 2, "highres_patch_size": 8,
                                "cross_attn_heads": 2}, (LARGE,),
    ),
    "looped_vit": (
        "looped_vit", "LoopedViT",
        {"num_classes": 10, "dim": 32, "image_size": 32, "patch_size": 8, "pre_loop_depth": 1,
         "num_looped_blocks": 1, "post_loop_depth": 1, "loop_depth": 2, "heads": 2,
         "mlp_dim": 64}, (IMAGE,),
    ),
    "max_vit": (
        "max_vit", "MaxViT", {"num_classes": 10, "dim": 16, "depth": (1, 1), "dim_head": 16,
                              "window_size": 4, "dim_conv_stem": 16}, (LARGE,),
    ),
    "max_vit_with_registers": (
        "max_vit_with_registers", "MaxViT",
        {"num_classes": 10, "dim": 16, "depth": (1, 1), "dim_head": 16, "window_size": 4,
         "dim_conv_stem": 16}, (LARGE,),
    ),
    "mobile_vit": (
        "mobile_vit", "MobileViT",
        {"image_size": (64, 64), "dims": [16, 24, 32], "num_classes": 10,
         "channels": [8, 8, 16, 16, 24, 24, 32, 32, 40, 40, 48]}, (LARGE,),
    ),
    "nest": (
        "nest", "NesT", {"image_size": 32, "patch_size": 4, "dim": 16, "heads": 2,
                         "num_hierarchies": 2, "block_repeats": (1, 1), "num_classes": 10},
        (IMAGE,),
    ),
    "pit": ("pit", "PiT", {**VIT, "depth": (1, 1)}, (IMAGE,)),
    "regionvit": (
        "regionvit", "RegionViT", {"dim": (16, 32, 32, 64), "depth": (1, 1, 1, 1),
                                   "num_classes": 10}, (WIDE,),
    ),
    "scalable_vit": (
        "scalable_vit", "ScalableViT",
        {"num_classes": 10, "dim": 16, "depth": (1, 1), "heads": (2, 2),
         "reduction_factor": (4, 2), "window_size": (8, 8)}, (LARGE,),
    ),
    "sep_vit": (
        "sep_vit", "SepViT", {"num_classes": 10, "dim": 16, "depth": (1, 1), "heads": (1, 2)},
        (_noise(2, 3, 56, 56),),
    ),
    "simple_flash_attn_vit_3d": ("simple_flash_attn_vit_3d", "SimpleViT", CUBE, (VIDEO,)),
    "simple_vit_1d": (
        "simple_vit_1d", "SimpleViT", {**BASE, "seq_len": 32, "patch_size": 4}, (SERIES,),
    ),
    "simple_vit_3d": ("simple_vit_3d", "SimpleViT", CUBE, (VIDEO,)),
    "simple_vit_with_hyper_connections": (
        "simple_vit_with_hyper_connections", "SimpleViT", {**VIT, "num_residual_streams": 2},
        (IMAGE,),
    ),
    "t2t": (
        "t2t", "T2TViT", {"image_size": 32, "num_classes": 10, "dim": 32, "depth": 1, "heads": 2,
                          "mlp_dim": 64}, (IMAGE,),
    ),
    "twins_svt": ("twins_svt", "TwinsSVT", {"num_classes": 10, **_TWINS}, (WIDE,)),
    "vit_1d": ("vit_1d", "ViT", {**BASE, "seq_len": 32, "patch_size": 4}, (SERIES,)),
    "vit_3d": ("vit_3d", "ViT", CUBE, (VIDEO,)),
    "vit_nd": ("vit_nd", "ViTND", SPACES, (VIDEO,)),
    "vit_nd_pope": ("vit_nd_pope", "ViTND", {**SPACES, "dim_head": 48}, (VIDEO,)),
    "vit_nd_rotary": ("vit_nd_rotary", "ViTND", {**SPACES, "dim_head": 48}, (VIDEO,)),
    "vat_siglip": (
        "vat_siglip", "SigLIP", {"image_size": 32, "patch_size": 8, "dim": 32, "depth": 2,
                                 "heads": 4, "mlp_dim": 64}, (IMAGE,),
    ),
    "vivit": (
        "vivit", "ViViT", {**CUBE, "spatial_depth": 1, "temporal_depth": 1}, (VIDEO,),
    ),
    "vivit_factorized": (
        "vivit", "ViViT", {**CUBE, "spatial_depth": 1, "temporal_depth": 1,
                           "variant": "factorized_self_attention"}, (VIDEO,),
    ),
    "vivit_with_moss": (
        "vivit_with_moss", "ViViT", {**CUBE, "spatial_depth": 1, "temporal_depth": 1}, (VIDEO,),
    ),
    "wwt": (
        "wwt", "WWT", {**VIT, "num_slots": 4}, (IMAGE,),
    ),
    "na_vit": (
        "na_vit", "NaViT", VIT, (IMAGE,),
    ),
}  # fmt: skip
for _name in ("vivit", "vivit_factorized", "vivit_with_moss"):
    TABLE[_name][2].pop("depth")


def _vit() -> Any:
    from vit_pytorch.vit import ViT

    return ViT(**VIT)


# Those that take other modules.
WRAPPED: dict[str, tuple[Any, tuple[np.ndarray, ...]]] = {
    "accept_video_wrapper": (
        lambda of: of(_vit(), add_time_pos_emb=True, time_seq_len=4, dim_emb=10), (VIDEO,),
    ),
    "distill.DistillableViT": (lambda of: of(**VIT), (IMAGE,)),
    "efficient.ViT": (lambda of: of(transformer=_layers(), image_size=32, patch_size=8, dim=32,
                                    num_classes=10), (IMAGE,)),
    "extractor.Extractor": (lambda of: of(_vit()), (IMAGE,)),
    "learnable_memory_vit.Adapter": (
        lambda of: of(vit=_class("learnable_memory_vit", "ViT")(**VIT)), (IMAGE,),
    ),
    "recorder.Recorder": (lambda of: of(_vit()), (IMAGE,)),
}  # fmt: skip


def _layers() -> Any:
    from vit_pytorch.vit import Transformer

    return Transformer(32, 2, 4, 8, 64)


def _class(file: str, kind: str) -> Any:
    return getattr(import_module(f"vit_pytorch.{file}"), kind)


def build(name: str) -> tuple[Any, tuple[np.ndarray, ...]]:
    """A model and its inputs, in order."""
    if name in TABLE:
        file, kind, options, inputs = TABLE[name]
        return _class(file, kind)(**options), inputs
    make, inputs = WRAPPED[name]
    file, _, kind = name.partition(".")
    return make(_class(file, kind or "AcceptVideoWrapper")), inputs


NAMES = [*TABLE, *WRAPPED]
