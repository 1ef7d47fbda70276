"""`torch.distributed.optim`: an optimizer whose state is divided among the ranks."""

from frontend.distributed.optim.zero_redundancy_optimizer import (
    ZeroRedundancyOptimizer as ZeroRedundancyOptimizer,
)

__all__ = ["ZeroRedundancyOptimizer"]
