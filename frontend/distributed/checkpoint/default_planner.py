"""`torch.distributed.checkpoint.default_planner`: which part a rank reads."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.checkpoint.default_planner",
        "DefaultLoadPlanner DefaultSavePlanner",
        "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
    )
)
