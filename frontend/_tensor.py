"""`torch._tensor`: where PyTorch defines Tensor."""

from frontend.tensors.tensor import Tensor as Tensor
