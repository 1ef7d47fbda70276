"""`torch.distributed.device_mesh`: devices in rows and columns. There are none but the CPU."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.device_mesh",
        "DeviceMesh init_device_mesh",
        "ranks are numbered; torch.distributed.new_group makes rows and columns of them",
    )
)
