"""`torch.distributed._functional_collectives`: collectives whose results are new tensors."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed._functional_collectives"))
