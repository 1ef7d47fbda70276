"""The softmax of very many classes, of which few are frequent (E. Grave, A. Joulin, M. Cissé, D.
Grangier and H. Jégou, "Efficient softmax approximation for GPUs", 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from frontend.engine.tensors.state import computing
from frontend.engine.tensors.tensor import Tensor
from frontend.functions import pointwise
from frontend.functions.reduce import argmax, log_softmax
from frontend.functions.scatter import gather
from frontend.functions.shape import cat
from frontend.nn.modules.container import ModuleList, Sequential
from frontend.nn.modules.linear import Linear
from frontend.nn.modules.module import Module

__all__ = ["AdaptiveLogSoftmaxWithLoss"]


class _ASMoutput(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Classes in order of frequency: those before `cutoffs[0]` and one for each further cluster in
    `head`, the others of each cluster in `tail`, through a projection to in_features / div_value^i.

    Called with input [N, in_features] and target [N] (or without N) it gives `output` [N], the
    log-probabilities of the targets, and `loss`, minus their mean. Raises ValueError for cutoffs
    that are no increasing whole numbers below `n_classes`, RuntimeError for shapes or targets that
    do not fit."""

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0,
        head_bias: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__()
        bounds = list(cutoffs)
        if not bounds:
            raise ValueError("cutoffs should be a sequence of length larger than 0")
        rising = bounds == sorted(set(bounds)) and bounds[0] > 0 and bounds[-1] <= n_classes - 1
        if not rising or any(int(bound) != bound for bound in bounds):
            raise ValueError(
                "cutoffs should be a sequence of unique, positive integers sorted in an increasing "
                "order, where each value is between 1 and n_classes-1"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        options = {"device": device, "dtype": dtype}
        self.head = Linear(in_features, self.head_size, bias=head_bias, **options)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            width = int(in_features // (div_value ** (i + 1)))
            size = self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(
                Sequential(
                    Linear(in_features, width, bias=False, **options),
                    Linear(width, size, bias=False, **options),
                )
            )

    def reset_parameters(self) -> None:
        """Draw new initial values."""
        self.head.reset_parameters()
        for projection, scores in self.tail:
            projection.reset_parameters()
            scores.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> Any:
        input, target = self._batched(input_, target_)
        head = log_softmax(self.head(input), 1)
        low = self.cutoffs[0]
        # Of a target outside of a cluster the class read there is any: it is not chosen.
        inside = target < low
        output = _read(head, pointwise.where(inside, target, 0))
        for i, bound in enumerate(self.cutoffs[1:]):
            inside = (target >= low) & (target < bound)
            local = log_softmax(self.tail[i](input), 1)
            place = pointwise.where(inside, target - low, 0)
            joint = head[:, self.shortlist_size + i] + _read(local, place)
            output = pointwise.where(inside, joint, output)
            low = bound
        loss = -output.mean()
        return _ASMoutput(output if input_.dim() == 2 else output.squeeze(0), loss)

    def _batched(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        if target.dim() == 1:
            if input.shape[0] != target.shape[0]:
                raise RuntimeError("Input and target should have the same size in the batch "
                                   "dimension.")  # fmt: skip
            if input.dim() != 2:
                raise RuntimeError(
                    "1D target tensor expects 2D input tensors, but found inputs with size "
                    f"{tuple(input.shape)}"
                )
        elif target.dim() == 0:
            if input.dim() != 1:
                raise RuntimeError(
                    "0D target tensor expects 1D input tensors, but found inputs with size "
                    f"{tuple(input.shape)}"
                )
            input, target = input.unsqueeze(0), target.unsqueeze(0)
        else:
            raise RuntimeError("0D or 1D target tensor expected, multi-target not supported")
        self._check_targets(target)
        return input, target

    def _check_targets(self, target: Tensor) -> None:
        """Raise RuntimeError for a target that is no class, where its value is known."""
        if not computing() or not target.numel():
            return
        low, high = int(target.min()), int(target.max())
        if low < 0 or high >= self.n_classes:
            raise RuntimeError(
                f"Target values should be in [0, {self.n_classes - 1}], but values in range "
                f"[{low}, {high}] were found. "
            )

    def _log_prob(self, input: Tensor, head: Tensor) -> Tensor:
        """[N, n_classes]: the log-probabilities of all classes, from the head's scores."""
        shares = log_softmax(head, 1)
        parts = [shares[:, : self.shortlist_size]]
        for i, cluster in enumerate(self.tail):
            whole = shares[:, self.shortlist_size + i].unsqueeze(1)
            parts.append(log_softmax(cluster(input), 1) + whole)
        return cat(parts, 1)

    def log_prob(self, input: Tensor) -> Tensor:
        """[N, n_classes]: the log-probabilities of all classes, for input [N, in_features]."""
        return self._log_prob(input, self.head(input))

    def predict(self, input: Tensor) -> Tensor:
        """[N]: the classes of highest probability."""
        return argmax(self.log_prob(input), 1)


def _read(shares: Tensor, place: Tensor) -> Tensor:
    """One element of each row."""
    return gather(shares, 1, place.unsqueeze(1)).squeeze(1)
