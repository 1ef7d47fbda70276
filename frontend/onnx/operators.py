"""`torch.onnx.operators`."""

from __future__ import annotations

from frontend.engine.tensors.tensor import Tensor
from frontend.functions.creation import tensor

__all__ = ["shape_as_tensor"]


def shape_as_tensor(x: Tensor) -> Tensor:
    """The shape, int64."""
    return tensor(list(x.shape))
