"""A linear layer and the cross-entropy of its scores as one module."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.loss import _WeightedLoss

__all__ = ["LinearCrossEntropyLoss", "LinearCrossEntropyOptions"]


@dataclass(slots=True, frozen=True)
class LinearCrossEntropyOptions:
    """How `linear_cross_entropy` goes through a batch in pieces: `batch_chunk_size` rows at a time,
    or as many as `chunking_method` says ("aspect_ratio:N": scores as large as the input's share of
    1/N; "auto": N = 2). The other options are PyTorch's, and change nothing: sums are in the dtype
    of the scores, and what backward needs is computed again."""

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: Any = None

    def __post_init__(self) -> None:
        if self.acc_policy not in ("auto", "accurate", "balanced", "compact"):
            raise ValueError(f"invalid acc_policy: {self.acc_policy!r}")
        if self.chunking_method not in (None, "auto"):
            name, mark, factor = str(self.chunking_method).partition(":")
            whole = factor.isdigit() and int(factor) > 0
            if name != "aspect_ratio" or (mark and not whole):
                raise ValueError(f"invalid chunking_method: {self.chunking_method!r}")
        size = self.batch_chunk_size
        if size is not None and (not isinstance(size, int) or size <= 0):
            raise ValueError(f"batch_chunk_size must be positive int or None, got {size!r}")

    def rows(self, batch: int, features: int, classes: int) -> int:
        """How many rows of a batch are taken at a time."""
        if self.batch_chunk_size is not None:
            return self.batch_chunk_size
        if self.chunking_method is None:
            return max(batch, 1)
        factor = self.chunking_method.partition(":")[2]
        share = 2 if self.chunking_method == "auto" else int(factor or 1)
        whole = -(-max(batch, 1) // max(-(-classes // max(features, 1)), 1))
        return max((1 << (whole - 1).bit_length()) // share, 1)


class LinearCrossEntropyLoss(_WeightedLoss):
    """The cross-entropy of the scores of a linear layer, `self.linear`, from `in_features` to
    `num_classes` (for each place of `out_features`): see `F.linear_cross_entropy`."""

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: tuple[int, ...] = (),
        bias: bool = False, device: Any = None, dtype: Any = None, reduction: str = "mean",
        weight: Tensor | None = None, ignore_index: int | None = None,
        label_smoothing: float = 0.0, options: LinearCrossEntropyOptions | None = None,
    ):  # fmt: skip
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise RuntimeError(
                f"expected weight shape to be {(num_classes,)}, got {tuple(weight.shape)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(
                f"expected label_smoothing to be in range [0, 1], got {label_smoothing}"
            )
        super().__init__(weight, reduction=reduction)
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        rows = math.prod(out_features, start=num_classes)
        self.linear = Linear(in_features, rows, bias=bias, device=device, dtype=dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        shape = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*shape, -1), target,
            linear_bias=None if bias is None else bias.reshape(shape), weight=self.weight,
            reduction=self.reduction, ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip
