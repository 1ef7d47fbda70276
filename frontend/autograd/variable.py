"""`torch.autograd.variable`: Variable, the older name of Tensor."""

from frontend.autograd import Variable as Variable

__all__ = ["Variable"]
