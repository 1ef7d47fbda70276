"""`torch.optim.nadam`."""

from frontend.optim.adam_variants import NAdam

__all__ = ["NAdam"]
