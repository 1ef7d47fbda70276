"""`torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook`: not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.algorithms.ddp_comm_hooks.powerSGD_hook",
        "PowerSGDState batched_powerSGD_hook powerSGD_hook",
        "default_hooks has averages, plain and in half precision",
    )
)
