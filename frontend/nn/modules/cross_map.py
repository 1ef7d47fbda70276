"""Local response normalisation over channels, under its older name."""

from __future__ import annotations

from frontend.nn import functional as F
from frontend.nn.modules.module import Module
from frontend.tensors.tensor import Tensor

__all__ = ["CrossMapLRN2d"]


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
