"""`torch.distributed.device_mesh`: devices in rows and columns. There are none but the CPU."""

from frontend.namespace.stubs import stubs

globals().update(stubs("distributed.device_mesh"))
