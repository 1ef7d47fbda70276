"""`torch.nn.parallel.distributed`."""

from frontend.nn.parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
