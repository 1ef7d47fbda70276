"""`torch.distributed._composable.fsdp`: the former place of names of `torch.distributed.fsdp`."""

from frontend.distributed import fsdp

_NAMES = "CPUOffloadPolicy FSDPModule MixedPrecisionPolicy OffloadPolicy fully_shard"
globals().update({name: getattr(fsdp, name) for name in _NAMES.split()})
