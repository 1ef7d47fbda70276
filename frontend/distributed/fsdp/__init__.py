"""`torch.distributed.fsdp`: parameters in shares, which are not here."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.fsdp"))
