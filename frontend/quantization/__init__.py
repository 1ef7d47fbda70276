"""`torch.quantization`: the former name of `torch.ao.quantization`."""

from frontend.ao.quantization import *  # noqa: F403
