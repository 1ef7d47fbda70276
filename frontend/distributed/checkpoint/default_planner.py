"""`torch.distributed.checkpoint.default_planner`: which part a rank reads."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.checkpoint.default_planner"))
