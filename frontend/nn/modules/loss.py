"""Losses as modules. `reduction` is 'mean', 'sum' or 'none'."""

from __future__ import annotations

from frontend.nn import functional as F
from frontend.nn.modules.module import Module
from frontend.tensor import Tensor

__all__ = ["MSELoss", "NLLLoss", "CrossEntropyLoss"]


class MSELoss(Module):
    """The squared difference of two tensors of one shape."""

    def __init__(self, reduction: str = "mean"):
        super().__init__()
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, self.reduction)


class NLLLoss(Module):
    """Minus the log-probability of the target class: see `F.nll_loss`. `weight` [classes] is a
    buffer."""

    weight: Tensor | None

    def __init__(
        self, weight: Tensor | None = None, *, ignore_index: int = -100, reduction: str = "mean"
    ):
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, self.weight, self.ignore_index, self.reduction)


class CrossEntropyLoss(Module):
    """The cross-entropy of class scores: see `F.cross_entropy`. `weight` [classes] is a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        *,
        ignore_index: int = -100,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ):
        super().__init__()
        self.register_buffer("weight", weight)
        self.ignore_index = ignore_index
        self.reduction = reduction
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input, target, self.weight, self.ignore_index, self.reduction, self.label_smoothing
        )
