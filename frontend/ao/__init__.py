"""`torch.ao`: quantization, and the layers it is made of in nn."""

from frontend.ao import nn, quantization

__all__ = ["nn", "quantization"]
