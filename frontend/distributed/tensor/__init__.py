"""`torch.distributed.tensor`: tensors divided over devices. There are none: no tensor is one."""

from frontend.distributed import device_mesh
from frontend.distributed.tensor.placement_types import Partial, Placement, Replicate, Shard
from frontend.namespace.stubs import stubs

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

globals().update({name: getattr(device_mesh, name) for name in ("DeviceMesh", "init_device_mesh")})
globals().update(stubs("distributed.tensor"))
