"""`torch.optim.adadelta`."""

from frontend.optim.adagrad import Adadelta

__all__ = ["Adadelta"]
