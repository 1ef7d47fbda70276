"""`torch.distributed.checkpoint.hf_storage`: of parts in safetensors files."""

from frontend.namespace.absent import absent_names

globals().update(
    absent_names(
        "distributed.checkpoint.hf_storage",
        "HuggingFaceStorageReader HuggingFaceStorageWriter",
        "torch.save of a state_dict on rank 0 writes a checkpoint, which every rank loads",
    )
)
