"""`torch.ao`: quantization."""

from frontend.ao import quantization

__all__ = ["quantization"]
