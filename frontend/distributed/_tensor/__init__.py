"""`torch.distributed._tensor`: the former place of `torch.distributed.tensor`."""

from frontend.distributed.tensor import *  # noqa: F403
