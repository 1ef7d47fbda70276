"""The models that are compared, built small: names as `timm/resnet18`, and `build`, which makes one
and its inputs under whatever `import torch` gives."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from tests.zoo.others import DRAWING as DRAWING
from tests.zoo.others import OTHERS
from tests.zoo.timm_models import TIMM
from tests.zoo.transformers_models import TRANSFORMERS, transformer

TORCHVISION = {
    "alexnet": 64, "convnext_tiny": 64, "densenet121": 64, "efficientnet_b0": 64,
    "googlenet": 64, "inception_v3": 96, "maxvit_t": 224, "mnasnet0_5": 64, "mobilenet_v2": 64,
    "mobilenet_v3_small": 64, "regnet_y_400mf": 64, "resnet18": 64, "resnext50_32x4d": 64,
    "shufflenet_v2_x0_5": 64, "squeezenet1_1": 64, "swin_t": 64, "vgg11_bn": 64, "vit_b_16": 224,
}  # fmt: skip
"""Architectures of torchvision, and the side of their images."""

NAMES = [
    *(f"timm/{name}" for name in TIMM),
    *(f"torchvision/{name}" for name in TORCHVISION),
    *(f"transformers/{name}" for name in TRANSFORMERS),
    *OTHERS,
]

STEPPED = {
    "timm/resnet10t", "timm/resnet18", "timm/mobilenetv3_small_050",
    "timm/vit_tiny_patch16_224", "timm/convnext_atto", "timm/mixer_s32_224", "timm/test_vit",
    "timm/test_resnet", "timm/test_convnext", "timm/test_efficientnet", "timm/regnetx_002",
    "timm/efficientnet_b0", "timm/ghostnet_050", "timm/deit_tiny_patch16_224",
    "torchvision/resnet18", "torchvision/shufflenet_v2_x0_5",
    "torchvision/squeezenet1_1", "torchvision/vgg11_bn", "torchvision/alexnet",
    "transformers/bert", "transformers/gpt2", "transformers/llama", "transformers/distilbert",
    "transformers/opt", "transformers/qwen2", "transformers/vit", "transformers/mistral",
    "vit_pytorch/vit", "vit_pytorch/simple_vit", "x_transformers/decoder",
}  # fmt: skip
"""Those of which a compiled training step is compared too. Not where PyTorch's own step in float32
differs as much from that in float64, as torchvision's mobilenet_v2 does by 3e-3."""

FEW = [
    "timm/test_resnet", "timm/test_vit", "timm/test_convnext", "timm/mobilenetv3_small_050",
    "timm/regnetx_002", "torchvision/resnet18", "torchvision/squeezenet1_1", "transformers/bert",
    "transformers/gpt2", "transformers/llama", "vit_pytorch/vit", "x_transformers/decoder",
    "einops/layers", "einx/functions",
]  # fmt: skip


def image(name: str, side: int, channels: int = 3) -> np.ndarray:
    """Two images of noise, the same on both sides."""
    random = np.random.default_rng(zlib.crc32(name.encode()))
    return random.standard_normal((2, channels, side, side), dtype=np.float32)


def build(name: str) -> tuple[Any, dict[str, np.ndarray]]:
    """A model with random weights, and its inputs by keyword."""
    family, _, architecture = name.partition("/")
    if family == "timm":
        import timm

        side, options = TIMM[architecture]
        return timm.create_model(architecture, num_classes=10, **options), {"x": image(name, side)}
    if family == "torchvision":
        import torchvision

        options = {"init_weights": True} if architecture in ("googlenet", "inception_v3") else {}
        make = getattr(torchvision.models, architecture)
        return make(num_classes=10, **options), {"x": image(name, TORCHVISION[architecture])}
    if family == "transformers":
        return transformer(architecture)
    return OTHERS[name]()
