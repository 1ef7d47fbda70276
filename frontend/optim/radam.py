"""`torch.optim.radam`."""

from frontend.optim.adam_variants import RAdam

__all__ = ["RAdam"]
