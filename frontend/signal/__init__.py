"""`torch.signal`."""

from frontend.signal import windows

__all__ = ["windows"]
