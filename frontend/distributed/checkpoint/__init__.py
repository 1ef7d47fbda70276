"""`torch.distributed.checkpoint`: checkpoints in parts, which are not here."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.checkpoint",
        "CheckpointException DefaultLoadPlanner DefaultSavePlanner FileSystemReader "
        "FileSystemWriter LoadPlanner SavePlanner StorageReader StorageWriter async_save load save",
        "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
    )
)
