"""`torch.optim.adamax`."""

from frontend.optim.adam_variants import Adamax

__all__ = ["Adamax"]
