"""`torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook`: not here."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.algorithms.ddp_comm_hooks.powerSGD_hook"))
