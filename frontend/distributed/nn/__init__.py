"""`torch.distributed.nn`: collectives that gradients go through."""

from frontend.distributed.nn.functional import *  # noqa: F403
