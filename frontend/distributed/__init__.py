"""`torch.distributed`: not available. Scripts that ask are told so, and run on one process; what
needs several raises RuntimeError when it is called."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, NoReturn


def is_available() -> bool:
    """False."""
    return False


def is_initialized() -> bool:
    """False."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_available
is_torchelastic_launched = is_xccl_available = is_backend_available = is_available


def raising(name: str) -> Callable[..., NoReturn]:
    """A function of this name that is not there."""

    def absent(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(
            f"torch.distributed.{name}: distributed training is not available here "
            "(torch.distributed.is_available() is False); run in one process"
        )

    absent.__name__ = absent.__qualname__ = name
    return absent


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class ProcessGroup:
    """Several processes: there is none. Raises RuntimeError."""

    def __init__(self, *args: Any, **kwargs: Any):
        raising("ProcessGroup")()


class group:
    """The groups that every process is in."""

    WORLD: Any = None


_FUNCTIONS = (
    "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce", "all_to_all",
    "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "broadcast_object_list",
    "destroy_process_group", "gather", "gather_object", "get_backend", "get_global_rank",
    "get_group_rank", "get_process_group_ranks", "get_rank", "get_world_size",
    "init_device_mesh", "init_process_group", "irecv", "isend", "monitored_barrier", "new_group",
    "recv", "reduce", "reduce_scatter", "reduce_scatter_tensor", "scatter", "scatter_object_list",
    "send",
)  # fmt: skip
globals().update({name: raising(name) for name in _FUNCTIONS})

__all__ = [*_FUNCTIONS]
__all__ += ["ProcessGroup", "ReduceOp", "group", "is_available", "is_initialized"]
