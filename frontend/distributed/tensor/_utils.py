"""`torch.distributed.tensor._utils`: which part of a divided tensor a process holds."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.tensor._utils"))
