"""Modules under names of before PyTorch 1.0: local response normalisation over channels, and a
container of named modules."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.modules.module import Module

__all__ = ["Container", "CrossMapLRN2d"]


class Container(Module):
    """Modules by name. Deprecated in PyTorch, with its warning."""

    def __init__(self, **kwargs: Any):
        super().__init__()
        warnings.warn(
            "nn.Container is deprecated. All of it's functionality is now implemented in "
            "nn.Module. Subclass that instead.",
            FutureWarning,
            stacklevel=2,
        )
        for name, module in kwargs.items():
            self.add_module(name, module)


class CrossMapLRN2d(Module):
    """`F.local_response_norm` of images [N, C, H, W]; `size` is odd."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1):
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        if input.dim() != 4:
            raise ValueError(f"CrossMapLRN2d: Expected input to be 4D, got {input.dim()}D instead.")
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
