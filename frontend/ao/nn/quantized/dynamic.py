"""`torch.ao.nn.quantized.dynamic`: layers of int8 weights, inputs quantized as they come."""

from frontend.ao.quantization.linear import DynamicQuantizedLinear as Linear

__all__ = ["Linear"]
