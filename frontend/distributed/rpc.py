"""`torch.distributed.rpc`: not here; each name raises NotImplementedError when used."""

from frontend.namespace.absent import absent_names


def is_available() -> bool:
    """False."""
    return False


globals().update(
    absent_names(
        "distributed.rpc",
        "PyRRef RRef RpcBackendOptions TensorPipeRpcBackendOptions WorkerInfo get_worker_info "
        "init_rpc remote rpc_async rpc_sync shutdown",
        "processes send each other objects by torch.distributed.send_object_list",
    )
)
