"""`torch.utils.tensorboard`: not here; its names raise NotImplementedError when used."""

from frontend.namespace.absent import absent_names

_ABSENT = absent_names(
    "utils.tensorboard",
    "FileWriter RecordWriter SummaryWriter",
    "the package tensorboardX writes the same files from NumPy arrays",
)
globals().update(_ABSENT)
__all__ = list(_ABSENT)
