"""`torch.distributed.constants`."""

from frontend.distributed.groups import DEFAULT_TIMEOUT as default_pg_timeout

__all__ = ["default_pg_timeout"]
