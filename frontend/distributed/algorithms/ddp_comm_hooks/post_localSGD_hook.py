"""`torch.distributed.algorithms.ddp_comm_hooks.post_localSGD_hook`: not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.algorithms.ddp_comm_hooks.post_localSGD_hook",
        "PostLocalSGDState post_localSGD_hook",
        "default_hooks has averages, plain and in half precision",
    )
)
