"""`torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook`: not here."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.algorithms.ddp_comm_hooks.post_localSGD_hook"))
