"""Instance normalisation: per channel over each instance of a batch."""

from __future__ import annotations

import warnings
from typing import Any

from frontend.engine.tensors.tensor import Tensor
from frontend.nn import functional as F
from frontend.nn.modules.batchnorm import _dimensions, _NormBase

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]


class _InstanceNorm(_NormBase):
    rank: int  # of a batch; an instance alone has one less

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ):
        super().__init__(
            num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias
        )

    def _check_input_dim(self, input: Tensor) -> None:
        _dimensions(input, (self.rank - 1, self.rank))

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        axis = input.dim() - self.rank + 1
        if input.size(axis) != self.num_features:
            self._refuse(axis, input.size(axis))
        batch = input.unsqueeze(0) if axis == 0 else input
        out = F.instance_norm(
            batch,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return out.squeeze(0) if axis == 0 else out

    def _refuse(self, axis: int, size: int) -> None:
        if self.affine:
            raise ValueError(
                f"expected input's size at dim={axis} to match num_features "
                f"({self.num_features}), but got: {size}."
            )
        warnings.warn(
            f"input's size at dim={axis} does not match num_features. You can silence this warning "
            "by not passing in num_features, which is not used because affine=False",
            stacklevel=5,
        )


class InstanceNorm1d(_InstanceNorm):
    """`F.instance_norm` of [N, C, L] or [C, L]. Raises ValueError for other ranks, and where
    channels and `num_features` differ in a layer with parameters."""

    rank = 3


class InstanceNorm2d(_InstanceNorm):
    """`F.instance_norm` of images [N, C, H, W] or [C, H, W]; the rest as `InstanceNorm1d`."""

    rank = 4


class InstanceNorm3d(_InstanceNorm):
    """`F.instance_norm` of volumes [N, C, D, H, W] or [C, D, H, W]; the rest as
    `InstanceNorm1d`."""

    rank = 5
