"""`frontend.vision`: the parts of torchvision that scripts need around a model: transforms,
datasets in local files, grids of images. An installed torchvision runs on the frontend
and has the rest."""

from typing import Any

from frontend.vision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]


def __getattr__(name: str) -> Any:
    hint = ""
    if name in ("io", "models", "ops", "tv_tensors"):
        hint = "; an installed torchvision (pip install --no-deps torchvision) runs on the frontend"
    raise AttributeError(f"module 'frontend.vision' has no attribute {name!r}{hint}")
