"""`torch.functional`: functions that `torch` has too."""

from __future__ import annotations

from typing import Any

from graphc.system import import_module

_NAMES = (
    "atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors "
    "cartesian_prod cdist chain_matmul einsum lu meshgrid norm pca_lowrank split stft "
    "svd_lowrank tensordot unique unique_consecutive unravel_index istft "
)
__all__ = _NAMES.split()


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(import_module("frontend"), name)
    raise AttributeError(f"module 'frontend.functional' has no attribute {name!r}")
