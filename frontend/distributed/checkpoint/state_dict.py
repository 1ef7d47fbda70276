"""`torch.distributed.checkpoint.state_dict`: states of models in parts."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.checkpoint.state_dict",
        "StateDictOptions get_model_state_dict get_optimizer_state_dict get_state_dict "
        "set_model_state_dict set_optimizer_state_dict set_state_dict",
        "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
    )
)
