"""`torch.utils.data.distributed`."""

from frontend.utils.data.sampler import DistributedSampler

__all__ = ["DistributedSampler"]
