"""`torch.distributed.tensor`: tensors divided over devices. There are none: no tensor is one."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.tensor",
        "DTensor DeviceMesh Partial Placement Replicate Shard distribute_module distribute_tensor "
        "init_device_mesh",
        "every process holds whole tensors; DistributedDataParallel trains data parallel",
    )
)
