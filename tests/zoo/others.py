"""Models of vit-pytorch and x-transformers, and functions of einops and einx."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.zoo import (
    vit_pytorch_models,
    vit_pytorch_wrappers,
    x_transformers_models,
    x_transformers_wrappers,
)

Model = tuple[Any, dict[str, np.ndarray]]
_IMAGE = np.random.default_rng(7).standard_normal((2, 3, 32, 32), dtype=np.float32)


def _positional(model: Any, inputs: tuple[Any, ...]) -> Model:
    """A model that takes by name the arrays in `inputs`, and in dicts among them."""
    import torch

    arrays: dict[str, np.ndarray] = {}
    for place, argument in enumerate(inputs):
        items = argument if isinstance(argument, dict) else {"": argument}
        arrays |= {
            f"input{place}{key}": value
            for key, value in items.items()
            if isinstance(value, np.ndarray)
        }

    class Positional(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model

        def forward(self, **tensors: Any) -> Any:
            arguments = []
            for place, argument in enumerate(inputs):
                if isinstance(argument, dict):
                    argument = {key: tensors[f"input{place}{key}"] for key in argument}
                arguments.append(tensors.get(f"input{place}", argument))
            return self.inner(*arguments)

    return Positional(), arrays


def _vit_pytorch(name: str) -> Model:
    return _positional(*vit_pytorch_models.build(name))


def _made(build: Callable[[], tuple[Any, tuple[Any, ...]]]) -> Model:
    return _positional(*build())


def _einops_layers() -> Model:
    import torch
    from einops.layers.torch import EinMix, Rearrange, Reduce

    model = torch.nn.Sequential(
        Rearrange("b c (h p) (w q) -> b (h w) (p q c)", p=8, q=8),
        EinMix("b n i -> b n o", weight_shape="i o", bias_shape="o", i=192, o=16),
        torch.nn.GELU(),
        Reduce("b n o -> b o", "mean"),
    )
    return _positional(model, (_IMAGE,))


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


DRAWING: dict[str, Callable[[], Model]] = {
    f"{family}/{name}": partial(_made, build)
    for family, names in (
        ("vit_pytorch", vit_pytorch_wrappers.NAMES),
        ("x_transformers", x_transformers_wrappers.NAMES),
    )
    for name, build in names.items()
}
"""Those that may draw random numbers in their forward."""

OTHERS: dict[str, Callable[[], Model]] = {
    **{f"vit_pytorch/{name}": partial(_vit_pytorch, name) for name in vit_pytorch_models.NAMES},
    **{
        f"x_transformers/{name}": partial(_made, build)
        for name, build in x_transformers_models.NAMES.items()
    },
    "einops/layers": _einops_layers,
    "einops/functions": _einops_functions,
    "einx/functions": _einx_functions,
    **DRAWING,
}
"""By name: what builds the model and its inputs by keyword."""
