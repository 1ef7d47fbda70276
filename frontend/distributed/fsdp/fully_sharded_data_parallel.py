"""`torch.distributed.fsdp.fully_sharded_data_parallel`: the same names."""

from typing import Any

from frontend.distributed import fsdp


def __getattr__(name: str) -> Any:
    return getattr(fsdp, name)
