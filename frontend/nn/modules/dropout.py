"""Dropout."""

from __future__ import annotations

from frontend.nn import functional as F
from frontend.nn.modules.module import Module
from frontend.tensor import Tensor

__all__ = ["Dropout"]


class Dropout(Module):
    """In training each element is 0 with probability `p`, else scaled by 1/(1-p); in eval mode the
    input. Raises ValueError for a `p` outside [0, 1]."""

    def __init__(self, p: float = 0.5, inplace: bool = False):
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"
