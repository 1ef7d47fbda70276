"""`torch.ao`: quantization, which is not here (`torch.ao.quantization` raises when used)."""

from frontend.ao import quantization

__all__ = ["quantization"]
