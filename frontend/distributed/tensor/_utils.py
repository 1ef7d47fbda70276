"""`torch.distributed.tensor._utils`: which part of a divided tensor a process holds."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.tensor._utils",
        "compute_global_tensor_info compute_local_shape compute_local_shape_and_global_offset",
        "every process holds whole tensors; DistributedDataParallel trains data parallel",
    )
)
