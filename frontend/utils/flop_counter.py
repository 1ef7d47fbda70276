"""`torch.utils.flop_counter`: not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "utils.flop_counter", "FlopCounterMode", "`graphc profile` counts operations by kernel"
    )
)
