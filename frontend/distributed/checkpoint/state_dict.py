"""`torch.distributed.checkpoint.state_dict`: states of models in parts."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.checkpoint.state_dict"))
