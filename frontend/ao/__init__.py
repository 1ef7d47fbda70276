"""`torch.ao`: quantization, the layers it is made of in nn, and what compares numbers in ns."""

from frontend.ao import nn, ns, quantization

__all__ = ["nn", "ns", "quantization"]
