"""`torch.ao.ns`: what compares the numbers of a model with those of what it was quantized to."""

from frontend.ao.ns import _numeric_suite

__all__ = ["_numeric_suite"]
