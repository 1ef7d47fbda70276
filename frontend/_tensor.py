"""`torch._tensor`: where PyTorch defines Tensor."""

from frontend.engine.tensors.tensor import Tensor as Tensor
