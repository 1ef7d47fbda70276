"""`torch.distributed.checkpoint`: checkpoints in parts, which are not here."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.checkpoint"))
