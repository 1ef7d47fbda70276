"""`torch.utils.tensorboard`: not here; its names raise NotImplementedError when used."""

from frontend.absent import absent_names

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]

globals().update(
    absent_names(
        "utils.tensorboard",
        "FileWriter RecordWriter SummaryWriter",
        "the package tensorboardX writes the same files from NumPy arrays",
    )
)
