"""Batch normalisation: per channel over a batch, with running statistics for eval mode.

The statistics are buffers that `forward` changes in place: plain assignment eagerly, state of the
step when compiled.
"""

from __future__ import annotations

from typing import Any

from frontend.engine.eager.promotion import casted
from frontend.engine.tensors.state import no_grad
from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import empty, tensor
from frontend.nn import functional as F
from frontend.nn import init
from frontend.nn.modules.module import Module
from frontend.nn.parameter import Parameter
from graphc.ir.types import DType

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm"]


class _NormBase(Module):
    """Parameters `weight`, `bias` [C], and buffers `running_mean`, `running_var` [C] and
    `num_batches_tracked` (int64), each None where it is not wanted."""

    _version = 2

    weight: Any
    bias: Any
    running_mean: Any
    running_var: Any
    num_batches_tracked: Any

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        options = {"device": device, "dtype": dtype}
        for name, wanted in (("weight", affine), ("bias", affine and bias)):
            parameter = Parameter(empty(num_features, **options)) if wanted else None
            self.register_parameter(name, parameter)
        for name in ("running_mean", "running_var"):
            kept = empty(num_features, **options) if track_running_stats else None
            self.register_buffer(name, kept)
        count = tensor(0, dtype=DType.i64, device=device) if track_running_stats else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    def reset_running_stats(self) -> None:
        """Mean 0, variance 1, nothing tracked."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Weights 1, biases 0, and the running statistics anew."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input_dim(self, input: Tensor) -> None:
        raise NotImplementedError

    def _load_from_state_dict(
        self, state_dict: Any, prefix: str, local_metadata: Any, *rest: Any
    ) -> None:
        """State dicts of before version 2 have no `num_batches_tracked`: it stays as it is."""
        key = prefix + "num_batches_tracked"
        version = local_metadata.get("version")
        if (version is None or version < 2) and self.track_running_stats and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        training = self.training or (self.running_mean is None and self.running_var is None)
        tracks = self.training and self.track_running_stats
        used = tracks or not self.training
        out = F.batch_norm(
            input,
            self.running_mean if used else None,
            self.running_var if used else None,
            self.weight,
            self.bias,
            training,
            self._momentum() if tracks else 0.0,
            self.eps,
        )
        if tracks and self.num_batches_tracked is not None:
            with no_grad():
                self.num_batches_tracked.add_(1)
        return out

    def _momentum(self) -> Any:
        """How far the running statistics move towards this batch: `momentum`, or without one
        1 / the number of batches so far (a 0-d tensor), so that they are the mean of all."""
        if self.momentum is not None:
            return self.momentum
        if self.num_batches_tracked is None:
            return 0.0
        return 1 / casted(self.num_batches_tracked + 1, self.running_mean.dtype)


def _dimensions(input: Tensor, allowed: tuple[int, ...]) -> None:
    if input.dim() not in allowed:
        listed = " or ".join(f"{count}D" for count in allowed)
        raise ValueError(f"expected {listed} input (got {input.dim()}D input)")


class BatchNorm1d(_BatchNorm):
    """`F.batch_norm` of [N, C] or [N, C, L]. Raises ValueError for other ranks.

    `momentum` None averages over all batches; without `track_running_stats` eval mode uses the
    batch's statistics too.
    """

    def _check_input_dim(self, input: Tensor) -> None:
        _dimensions(input, (2, 3))


class BatchNorm2d(_BatchNorm):
    """`F.batch_norm` of images [N, C, H, W]; the rest as `BatchNorm1d`."""

    def _check_input_dim(self, input: Tensor) -> None:
        _dimensions(input, (4,))


class BatchNorm3d(_BatchNorm):
    """`F.batch_norm` of volumes [N, C, D, H, W]; the rest as `BatchNorm1d`."""

    def _check_input_dim(self, input: Tensor) -> None:
        _dimensions(input, (5,))


class SyncBatchNorm(_BatchNorm):
    """`F.batch_norm` of [N, C, …] with the statistics of the batches of all processes of a group;
    without a process group those of the batch. In training the processes call it together, also
    where their batches differ in size."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float | None = 0.1,
        affine: bool = True, track_running_stats: bool = True, process_group: Any = None,
        device: Any = None, dtype: Any = None, *, bias: bool = True,
    ):  # fmt: skip
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: Tensor) -> Tensor:
        from frontend.nn.modules import synchronized

        group = synchronized.group_of(self.process_group)
        training = self.training or (self.running_mean is None and self.running_var is None)
        if group is None or not training:
            return super().forward(input)
        self._check_input_dim(input)
        out, mean, variance, count = synchronized.batch_norm(
            input, self.weight, self.bias, self.eps, group
        )
        if self.training and self.track_running_stats:
            with no_grad():
                momentum = self._momentum()
                unbiased = variance * (count / max(count - 1, 1))
                for kept, new in ((self.running_mean, mean), (self.running_var, unbiased)):
                    kept.copy_(kept * (1 - momentum) + new * momentum)
                self.num_batches_tracked.add_(1)
        return out

    @classmethod
    def convert_sync_batchnorm(cls, module: Any, process_group: Any = None) -> Any:
        """The module with each BatchNorm in it replaced by a SyncBatchNorm of the same state."""
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features, module.eps, module.momentum, module.affine,
                module.track_running_stats, process_group, bias=module.bias is not None,
            )  # fmt: skip
            for name in ("weight", "bias"):
                converted._parameters[name] = module._parameters[name]
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                converted._buffers[name] = module._buffers[name]
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
