"""Modules of vit-pytorch that train, watch or sample: those that take other models, and those that
draw random numbers in their forward, which come from NumPy on both sides.

Not here, nor among the models: what needs torchaudio (VAAT and its AST), nested tensors (two
NaViTs) or flex_attention (LeVJEPA); and what PyTorch does not run in this version either: LocalViT,
whose `ExcludeCLS` hands on a tuple, and DistillableT2TViT and DistillableEfficientViT, whose CLS
tokens have an axis more than `DistillMixin` repeats.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from tests.zoo.called import called
from tests.zoo.vit_pytorch_models import BASE, IMAGE, LARGE, VIDEO, VIT

Made = tuple[Any, tuple[Any, ...]]
CUT = {"dim": 32, "depth": 1, "heads": 2, "mlp_dim": 64}
LABELS = np.array([1, 7])
VIEWS = np.random.default_rng(8).standard_normal((2, 2, 3, 4, 32, 32), dtype=np.float32)
EXTRA = np.random.default_rng(10).standard_normal((2, 5), dtype=np.float32)
ACTIONS = np.random.default_rng(9).standard_normal((2, 7, 6), dtype=np.float32)


def _class(path: str) -> Any:
    file, _, kind = path.partition(".")
    return getattr(import_module(f"vit_pytorch.{file}"), kind)


def _vit(path: str = "vit.ViT", **options: Any) -> Any:
    return _class(path)(**{**VIT, "depth": 1, **options})


def _around(path: str, vit: str, **options: Any) -> Callable[[], Made]:
    """A module that takes a ViT, of those whose patches and places it can take apart."""
    return lambda: (_class(path)(encoder=_vit(vit), **options), (IMAGE,))


def _self_taught(path: str, **options: Any) -> Callable[[], Made]:
    """Learning without labels, on images that are not augmented by chance."""

    def build() -> Made:
        from torch.nn import Identity

        small = {"projection_hidden_size": 16, "num_classes_K": 24, "projection_layers": 2}
        augment = {"augment_fn": Identity(), "augment_fn2": Identity()}
        layer = {"hidden_layer": "to_latent"}
        model = _class(path)(net=_vit(), image_size=32, **small, **augment, **layer, **options)
        return model, (IMAGE,)

    return build


def _regions() -> Made:
    """EsViT needs feature maps, which CvT has."""
    from torch.nn import Identity

    stages = {
        f"s{n}_{key}": value
        for n in (1, 2, 3)
        for key, value in (("emb_dim", 8 * n), ("heads", 1), ("depth", 1))
    }
    net = _class("cvt.CvT")(num_classes=10, **stages)
    small = {"projection_hidden_size": 16, "num_classes_K": 24, "projection_layers": 2}
    augment = {"augment_fn": Identity(), "augment_fn2": Identity()}
    layer = {"hidden_layer": "layers"}
    return _class("es_vit.EsViTTrainer")(net, 64, **small, **augment, **layer), (LARGE,)


def _distilled() -> Made:
    wrapper = _class("distill.DistillWrapper")
    student = _vit("distill.DistillableViT")
    return wrapper(teacher=_vit(), student=student, temperature=3.0), (IMAGE, LABELS)


def _mpp() -> Made:
    options = {"patch_size": 8, "dim": 32, "mask_prob": 0.3}
    return _class("mpp.MPP")(transformer=_vit("parallel_vit.ViT"), **options), (np.abs(IMAGE),)


ACTING: dict[str, Any] = {
    **CUT, "dim_head": 8, "dim_action": 6, "depth": 2, "action_chunk_len": 7, "num_views": 2,
    "time_seq_len": 4, "num_tasks": 3, "dim_extra_token": 5, "num_advantage_bins": 2,
    "self_attn_heads": 2, "self_attn_dim_head": 8,
}  # fmt: skip


def _act(module: Any, views: Any, actions: Any, tasks: Any, extra: Any) -> Any:
    options = {"tasks": tasks, "extra": extra, "advantages": tasks}
    return module(views, **options), module(views, actions=actions, **options)


def _actions(name: str, **options: Any) -> Callable[[], Made]:
    """What a robot does next, seen from two sides; and the loss beside what it did."""

    def build() -> Made:
        if name == "vat.VAT":
            options["vit"] = _vit("vat.ViT", depth=2)
        model = _class(name)(**ACTING, **options)
        return called(model, _act), (VIEWS, ACTIONS, np.array([0, 1]), EXTRA)

    return build


SIGLIP = {
    "siglip_image_size": 32, "siglip_patch_size": 8, "siglip_dim": 32, "siglip_depth": 2,
    "siglip_heads": 4, "siglip_mlp_dim": 64,
}  # fmt: skip


def _space_views() -> Made:
    file = "levjepa_nd."
    options = {**CUT, "dim_head": 16, "ndim": 3, "input_shape": (4, 32, 32)}
    encoder = _class(file + "NDTransformer")(**options, patch_size=(2, 8, 8), causal_dims=())
    model = _class(file + "LeVJEPAND")(
        encoder, input_shape=(4, 32, 32), projection_hidden=16, drop_ratio=0.5, num_classes_K=24,
        use_batch_norm=False, sigreg_loss_kwargs={"num_proj": 8, "knots": 5},
    )  # fmt: skip
    return model, (VIDEO,)


def _sampled() -> Made:
    return _vit("ats_vit.ViT", depth=2, max_tokens_per_depth=(12, 6)), (IMAGE,)


def _masked_patches() -> Made:
    vit = _class("mp3.ViT")(**{**VIT, "depth": 1})
    return _class("mp3.MP3")(vit=vit, masking_ratio=0.75), (IMAGE,)


def _fourier() -> Made:
    options = {**BASE, "image_size": 32, "patch_size": 8, "freq_patch_size": 8}
    return _class("simple_vit_with_fft.SimpleViT")(**options), (IMAGE,)


NAMES: dict[str, Callable[[], Made]] = {
    "dino.Dino": _self_taught("dino.Dino"),
    "lejepa.LeJEPA": _self_taught("lejepa.LeJEPA"),
    "es_vit.EsViTTrainer": _regions,
    "levjepa_nd.LeVJEPAND": _space_views,
    "mae.MAE": _around("mae.MAE", "deepvit.DeepViT", decoder_dim=16, decoder_heads=2),
    "simmim.SimMIM": _around("simmim.SimMIM", "deepvit.DeepViT"),
    "mpp.MPP": _mpp,
    "mp3.MP3": _masked_patches,
    "ats_vit.ViT": _sampled,
    "simple_vit_with_fft.SimpleViT": _fourier,
    "distill.DistillWrapper": _distilled,
    "vat.VAT": _actions("vat.VAT"),
    "vat_siglip.SigLIPVAT": _actions("vat_siglip.SigLIPVAT", **SIGLIP),
}
"""By the path of the class: what builds it, and its inputs, in order."""
