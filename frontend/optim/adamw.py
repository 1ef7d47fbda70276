"""`torch.optim.adamw`."""

from frontend.optim.adam import AdamW

__all__ = ["AdamW"]
