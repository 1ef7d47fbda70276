"""`torch.onnx.operators`."""

from __future__ import annotations

from frontend.functions.creation import tensor
from frontend.tensors.tensor import Tensor

__all__ = ["shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape, int64."""
    return tensor(list(x.shape))
