"""`torch.distributed.algorithms.ddp_comm_hooks`: hooks for `register_comm_hook`."""

from frontend.distributed.algorithms.ddp_comm_hooks import default_hooks as default_hooks
