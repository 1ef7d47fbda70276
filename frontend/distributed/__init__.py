"""`torch.distributed`: several processes that train one model, over MPI or, on one machine, over
shared memory. What it is and costs tells docs/distributed.md.

Names come from the files of this folder when they are first asked for: `errors`, `stores`,
`tcp_store`, `transport` (the interface), `local` and `mpi` (its two kinds), `world` (what waits),
`exchange` (who sends what to whom), `groups`, `rendezvous`, `collectives`, `alltoall`,
`point_to_point`, `objects`, `tensors` (several in one message), `reducer` and `shared_buckets`
(gradients), `deterministic`, `compiled_shares`, `share_state`, `run` (the launcher); `optim`,
`algorithms`, `fsdp` and others are PyTorch's modules.

traced and traced_shares are gradients exchanged in compiled functions. _functional_collectives,
constants, device_mesh, distributed_c10d, launch, rpc and utils are PyTorch's modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_NAMES = {
    "alltoall": "all_to_all all_to_all_single",
    "collectives": (
        "ReduceOp all_gather all_gather_into_tensor all_reduce all_reduce_coalesced "
        "barrier broadcast gather monitored_barrier reduce reduce_scatter "
        "reduce_scatter_tensor scatter"
    ),
    "deterministic": "get_deterministic set_deterministic",
    "errors": "DistBackendError DistError DistNetworkError DistStoreError",
    "groups": (
        "Backend GroupMember ProcessGroup destroy_process_group get_backend get_global_rank "
        "get_group_rank get_node_local_rank get_process_group_ranks get_rank get_world_size group "
        "is_initialized new_group new_subgroups"
    ),
    "objects": (
        "all_gather_object broadcast_object_list gather_object recv_object_list "
        "scatter_object_list send_object_list"
    ),
    "point_to_point": "P2POp batch_isend_irecv irecv isend recv send",
    "rendezvous": (
        "init_process_group is_available is_mpi_available is_torchelastic_launched"
    ),
    "stores": "FileStore HashStore PrefixStore Store",
    "tcp_store": "TCPStore",
    "world": "Work",
}  # fmt: skip
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = (
    "algorithms", "constants", "device_mesh", "distributed_c10d", "elastic", "fsdp", "launch",
    "nn", "optim", "rpc", "run", "tensor", "utils",
)  # fmt: skip

__all__ = [*_WHERE, "init_device_mesh", "is_backend_available", "is_gloo_available",
           "is_nccl_available", "is_ucc_available", "is_xccl_available"]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _WHERE:
        return getattr(import_module(f"frontend.distributed.{_WHERE[name]}"), name)
    if name in _MODULES:
        return import_module(f"frontend.distributed.{name}")
    raise AttributeError(f"module 'frontend.distributed' has no attribute {name!r}")


def is_gloo_available() -> bool:
    """True: "gloo" is taken for "mpi"."""
    return True


def is_nccl_available() -> bool:
    """False: there are no GPUs."""
    return False


is_ucc_available = is_xccl_available = is_nccl_available


def is_backend_available(backend: str) -> bool:
    """Whether `init_process_group` takes a backend."""
    return backend.lower() in ("mpi", "gloo")


def init_device_mesh(*args: Any, **kwargs: Any) -> Any:
    """Raises RuntimeError: processes form groups, not meshes of devices."""
    raise RuntimeError(
        "torch.distributed.init_device_mesh: tensors are not divided over devices here; make "
        "groups of processes by new_group(), or train data parallel with DistributedDataParallel"
    )
